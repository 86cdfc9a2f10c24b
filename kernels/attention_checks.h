// kernels/attention_checks.h: what the kernels of attention.h ask of their operands, and the causal
// bound, on every device.
#pragma once

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/host_device.h"

namespace tessera::kernels {

/// Which keys a query row sees.
struct KeyBound {
  std::int64_t keys;
  std::int64_t offset;
  bool causal;

  KeyBound(const AttentionOptions& options, std::int64_t num_keys)
      : keys(num_keys), offset(options.causal_offset), causal(options.causal) {}
  /// Keys [0, seen(i)) are seen by row i.
  TSR_HOST_DEVICE std::int64_t seen(std::int64_t row) const {
    return causal ? std::clamp<std::int64_t>(row + offset + 1, 0, keys) : keys;
  }
  /// How many keys of the chunk [first, first + width) row i sees.
  TSR_HOST_DEVICE std::int64_t seen_in(std::int64_t row, std::int64_t first,
                                       std::int64_t width) const {
    return std::clamp<std::int64_t>(seen(row) - first, 0, width);
  }
};

/// Errors: InvalidArgument unless q, k (B, H, L, E), v and out (B, H, L, V) and lse (B, H, Lq) fit
/// together.
void check_attention(const char* op, const Array& q, const Array& k, const Array& v,
                     const Array& out, const Array& lse);
/// The same of all operands of attention_grad().
void check_attention_grad(const Array& grad, const Array& q, const Array& k, const Array& v,
                          const Array& out, const Array& lse, const AttentionGradients& grads);

}  // namespace tessera::kernels
