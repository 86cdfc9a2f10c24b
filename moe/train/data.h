// moe/train/data.h: batches of tokens: bytes of text files, or a safetensors file's tokens
// verbatim.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/array.h"
#include "moe/train/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Inputs and targets of one micro-batch, each (batch, seq) I32, the targets one position later or
/// as recorded.
struct TokenBatch {
  Array ids_BL;
  Array targets_BL;
  Array padding_BL = {};  ///< BOOL: inputs that are padding; null where the config has no pad_id
  Array ignored_BL = {};  ///< BOOL: targets that do not count; null where all do
};

/// Sequences in the order of steps, micro-batches and rows.
struct RecordedTokens {
  std::vector<std::int32_t> tokens;  ///< (steps, accum, batch, seq + 1)
  /// (steps, accum, batch, seq): what each place should predict, kIgnoredLabel where nothing;
  /// empty: the next token.
  std::vector<std::int32_t> labels = {};
};
/// Source: the index that PyTorch's cross-entropy ignores.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// All micro-batches of a run, the same on every rank. Immutable; safe to share between ranks.
class TokenData {
 public:
  /// Text: one byte is one token; sequence s of a run reads seq + 1 bytes at a fixed pseudo-random
  /// place, the same for equal config and files; with a pad_id, places near the end give short
  /// sequences, filled up with it. A single .safetensors file: `tokens` and, if it
  /// has them, `labels` as RecordedTokens, used verbatim. Errors: io_error for a missing file;
  /// InvalidArgument for a corpus shorter than one batch (with a pad_id: than 2 bytes), one that
  /// holds the pad_id, a vocabulary below 256 for text, a token outside the vocabulary, shapes that
  /// do not fit the config.
  static StatusOr<TokenData> read(std::span<const std::string> paths, const ModelConfig& config);

  /// The same of tokens that are in memory: of config.steps steps, or more.
  static StatusOr<TokenData> of(RecordedTokens recorded, const ModelConfig& config);

  std::optional<std::int64_t> pad_id() const { return config_.pad_id; }
  TokenBatch batch(std::int64_t step, std::int64_t micro) const;

 private:
  /// The seq + 1 tokens of one sequence of the run.
  void read_sequence(std::int64_t sequence, std::span<std::int32_t> tokens) const;

  ModelConfig config_;
  std::string text_;         ///< text corpora
  RecordedTokens recorded_;  ///< verbatim ones
};

}  // namespace tessera
