// moe/data.h: batches of tokens: bytes of text files, or a safetensors file's tokens verbatim.
#pragma once

#include <cstdint>
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
};

/// All micro-batches of a run, the same on every rank. Immutable; safe to share between ranks.
class TokenData {
 public:
  /// Text: one byte is one token; sequence s of a run reads seq + 1 bytes at a fixed pseudo-random
  /// place, the same for equal config and files. A single .safetensors file: `tokens` (steps,
  /// accum, batch, seq + 1), used verbatim. Errors: io_error for a missing file; InvalidArgument
  /// for a corpus shorter than one batch, a vocabulary below 256 for text, a token outside the
  /// vocabulary, shapes that do not fit the config.
  static StatusOr<TokenData> read(std::span<const std::string> paths, const ModelConfig& config);

  TokenBatch batch(std::int64_t step, std::int64_t micro) const;

 private:
  ModelConfig config_;
  std::string text_;                  ///< text corpora
  std::vector<std::int32_t> tokens_;  ///< verbatim ones
};

}  // namespace tessera
