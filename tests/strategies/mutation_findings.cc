// What mutated calls found: calls that inference let pass to an error of a kernel, a gradient or a
// rank, and results of ranks that were not one rank's.
#include <cmath>
#include <limits>

#include "strategies/verify/verify_gradient.h"
#include "strategies/verify/verify_lowering.h"
#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using Catch::Contains;
using testing::builtin_table;
using testing::call_op;
using testing::call_values;
using testing::ints;
using testing::Placed;
using testing::reals;
using testing::refusal_of;
using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TensorMeta of(DType dtype, Shape shape) { return {std::move(shape), dtype}; }
TensorMeta f64(Shape shape) { return of(DType::kF64, std::move(shape)); }

/// What a call of the gradient with cotangents of ones comes to: "" where it runs and gives every
/// floating operand a cotangent of its shape and dtype.
std::string gradient_flaw(std::string_view name, const std::vector<Array>& operands,
                          const Attrs& attrs) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  const auto ones = [](const Array& result) {
    return reals(result.shape(), Values(static_cast<std::size_t>(result.num_elements()), 1.0),
                 result.dtype());
  };
  try {
    const Attrs complete = value_or_throw(complete_attrs(op, attrs));
    const std::vector<Array> grads = gradients_of(builtin_table(), op, complete, operands, ones);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].is_null() || !is_floating(operands[i].dtype())) continue;
      const bool fits = !grads[i].is_null() && grads[i].shape() == operands[i].shape() &&
                        grads[i].dtype() == operands[i].dtype();
      if (!fits) return "operand " + std::to_string(i) + " has no cotangent of its own kind";
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Array filled(const Shape& shape, DType dtype, double value) {
  return Array::from_values(shape, dtype,
                            Values(static_cast<std::size_t>(num_elements(shape)), value));
}

/// Result `result` of a call on two ranks whose operands are placed as said.
Values on_two_ranks(std::string_view name, const std::vector<std::string>& placements,
                    const std::vector<Array>& operands, const Attrs& attrs, std::size_t result) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    placed.push_back({{operands[i].shape(), operands[i].dtype()}, placements[i]});
  }
  const Resolution resolution = value_or_throw(testing::resolve_call(name, {2}, placed, attrs));
  VerifyRandom random(3);
  std::vector<std::vector<Array>> locals, parts(1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    locals.push_back(cut(whole_of(operands[i]), resolution.inputs[i], random));
  }
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  const Mesh mesh = resolution.outputs[result].mesh();
  for (const auto& outputs : run_ranks(op, resolution, complete, mesh, locals)) {
    parts[0].push_back(outputs[result]);
  }
  return value_or_throw(join(resolution.outputs[result], parts[0])).values;
}

}  // namespace

TEST_CASE("inference refuses what only a kernel, a gradient or a rank refused",
          "[strategies][infer]") {
  const auto u8 = [](Shape shape) { return of(DType::kU8, std::move(shape)); };
  const auto truth = [](Shape shape) { return of(DType::kBool, std::move(shape)); };
  const TensorMeta none{.shape = {}, .absent = true};
  CHECK_THAT(refusal_of("swiglu", {f64({1, 8}), f64({2, 8})}),
             Contains("swiglu: up has shape [2, 8], gate [1, 8]"));
  CHECK_THAT(refusal_of("swiglu", {truth({2, 8}), f64({2, 8})}), Contains("swiglu: gate is BOOL"));
  CHECK_THAT(refusal_of("lerp", {f64({1}), f64({1}), truth({1})}),
             Contains("lerp: weight is BOOL; it takes a floating dtype"));
  CHECK_THAT(refusal_of("lerp_", {f64({1}), u8({1}), f64({1})}), Contains("lerp_: end is U8"));
  CHECK_THAT(refusal_of("batch_norm_inference", {f64({5, 3}), f64({3}), truth({3}), none, none}),
             Contains("batch_norm_inference: variance is BOOL"));
  CHECK_THAT(refusal_of("grouped_mm_slots_weight_grad",
                        {f64({10, 4}), f64({10, 3}), of(DType::kI64, {6})}),
             Contains("grouped_mm_slots_weight_grad: 10 rows for 6 groups"));
  CHECK_THAT(refusal_of("unfold_backward", {f64({0, 3, 2})},
                        {{"dimension", 0}, {"step", 1}, {"length", 1}}),
             Contains("unfold_backward: windows cover 2 elements, length is 1"));
  for (const char* name : {"positive", "bitwise_left_shift", "neg", "neg_", "abs", "abs_", "round",
                           "trunc", "trunc_", "relu6", "relu6_"}) {
    const Op& op = *value_or_throw(builtin_table().find(name));
    const std::vector<TensorMeta> operands(op.def.args.size(), truth({2}));
    CHECK_THAT(refusal_of(name, operands), Contains(std::string(name) + ": self is BOOL"));
  }
  CHECK_THAT(refusal_of("masked_fill_tensor", {of(DType::kI64, {2}), truth({2}), f64({})}),
             Contains("masked_fill_tensor: value is F64, which elements of I64 do not hold"));
}

TEST_CASE("a 0-d tensor's only dim may be named, and there is nothing to pad or repeat",
          "[strategies][infer]") {
  const Array one = reals({}, {2.5});
  const Values same = {2.5};
  CHECK(call_values("swapaxes", {one}, {{"axis0", 0}, {"axis1", -1}}) == same);
  CHECK(call_values("swapdims", {one}, {{"dim0", 0}, {"dim1", 0}}) == same);
  const Attrs moved = {{"source", Shape{0}}, {"destination", Shape{-1}}};
  CHECK(call_values("movedim", {one}, moved) == same);
  CHECK(call_values("moveaxis", {one}, moved) == same);
  CHECK(call_values("transpose", {one}, {{"dim0", 0}, {"dim1", -1}}) == same);
  CHECK(call_values("squeeze", {one}, {{"dim", 0}}) == same);
  CHECK(call_values("msort", {one}) == same);
  CHECK_THAT(refusal_of("swapaxes", {f64({})}, {{"axis0", 0}, {"axis1", 1}}),
             Contains("swapaxes: "));
  CHECK(on_two_ranks("constant_pad_nd", {"R"}, {one}, {{"pad", Shape{}}}, 0) == same);
  const Array pair = reals({2}, {1.0, 2.0});
  const Attrs never = {{"repeats", 0}, {"dim", 0}};
  CHECK(call_op("repeat_interleave", {pair}, never)[0].shape() == Shape{0});
  CHECK(on_two_ranks("repeat_interleave", {"S(0)"}, {pair}, never, 0).empty());
}

TEST_CASE("an index that addresses nothing is refused on one rank as on several",
          "[strategies][index]") {
  const auto refused = [](std::string_view name, const std::vector<Array>& operands,
                          const Attrs& attrs) {
    try {
      call_op(name, operands, attrs);
    } catch (const Error& error) {
      return std::string(absl::IsOutOfRange(error.status()) ? error.what() : "of another kind");
    }
    return std::string("accepted");
  };
  const Array nothing = reals({3, 0}, {}), x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array beyond = ints({1}, {3}), before = ints({1}, {-1});
  const Attrs first = {{"dim", 0}};
  CHECK_THAT(refused("index_fill", {nothing, beyond}, {{"dim", 0}, {"value", 1.0}}),
             Contains("index_fill: index 3 at position [0] lies outside [0, 3)"));
  CHECK_THAT(refused("index_copy", {nothing, beyond, reals({1, 0}, {})}, first),
             Contains("index_copy: index 3 at position [0] lies outside [0, 3)"));
  CHECK_THAT(refused("take_along_dim", {reals({0, 3}, {}), ints({1, 1}, {3})}, {{"dim", 1}}),
             Contains("take_along_dim: index 3 at position [0, 0] lies outside [0, 3)"));
  const Attrs largest = {{"dim", 0}, {"reduce", "amax"}};
  CHECK_THAT(refused("index_reduce", {x, before, reals({1, 2}, {1, 1})}, largest),
             Contains("an index holds -1 at position 0; dim 0 allows 0 … 2"));
  CHECK_THAT(refused("scatter_reduce", {x, ints({1, 1}, {-1}), reals({1, 1}, {1})}, largest),
             Contains("an index holds -1"));
  CHECK_THAT(refused("embedding_bag", {x, before, ints({1}, {0})}, {}),
             Contains("embedding_bag: an index holds -1"));
  CHECK_THAT(refused("cross_entropy", {reals({1, 2}, {1, 2}), before}, {}),
             Contains("cross_entropy: index -1"));
  CHECK_THAT(refused("cross_entropy_grad",
                     {reals({1}, {1}), reals({1, 2}, {1, 2}), before, reals({1}, {2})}, {}),
             Contains("cross_entropy_grad: index -1"));
}

TEST_CASE("gradients take what their ops take, and fit the operands", "[strategies][gradient]") {
  const Array x = reals({2}, {1.0, -2.0});
  CHECK(gradient_flaw("outer", {x, ints({2}, {3, 4})}, {}).empty());
  CHECK(gradient_flaw("addr", {reals({2, 2}, {1, 2, 3, 4}), x, filled({2}, DType::kF16, 0.5)}, {})
            .empty());
  CHECK(gradient_flaw("tile", {filled(Shape(34, 1), DType::kF64, 1.0)}, {{"dims", Shape{2, 3}}})
            .empty());
  CHECK(gradient_flaw("tile", {reals({0, 6}, {})}, {{"dims", Shape{1LL << 62, 2}}}).empty());
  CHECK(gradient_flaw("repeat_interleave", {x}, {{"repeats", 0}, {"dim", 0}}).empty());
  CHECK(gradient_flaw("cumprod", {reals({}, {3.0})}, {{"dim", 0}}).empty());
  CHECK(gradient_flaw("cumsum", {reals({}, {3.0})}, {{"dim", -1}}).empty());
  CHECK(gradient_flaw("einsum",
                      {filled({4, 4}, DType::kF64, 1.0), filled({4, 2}, DType::kF64, 2.0),
                       filled({2, 1}, DType::kF64, 3.0)},
                      {{"equation", "ab,bc,ca->b"}})
            .empty());
  const Array half = filled({1, 1, 2, 2}, DType::kBF16, 0.5);
  CHECK(gradient_flaw("attention", {half, half, half}, {{"scale", 1.0}}).empty());
  const Array narrow = filled({2}, DType::kF16, 0.5), statistic = filled({2}, DType::kF64, 0.5);
  CHECK(gradient_flaw("batch_norm_inference",
                      {reals({1, 2}, {1, 2}), statistic, statistic, narrow, narrow}, {})
            .empty());
  CHECK(gradient_flaw("instance_norm", {reals({1, 2, 2}, {1, 2, 3, 5}), narrow, statistic}, {})
            .empty());
}

TEST_CASE("a broadcast letter of an equation passes its cotangent to all that it stood for",
          "[strategies][gradient]") {
  const Op& einsum = *value_or_throw(builtin_table().find("einsum"));
  VerifyRandom random(11);
  const WholeTensor operands[] = {{{2, 2}, DType::kF64, {1, 2, 3, 4}},
                                  {{2, 2}, DType::kF64, {5, 6, 7, 8}},
                                  {{2, 1}, DType::kF64, {9, 10}}};
  CHECK(gradient_error(builtin_table(), einsum, {{"equation", "ab,bc,ca->b"}}, operands, random)
            .empty());
}

TEST_CASE("ranks that cut a line meet its infinities as one rank does", "[strategies][lowering]") {
  // Moments: an infinite mean has no distance to others.
  const Array line = reals({1, 4}, {1.0, kInfinity, 2.0, kInfinity});
  const Attrs along = {{"dim", Shape{1}}};
  CHECK(on_two_ranks("var_mean", {"S(1)"}, {line}, along, 1) == Values{kInfinity});
  Values many(2000, 1.0);
  many[3] = kInfinity;
  CHECK(call_op("var_mean", {reals({1, 2000}, many)}, along)[1].to_vector() == Values{kInfinity});
  // In F32 the squares overflow, and the factor of the row is 0.
  const Array large = reals({1, 2}, {1e30, 1.0}, DType::kF32);
  const Array weight = reals({2}, {1.0, 1.0}, DType::kF32);
  CHECK(on_two_ranks("rms_norm", {"S(1)", "S(0)"}, {large, weight}, {}, 0) == Values{0.0, 0.0});
  CHECK(call_values("rms_norm", {large, weight}) == Values{0.0, 0.0});
  // Products of a factor in F16 are those of its value, not F16's.
  const Array unit = reals({1, 2}, {1.0, 1.0});
  CHECK(on_two_ranks("rms_norm_grad", {"S(1)", "S(1)", "R", "S(0)"},
                     {unit, reals({1, 2}, {1e3, 0.0}), reals({1}, {64.0}, DType::kF16),
                      reals({2}, {1.0, 1.0})},
                     {}, 0) == Values{64.0 - 1e6 * 262144.0 / 2.0, 64.0});
  // A result that is NaN reaches what lies before it.
  const Array ones = reals({2}, {1.0, 1.0}), results = reals({2}, {0.0, kNaN});
  const Values before = on_two_ranks("logcumsumexp_grad", {"S(0)", "S(0)", "S(0)"},
                                     {ones, reals({2}, {0.0, 0.0}), results}, {{"dim", 0}}, 0);
  CHECK(std::isnan(before[0]));
}

TEST_CASE("log_softmax keeps its logarithm beside a large maximum", "[strategies][softmax]") {
  const Values values = call_values("log_softmax", {reals({2}, {1e30, 1e30})}, {{"dim", 0}});
  CHECK(values[0] == Approx(-std::log(2.0)));  // as PyTorch
  CHECK(values[1] == values[0]);
}

}  // namespace tessera
