// Losses of routing: their values and gradients in plain loops, and the same on every mesh.
#include "moe/layer/aux_loss.h"

#include <cmath>
#include <functional>

#include "tests/moe/routing_run.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

void check_close(const std::vector<double>& seen, const std::vector<double>& wanted,
                 double tolerance) {
  REQUIRE(seen.size() == wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CAPTURE(i, seen[i], wanted[i]);
    REQUIRE(std::abs(seen[i] - wanted[i]) < tolerance);
  }
}

void check_losses(const RoutingOutcome& seen,
                  const std::array<double, AuxLosses::kNumKinds>& wanted) {
  for (std::size_t kind = 0; kind < wanted.size(); ++kind) {
    CAPTURE(kind);
    CHECK(seen.losses[kind] == Approx(wanted[kind]).epsilon(1e-12));
  }
}

/// d total / d gate by central differences.
std::vector<double> plain_gate_grad(const RoutingRun& run, const std::vector<double>& ids,
                                    const std::vector<char>& kept = {}) {
  constexpr double kStep = 1e-5;
  std::vector<double> gate = routing_gate(run);
  std::vector<double> grad;
  for (double& weight : gate) {
    const double middle = weight;
    weight = middle + kStep;
    const double above = route_plainly(run, ids, gate, kept).total;
    weight = middle - kStep;
    grad.push_back((above - route_plainly(run, ids, gate, kept).total) / (2 * kStep));
    weight = middle;
  }
  return grad;
}

struct Mesh8 {
  ParallelConfig parallel;
  int num_ranks;
};
const std::vector<Mesh8>& meshes() {
  static const std::vector<Mesh8> all = {{{.dp_shard = 2}, 2},
                                         {{.tp = 2}, 2},
                                         {{.cp = 2}, 2},
                                         {{.dp_shard = 2, .tp = 2, .ep = 2}, 4},
                                         {{.cp = 2, .tp = 2, .ep = 4}, 4},
                                         {{.dp_replicate = 2, .dp_shard = 2, .tp = 2}, 8},
                                         {{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 8}, 8}};
  return all;
}

/// Every loss at once, each with a coefficient of its own.
RoutingRun run_with_losses() {
  RoutingRun run = routing_run();
  run.config.routing.seq_aux_coeff = 0.3;
  run.config.routing.batch_aux_coeff = 0.2;
  run.config.routing.global_aux_coeff = 0.7;
  run.config.routing.z_loss_coeff = 0.1;
  return run;
}

}  // namespace

TEST_CASE("losses of routing and their gradients are those of plain loops",
          "[moe][aux_loss][C16][C21]") {
  RoutingRun run = run_with_losses();
  run.config.score_func =
      GENERATE(ScoreFunction::kSoftmax, ScoreFunction::kSigmoid, ScoreFunction::kSqrtSoftplus);
  run.config.route_norm = GENERATE(false, true);
  run.padded = GENERATE(false, true);
  CAPTURE(run.padded, run.config.route_norm);
  const RoutingOutcome seen = route(run);
  const PlainRouting wanted = route_plainly(run, seen.ids, routing_gate(run));
  check_close(seen.weights, wanted.weights, 1e-13);
  check_losses(seen, wanted.losses);
  check_close(seen.gate_grad, plain_gate_grad(run, seen.ids), 1e-7);
}

TEST_CASE("losses of routing do not depend on the mesh", "[moe][aux_loss][C16][C21][C23][C44]") {
  RoutingRun run = run_with_losses();
  run.padded = GENERATE(false, true);
  const RoutingOutcome one = route(run);
  const auto at = GENERATE(range(std::size_t{0}, std::size_t{7}));
  run.parallel = meshes()[at].parallel;
  run.num_ranks = meshes()[at].num_ranks;
  CAPTURE(at, run.padded);
  const RoutingOutcome many = route(run);
  CHECK(many.ids == one.ids);
  CHECK(many.chosen == one.chosen);
  check_losses(many, one.losses);
  check_close(many.weights, one.weights, 1e-13);
  check_close(many.gate_grad, one.gate_grad, 1e-12);
  check_close(many.x_grad, one.x_grad, 1e-12);
}

TEST_CASE("padding tokens are inert in routing", "[moe][router][C16]") {
  RoutingRun run = run_with_losses();
  run.padded = true;
  run.parallel = {.tp = 2, .ep = 2};
  run.num_ranks = 2;
  const RoutingOutcome out = route(run);
  double num_valid = 0.0;
  std::size_t token = 0;
  for (std::int64_t micro = 0; micro < run.config.accum; ++micro) {
    for (std::int64_t b = 0; b < run.batch; ++b) {
      for (std::int64_t l = 0; l < run.seq; ++l, ++token) {
        if (!is_padding(run, b, l)) {
          num_valid += 1.0;
          continue;
        }
        for (std::size_t k = 0; k < 2; ++k) {
          CHECK(out.weights[token * 2 + k] == 0.0);
          CHECK(out.ids[token * 2 + k] == static_cast<double>(run.config.num_experts));
        }
        for (std::size_t d = 0; d < 4; ++d) CHECK(out.x_grad[token * 4 + d] == 0.0);
      }
    }
  }
  CHECK(std::accumulate(out.chosen.begin(), out.chosen.end(), 0.0) == 2 * num_valid);
  CHECK(out.dispatched == out.chosen);
}

TEST_CASE("an even load with even scores has an auxiliary loss of its coefficient",
          "[moe][aux_loss]") {
  RoutingRun run = run_with_losses();
  run.seq = 6;
  run.config.routing.force_balance = true;
  run.config.routing.z_loss_coeff = 0.0;
  // Scores differ, but Σ_e (1/E) · mean score_e · E is the sum of shares: one.
  const RoutingOutcome out = route(run);
  CHECK(out.losses[0] == Approx(0.3).epsilon(1e-13));
  CHECK(out.losses[1] == Approx(0.2).epsilon(1e-13));
  CHECK(out.losses[2] == Approx(0.7).epsilon(1e-13));
}

TEST_CASE("experts keep what plain loops keep, and gradients pass the rest by",
          "[moe][router][capacity][C32]") {
  RoutingRun run = run_with_losses();
  run.padded = GENERATE(false, true);
  run.config.routing.drop_policy = GENERATE(DropPolicy::kProbability, DropPolicy::kPosition);
  run.config.routing.capacity_scope =
      GENERATE(CapacityScope::kMicrobatch, CapacityScope::kSequence);
  const RoutingOutcome dropless = route(run);
  const double factor = GENERATE(0.5, 1.0, 8.0);
  run.config.routing.capacity_factor = factor;
  const auto at = GENERATE(std::size_t{7}, range(std::size_t{0}, std::size_t{7}));
  CAPTURE(run.padded, factor, at, static_cast<int>(run.config.routing.drop_policy),
          static_cast<int>(run.config.routing.capacity_scope));
  if (at < 7) {
    run.parallel = meshes()[at].parallel;
    run.num_ranks = meshes()[at].num_ranks;
  }
  const std::vector<char> kept = keep_plainly(run, dropless.ids, dropless.weights);
  std::vector<double> ids = dropless.ids;
  std::vector<double> dispatched(6, 0.0);
  double num_dropped = 0.0;
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    if (kept[slot] != 0) {
      dispatched[static_cast<std::size_t>(ids[slot])] += 1.0;
    } else {
      num_dropped += ids[slot] < 6.0 ? 1.0 : 0.0;
      ids[slot] = 6.0;
    }
  }
  CHECK((num_dropped > 0) == (factor <= 1.0));
  const RoutingOutcome seen = route(run);
  CHECK(seen.ids == ids);
  CHECK(seen.chosen == dropless.chosen);
  CHECK(seen.dispatched == dispatched);
  const PlainRouting wanted = route_plainly(run, dropless.ids, routing_gate(run), kept);
  check_close(seen.weights, wanted.weights, 1e-13);
  check_losses(seen, wanted.losses);
  check_close(seen.gate_grad, plain_gate_grad(run, dropless.ids, kept), 1e-7);
}

}  // namespace tessera::testing
