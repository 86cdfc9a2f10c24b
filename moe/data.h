// moe/data.h: batches of tokens: bytes of text files, or a safetensors file's tokens verbatim.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/array.h"
#include "moe/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Inputs and targets of one micro-batch, each (batch, seq) I32, the targets one position later.
struct TokenBatch {
  Array ids_BL;
  Array targets_BL;
  /// BOOL, true where an input or target is padding; null where the config has no pad_id.
  Array padding_BL = {}, ignored_BL = {};
};

/// All micro-batches of a run, the same on every rank. Immutable; safe to share between ranks.
class TokenData {
 public:
  /// Text: one byte is one token; sequence s of a run reads seq + 1 bytes at a fixed pseudo-random
  /// place, the same for equal config and files; with a pad_id, places near the end give short
  /// sequences, filled up with it. A single .safetensors file: `tokens` (steps, accum, batch,
  /// seq + 1), used verbatim. Errors: io_error for a missing file; InvalidArgument for a corpus
  /// shorter than one batch (with a pad_id: than 2 bytes), one that holds the pad_id, a vocabulary
  /// below 256 for text, a token outside the vocabulary, shapes that do not fit the config.
  static StatusOr<TokenData> read(std::span<const std::string> paths, const ModelConfig& config);

  /// The same of tokens that are in memory: as many as (steps, accum, batch, seq + 1), or more
  /// steps.
  static StatusOr<TokenData> of(std::vector<std::int32_t> tokens, const ModelConfig& config);

  std::optional<std::int64_t> pad_id() const { return config_.pad_id; }
  TokenBatch batch(std::int64_t step, std::int64_t micro) const;

 private:
  /// The seq + 1 tokens of one sequence of the run.
  void read_sequence(std::int64_t sequence, std::span<std::int32_t> tokens) const;

  ModelConfig config_;
  std::string text_;                  ///< text corpora
  std::vector<std::int32_t> tokens_;  ///< verbatim ones
};

}  // namespace tessera
