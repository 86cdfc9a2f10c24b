#include "moe/train/routing_report.h"

#include <cmath>
#include <vector>

#include "dtensor/factories.h"

namespace tessera {
namespace {

DTensor added(const DTensor& a, const DTensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return add(a, b);
}

/// Sum of one kind over all layers; undefined where there was none.
DTensor take_total(Model& model, AuxLosses::Kind kind) {
  DTensor total;
  for (MoeLayer* layer : model.moe_layers()) total = added(total, layer->aux_losses().take(kind));
  return total;
}

DTensor count_dropped(Model& model) {
  DTensor total_E;
  for (MoeLayer* layer : model.moe_layers()) {
    const LoadBalancer& balancer = layer->balancer();
    if (!balancer.counts_E().defined()) continue;
    total_E = added(total_E, sub(balancer.counts_E(), balancer.dispatched_E()));
  }
  return total_E.defined() ? sum(total_E) : DTensor();
}

/// A 0-d tensor's value, plain F64 (1); 0 of an undefined one.
DTensor value_of(Runtime& runtime, const DTensor& x) {
  if (!x.defined()) return zeros(runtime, {1}, {.dtype = DType::kF64});
  const DTensor whole = reshape(plain(runtime, full_tensor(x)), {1});
  return x.dtype() == DType::kF64 ? whole : cast(whole, DType::kF64);
}

}  // namespace

bool reports_routing(const RoutingConfig& config) {
  return config.uses_aux_loss() || config.z_loss_coeff > 0.0 || config.capacity_factor.has_value();
}

DTensor take_routing_sums(Model& model) {
  Runtime& runtime = model.context().runtime;
  const ModuleScope scope(runtime, "routing_report");
  const NoGrad no_grad(runtime);
  DTensor aux = value_of(runtime, take_total(model, AuxLosses::Kind::kSequence));
  for (const auto kind : {AuxLosses::Kind::kBatch, AuxLosses::Kind::kGlobal}) {
    const DTensor more = take_total(model, kind);
    if (more.defined()) aux = add(aux, value_of(runtime, more));
  }
  const bool drops = model.context().model.routing.capacity_factor.has_value();
  const std::vector<DTensor> sums = {aux, value_of(runtime, take_total(model, AuxLosses::Kind::kZ)),
                                     value_of(runtime, drops ? count_dropped(model) : DTensor())};
  return cat(sums, 0);
}

RoutingReport routing_report(const RoutingConfig& config, std::span<const double> sums) {
  RoutingReport report;
  if (config.uses_aux_loss()) report.aux_loss = sums[0];
  if (config.z_loss_coeff > 0.0) report.z_loss = sums[1];
  if (config.capacity_factor) report.dropped = std::llround(sums[2]);
  return report;
}

}  // namespace tessera
