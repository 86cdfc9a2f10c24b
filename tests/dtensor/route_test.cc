// Routing by one op: what the ops that it is made of give, bit for bit, and its gradient theirs.
#include "kernels/route.h"

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kTokens = 12, kExperts = 10, kChosen = 3;

struct RouteCase {
  std::string score;
  bool is_normalised = false;
  double scale = 1.0;
  bool has_bias = false;
  DType dtype = DType::kF64;
};

struct Routes {
  DTensor scores, ids, weights;
};

Routes by_one_op(const RouteCase& of, const DTensor& logits, const DTensor& bias,
                 const DTensor& ids = {}) {
  const DTensor operands[] = {logits, bias, ids};
  const std::vector<DTensor> results = call(
      logits.runtime(), "route_topk", operands,
      {{"k", kChosen}, {"score", of.score}, {"normalise", of.is_normalised}, {"scale", of.scale}});
  return {results[0], results[1], results[2]};
}

Routes by_steps(const RouteCase& of, const DTensor& logits, const DTensor& bias) {
  Routes routes;
  if (of.score == "softmax") routes.scores = softmax(logits, -1);
  if (of.score == "sigmoid") routes.scores = sigmoid(logits);
  if (of.score == "sqrt_softplus") {
    routes.scores = sqrt(call(logits.runtime(), "softplus", {{logits}})[0]);
  }
  {
    const NoGrad no_grad(logits.runtime());
    const DTensor choice =
        bias.defined() ? add(routes.scores.detach(), bias) : routes.scores.detach();
    routes.ids = topk(choice, kChosen, -1).second;
  }
  routes.weights = gather(routes.scores, -1, routes.ids);
  if (of.is_normalised) {
    routes.weights =
        div(routes.weights, add(sum(routes.weights, {-1}, KeepDim::kYes), kernels::kShareGuard));
  }
  if (of.scale != 1.0) routes.weights = mul(routes.weights, of.scale);
  return routes;
}

const std::vector<RouteCase> kCases = {
    {.score = "softmax"},
    {.score = "softmax", .is_normalised = true, .has_bias = true},
    {.score = "sigmoid", .is_normalised = true, .scale = 2.5, .has_bias = true},
    {.score = "sigmoid", .scale = 2.5, .dtype = DType::kF32},
    {.score = "sqrt_softplus", .is_normalised = true, .scale = 1.5},
    {.score = "softmax", .is_normalised = true, .has_bias = true, .dtype = DType::kF32},
    {.score = "sqrt_softplus", .has_bias = true, .dtype = DType::kF32},
    {.score = "softmax", .is_normalised = true, .dtype = DType::kBF16}};

/// A loss of the weights, and one of the scores, which reach the logits on two ways.
template <class RouteFn>
Outcome routed(Rank& rank, const RouteCase& of, const Placements& placements, RouteFn&& route) {
  const auto values = [&](const Shape& shape, std::uint64_t seed) {
    return random_values(shape, of.dtype, seed);
  };
  const Placements whole(placements.size(), R);
  DTensor logits = rank.parameter(values({2, kTokens / 2, kExperts}, 1), placements);
  const DTensor bias = of.has_bias ? rank.distribute(values({kExperts}, 2), whole) : DTensor();
  const Routes routes = route(of, logits, bias);
  const DTensor of_weights = rank.distribute(values({2, kTokens / 2, kChosen}, 3), placements);
  const DTensor of_scores = rank.distribute(values({2, kTokens / 2, kExperts}, 4), placements);
  backward(add(sum(mul(routes.weights, of_weights)), sum(mul(routes.scores, of_scores))));
  return outcome_of({{"scores", routes.scores}, {"ids", routes.ids}, {"weights", routes.weights}},
                    {{"logits", logits}});
}

Outcome on_one(const RouteCase& of,
               Routes (*route)(const RouteCase&, const DTensor&, const DTensor&)) {
  return run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return routed(rank, of, {R}, route); })[0];
}
Routes by_op(const RouteCase& of, const DTensor& logits, const DTensor& bias) {
  return by_one_op(of, logits, bias);
}

}  // namespace

TEST_CASE("route_topk and its gradient have the bits of the ops that they are made of",
          "[dtensor][route][host]") {
  for (const RouteCase& of : kCases) {
    CAPTURE(of.score, of.is_normalised, of.scale, of.has_bias, name_of(of.dtype));
    CHECK(same_bits({on_one(of, by_op)}, {on_one(of, by_steps)}));
  }
}

TEST_CASE("tokens that are cut in any way are routed as on one rank, and nothing moves",
          "[dtensor][route]") {
  struct Cut {
    Shape mesh;
    Placements placements;
  };
  for (const Cut& cut : {Cut{{2}, {S(0)}}, Cut{{4}, {S(1)}}, Cut{{2, 2}, {S(0), S(1)}}}) {
    if (!runs_here(num_elements(cut.mesh))) continue;
    for (const RouteCase& of : kCases) {
      if (of.dtype != DType::kF64) continue;
      CAPTURE(to_string(cut.mesh), of.score, of.is_normalised, of.has_bias);
      const Outcome expected = on_one(of, by_op);
      const auto ranks = run_ranks(mesh_of_shape(cut.mesh), [&](Rank& rank) {
        std::int64_t moved = -1;
        const auto route = [&](const RouteCase& which, const DTensor& logits, const DTensor& bias) {
          const std::int64_t before = rank.bytes_received();
          const Routes routes = by_one_op(which, logits, bias);
          moved = rank.bytes_received() - before;
          return routes;
        };
        Outcome outcome = routed(rank, of, cut.placements, route);
        return std::pair{std::move(outcome), moved};
      });
      for (const auto& [outcome, moved] : ranks) {
        CHECK(worst_difference({outcome}, expected) < 1e-14);
        CHECK(moved == 0);
      }
    }
  }
}

TEST_CASE("route_topk of its own ids gives the same again, gradient included", "[dtensor][route]") {
  for (const RouteCase& of : kCases) {
    CAPTURE(of.score, of.is_normalised, of.scale, of.has_bias, name_of(of.dtype));
    const auto again = [](const RouteCase& which, const DTensor& logits, const DTensor& bias) {
      const Routes first = by_one_op(which, logits.detach(), bias);
      return by_one_op(which, logits, {}, first.ids);
    };
    CHECK(same_bits({on_one(of, again)}, {on_one(of, by_op)}));
  }
}

}  // namespace tessera::testing
