// moe/train/step_inputs.h: what one optimizer step reads: its tokens, and the numbers that change
// from step to step. They keep their places in memory, so that a captured step finds those of the
// next.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "moe/train/data.h"
#include "moe/train/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// One micro-batch, placed whole_tokens(). Undefined: what this rank's stages do not read, and
/// masks that mark nothing.
struct MicroInputs {
  DTensor ids_BL;
  TokenPadding padding;
  Targets targets;
};

/// Places of a mask that are true; 0 without one.
std::int64_t num_marked(const Array& mask_BL);
/// One over a count; 0 of none.
double share_of(std::int64_t count);

class StepInputs {
 public:
  /// Both must outlive it.
  StepInputs(Model& model, const TokenData& data) : model_(model), data_(data) {}
  /// The tokens of a step, its learning rate, and the number of its update, from 1. Moves nothing
  /// between ranks.
  void set(std::int64_t step, double lr, std::int64_t update);

  const MicroInputs& micro(std::int64_t index) const {
    return micro_[static_cast<std::size_t>(index)];
  }
  /// Plain F64: lr, update, 1 / the step's targets that count, 1 / its tokens that are no padding
  /// (0 for none).
  const DTensor& schedule() const noexcept { return schedule_; }
  /// The step's targets that count; absent where all do.
  std::optional<std::int64_t> valid_tokens() const noexcept { return valid_tokens_; }

 private:
  struct Batches;
  MicroInputs place(const Batches& batches, const MicroBatch& micro) const;

  Model& model_;
  const TokenData& data_;
  DTensor schedule_;
  std::vector<MicroInputs> micro_;
  std::optional<std::int64_t> valid_tokens_;
};

}  // namespace tessera
