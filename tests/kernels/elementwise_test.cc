#include "kernels/elementwise.h"

#include <functional>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::random_values;
using testing::rounding;
using testing::same_bits;
using testing::worst_error;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16,
                          DType::kI64, DType::kI32, DType::kBool};
constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kBF16};

using Function1 = std::function<double(double)>;
using Function2 = std::function<double(double, double)>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double value) {
  const long double x = value;  // 1 + tanh cancels below 0
  const long double inner = std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x);
  return static_cast<double>(0.5L * x * (1 + std::tanh(inner)));
}
double truth(bool value) { return value ? 1.0 : 0.0; }

struct UnaryCase {
  Unary op;
  const char* name;
  Function1 reference;
};
const std::vector<UnaryCase>& floating_cases() {
  static const std::vector<UnaryCase> cases = {
      {Unary::kNeg, "neg", [](double x) { return -x; }},
      {Unary::kAbs, "abs", [](double x) { return std::abs(x); }},
      {Unary::kExp, "exp", [](double x) { return std::exp(x); }},
      {Unary::kLog, "log", [](double x) { return std::log(x); }},
      {Unary::kSqrt, "sqrt", [](double x) { return std::sqrt(x); }},
      {Unary::kRsqrt, "rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {Unary::kRelu, "relu", [](double x) { return x < 0 ? 0 : x; }},
      {Unary::kSigmoid, "sigmoid", sigmoid},
      {Unary::kSilu, "silu", [](double x) { return x * sigmoid(x); }},
      {Unary::kTanh, "tanh", [](double x) { return std::tanh(x); }},
      {Unary::kGelu, "gelu", gelu},
      {Unary::kReciprocal, "reciprocal", [](double x) { return 1 / x; }},
      {Unary::kSquare, "square", [](double x) { return x * x; }},
      {Unary::kSign, "sign", [](double x) { return truth(x > 0) - truth(x < 0); }},
      {Unary::kSin, "sin", [](double x) { return std::sin(x); }},
      {Unary::kCos, "cos", [](double x) { return std::cos(x); }},
      {Unary::kFloor, "floor", [](double x) { return std::floor(x); }},
      {Unary::kCeil, "ceil", [](double x) { return std::ceil(x); }},
      {Unary::kLogicalNot, "logical_not", [](double x) { return truth(x == 0); }},
      {Unary::kIsNan, "is_nan", [](double x) { return truth(std::isnan(x)); }}};
  return cases;
}

struct BinaryCase {
  Binary op;
  const char* name;
  Function2 reference;
};
const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases = {
      {Binary::kAdd, "add", [](double a, double b) { return a + b; }},
      {Binary::kSub, "sub", [](double a, double b) { return a - b; }},
      {Binary::kMul, "mul", [](double a, double b) { return a * b; }},
      {Binary::kDiv, "div", [](double a, double b) { return a / b; }},
      {Binary::kMaximum, "maximum",
       [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); }},
      {Binary::kMinimum, "minimum",
       [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b); }},
      {Binary::kPow, "pow", [](double a, double b) { return std::pow(a, b); }},
      {Binary::kEq, "eq", [](double a, double b) { return truth(a == b); }},
      {Binary::kNe, "ne", [](double a, double b) { return truth(a != b); }},
      {Binary::kLt, "lt", [](double a, double b) { return truth(a < b); }},
      {Binary::kLe, "le", [](double a, double b) { return truth(a <= b); }},
      {Binary::kGt, "gt", [](double a, double b) { return truth(a > b); }},
      {Binary::kGe, "ge", [](double a, double b) { return truth(a >= b); }},
      {Binary::kLogicalAnd, "and", [](double a, double b) { return truth(a != 0 && b != 0); }},
      {Binary::kLogicalOr, "or", [](double a, double b) { return truth(a != 0 || b != 0); }},
      {Binary::kFloorDivide, "floor_divide", [](double a, double b) { return std::floor(a / b); }},
      {Binary::kRemainder, "remainder",
       [](double a, double b) { return a - b * std::floor(a / b); }},
      {Binary::kReluGrad, "relu_grad", [](double g, double y) { return y > 0 ? g : 0; }},
      {Binary::kSigmoidGrad, "sigmoid_grad", [](double g, double y) { return g * y * (1 - y); }},
      {Binary::kTanhGrad, "tanh_grad", [](double g, double y) { return g * (1 - y * y); }},
      {Binary::kSiluGrad, "silu_grad",
       [](double g, double x) {
         const double s = sigmoid(x);
         return g * s * (1 + x * (1 - s));
       }},
      {Binary::kGeluGrad, "gelu_grad", [](double g, double x) {
         const double h = 1e-5;
         return g * (gelu(x + h) - gelu(x - h)) / (2 * h);
       }}};
  return cases;
}

std::vector<double> mapped(const Array& x, const Function1& f) {
  std::vector<double> values = x.to_vector();
  for (double& value : values) value = f(value);
  return values;
}

/// f over row-major values with numpy's broadcasting, by index arithmetic on doubles.
std::vector<double> broadcast2(const Array& a, const Array& b, const Shape& shape,
                               const Function2& f) {
  const std::vector<double> left = a.to_vector(), right = b.to_vector();
  std::vector<double> out(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at_a = 0, at_b = 0, step_a = 1, step_b = 1;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
      const std::int64_t coord = rest % shape[d];
      rest /= shape[d];
      const int from_end = static_cast<int>(shape.size()) - d;
      const auto walk = [&](const Array& x, std::int64_t& at, std::int64_t& step) {
        if (from_end > x.ndim()) return;
        const std::int64_t size = x.size(x.ndim() - from_end);
        if (size != 1) at += coord * step;
        step *= size;
      };
      walk(a, at_a, step_a);
      walk(b, at_b, step_b);
    }
    out[i] = f(left[static_cast<std::size_t>(at_a)], right[static_cast<std::size_t>(at_b)]);
  }
  return out;
}

TEST_CASE("every unary op gives its formula in every floating dtype and form",
          "[kernels][elementwise]") {
  for (const UnaryCase& unary_case : floating_cases()) {
    for (const DType dtype : kFloating) {
      for (const Form form : kForms) {
        CAPTURE(unary_case.name, std::string(name_of(dtype)), static_cast<int>(form));
        KernelContext ctx;
        std::vector<double> values = random_values(7 * 45, 5);
        for (double& value : values) value *= 6;
        const Array x = array_in_form({7, 45}, dtype, form, values);
        const Array out = empty_in_form({7, 45}, dtype, form);
        unary(ctx, unary_case.op, x, out);
        CHECK(worst_error(out.to_vector(), mapped(x, unary_case.reference), 1e-2) <
              12 * rounding(dtype));
      }
    }
  }
}

TEST_CASE("unary ops at the ends of the range", "[kernels][elementwise]") {
  const std::vector<double> ends = {0.0,  -0.0,   kInf,  -kInf,  kNan, 1e-40,
                                    88.7, -103.0, 200.0, -200.0, 1.0,  -1.0};
  KernelContext ctx;
  for (const UnaryCase& unary_case : floating_cases()) {
    if (unary_case.op == Unary::kSign || unary_case.op == Unary::kSilu ||
        unary_case.op == Unary::kGelu)
      continue;
    CAPTURE(unary_case.name);
    const Array x = Array::from_values({12}, DType::kF32, ends);
    const Array out = Array::empty({12}, DType::kF32);
    unary(ctx, unary_case.op, x, out);
    std::vector<double> want = mapped(x, unary_case.reference);
    for (double& value : want) value = static_cast<double>(static_cast<float>(value));  // overflow
    CHECK(worst_error(out.to_vector(), want, 1e-30) < 1e-6);
  }
}

TEST_CASE("integer and bool unary ops", "[kernels][elementwise]") {
  KernelContext ctx;
  for (const UnaryCase& unary_case : floating_cases()) {
    for (const DType dtype : {DType::kI64, DType::kI32}) {
      CAPTURE(unary_case.name, std::string(name_of(dtype)));
      const Array x = Array::from_values({5}, dtype, std::vector<double>{-3, 0, 1, 7, -1});
      const Array floating = Array::empty({5}, DType::kF64);
      unary(ctx, unary_case.op, x, floating);
      CHECK(worst_error(floating.to_vector(), mapped(x, unary_case.reference)) < 1e-13);
    }
  }
  const Array x = Array::from_values({2}, DType::kI32, std::vector<double>{1, 2});
  CHECK(error_of([&] { unary(ctx, Unary::kExp, x, x); }) ==
        "exp: dtype I32 is not supported; allowed: F64, F32, BF16, F16");
  const Array flags = Array::from_values({2}, DType::kBool, std::vector<double>{1, 0});
  unary(ctx, Unary::kLogicalNot, flags, flags);
  CHECK(flags.to_vector() == std::vector<double>{0, 1});
}

TEST_CASE("every binary op gives its formula for broadcast operands in any form",
          "[kernels][elementwise]") {
  struct Shapes {
    Shape a, b, out;
  };
  const std::vector<Shapes> shapes = {
      {{6, 70}, {6, 70}, {6, 70}},         {{6, 70}, {70}, {6, 70}},
      {{6, 70}, {6, 1}, {6, 70}},          {{6, 1}, {1, 70}, {6, 70}},
      {{4, 5, 3}, {5, 1}, {4, 5, 3}},      {{1}, {33, 2}, {33, 2}},
      {{2, 3, 20}, {2, 1, 20}, {2, 3, 20}}};
  for (const BinaryCase& binary_case : binary_cases()) {
    for (const Shapes& s : shapes) {
      for (const Form form : kForms) {
        CAPTURE(binary_case.name, to_string(s.a), to_string(s.b), static_cast<int>(form));
        KernelContext ctx;
        std::vector<double> left = random_values(num_elements(s.a), 1);
        if (binary_case.op == Binary::kPow)
          for (double& value : left) value = std::abs(value) + 0.1;
        std::vector<double> right = random_values(num_elements(s.b), 2);
        for (double& value : right) value += value < 0 ? -0.2 : 0.2;
        const Array a = array_in_form(s.a, DType::kF64, form, left);
        const Array b =
            array_in_form(s.b, DType::kF64, s.b.size() > 1 ? form : Form::kPlain, right);
        const Array out = empty_in_form(s.out, DType::kF64, form);
        binary(ctx, binary_case.op, a, b, out);
        CHECK(worst_error(out.to_vector(), broadcast2(a, b, s.out, binary_case.reference)) < 1e-9);
      }
    }
  }
}

TEST_CASE("binary ops in F32 and BF16 round once", "[kernels][elementwise]") {
  for (const BinaryCase& binary_case : binary_cases()) {
    if (binary_case.op == Binary::kFloorDivide || binary_case.op == Binary::kRemainder) continue;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(binary_case.name, std::string(name_of(dtype)));
      KernelContext ctx;
      std::vector<double> left = random_values(1000, 7);
      if (binary_case.op == Binary::kPow)
        for (double& value : left) value = std::abs(value) + 0.1;
      const Array a = Array::from_values({1000}, dtype, left);
      const Array b = random_array({1000}, dtype, 8);
      const Array out = Array::empty({1000}, dtype);
      binary(ctx, binary_case.op, a, b, out);
      CHECK(worst_error(out.to_vector(), broadcast2(a, b, {1000}, binary_case.reference), 0.05) <
            (dtype == DType::kF32 ? 2e-5 : 1.01 * rounding(dtype)));
    }
  }
}

TEST_CASE("integer arithmetic is exact, wraps, and divides towards minus infinity",
          "[kernels][elementwise]") {
  KernelContext ctx;
  const std::vector<double> left = {7, -7, 7, -7, 0, 6, -6}, right = {2, 2, -2, -2, 3, -3, -3};
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    const Array a = Array::from_values({7}, dtype, left);
    const Array b = Array::from_values({7}, dtype, right);
    const Array out = Array::empty({7}, dtype);
    binary(ctx, Binary::kFloorDivide, a, b, out);
    CHECK(out.to_vector() == std::vector<double>{3, -4, -4, 3, 0, -2, 2});
    binary(ctx, Binary::kRemainder, a, b, out);
    CHECK(out.to_vector() == std::vector<double>{1, 1, -1, -1, 0, 0, 0});
    binary_scalar(ctx, Binary::kPow, a, 3, out);
    CHECK(out.to_vector() == std::vector<double>{343, -343, 343, -343, 0, 216, -216});
    const Array quotient = Array::empty({7}, DType::kF64);
    binary(ctx, Binary::kDiv, a, b, quotient);
    CHECK(quotient.to_vector() == std::vector<double>{3.5, -3.5, -3.5, 3.5, 0, -2, 2});
    CHECK(error_of([&] { binary(ctx, Binary::kDiv, a, b, out); }) ==
          "div: dtype " + std::string(name_of(dtype)) +
              " is not supported; allowed: F64, F32, BF16, F16");
    CHECK(error_of([&] { binary_scalar(ctx, Binary::kRemainder, a, 0, out); }) ==
          "remainder: a divisor is 0, which integers have no quotient by; cast to a floating dtype "
          "for an infinity or NaN");
  }
  const Array large = Array::zeros({1}, DType::kI64);
  large.data<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::max();
  const Array sum = Array::empty({1}, DType::kI64);
  binary_scalar(ctx, Binary::kAdd, large, 1, sum);
  CHECK(sum.data<std::int64_t>()[0] == std::numeric_limits<std::int64_t>::min());
  binary_scalar(ctx, Binary::kFloorDivide, sum, -1, sum);  // the one quotient that does not fit
  CHECK(sum.data<std::int64_t>()[0] == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("floating floor_divide and remainder follow Python", "[kernels][elementwise]") {
  KernelContext ctx;
  const Array a =
      Array::from_values({5}, DType::kF64, std::vector<double>{5.5, -5.5, 6.0, 1.0, 3.0});
  const Array b =
      Array::from_values({5}, DType::kF64, std::vector<double>{2.0, 2.0, -2.5, 0.1, 0.0});
  const Array out = Array::empty({5}, DType::kF64);
  binary(ctx, Binary::kFloorDivide, a, b, out);
  CHECK(out.to_vector() == std::vector<double>{2, -3, -3, 9, kInf});  // 1.0 // 0.1 is 9 in Python
  binary(ctx, Binary::kRemainder, a, b, out);
  CHECK(worst_error(out.to_vector(), {1.5, 0.5, -1.5, std::fmod(1.0, 0.1), kNan}) == 0);
}

TEST_CASE("operands of different dtypes compute in the promoted one", "[kernels][elementwise]") {
  KernelContext ctx;
  for (const DType da : kAll) {
    for (const DType db : kAll) {
      for (const DType to : kAll) {
        CAPTURE(std::string(name_of(da)), std::string(name_of(db)), std::string(name_of(to)));
        const Array a = Array::from_values({2, 3}, da, std::vector<double>{0, 1, 2, 3, 4, 5});
        const Array b = Array::from_values({3}, db, std::vector<double>{1, 0, 1});
        const Array out = Array::empty({2, 3}, to);
        binary(ctx, Binary::kAdd, a, b, out);
        const Function2 sum = [&](double x, double y) {
          return to == DType::kBool ? truth(x + y != 0) : x + y;
        };
        CHECK(out.to_vector() == broadcast2(a, b, {2, 3}, sum));
      }
    }
  }
}

TEST_CASE("scalars keep an array's dtype unless it cannot hold them", "[kernels][elementwise]") {
  KernelContext ctx;
  const Array x = Array::from_values({3}, DType::kI64, std::vector<double>{1, 2, 3});
  const Array flags = Array::empty({3}, DType::kBool);
  binary_scalar(ctx, Binary::kGt, x, 1.5, flags);
  CHECK(flags.to_vector() == std::vector<double>{0, 1, 1});
  binary_scalar(ctx, Binary::kLt, x, kInf, flags);
  CHECK(flags.to_vector() == std::vector<double>{1, 1, 1});
  const Array halves = Array::empty({3}, DType::kF32);
  binary_scalar(ctx, Binary::kMul, x, 0.5, halves);
  CHECK(halves.to_vector() == std::vector<double>{0.5, 1, 1.5});
  for (const Form form : kForms) {
    const Array y = random_array({9, 130}, DType::kF32, 3, form);
    const Array out = empty_in_form({9, 130}, DType::kF32, form);
    binary_scalar(ctx, Binary::kSub, y, 0.25, out);
    CHECK(worst_error(out.to_vector(), mapped(y, [](double v) { return v - 0.25; })) < 1e-7);
  }
}

TEST_CASE("maximum and minimum keep NaN; shapes that do not broadcast are named",
          "[kernels][elementwise]") {
  KernelContext ctx;
  const Array a = Array::from_values({3}, DType::kF32, std::vector<double>{kNan, 1, 2});
  const Array b = Array::from_values({3}, DType::kF32, std::vector<double>{1, kNan, 3});
  const Array out = Array::empty({3}, DType::kF32);
  binary(ctx, Binary::kMaximum, a, b, out);
  CHECK(worst_error(out.to_vector(), {kNan, kNan, 3}) == 0);
  binary(ctx, Binary::kMinimum, a, b, out);
  CHECK(worst_error(out.to_vector(), {kNan, kNan, 2}) == 0);
  const Array wide = Array::zeros({2, 4}, DType::kF32);
  CHECK(error_of([&] { binary(ctx, Binary::kAdd, a, wide, wide); }) ==
        "add: an operand of shape [3] does not broadcast to [2, 4]");
  CHECK(error_of([&] { binary(ctx, Binary::kAdd, wide, wide, Array::zeros({4}, DType::kF32)); }) ==
        "add: an operand of shape [2, 4] does not broadcast to [4]");
}

TEST_CASE("fill, arange, clamp, where and masked_fill", "[kernels][elementwise]") {
  for (const DType dtype : kAll) {
    for (const Form form : kForms) {
      CAPTURE(std::string(name_of(dtype)), static_cast<int>(form));
      KernelContext ctx;
      const Array out = empty_in_form({5, 40}, dtype, form);
      fill(ctx, 1, out);
      CHECK(out.to_vector() == std::vector<double>(200, 1.0));
      std::vector<double> values = random_values(200, 4);
      for (double& value : values) value = std::floor(value * 10);
      const Array x = array_in_form({5, 40}, dtype, form, values);
      std::vector<double> choice = random_values(40, 6);
      for (double& value : choice) value = truth(value > 0);
      const Array mask = Array::from_values({40}, DType::kBool, choice);
      const std::vector<double> original = x.to_vector();
      std::vector<double> want = original;
      for (std::size_t i = 0; i < 200; ++i) want[i] = choice[i % 40] != 0 ? 1 : original[i];
      masked_fill(ctx, x, mask, 1, out);
      CHECK(out.to_vector() == want);
      fill(ctx, 0, out);
      where(ctx, mask, Array::from_values({1}, dtype, std::vector<double>{1}), x, out);
      CHECK(out.to_vector() == want);
      if (dtype == DType::kBool) continue;
      clamp(ctx, x, -2.5, 3.5, out);
      for (std::size_t i = 0; i < 200; ++i) {
        want[i] = std::min(std::max(original[i], is_integer(dtype) ? -2.0 : -2.5),
                           is_integer(dtype) ? 3.0 : 3.5);
      }
      CHECK(out.to_vector() == want);
    }
  }
  KernelContext ctx;
  const Array steps = Array::empty({4}, DType::kI64);
  arange(ctx, 3, -2, steps);
  CHECK(steps.to_vector() == std::vector<double>{3, 1, -1, -3});
  const Array special =
      Array::from_values({3}, DType::kF32, std::vector<double>{kNan, kInf, -kInf});
  clamp(ctx, special, -1, kInf, special);
  CHECK(worst_error(special.to_vector(), {kNan, kInf, -1}) == 0);
  CHECK(error_of([&] { where(ctx, special, special, special, special); }) ==
        "where: dtype F32 is not supported; allowed: BOOL for the condition");
}

TEST_CASE("swiglu and its gradients match finite differences", "[kernels][elementwise]") {
  KernelContext ctx;
  for (const Form form : kForms) {
    const Array gate = random_array({6, 50}, DType::kF64, 1, form);
    const Array up = random_array({6, 50}, DType::kF64, 2, form);
    const Array grad = random_array({6, 50}, DType::kF64, 3, form);
    const auto value = [](double g, double u) { return g * sigmoid(g) * u; };
    const Array out = empty_in_form({6, 50}, DType::kF64, form);
    swiglu(ctx, gate, up, out);
    const Array grad_gate = empty_in_form({6, 50}, DType::kF64, form);
    const Array grad_up = Array::empty({6, 50}, DType::kF64);
    swiglu_grad(ctx, grad, gate, up, grad_gate, grad_up);
    const auto g = gate.to_vector(), u = up.to_vector(), d = grad.to_vector();
    std::vector<double> want(300), want_gate(300), want_up(300);
    const double h = 1e-5;
    for (std::size_t i = 0; i < 300; ++i) {
      want[i] = value(g[i], u[i]);
      want_gate[i] = d[i] * (value(g[i] + h, u[i]) - value(g[i] - h, u[i])) / (2 * h);
      want_up[i] = d[i] * value(g[i], 1);
    }
    CHECK(worst_error(out.to_vector(), want) < 1e-14);
    CHECK(worst_error(grad_gate.to_vector(), want_gate) < 1e-9);
    CHECK(worst_error(grad_up.to_vector(), want_up) < 1e-14);
  }
  const Array integers = Array::zeros({2}, DType::kI32);
  CHECK(error_of([&] { swiglu(ctx, integers, integers, integers); }) ==
        "swiglu: dtype I32 is not supported; allowed: F64, F32, BF16, F16");
}

TEST_CASE("maps give the same bits on 1 and 2 threads, and on parts", "[kernels][elementwise]") {
  KernelContext one = context_of(1), two = context_of(2);
  const Shape shape = {1031, 173};  // no multiple of any block
  for (const DType dtype : kFloating) {
    for (const Form form : {Form::kPlain, Form::kTransposed, Form::kSpaced}) {
      const Array x = random_array(shape, dtype, 1, form), y = random_array(shape, dtype, 2, form);
      const Array a = empty_in_form(shape, dtype, form), b = empty_in_form(shape, dtype, form);
      for (const Unary op :
           {Unary::kSilu, Unary::kGelu, Unary::kExp, Unary::kTanh, Unary::kRsqrt}) {
        unary(one, op, x, a);
        unary(two, op, x, b);
        CHECK(same_bits(a, b));
        for (const std::int64_t cut : {1, 500, 1030}) {  // a shard computes what the whole does
          const Array part = Array::empty({1031 - cut, 173}, dtype);
          unary(one, op, x.slice(0, cut, 1031), part);
          CHECK(same_bits(a.slice(0, cut, 1031), part));
        }
      }
      for (const Binary op : {Binary::kMul, Binary::kSiluGrad, Binary::kGeluGrad}) {
        binary(one, op, x, y, a);
        binary(two, op, x, y, b);
        CHECK(same_bits(a, b));
      }
    }
  }
}

TEST_CASE("maps work in place", "[kernels][elementwise]") {
  KernelContext ctx;
  for (const DType dtype : kFloating) {
    for (const Form form : kForms) {
      const Array x = random_array({40, 30}, dtype, 1, form), y = random_array({30}, dtype, 2);
      const Array want = Array::empty({40, 30}, dtype);
      binary(ctx, Binary::kAdd, x, y, want);
      binary(ctx, Binary::kAdd, x, y, x);
      CHECK(same_bits(x, want));
    }
  }
}

}  // namespace
}  // namespace tessera
