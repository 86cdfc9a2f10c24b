#include "moe/train/step_inputs.h"

#include <algorithm>
#include <array>

#include "dtensor/ops.h"
#include "kernels/elementwise.h"

namespace tessera {
namespace {

/// The values of `from`, in the memory of `to` once it has any.
void put(const DTensor& from, DTensor& to) {
  if (!from.defined() || !to.defined()) {
    to = from;
    return;
  }
  if (to.local().is_null()) return;
  kernels::copy(to.runtime().kernels(), from.local(), to.local());
  to.local().storage()->bump_version();
}

}  // namespace

std::int64_t num_marked(const Array& mask_BL) {
  if (mask_BL.is_null()) return 0;
  const bool* mask = mask_BL.data<bool>();
  return std::count(mask, mask + mask_BL.num_elements(), true);
}

double share_of(std::int64_t count) { return count == 0 ? 0.0 : 1.0 / static_cast<double>(count); }

/// The micro-batches of a step. Every rank has them all, so that none has to be asked.
struct StepInputs::Batches {
  std::vector<TokenBatch> by_accum;
  std::int64_t inputs = 0, targets = 0;  ///< that are no padding, and that count

  Batches(const TokenData& data, const ModelConfig& config, std::int64_t step) {
    inputs = targets = config.batch * config.seq * config.accum;
    for (std::int64_t accum = 0; accum < config.accum; ++accum) {
      by_accum.push_back(data.batch(step, accum));
      inputs -= num_marked(by_accum.back().padding_BL);
      targets -= num_marked(by_accum.back().ignored_BL);
    }
  }
};

MicroInputs StepInputs::place(const Batches& batches, const MicroBatch& micro) const {
  const TokenBatch& batch = batches.by_accum[static_cast<std::size_t>(micro.accum)];
  const auto rows_of = [&](const Array& batch_BL) -> DTensor {
    if (batch_BL.is_null()) return {};
    return model_.context().place_tokens(
        batch_BL.slice(0, micro.first_row, micro.first_row + micro.rows));
  };
  const PipelinePlan& plan = model_.plan();
  MicroInputs inputs{.padding = {.mask_BL = rows_of(batch.padding_BL)}};
  for (const ModelPart& part : plan.parts) {
    if (plan.shape.rank_of(part.stage) != model_.stage_group().rank()) continue;
    if (part.has_embedding) inputs.ids_BL = rows_of(batch.ids_BL);
    if (!part.has_head) continue;
    inputs.targets.ids_BL = rows_of(batch.targets_BL);
    inputs.targets.ignored_BL = rows_of(batch.ignored_BL);
  }
  return inputs;
}

void StepInputs::set(std::int64_t step, double lr, std::int64_t update) {
  const ModelContext& context = model_.context();
  Runtime& runtime = context.runtime;
  const NoGrad no_grad(runtime);
  const Batches batches(data_, context.model, step);
  valid_tokens_.reset();
  if (!batches.by_accum[0].ignored_BL.is_null()) valid_tokens_ = batches.targets;

  const std::array<double, 4> numbers = {lr, static_cast<double>(update), share_of(batches.targets),
                                         share_of(batches.inputs)};
  const Array here = Array::from_values({std::ssize(numbers)}, DType::kF64, numbers);
  put(plain(runtime, to_device(runtime.kernels(), here)), schedule_);
  const auto number = [&](std::int64_t at) { return reshape(slice(schedule_, 0, at, at + 1), {}); };
  micro_.resize(model_.plan().micro_batches.size());
  for (std::size_t i = 0; i < micro_.size(); ++i) {
    const MicroInputs made = place(batches, model_.plan().micro_batches[i]);
    MicroInputs& micro = micro_[i];
    put(made.ids_BL, micro.ids_BL);
    put(made.padding.mask_BL, micro.padding.mask_BL);
    put(made.targets.ids_BL, micro.targets.ids_BL);
    put(made.targets.ignored_BL, micro.targets.ignored_BL);
    micro.targets.step_share = number(2);
    micro.padding.step_share = number(3);
  }
}

}  // namespace tessera
