#include "moe/routing_report.h"

#include <array>
#include <cmath>
#include <utility>

namespace tessera {
namespace {

/// Sum of one kind over all layers.
double take_total(Model& model, AuxLosses::Kind kind) {
  DTensor total;
  for (MoeLayer* layer : model.moe_layers()) {
    const DTensor own = layer->aux_losses().take(kind);
    if (own.defined()) total = total.defined() ? add(total, own) : own;
  }
  return total.defined() ? item(total) : 0.0;
}

double count_dropped(Model& model) {
  DTensor total_E;
  for (MoeLayer* layer : model.moe_layers()) {
    const LoadBalancer& balancer = layer->balancer();
    if (!balancer.counts_E().defined()) continue;
    const DTensor own_E = sub(balancer.counts_E(), balancer.dispatched_E());
    total_E = total_E.defined() ? add(total_E, own_E) : own_E;
  }
  return total_E.defined() ? item(sum(total_E)) : 0.0;
}

}  // namespace

RoutingReport take_routing_report(Model& model) {
  Runtime& runtime = model.context().runtime;
  const ModuleScope scope(runtime, "routing_report");
  const NoGrad no_grad(runtime);
  const RoutingConfig& r = model.context().config.routing;
  std::array<double, 3> sums = {};
  if (r.uses_aux_loss()) {
    sums[0] = take_total(model, AuxLosses::Kind::kSequence) +
              take_total(model, AuxLosses::Kind::kBatch) +
              take_total(model, AuxLosses::Kind::kGlobal);
  }
  if (r.z_loss_coeff > 0.0) sums[1] = take_total(model, AuxLosses::Kind::kZ);
  if (r.capacity_factor) sums[2] = count_dropped(model);
  RoutingReport report;
  if (!r.uses_aux_loss() && r.z_loss_coeff == 0.0 && !r.capacity_factor) return report;
  model.stage_group().all_reduce(sums, ReduceOp::kSum, "routing_report");
  if (r.uses_aux_loss()) report.aux_loss = sums[0];
  if (r.z_loss_coeff > 0.0) report.z_loss = sums[1];
  if (r.capacity_factor) report.dropped = std::llround(sums[2]);
  return report;
}

}  // namespace tessera
