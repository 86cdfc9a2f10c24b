#include "dtensor/foreach.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/factories.h"
#include "dtensor/host_read.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"
#include "kernels/optimizer_update.h"

namespace tessera {
namespace {

/// The scalar as summands on every axis: where it is replicated, coord 0 keeps it. Moves nothing.
DTensor as_summands(const DTensor& scalar, const Site& site) {
  const Placements all_partial(static_cast<std::size_t>(scalar.mesh().ndim()),
                               Placement(Partial{ReduceOp::kSum}));
  return redistribute(scalar, all_partial, site);
}

DTensor in_f64(const DTensor& x, const Site& site) {
  return x.dtype() == DType::kF64 ? x : cast(x, DType::kF64, site);
}

/// What tensors on one mesh add up: 0-d, in F64.
DTensor share_of(const DTensor& x, double p, const Site& site) {
  if (p == 2.0) return as_summands(sum_of_squares(x, site), site);
  const DTensor magnitude = in_f64(abs(x, site), site);
  if (std::isinf(p)) return amax(magnitude, {}, KeepDim::kNo, site);
  const DTensor powers = p == 1.0 ? magnitude : pow(magnitude, p, site);
  return as_summands(sum(powers, {}, KeepDim::kNo, site), site);
}

DTensor joined(const DTensor& a, const DTensor& b, double p, const Site& site) {
  return std::isinf(p) ? maximum(a, b, site) : add(a, b, 1.0, site);
}

}  // namespace

std::vector<DTensor> foreach_call(std::string_view op, std::span<const TensorList> lists,
                                  const Attrs& attrs, const Site& site) {
  for (const TensorList& list : lists) {
    if (list.size() == lists[0].size()) continue;
    throw Error(invalid_argument(
        absl::StrFormat("foreach %s: lists of %d and %d tensors must be of one length",
                        std::string(op), lists[0].size(), list.size())));
  }
  std::vector<DTensor> results;
  std::vector<DTensor> operands;
  for (std::size_t i = 0; !lists.empty() && i < lists[0].size(); ++i) {
    operands.clear();
    for (const TensorList& list : lists) operands.push_back(list[i].detach());
    const NoGrad no_grad(operands[0].runtime());
    results.push_back(std::move(call(operands[0].runtime(), op, operands, attrs, site)[0]));
  }
  return results;
}

void foreach_add_(TensorList xs, TensorList ys, double alpha, const Site& site) {
  const TensorList lists[] = {xs, ys};
  if (alpha == 1.0) {
    foreach_call("add_", lists, {}, site);
    return;
  }
  const TensorList scaled_from[] = {ys};
  const std::vector<DTensor> scaled =
      foreach_call("mul_scalar", scaled_from, {{"value", alpha}}, site);
  const TensorList with_scaled[] = {xs, scaled};
  foreach_call("add_", with_scaled, {}, site);
}

void foreach_mul_(TensorList xs, double factor, const Site& site) {
  const TensorList lists[] = {xs};
  foreach_call("mul_scalar_", lists, {{"value", factor}}, site);
}

DTensor norm_power(Runtime& runtime, TensorList xs, double p, const Site& site) {
  if (!(p > 0.0)) {
    throw Error(invalid_argument(absl::StrFormat("total_norm: p is %g, but must be above 0", p)));
  }
  const NoGrad no_grad(runtime);
  std::vector<DTensor> totals;  // one per mesh
  for (const DTensor& x : xs) {
    if (!x.defined() || num_elements(x.global_shape()) == 0) continue;
    DTensor share = share_of(x.detach(), p, site);
    const auto same_mesh = [&](const DTensor& total) { return total.mesh() == share.mesh(); };
    const auto at = std::find_if(totals.begin(), totals.end(), same_mesh);
    if (at == totals.end()) {
      totals.push_back(std::move(share));
    } else {
      *at = joined(*at, share, p, site);
    }
  }
  DTensor power;
  for (const DTensor& total : totals) {
    const DTensor here = plain(runtime, full_tensor(total, site));
    power = power.defined() ? joined(power, here, p, site) : here;
  }
  if (!power.defined()) return zeros(runtime, {1}, {.dtype = DType::kF64});
  return reshape(power, {1}, site);
}

double total_norm(TensorList xs, double p, const Site& site) {
  const auto first = std::ranges::find_if(xs, [](const DTensor& x) { return x.defined(); });
  if (first == xs.end()) return 0.0;
  Runtime& runtime = first->runtime();
  const Array power =
      read_to_host(runtime, norm_power(runtime, xs, p, site).local(), {.why = "total_norm"}, site);
  return kernels::norm_of(power.data<double>()[0], p);
}

double clip_factor(double norm, double max_norm) { return kernels::clip_factor_of(norm, max_norm); }

double clip_total_norm_(TensorList xs, double max_norm, double p, const Site& site) {
  const double norm = total_norm(xs, p, site);
  if (!std::isfinite(norm)) {
    throw Error(failed_precondition(
        absl::StrFormat("clip_total_norm_: the norm is %g; nothing was scaled", norm)));
  }
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  std::vector<DTensor> defined;
  for (const DTensor& x : xs) {
    if (x.defined()) defined.push_back(x);
  }
  foreach_mul_(defined, factor, site);
  return norm;
}

namespace {

bool is_placed_like(const DTensor& x, const DTensor& param) {
  return x.mesh() == param.mesh() && x.spec().layout() == param.spec().layout();
}
/// This rank's part of a tensor that an update reads, placed like the parameter.
Array part_of(const DTensor& x, const DTensor& param, const Site& site) {
  if (is_placed_like(x, param)) return x.local();
  const NoGrad no_grad(x.runtime());
  const Spec& spec = param.spec();
  const Spec to =
      value_or_throw(Spec::make(spec.mesh(), spec.global_shape(), x.dtype(), spec.layout()));
  const DTensor source = x.detach();
  return redistribute_all({&source, 1}, {&to, 1}, site)[0].local();
}
/// The same of one that it writes.
Array written(const DTensor& x, const DTensor& param) {
  if (!is_placed_like(x, param)) {
    throw Error(invalid_argument(absl::StrFormat(
        "optimizer step: state %s of parameter %s is placed otherwise than it: %s, not %s",
        x.name(), param.name(), x.spec().to_string(), param.spec().to_string())));
  }
  if (!x.local().is_null()) x.local().storage()->bump_version();
  return x.local();
}

/// Tells who observes of an update of lists of tensors, in place: one region for each parameter.
void tell_update(const DTensor& steering, std::string_view name, TensorList grads,
                 std::span<const TensorList> lists, const Site& site) {
  ProgramObserver* observer = steering.runtime().observer;
  if (observer == nullptr) return;
  const MarkScope marks(steering.runtime(), {.pass = PassMark::kUpdate});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    std::vector<DTensor> args = {steering, grads[i]}, results;
    for (const TensorList& list : lists) {
      if (i < list.size()) results.push_back(list[i]);
    }
    args.insert(args.end(), results.begin(), results.end());
    observer->on_region({.name = name, .args = args, .results = results, .site = site});
  }
}

}  // namespace

void sgd_step(const StepTensors& tensors, TensorList buffers, const kernels::SgdOptions& options,
              const DTensor& steering, const Site& site) {
  std::vector<kernels::SgdArrays> all;
  for (std::size_t i = 0; i < tensors.params.size(); ++i) {
    const DTensor& param = tensors.params[i];
    if (param.local().is_null()) continue;
    all.push_back({.param = written(param, param),
                   .grad = part_of(tensors.grads[i], param, site),
                   .buffer = buffers.empty() ? Array() : written(buffers[i], param)});
  }
  kernels::sgd_all(steering.runtime().kernels(), options, all, steering.local());
  const TensorList written_lists[] = {tensors.params, buffers};
  tell_update(steering, "sgd", tensors.grads, written_lists, site);
}

void adamw_step(const StepTensors& tensors, const Moments& moments,
                const kernels::AdamWOptions& options, const DTensor& steering, const Site& site) {
  std::vector<kernels::AdamWArrays> all;
  for (std::size_t i = 0; i < tensors.params.size(); ++i) {
    const DTensor& param = tensors.params[i];
    if (param.local().is_null()) continue;
    all.push_back({.param = written(param, param),
                   .grad = part_of(tensors.grads[i], param, site),
                   .m = written(moments.first[i], param),
                   .v = written(moments.second[i], param)});
  }
  kernels::adamw_all(steering.runtime().kernels(), options, all, steering.local());
  const TensorList written_lists[] = {tensors.params, moments.first, moments.second};
  tell_update(steering, "adamw", tensors.grads, written_lists, site);
}

void sgd_step(const StepTensors& tensors, TensorList buffers, const Attrs& attrs,
              const Site& site) {
  const TensorList plain[] = {tensors.params, tensors.grads};
  const TensorList with_buffers[] = {tensors.params, tensors.grads, buffers};
  if (buffers.empty()) {
    foreach_call("sgd_", plain, attrs, site);
  } else {
    foreach_call("sgd_momentum_", with_buffers, attrs, site);
  }
}

void adam_step(const StepTensors& tensors, const Moments& moments, const Attrs& attrs,
               const Site& site) {
  const TensorList lists[] = {tensors.params, tensors.grads, moments.first, moments.second};
  foreach_call("adam_", lists, attrs, site);
}

void adamw_step(const StepTensors& tensors, const Moments& moments, const Attrs& attrs,
                const Site& site) {
  const TensorList lists[] = {tensors.params, tensors.grads, moments.first, moments.second};
  foreach_call("adamw_", lists, attrs, site);
}

}  // namespace tessera
