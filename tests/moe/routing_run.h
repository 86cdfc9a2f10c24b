// tests/moe/routing_run.h: one router's passes on any mesh, and the same in plain loops.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "moe/layer/aux_loss.h"
#include "moe/train/config.h"
#include "parallel/mesh_views.h"

namespace tessera::testing {

/// Sizes and options of a router of its own; tokens are (B, L, D), random, other ones in each
/// micro-batch.
struct RoutingRun {
  ModelConfig config;
  ParallelConfig parallel = {};
  int num_ranks = 1;
  std::int64_t batch = 4, seq = 5;
  /// Sequence b's last b tokens are padding.
  bool padded = false;
};
RoutingRun routing_run();

/// What all passes together gave, global, seen by rank 0. Lists hold the micro-batches one after
/// another.
struct RoutingOutcome {
  std::vector<double> ids, weights;
  std::vector<double> chosen, dispatched;  ///< per expert
  std::array<double, AuxLosses::kNumKinds> losses = {};
  std::vector<double> gate_grad, x_grad;  ///< of Σ weights · cotangents + losses
};
/// On run.num_ranks ranks.
RoutingOutcome route(const RoutingRun& run);

/// In plain loops on doubles, with experts as in `ids` (E for padding); where `kept` is not empty,
/// assignments that it marks 0 are chosen but not dispatched: of weight 0. `total` is Σ weights ·
/// cotangents + losses, whose gradient an engine must find.
struct PlainRouting {
  double total = 0.0;
  std::vector<double> weights;
  std::array<double, AuxLosses::kNumKinds> losses = {};
};
PlainRouting route_plainly(const RoutingRun& run, const std::vector<double>& ids,
                           const std::vector<double>& gate, const std::vector<char>& kept = {});
/// What is left of `ids` under run.config's capacity, for these weights: 1 where dispatched.
std::vector<char> keep_plainly(const RoutingRun& run, const std::vector<double>& ids,
                               const std::vector<double>& weights);
/// The gate's weights (E, D), and other inputs: random, from a name.
std::vector<double> routing_gate(const RoutingRun& run);
Array random_array(const Shape& shape, std::string_view name);
bool is_padding(const RoutingRun& run, std::int64_t b, std::int64_t l);

}  // namespace tessera::testing
