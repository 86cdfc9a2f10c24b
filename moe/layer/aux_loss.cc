#include "moe/layer/aux_loss.h"

#include <array>
#include <utility>
#include <vector>

#include "dtensor/attached_loss.h"

namespace tessera {
namespace {

constexpr double kZeroGuard = 1e-20;  ///< for rows without a token

/// x over the sum of its last dim; zeros stay zeros.
DTensor shares_of(const DTensor& x) { return div(x, add(sum(x, {-1}, KeepDim::kYes), kZeroGuard)); }

/// Summands brought together along `axes of the target` in one exchange: I64 counts and sums.
std::vector<DTensor> gather_sums(const LayerContext& context, const std::vector<DTensor>& summands,
                                 const Placements& to) {
  std::vector<Spec> specs;
  for (const DTensor& each : summands) {
    specs.push_back(
        value_or_throw(Spec::make(context.views.dense(), each.global_shape(), each.dtype(), to)));
  }
  return redistribute_all(summands, specs);
}

/// Each token's scores as shares of one, and 0 for padding.
DTensor score_shares(const Routing& routing) {
  const DTensor shares_BLE = shares_of(routing.scores_BLE);
  const DTensor& padding_BL = routing.padding.mask_BL;
  if (!padding_BL.defined()) return shares_BLE;
  return masked_fill(shares_BLE, unsqueeze(padding_BL, -1), 0.0);
}

/// Squared log-sum-exp of the logits: this micro-batch's part of a mean over the step's tokens that
/// are no padding.
DTensor z_loss(const LayerContext& context, const Routing& routing) {
  DTensor squares_BL = square(logsumexp(routing.logits_BLE, {-1}));
  if (routing.padding.mask_BL.defined()) {
    squares_BL = masked_fill(squares_BL, routing.padding.mask_BL, 0.0);
    return mul(sum(squares_BL), cast(routing.padding.step_share, squares_BL.dtype()));
  }
  const MoeConfig& c = context.config;
  return mul(sum(squares_BL), 1.0 / static_cast<double>(c.batch * c.accum * squares_BL.size(1)));
}

}  // namespace

DTensor load_loss(const LoadSums& sums, std::int64_t top_k) {
  const DType dtype = sums.score_sums_XE.dtype();
  const auto num_experts = static_cast<double>(sums.score_sums_XE.size(-1));
  DTensor load_XE, num_assignments_X1;
  {
    const NoGrad no_grad(sums.load_XE.runtime());
    load_XE = shares_of(cast(sums.load_XE, dtype));
    num_assignments_X1 = sum(cast(sums.counts_XE, dtype), {-1}, KeepDim::kYes);
  }
  const DTensor means_XE =
      div(mul(sums.score_sums_XE, static_cast<double>(top_k)), add(num_assignments_X1, kZeroGuard));
  return mul(sum(mul(load_XE, means_XE)), num_experts);
}

DTensor AuxLosses::attach(const LayerContext& context, const Routing& routing,
                          const LoadBalancer& balancer) {
  const RoutingConfig& r = context.config.routing;
  if (!context.runtime.grad_enabled) return routing.weights_BLK;
  const MoeConfig& c = context.config;
  // Of the step's sequences, those of this micro-batch: its part of a mean over the step.
  const auto num_sequences = static_cast<double>(c.batch * c.accum);
  const double part = static_cast<double>(routing.scores_BLE.size(0)) / num_sequences;
  std::vector<DTensor> losses;
  const auto add_loss = [&](Kind kind, const DTensor& loss, double coefficient) {
    losses.push_back(mul(loss, coefficient));
    DTensor& total = sums_[static_cast<std::size_t>(kind)];
    const NoGrad no_grad(context.runtime);
    const DTensor value = losses.back().detach();
    total = total.defined() ? add(total, value) : value;
  };

  DTensor score_shares_BLE;
  if (r.uses_aux_loss()) score_shares_BLE = score_shares(routing);
  if (r.seq_aux_coeff > 0.0) {
    const Placements by_sequence =
        context.views.on_dense({.dp_replicate = Shard{0}, .dp_shard = Shard{0}});
    const std::vector<DTensor> sums =
        gather_sums(context, {sum(routing.map_BLE, {1}), sum(score_shares_BLE, {1})}, by_sequence);
    add_loss(Kind::kSequence, load_loss({sums[0], sums[0], sums[1]}, c.router_top_k),
             r.seq_aux_coeff / num_sequences);
  }
  if (r.batch_aux_coeff > 0.0 || r.global_aux_coeff > 0.0) {
    const std::vector<DTensor> sums =
        gather_sums(context, {routing.chosen_E, sum(score_shares_BLE, {0, 1}), balancer.counts_E()},
                    context.views.on_dense({}));
    if (r.batch_aux_coeff > 0.0) {
      add_loss(Kind::kBatch, load_loss({sums[0], sums[0], sums[1]}, c.router_top_k),
               r.batch_aux_coeff * part);
    }
    if (r.global_aux_coeff > 0.0) {
      add_loss(Kind::kGlobal, load_loss({sums[2], sums[0], sums[1]}, c.router_top_k),
               r.global_aux_coeff * part);
    }
  }
  if (r.z_loss_coeff > 0.0) {
    add_loss(Kind::kZ, z_loss(context, routing), r.z_loss_coeff);
  }
  return losses.empty() ? routing.weights_BLK : attach_losses(routing.weights_BLK, losses);
}

DTensor AuxLosses::take(Kind kind) {
  return std::exchange(sums_[static_cast<std::size_t>(kind)], {});
}

}  // namespace tessera
