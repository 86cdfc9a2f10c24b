// The device's kernel of a router against the processor's. Scores may differ in their last bits,
// and with them the choice: it is compared with what the processor chooses by the device's scores.
#include "kernels/route.h"

#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/reduce.h"
#include "kernels/select.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kRouteCases = 300;
constexpr RouteScore kScores[] = {RouteScore::kSoftmax, RouteScore::kSigmoid,
                                  RouteScore::kSqrtSoftplus};

struct RouteTwins {
  Twins logits, bias, given;  // null arrays: absent
  Twins scores, ids, weights;
  RouteOptions options;

  void run(KernelContext& ctx, bool device) const {
    route_topk(ctx, options, {side(logits, device), side(bias, device), side(given, device)},
               {side(scores, device), side(ids, device), side(weights, device)});
  }
};

/// Ids and weights as the processor has them by these scores.
std::pair<Array, Array> chosen_by(const RouteTwins& twins, const Array& scores) {
  KernelContext cpu;
  const int last = scores.ndim() - 1;
  const Shape& shape = twins.ids.host.shape();
  Array choice = scores;
  if (!twins.bias.host.is_null()) {
    choice = Array::empty(scores.shape(), scores.dtype());
    binary(cpu, Binary::kAdd, scores, twins.bias.host, choice);
  }
  Array ids = Array::empty(shape, DType::kI64);
  const Array weights = Array::empty(shape, scores.dtype());
  if (twins.given.host.is_null()) {
    topk(cpu, choice, last, Order::kDescending, weights, ids);
  } else {
    copy(cpu, twins.given.host, ids);
  }
  gather(cpu, scores, last, ids, Absent::kError, weights);
  if (twins.options.weights == RouteWeights::kShares) {
    Shape rows = shape;
    rows.back() = 1;
    const Array sums = Array::empty(rows, scores.dtype());
    const int dims[] = {last};
    reduce(cpu, ReduceOp::kSum, weights, dims, sums);
    binary_scalar(cpu, Binary::kAdd, sums, kShareGuard, sums);
    binary(cpu, Binary::kDiv, weights, sums, weights);
  }
  binary_scalar(cpu, Binary::kMul, weights, twins.options.scale, weights);
  return {ids, weights};
}

void check_routed(OnDevice& on, const RouteTwins& twins) {
  const double tolerance = tolerance_of(twins.logits.host.dtype());
  CHECK(compare(on, twins.scores, 8 * tolerance,
                [&](KernelContext& ctx, bool device) { twins.run(ctx, device); }) == "");
  const auto [ids, weights] = chosen_by(twins, fetch(on, twins.scores.device));
  CHECK(difference(fetch(on, twins.ids.device), ids, 0.0) == "");
  CHECK(difference(fetch(on, twins.weights.device), weights, tolerance) == "");
}

/// Short rows mostly, some that are whole packs, and now and then one for which a kernel has no
/// room.
std::int64_t any_experts(TwinMaker& make) {
  switch (make.number(0, 11)) {
    case 0:
      return make.number(257, 1400);
    case 1:
    case 2:
      return make.number(33, 256);
    case 3:
      return 8 * make.number(1, 32);
    default:
      return make.number(1, 20);
  }
}

class RouteMaker {
 public:
  explicit RouteMaker(TwinMaker& make) : make_(make) {}

  RouteTwins of(const Shape& shape, std::int64_t k, DType dtype) {
    Shape chosen = shape;
    chosen.back() = k;
    RouteTwins twins = {.logits = make_.view(shape, dtype),
                        .scores = make_.output(shape, dtype),
                        .ids = make_.output(chosen, DType::kI64),
                        .weights = make_.output(chosen, dtype),
                        .options = {.score = kScores[make_.number(0, 2)]}};
    if (make_.number(0, 1) == 0) twins.options.weights = RouteWeights::kShares;
    if (make_.number(0, 1) == 0) twins.options.scale = 2.5;
    if (make_.number(0, 2) == 0) twins.bias = make_.view({shape.back()}, dtype);
    if (make_.number(0, 4) == 0) twins.given = given(chosen, shape.back());
    return twins;
  }
  Twins given(const Shape& chosen, std::int64_t experts) {
    std::vector<double> ids(static_cast<std::size_t>(num_elements(chosen)));
    for (double& id : ids) id = static_cast<double>(make_.number(0, experts - 1));
    return make_.of(Array::from_values(chosen, DType::kI64, ids));
  }

 private:
  TwinMaker& make_;
};

}  // namespace

TEST_CASE("a router's scores, choice and weights are the same on the device", "[device][route]") {
  OnDevice on;
  TwinMaker make(on, 71);
  RouteMaker routes(make);
  for (int i = 0; i < kRouteCases; ++i) {
    Shape shape(static_cast<std::size_t>(make.number(0, 2)));
    for (std::int64_t& size : shape) size = make.number(0, 30) == 0 ? 0 : make.number(1, 7);
    shape.push_back(any_experts(make));
    const std::int64_t most = std::min<std::int64_t>(shape.back(), i % 5 == 0 ? 40 : 8);
    const std::int64_t k = make.number(i % 20 == 0 ? 0 : 1, most);
    const DType dtype = any_of(make, kFloating);
    CAPTURE(i, shape, k, name_of(dtype));
    check_routed(on, routes.of(shape, k, dtype));
  }
}

TEST_CASE("routers of usual sizes choose the same on the device", "[device][route]") {
  OnDevice on;
  TwinMaker make(on, 72);
  RouteMaker routes(make);
  for (const auto& [experts, k] : {std::pair<std::int64_t, std::int64_t>{64, 6},
                                   {256, 8},
                                   {8, 2},
                                   {128, 1},
                                   {1, 1},
                                   {32, 32},
                                   {33, 33},
                                   {384, 8},
                                   {1024, 32},
                                   {1025, 2}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(experts, k, name_of(dtype));
      check_routed(on, routes.of({37, experts}, k, dtype));
    }
  }
}

TEST_CASE("a router's ties fall to the lower expert on the device, NaN comes first",
          "[device][route]") {
  OnDevice on;
  TwinMaker make(on, 73);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t experts = GENERATE(5, 64, 700);
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const RouteScore score = GENERATE(RouteScore::kSoftmax, RouteScore::kSigmoid);
  std::vector<double> logits(static_cast<std::size_t>(3 * experts));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double kinds[] = {0.0, -0.0, 1.0, 1.0, -2.0};
    logits[i] = kinds[i * 7 % 5];
  }
  logits[static_cast<std::size_t>(experts + 3)] = kNaN;
  logits[static_cast<std::size_t>(experts + 1)] = -kNaN;
  const RouteTwins twins = {.logits = make.of(Array::from_values({3, experts}, dtype, logits)),
                            .scores = make.output({3, experts}, dtype),
                            .ids = make.output({3, 4}, DType::kI64),
                            .weights = make.output({3, 4}, dtype),
                            .options = {.score = score}};
  CAPTURE(experts, name_of(dtype));
  check_routed(on, twins);
  const std::vector<double> ids = fetch(on, twins.ids.device).to_vector();
  const bool all_nan = score == RouteScore::kSoftmax;
  CHECK(ids[4] == (all_nan ? 0 : 1));
  CHECK(ids[5] == (all_nan ? 1 : 3));
  for (const std::size_t row : {0, 8}) CHECK(ids[row] < ids[row + 1]);
}

TEST_CASE("given ids that a router has no expert for are the same error on the device",
          "[device][route]") {
  OnDevice on;
  TwinMaker make(on, 74);
  RouteMaker routes(make);
  for (const double bad : {6.0, -1.0}) {
    for (const std::int64_t experts : {std::int64_t{6}, std::int64_t{1200}}) {
      RouteTwins twins = routes.of({4, experts}, 3, DType::kF32);
      std::vector<double> ids(12, 2.0);
      ids[7] = ids[10] = bad < 0 ? bad : static_cast<double>(experts);
      twins.given = make.of(Array::from_values({4, 3}, DType::kI64, ids));
      CAPTURE(experts, bad);
      CHECK(compare(on, twins.weights, 0.0,
                    [&](KernelContext& ctx, bool device) { twins.run(ctx, device); }) == "");
    }
  }
}

TEST_CASE("what a router cannot take is the same error on the device", "[device][route]") {
  OnDevice on;
  TwinMaker make(on, 75);
  RouteMaker routes(make);
  const auto errors = [&](const RouteTwins& twins) {
    CHECK(compare(on, twins.scores, 0.0,
                  [&](KernelContext& ctx, bool device) { twins.run(ctx, device); }) == "");
  };
  RouteTwins twins = routes.of({3, 4}, 2, DType::kF32);
  twins.bias = make.values({3}, DType::kF32);
  errors(twins);
  twins.bias = {};
  twins.weights = make.values({3, 2}, DType::kF64);
  errors(twins);
  twins.weights = make.values({3, 3}, DType::kF32);
  errors(twins);
  twins.scores = make.values({3, 5}, DType::kF32);
  errors(twins);
}

}  // namespace tessera::testing
