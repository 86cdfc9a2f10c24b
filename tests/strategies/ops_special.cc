// Results and gradients at points where formulas break: infinite cotangents, zeros, ties, bounds,
// NaN. Expected values are worked out by hand; where a choice is free it is PyTorch's.
#include <cmath>
#include <limits>

#include "strategies/verify/verify_gradient.h"
#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using testing::call_op;
using testing::call_values;
using testing::ints;
using testing::reals;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

WholeTensor row(Values values) {
  return {{static_cast<std::int64_t>(values.size())}, DType::kF64, values};
}
WholeTensor grid(Shape shape, Values values) {
  return {std::move(shape), DType::kF64, std::move(values)};
}
WholeTensor index(Values values) {
  return {{static_cast<std::int64_t>(values.size())}, DType::kI64, values};
}

/// One call, a cotangent of its result 0, and what reaches each operand; empty: nothing is judged.
struct Backward {
  const char* op;
  std::vector<WholeTensor> operands;
  Attrs attrs;
  Values cotangent;
  std::vector<Values> expected;
};

/// "" or the first element that is not as expected.
std::string mismatch(const Values& got, const Values& expected) {
  if (got.size() != expected.size()) return std::to_string(got.size()) + " elements";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = std::isnan(expected[i])   ? std::isnan(got[i])
                      : std::isinf(expected[i]) ? got[i] == expected[i]
                                                : std::abs(got[i] - expected[i]) < 1e-12;
    if (!same) {
      return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
             std::to_string(expected[i]);
    }
  }
  return "";
}

void check(const std::vector<Backward>& cases) {
  const OpTable& table = testing::builtin_table();
  for (const Backward& each : cases) {
    const Op& op = *value_or_throw(table.find(each.op));
    const Attrs attrs = value_or_throw(complete_attrs(op, each.attrs));
    const GradientAt at(table, op, attrs, arrays_of(each.operands));
    std::vector<Values> cotangents(at.results().size());
    cotangents[0] = each.cotangent;
    const std::vector<Values> got = at.run(cotangents);
    for (std::size_t i = 0; i < each.expected.size(); ++i) {
      if (each.expected[i].empty()) continue;
      INFO(each.op << " (" << attrs.to_string() << "), operand " << i);
      CHECK(mismatch(got[i], each.expected[i]) == "");
    }
  }
}

}  // namespace

TEST_CASE("an infinite cotangent does not pass a rectifier, a bound or a choice of two",
          "[strategies][ops][special]") {
  const Attrs half = {{"lambd", 0.5}};
  check({
      {"relu6", {row({-1, 7, 1})}, {}, {kInf, kNaN, 1}, {{0, 0, 1}}},
      {"hardtanh", {row({-2, 2, 0.5})}, {}, {kInf, kNaN, 1}, {{0, 0, 1}}},
      {"hardsigmoid", {row({-4, 5, 0})}, {}, {kInf, kNaN, 6}, {{0, 0, 1}}},
      {"hardswish", {row({-4, 5, 3})}, {}, {kInf, 1, 1}, {{0, 1, 1}}},
      {"threshold", {row({-1, 4})}, {{"threshold", 0.0}, {"value", 0.0}}, {kInf, 1}, {{0, 1}}},
      {"hardshrink", {row({0.25, -2})}, half, {kInf, 1}, {{0, 1}}},
      {"softshrink", {row({0.25, -2})}, half, {kNaN, 1}, {{0, 1}}},
      {"logit", {row({0.125, 0.5, 0.875})}, {{"eps", 0.25}}, {kInf, 1, kNaN}, {{0, 4, 0}}},
      {"nan_to_num", {row({kInf, 1, kNaN})}, {}, {kInf, 2, kNaN}, {{0, 2, 0}}},
      {"prelu", {grid({1, 2}, {-1, 2}), row({0.5, 0.5})}, {}, {2, kInf}, {{1, kInf}, {-2, 0}}},
      {"copysign", {row({0, 2}), row({-1, -1})}, {}, {kInf, 3}, {{0, -3}, {0, 0}}},
      {"fmax", {row({1, 2}), row({2, 1})}, {}, {kInf, kInf}, {{0, kInf}, {kInf, 0}}},
      {"fmin", {row({1, 2}), row({2, 1})}, {}, {kInf, kNaN}, {{kInf, 0}, {0, kNaN}}},
      {"fmod", {row({1, 5}), row({3, 3})}, {}, {kInf, 1}, {{kInf, 1}, {0, -1}}},
      {"remainder", {row({1, -1}), row({3, 3})}, {}, {kInf, 1}, {{kInf, 1}, {0, 1}}},
  });
}

TEST_CASE("an infinite cotangent reaches the elements that were selected, and no others",
          "[strategies][ops][special]") {
  const WholeTensor x = row({1, 3, 2});
  const Attrs amax = {{"dim", 0}, {"reduce", std::string("amax")}};
  check({
      {"max", {x}, {}, {kInf}, {{0, kInf, 0}}},
      {"min", {x}, {}, {kNaN}, {{kNaN, 0, 0}}},
      {"amax", {x}, {}, {kInf}, {{0, kInf, 0}}},
      {"amin", {x}, {}, {kInf}, {{kInf, 0, 0}}},
      {"aminmax", {x}, {}, {kInf}, {{kInf, 0, 0}}},
      {"median", {x}, {}, {kInf}, {{0, 0, kInf}}},
      {"nanmedian", {row({kNaN, 3, 2})}, {}, {kInf}, {{0, 0, kInf}}},
      {"norm", {row({1, -3})}, {{"p", kInf}}, {kInf}, {{0, -kInf}}},
      {"linalg_vector_norm", {row({1, -3})}, {{"ord", -kInf}}, {kNaN}, {{kNaN, 0}}},
      {"dist", {row({1, 5}), row({0, 2})}, {{"p", kInf}}, {kInf}, {{0, kInf}, {0, -kInf}}},
      {"cdist",
       {grid({1, 2}, {1, 5}), grid({1, 2}, {0, 2})},
       {{"p", kInf}},
       {kInf},
       {{0, kInf}, {0, -kInf}}},
      {"nll_loss",
       {grid({2, 2}, {-1, -2, -3, -4}), index({-100, 1})},
       {},
       {kInf, 2},
       {{0, 0, 0, -2}}},
      {"scatter_reduce", {row({1, 9}), index({0, 1}), row({4, 3})}, amax, {kInf, 2}, {{0, 2}}},
      {"scatter_reduce",
       {row({1, 9}), index({0, 1}), row({4, 3})},
       amax,
       {2, kInf},
       {{0, kInf}, {}, {2, 0}}},
      {"index_reduce",
       {row({1, 9}), index({0, 1}), row({4, 3})},
       amax,
       {2, kInf},
       {{0, kInf}, {}, {2, 0}}},
      {"embedding_bag",
       {grid({2, 1}, {1, 5}), index({0, 1}), index({0})},
       {{"mode", 2}},
       {kInf},
       {{0, kInf}}},
      {"slice_scatter",
       {row({1, 2, 3}), row({7})},
       {{"start", 1}, {"end", 2}},
       {1, kInf, 1},
       {{1, 0, 1}, {kInf}}},
      {"select_scatter",
       {row({1, 2}), grid({}, {7})},
       {{"dim", 0}, {"index", 0}},
       {kNaN, 1},
       {{0, 1}, {kNaN}}},
      {"diagonal_scatter",
       {grid({2, 2}, {1, 1, 1, 1}), row({0, 1})},
       {},
       {kInf, 1, 1, kNaN},
       {{0, 1, 1, 0}, {kInf, kNaN}}},
  });
}

TEST_CASE("an infinite cotangent of a running sum or product reaches what came before",
          "[strategies][ops][special]") {
  const Attrs along = {{"dim", 0}};
  check({
      {"cumsum", {row({1, 2, 3})}, along, {kInf, 1, 1}, {{kInf, 2, 1}}},
      {"cumsum", {row({1, 2, 3})}, along, {1, kNaN, 1}, {{kNaN, kNaN, 1}}},
      {"cumprod", {row({1, 2, 3})}, along, {kInf, 1, 1}, {{kInf, 4, 2}}},
      {"cumprod", {row({2, 0, 3})}, along, {1, 1, 1}, {{1, 8, 0}}},
      {"cumprod", {row({kInf})}, along, {2}, {{2}}},
  });
}

TEST_CASE("gradients where a formula divides by zero are PyTorch's", "[strategies][ops][special]") {
  const WholeTensor zero = row({0}), one = row({1});
  const auto order = [](double p) -> Attrs { return {{"ord", p}}; };
  check({
      {"std", {row({3, 3})}, {}, {1}, {{0, 0}}},
      {"std_mean", {row({3, 3})}, {}, {kInf}, {{0, 0}}},
      {"var", {row({3})}, {{"correction", 2.0}}, {1}, {{0}}},
      {"var", {row({3})}, {}, {1}, {{kNaN}}},
      {"atan2", {zero, zero}, {}, {1}, {{0}, {0}}},
      {"scalar_pow", {row({1, 0, -1})}, {{"self", 0.0}}, {1, 1, 1}, {{0, 0, -kInf}}},
      {"pow_tensor", {row({0, 0, 0}), row({0, 1, 2})}, {}, {kInf, 1, 1}, {{0, 1, 0}, {}}},
      {"xlogy", {row({0, 0}), row({0, 2})}, {}, {kInf, 1}, {{0, std::log(2.0)}, {}}},
      {"sinc", {zero}, {}, {kInf}, {{0}}},
      {"log2", {row({5e-324})}, {}, {0}, {{0}}},
      {"linalg_vector_norm", {row({0, 4})}, order(0.5), {1}, {{0, 1}}},
      {"linalg_vector_norm", {zero}, order(0.5), {1}, {{0}}},
      {"linalg_vector_norm", {row({0, 4})}, order(0.0), {kInf}, {{0, 0}}},
      {"linalg_vector_norm", {zero}, order(1.0), {1}, {{0}}},
      {"linalg_vector_norm", {row({0, 0})}, order(2.0), {1}, {{0, 0}}},
      {"linalg_vector_norm", {row({0, 0})}, order(kInf), {1}, {{0, 0}}},
      {"pairwise_distance",
       {grid({1, 2}, {1, 2}), grid({1, 2}, {1, 2})},
       {{"eps", 0.0}},
       {1},
       {{0, 0}, {0, 0}}},
      {"prod", {row({2, 0, 3})}, {}, {1}, {{0, 6, 0}}},
      {"prod", {row({2, 0, 0})}, {}, {kInf}, {{kNaN, kNaN, kNaN}}},
      {"prod", {row({kInf, 2, 3})}, {}, {1}, {{6, kInf, kInf}}},
      {"prod", {row({1e200, 1e200, 1e-200})}, {}, {1}, {{1, 1, kInf}}},
      {"hypot", {zero, zero}, {}, {1}, {{kNaN}, {kNaN}}},
      {"smooth_l1_loss_each", {one, row({kNaN})}, {}, {1}, {{kNaN}, {kNaN}}},
      {"huber_loss_each", {one, row({kNaN})}, {}, {1}, {{kNaN}, {kNaN}}},
      {"lerp", {one, row({3}), row({0.5})}, {}, {kInf}, {{kInf}, {kInf}, {kInf}}},
  });
}

TEST_CASE("equal elements share a cotangent, bounds end a slope, a NaN that wins has its own",
          "[strategies][ops][special]") {
  const WholeTensor ties = row({1, 1, kNaN}), others = row({1, 2, 1});
  check({
      {"maximum", {ties, others}, {}, {2, 2, 2}, {{1, 0, 2}, {1, 2, 2}}},
      {"minimum", {ties, others}, {}, {2, 2, 2}, {{1, 2, 2}, {1, 0, 2}}},
      {"fmax", {ties, others}, {}, {2, 2, 2}, {{1, 0, 0}, {1, 2, 2}}},
      {"fmin", {ties, others}, {}, {2, 2, 2}, {{1, 2, 0}, {1, 0, 2}}},
      {"clamp", {row({0, 1, 2, 3})}, {{"min", 1.0}, {"max", 3.0}}, {1, 1, 1, 1}, {{0, 0, 1, 0}}},
      {"clamp", {row({-kInf, 0})}, {{"max", 3.0}}, {1, 1}, {{1, 1}}},
      {"clamp_min", {row({0, 1, kNaN})}, {{"min", 0.0}}, {1, 1, 1}, {{0, 1, 0}}},
      {"clamp_max", {row({0, 1, -1})}, {{"max", kNaN}}, {1, 1, 1}, {{0, 0, 0}}},
      {"clamp_tensor",
       {row({0, 1, 2, 5, 1}), row({1, 1, 1, 1, 1}), row({2, 2, 2, 2, 1})},
       {},
       {2, 2, 2, 2, 2},
       {{0, 1, 1, 0, 2}, {2, 1, 0, 0, 0}, {0, 0, 1, 2, 0}}},
      {"clamp_tensor", {row({0}), row({3}), row({1})}, {}, {1}, {{0}, {0}, {1}}},
      {"clamp_tensor", {row({0}), row({kNaN}), row({-1})}, {}, {1}, {{0}, {0}, {0}}},
      {"max", {row({1, kNaN, 2})}, {}, {3}, {{0, 3, 0}}},
      {"min", {row({1, kNaN, kNaN})}, {}, {3}, {{0, 1.5, 1.5}}},
      {"amin", {row({1, kNaN, kNaN})}, {}, {3}, {{kNaN, kNaN, kNaN}}},
      {"nanmedian", {row({kNaN, kNaN})}, {}, {3}, {{1.5, 1.5}}},
      {"relu", {row({kNaN, 0})}, {}, {3, 3}, {{3, 0}}},
      {"scaled_dot_product_attention",  // the first row sees no key, the second one
       {grid({1, 1, 2, 1}, {1, 2}), grid({1, 1, 1, 1}, {3}), grid({1, 1, 1, 1}, {5}),
        grid({2, 1}, {-kInf, 0})},
       {},
       {1, 7},
       {{0, 0}, {0}, {7}, {0, 0}}},
      {"relu6", {row({kNaN, 6})}, {}, {3, 3}, {{3, 0}}},
      {"elu", {row({kNaN})}, {}, {3}, {{3}}},
      {"selu", {row({kNaN})}, {}, {1}, {{1.0507009873554804934}}},
      {"celu", {row({kNaN})}, {}, {3}, {{3}}},
  });
}

TEST_CASE("results at infinities, NaN and zeros", "[strategies][ops][special]") {
  const auto judge = [](const char* op, std::vector<Array> operands, Attrs attrs, Values expected) {
    INFO(op << " (" << attrs.to_string() << ")");
    const Values got = call_values(op, operands, attrs);
    CHECK(mismatch(got, expected) == "");
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (expected[i] == 0.0) CHECK(std::signbit(got[i]) == std::signbit(expected[i]));
    }
  };
  const auto bools = [](Values values) {
    return Array::from_values({static_cast<std::int64_t>(values.size())}, DType::kBool, values);
  };
  judge("floor_divide_scalar", {reals({4}, {-1.75, 1.75, -0.0, kInf})}, {{"value", kInf}},
        {-1, 0, -0.0, kNaN});
  judge("floor_divide_scalar", {reals({3}, {-1.75, 1.75, 1})}, {{"value", -2.0}}, {0, -1, -1});
  judge("floor_divide", {reals({3}, {1, -1, 0}), reals({3}, {-kInf, -kInf, -2})}, {},
        {-1, 0, -0.0});
  judge("clamp_min", {reals({2}, {1, 2})}, {{"min", kNaN}}, {kNaN, kNaN});
  judge("clamp_max", {reals({1}, {1})}, {{"max", kNaN}}, {kNaN});
  judge("clamp", {reals({1}, {1})}, {{"min", 0.0}, {"max", kNaN}}, {kNaN});
  judge("clamp", {reals({2}, {5, kNaN})}, {{"min", 2.0}, {"max", 1.0}}, {1, kNaN});
  judge("bitwise_not", {bools({1, 0})}, {}, {0, 1});
  judge("bitwise_xor", {bools({1, 0, 1}), bools({1, 1, 0})}, {}, {0, 1, 1});
  judge("masked_fill", {bools({0, 0}), bools({1, 0})}, {{"value", 1.0}}, {1, 0});
  judge("nextafter", {reals({1}, {-0.75}, DType::kF32), reals({}, {1})}, {}, {-0.75 + 0x1p-24});
  judge("binary_cross_entropy_with_logits_each", {reals({2}, {kInf, 0}), reals({2}, {0, 1})}, {},
        {kInf, std::log(2.0)});
  judge("lerp_scalar", {reals({1}, {0}), reals({1}, {-0.0})}, {{"weight", 1.0}}, {-0.0});
  judge("tanh", {reals({3}, {-0.0, 0, -kInf}, DType::kF32)}, {}, {-0.0, 0, -1});
  judge("kron", {reals({1, 1}, {0}), reals({1, 2}, {-1.25, 2})}, {}, {-0.0, 0});
  judge("softshrink", {reals({3}, {-0.0, kNaN, 0.25})}, {}, {0, kNaN, 0});
  judge("to", {reals({4}, {kNaN, kInf, -kInf, -2.75})}, {{"dtype", DType::kI64}},
        {0, 0x1p63, -0x1p63, -2});
  judge("to", {reals({5}, {kNaN, kInf, -3e9, 300.5, -1})}, {{"dtype", DType::kU8}},
        {0, 255, 0, 44, 255});
  judge("to", {reals({3}, {kNaN, 0.25, -0.0})}, {{"dtype", DType::kBool}}, {1, 1, 0});
}

TEST_CASE("mean, variance and deviation of no elements are NaN", "[strategies][ops][special]") {
  for (const char* op : {"var_mean", "std_mean"}) {
    for (const double correction : {1.0, -1.0}) {
      INFO(op << " " << correction);
      const auto both = call_op(op, {reals({0}, {})}, {{"correction", correction}});
      CHECK(std::isnan(both[0].to_vector()[0]));
      CHECK(std::isnan(both[1].to_vector()[0]));
    }
  }
  CHECK(std::isnan(call_values("mean", {reals({0}, {})})[0]));
}

TEST_CASE("integers divide without a trap, and say what they cannot divide by",
          "[strategies][ops][special]") {
  const Array least = Array::zeros({2}, DType::kI64);
  least.data<std::int64_t>()[0] = kLeast;
  const Array minus_one = ints({2}, {-1, -1}), zero = ints({2}, {1, 0});
  CHECK(call_op("floor_divide", {least, minus_one})[0].data<std::int64_t>()[0] == kLeast);
  CHECK(call_values("remainder", {least, minus_one}) == Values{0, 0});
  CHECK(call_values("fmod", {least, minus_one}) == Values{0, 0});
  CHECK(call_op("abs", {least})[0].data<std::int64_t>()[0] == kLeast);
  CHECK(call_op("neg", {least})[0].data<std::int64_t>()[0] == kLeast);
  for (const char* op : {"floor_divide", "remainder", "fmod"}) {
    CHECK_THROWS_WITH(call_op(op, {least, zero}),
                      Catch::Contains(std::string(op) + ": a divisor is 0"));
  }
  const Array sums = call_op("cumsum", {Array(ints({2}, {-0x1p63, -1}))}, {{"dim", 0}})[0];
  CHECK(sums.data<std::int64_t>()[1] == std::numeric_limits<std::int64_t>::max());
}

}  // namespace tessera
