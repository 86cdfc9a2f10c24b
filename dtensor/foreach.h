// dtensor/foreach.h: one call over a list of tensors that may live on several meshes: each tensor's
// op runs on its own mesh, norms take one small reduction per mesh. Nothing here is recorded for
// autograd.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtensor/dtensor.h"
#include "kernels/optimizer.h"
#include "placement/api.h"
#include "strategies/rules/attrs.h"

namespace tessera TSR_API {

using TensorList = std::span<const DTensor>;

/// op(lists[0][i], lists[1][i], …; attrs) for each i, in order: the first results. In-place ops
/// write into their operands. Errors: InvalidArgument where lists differ in length, before anything
/// runs; those of the op, naming the tensor's position. Collective: yes, where an operand moves.
std::vector<DTensor> foreach_call(std::string_view op, std::span<const TensorList> lists,
                                  const Attrs& attrs = {}, const Site& site = Site::current());

/// xs[i] += alpha·ys[i]
void foreach_add_(TensorList xs, TensorList ys, double alpha = 1.0,
                  const Site& site = Site::current());
/// xs[i] *= factor
void foreach_mul_(TensorList xs, double factor, const Site& site = Site::current());

/// Σ|x|^p over all elements of all tensors, each counted once wherever it is sharded or replicated;
/// undefined tensors count as zero. p = inf: the largest magnitude; NaN if one is. A plain F64 (1).
/// Errors: InvalidArgument for p <= 0. Collective: yes, one all-reduce of a scalar per mesh.
DTensor norm_power(Runtime& runtime, TensorList xs, double p, const Site& site = Site::current());
/// Its p-th root. Cost: one host read.
double total_norm(TensorList xs, double p = 2.0, const Site& site = Site::current());
/// min(1, max_norm / (norm + 1e-6))
double clip_factor(double norm, double max_norm);
/// Scales all tensors in place so that their norm is at most `max_norm`, and returns what it was.
/// A norm that is not finite is an Error(FailedPrecondition) before anything is scaled.
double clip_total_norm_(TensorList xs, double max_norm, double p = 2.0,
                        const Site& site = Site::current());

/// A parameter's tensors in an optimizer step; all of one spec.
struct StepTensors {
  TensorList params, grads;
};
struct Moments {
  TensorList first, second;
};
/// Updates steered by values of the device (kernels::Steering; plain), which the options' count on
/// top of. Nothing is written where they say not to go on.
void sgd_step(const StepTensors& tensors, TensorList buffers, const kernels::SgdOptions& options,
              const DTensor& steering, const Site& site = Site::current());
void adamw_step(const StepTensors& tensors, const Moments& moments,
                const kernels::AdamWOptions& options, const DTensor& steering,
                const Site& site = Site::current());

/// sgd_ on each: without momentum (`buffers` empty), or with. Attributes are the op's.
void sgd_step(const StepTensors& tensors, TensorList buffers, const Attrs& attrs,
              const Site& site = Site::current());
/// adam_ and adamw_ on each. Attributes are the op's.
void adam_step(const StepTensors& tensors, const Moments& moments, const Attrs& attrs,
               const Site& site = Site::current());
void adamw_step(const StepTensors& tensors, const Moments& moments, const Attrs& attrs,
                const Site& site = Site::current());

}  // namespace tessera
