#include "kernels/route.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Routed {
  Values scores, ids, weights;
};

/// One call whose arrays lie in a form.
struct RouteCall {
  Shape shape;  ///< of the logits
  std::int64_t k = 0;
  RouteOptions options = {};
  DType dtype = DType::kF64;
  Form form = Form::kPlain;

  Routed operator()(const Values& logits, const Values& bias = {}, const Values& ids = {}) const {
    KernelContext ctx;
    Shape chosen = shape;
    chosen.back() = k;
    RouteOperands from = {.logits = array_in_form(shape, dtype, form, logits)};
    if (!bias.empty()) from.bias_E = Array::from_values({shape.back()}, dtype, bias);
    if (!ids.empty()) from.ids = array_in_form(chosen, DType::kI64, form, ids);
    const RouteResults to = {.scores = empty_in_form(shape, dtype, form),
                             .ids = empty_in_form(chosen, DType::kI64, form),
                             .weights = empty_in_form(chosen, dtype, form)};
    route_topk(ctx, options, from, to);
    return {to.scores.to_vector(), to.ids.to_vector(), to.weights.to_vector()};
  }
};

Values logs(Values numbers) {
  for (double& each : numbers) each = std::log(each);
  return numbers;
}
void check_near(const Values& got, const Values& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == Approx(wanted[i]).epsilon(1e-14));
  }
}

}  // namespace

TEST_CASE("a router's weights are scores, or shares of the chosen, times a scale",
          "[kernels][route]") {
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced);
  const Values logits = logs({1, 3, 4, 2, 2, 1, 1, 6});
  RouteCall call = {.shape = {2, 4}, .k = 2, .form = form};
  const Routed plain = call(logits);
  check_near(plain.scores, {0.1, 0.3, 0.4, 0.2, 0.2, 0.1, 0.1, 0.6});
  CHECK(plain.ids == Values{2, 1, 3, 0});
  check_near(plain.weights, {0.4, 0.3, 0.6, 0.2});
  call.options.weights = RouteWeights::kShares;
  call.options.scale = 3.5;
  const Routed shares = call(logits);
  CHECK(shares.ids == plain.ids);
  check_near(shares.weights, {2.0, 1.5, 2.625, 0.875});
}

TEST_CASE("a router's bias moves the choice, neither scores nor weights", "[kernels][route]") {
  const RouteCall call = {.shape = {1, 4}, .k = 2};
  const Routed moved = call(logs({1, 3, 4, 2}), {0.25, 0, 0, -1});
  check_near(moved.scores, {0.1, 0.3, 0.4, 0.2});
  CHECK(moved.ids == Values{2, 0});
  check_near(moved.weights, {0.4, 0.1});
}

TEST_CASE("a router's scores are softmax, sigmoid or the root of softplus", "[kernels][route]") {
  const Values logits = {-3, 0.5, 30, 0};
  Values sigmoid, root;
  for (const double x : logits) {
    sigmoid.push_back(1 / (1 + std::exp(-x)));
    root.push_back(std::sqrt(x > 20 ? x : std::log1p(std::exp(x))));
  }
  RouteCall call = {.shape = {4}, .k = 1, .options = {.score = RouteScore::kSigmoid}};
  check_near(call(logits).scores, sigmoid);
  call.options.score = RouteScore::kSqrtSoftplus;
  check_near(call(logits).scores, root);
  CHECK(call(logits).ids == Values{2});
}

TEST_CASE("a router takes the lower of equal experts, NaN before all, and shares of nothing are 0",
          "[kernels][route]") {
  RouteCall call = {.shape = {3, 4},
                    .k = 3,
                    .options = {.score = RouteScore::kSigmoid, .weights = RouteWeights::kShares}};
  const Routed routed = call({1, 2, 2, 2, 5, kNaN, 0, kNaN, -999, -999, -999, -999});
  CHECK(routed.ids == Values{1, 2, 3, 1, 3, 0, 0, 1, 2});
  for (std::size_t i = 3; i < 6; ++i) CHECK(std::isnan(routed.weights[i]));
  for (std::size_t i = 6; i < 9; ++i) CHECK(routed.weights[i] == 0.0);
}

TEST_CASE("a router takes all experts, the only one, none, and of no tokens", "[kernels][route]") {
  CHECK(RouteCall{.shape = {1, 3}, .k = 3}(logs({1, 3, 2})).ids == Values{1, 2, 0});
  const Routed only = RouteCall{.shape = {2, 1}, .k = 1}({-4, 7});
  CHECK(only.ids == Values{0, 0});
  CHECK(only.weights == Values{1, 1});
  const Routed none = RouteCall{
      .shape = {1, 2}, .k = 0, .options = {.weights = RouteWeights::kShares}}(logs({1, 1}));
  CHECK(none.ids.empty());
  check_near(none.scores, {0.5, 0.5});
  CHECK(RouteCall{.shape = {0, 4}, .k = 2}({}).scores.empty());
  CHECK(RouteCall{.shape = {3, 0}, .k = 0}({}).weights.empty());
}

TEST_CASE("a router of ids that were chosen before chooses none", "[kernels][route]") {
  const RouteCall call = {.shape = {2, 4}, .k = 2, .options = {.weights = RouteWeights::kShares}};
  const Values logits = logs({1, 3, 4, 2, 2, 1, 1, 6});
  const Routed given = call(logits, {}, {0, 1, 2, 3});
  CHECK(given.ids == Values{0, 1, 2, 3});
  check_near(given.weights, {0.25, 0.75, 1.0 / 7, 6.0 / 7});
  CHECK(error_of([&] {
          call(logits, {}, {0, 1, 2, 4});
        }) == "route_topk: index 4 at position [1, 1] lies outside [0, 4)");
  CHECK(error_of([&] {
          call(logits, {}, {-1, 1, 2, 3});
        }) == "route_topk: index -1 at position [0, 0] lies outside [0, 4)");
}

TEST_CASE("a router names the operand that it cannot take", "[kernels][route]") {
  KernelContext ctx;
  const auto empty = [](const Shape& shape, DType dtype = DType::kF32) {
    return Array::empty(shape, dtype);
  };
  const RouteOperands from = {.logits = empty({2, 4})};
  const RouteResults to = {
      .scores = empty({2, 4}), .ids = empty({2, 3}, DType::kI64), .weights = empty({2, 3})};
  const auto refusal = [&](const RouteOperands& operands, const RouteResults& results) {
    return error_of([&] { route_topk(ctx, {}, operands, results); });
  };
  CHECK(refusal(from, to) == "");
  CHECK(refusal({.logits = empty({2, 4}, DType::kI64)}, to) ==
        "route_topk: dtype I64 is not supported; allowed: F64, F32, BF16, F16");
  CHECK(refusal({.logits = empty({})}, to) == "route_topk: dim -1 of an array of shape []");
  CHECK(refusal({.logits = empty({3, 4})}, to) ==
        "route_topk: scores has shape [2, 4], expected [3, 4]");
  CHECK(refusal({.logits = empty({2, 2})}, {empty({2, 2}), to.ids, to.weights}) ==
        "route_topk: ids has shape [2, 3], expected [2, 2]");
  CHECK(refusal(from, {to.scores, to.ids, empty({2, 2})}) ==
        "route_topk: weights has shape [2, 2], expected [2, 3]");
  CHECK(refusal(from, {to.scores, to.ids, empty({2, 3}, DType::kF64)}) ==
        "route_topk: dtype F64 is not supported; allowed: F32 for weights");
  CHECK(refusal(from, {to.scores, empty({2, 3}), to.weights}) ==
        "route_topk: dtype F32 is not supported; allowed: I64 for ids");
  CHECK(refusal({from.logits, empty({3})}, to) == "route_topk: bias has shape [3], expected [4]");
  CHECK(refusal({from.logits, empty({4}, DType::kBF16)}, to) ==
        "route_topk: dtype BF16 is not supported; allowed: F32 for bias");
  CHECK(refusal({from.logits, {}, empty({2, 2}, DType::kI64)}, to) ==
        "route_topk: the ids given has shape [2, 2], expected [2, 3]");
  CHECK(refusal({from.logits, {}, empty({2, 3}, DType::kI32)}, to) ==
        "route_topk: dtype I32 is not supported; allowed: I64 for the ids given");
}

}  // namespace tessera
