#include "kernels/optimizer.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::random_values;
using testing::same_bits;
using testing::worst_error;

struct State {
  std::vector<double> param, m, v;
};

/// The update as the paper writes it, with both bias corrections spelled out.
void reference_step(const AdamWOptions& o, const std::vector<double>& grad, State& state) {
  const auto step = static_cast<double>(o.step);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * o.grad_scale;
    state.m[i] = o.beta1 * state.m[i] + (1 - o.beta1) * g;
    state.v[i] = o.beta2 * state.v[i] + (1 - o.beta2) * g * g;
    const double m_hat = state.m[i] / (1 - std::pow(o.beta1, step));
    const double v_hat = state.v[i] / (1 - std::pow(o.beta2, step));
    state.param[i] =
        state.param[i] * (1 - o.lr * o.weight_decay) - o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
}

TEST_CASE("AdamW follows its formula over steps, in every dtype and form", "[kernels][optimizer]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const Form form : {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced}) {
      CAPTURE(std::string(name_of(dtype)), static_cast<int>(form));
      KernelContext ctx;
      const Shape shape = {30, 71};
      const DType state_dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      const Array param = random_array(shape, dtype, 1, form);
      const Array m = array_in_form(shape, state_dtype, form, std::vector<double>(2130, 0.0));
      const Array v = array_in_form(shape, state_dtype, form, std::vector<double>(2130, 0.0));
      State state{param.to_vector(), m.to_vector(), v.to_vector()};
      for (int step = 1; step <= 5; ++step) {
        const AdamWOptions options{.lr = 0.01, .step = step, .grad_scale = 0.5};
        const Array grad = random_array(shape, dtype, 10 + static_cast<unsigned>(step), form);
        if (dtype == DType::kBF16) state.param = param.to_vector();  // its own rounding is no error
        reference_step(options, grad.to_vector(), state);
        adamw(ctx, options, param, grad, m, v);
        const double allowed = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 1e-6 : 0x1p-8;
        CHECK(worst_error(param.to_vector(), state.param, 1e-2) < allowed);
        CHECK(worst_error(m.to_vector(), state.m) < (dtype == DType::kF64 ? 1e-15 : 1e-6));
        CHECK(worst_error(v.to_vector(), state.v) < (dtype == DType::kF64 ? 1e-15 : 1e-6));
      }
    }
  }
}

TEST_CASE("AdamW gives the same bits on 1 and 2 threads, and on shards", "[kernels][optimizer]") {
  KernelContext one = context_of(1), two = context_of(2);
  const AdamWOptions options{.lr = 0.01, .step = 3};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const DType state = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const auto fresh = [&] {
      return std::vector<Array>{
          random_array({70001}, dtype, 1), random_array({70001}, dtype, 2),
          random_array({70001}, state, 3),
          array_in_form({70001}, state, Form::kPlain, std::vector<double>(70001, 0.5))};
    };
    const auto a = fresh(), b = fresh(), c = fresh();
    adamw(one, options, a[0], a[1], a[2], a[3]);
    adamw(two, options, b[0], b[1], b[2], b[3]);
    for (const auto& [begin, end] : {std::pair{0, 1234}, std::pair{1234, 70001}}) {
      adamw(one, options, c[0].slice(0, begin, end), c[1].slice(0, begin, end),
            c[2].slice(0, begin, end), c[3].slice(0, begin, end));
    }
    for (const std::size_t i : {0U, 2U, 3U}) {
      CHECK(same_bits(a[i], b[i]));
      CHECK(same_bits(a[i], c[i]));
    }
  }
}

TEST_CASE("a zero gradient only decays, and mismatches are named", "[kernels][optimizer]") {
  KernelContext ctx;
  const Array param = random_array({100}, DType::kF32, 1);
  const std::vector<double> before = param.to_vector();
  const Array zero = Array::zeros({100}, DType::kF32), m = Array::zeros({100}, DType::kF32),
              v = Array::zeros({100}, DType::kF32);
  adamw(ctx, {.lr = 0.1, .weight_decay = 0.0}, param, zero, m, v);
  CHECK(param.to_vector() == before);
  CHECK(error_of([&] { adamw(ctx, {}, param, Array::zeros({99}, DType::kF32), m, v); }) ==
        "adamw: grad has shape [99], expected [100]");
  CHECK(error_of([&] { adamw(ctx, {}, param, zero, Array::zeros({100}, DType::kF64), v); }) ==
        "adamw: dtype F64 is not supported; allowed: BF16 or F32 state (F64 for F64)");
  adamw(ctx, {}, Array::zeros({0}, DType::kF32), Array::zeros({0}, DType::kF32),
        Array::zeros({0}, DType::kF32), Array::zeros({0}, DType::kF32));
}

TEST_CASE("SGD follows its formula with momentum, damping, Nesterov and decay",
          "[kernels][optimizer]") {
  using Momentum = SgdOptions::Momentum;
  const auto form = GENERATE(Momentum::kPlain, Momentum::kNesterov);
  const double momentum = GENERATE(0.0, 0.9);
  CAPTURE(momentum, static_cast<int>(form));
  KernelContext ctx;
  const Array param = random_array({30, 7}, DType::kF64, 1, Form::kPlain);
  const Array buffer = Array::zeros({30, 7}, DType::kF64);
  std::vector<double> p = param.to_vector(), b(p.size(), 0.0);
  for (int step = 1; step <= 3; ++step) {
    const SgdOptions options{.lr = 0.1,
                             .momentum = momentum,
                             .dampening = 0.2,
                             .weight_decay = 0.3,
                             .form = form,
                             .step = step,
                             .grad_scale = 0.5};
    const Array grad =
        random_array({30, 7}, DType::kF64, 5 + static_cast<unsigned>(step), Form::kPlain);
    sgd(ctx, options, param, grad, momentum == 0.0 ? Array() : buffer);
    const std::vector<double> g_in = grad.to_vector();
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = 0.5 * g_in[i] + 0.3 * p[i];
      if (momentum != 0.0) {
        b[i] = step == 1 ? g : momentum * b[i] + 0.8 * g;
        g = form == Momentum::kNesterov ? g + momentum * b[i] : b[i];
      }
      p[i] -= 0.1 * g;
    }
    CHECK(worst_error(param.to_vector(), p) < 1e-14);
  }
}

TEST_CASE("what an optimizer does not take may be infinite or NaN", "[kernels][optimizer]") {
  constexpr double kInf = HUGE_VAL;
  KernelContext ctx;
  const auto numbers = [](double a, double b) {
    return Array::from_values({2}, DType::kF64, std::vector<double>{a, b});
  };
  // The first step fills the buffer, no step without momentum reads it, and none decays by 0.
  for (const SgdOptions& options : {SgdOptions{.lr = 0.5, .momentum = 0.5, .step = 1},
                                    SgdOptions{.lr = 0.5, .momentum = 0.0, .step = 7}}) {
    const Array param = numbers(1, kInf), buffer = numbers(std::nan(""), -kInf);
    sgd(ctx, options, param, numbers(1, 2), buffer);
    CHECK(param.to_vector() == std::vector<double>{0.5, kInf});
    CHECK(buffer.to_vector() == std::vector<double>{1, 2});
  }
  const Array param = numbers(1, kInf), m = numbers(0, 0), v = numbers(0, 0);
  sgd(ctx, {.lr = 0.5}, param, numbers(kInf, 1), Array());
  CHECK(param.to_vector() == std::vector<double>{-kInf, kInf});
  const Array zero = numbers(-0.0, 1);
  sgd(ctx, {.lr = 0.5}, zero, numbers(-0.0, 1), Array());
  CHECK_FALSE(std::signbit(zero.to_vector()[0]));  // -0 - 0.5 * -0
  const Array infinite = numbers(kInf, 1);
  adamw(ctx, {.lr = 0.5, .eps = 0.0, .weight_decay = 0.0}, infinite, numbers(1, 1), m, v);
  CHECK(worst_error(infinite.to_vector(), {kInf, 0.5}) < 1e-12);
}

TEST_CASE("Adam's weight decay is part of the gradient", "[kernels][optimizer]") {
  KernelContext ctx;
  const Array param = Array::from_values({2}, DType::kF64, std::vector<double>{1.0, -2.0});
  const Array grad = Array::from_values({2}, DType::kF64, std::vector<double>{0.5, 0.25});
  const Array m = Array::zeros({2}, DType::kF64), v = Array::zeros({2}, DType::kF64);
  AdamWOptions options{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 0.0, .weight_decay = 0.5};
  options.decay = WeightDecay::kInGradient;
  adamw(ctx, options, param, grad, m, v);
  // g = grad + 0.5 param = {1, -0.75}; the first step moves by lr against its sign.
  CHECK(worst_error(param.to_vector(), {0.9, -1.9}) < 1e-12);
  CHECK(worst_error(m.to_vector(), {0.1, -0.075}) < 1e-12);
  CHECK(worst_error(v.to_vector(), {0.01, 0.005625}) < 1e-12);
}

}  // namespace
}  // namespace tessera
