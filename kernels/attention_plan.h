// kernels/attention_plan.h: attention as a card's library takes it: halves whose heads lie in
// lines of whole words, under one of the causal bounds that it knows. Pure. A plan is also what
// such calls are told apart by.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <vector>

#include "kernels/attention.h"

namespace tessera::kernels {

/// Which keys row i of `queries` sees of `keys`: all; those up to i; those up to i + keys −
/// queries.
enum class AttentionBound : std::uint8_t { kNone, kTopLeft, kBottomRight };

struct AttentionPlan {
  DType dtype = DType::kBF16;
  AttentionBound bound = AttentionBound::kNone;
  float scale = 1.0F;
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, depth = 0, width = 0;
  /// Of q, k, v and out; of a gradient's also those of grad, grad_q, grad_k and grad_v.
  std::vector<std::array<std::int64_t, 4>> strides;

  auto operator<=>(const AttentionPlan&) const = default;
};

/// Null for bounds by which some row would see no key, or which lie elsewhere.
std::optional<AttentionBound> attention_bound(const AttentionOptions& options, std::int64_t queries,
                                              std::int64_t keys);

/// Null where the library does not take the call. Short sequences are left out: there is little to
/// gain. Requires check_attention() and check_attention_grad().
std::optional<AttentionPlan> plan_attention(const Array& q, const Array& k, const Array& v,
                                            const AttentionOptions& options, const Array& out,
                                            const Array& lse);
std::optional<AttentionPlan> plan_attention_grad(const Array& grad, const Array& q, const Array& k,
                                                 const Array& v, const Array& out, const Array& lse,
                                                 const AttentionOptions& options,
                                                 const AttentionGradients& grads);

}  // namespace tessera::kernels
