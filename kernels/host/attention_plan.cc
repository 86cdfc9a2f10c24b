#include "kernels/attention_plan.h"

#include <algorithm>
#include <limits>

namespace tessera::kernels {
namespace {

constexpr std::int64_t kLeastRows = 64;     // of queries, and of keys
constexpr std::int64_t kMostColumns = 256;  // of a head
constexpr std::int64_t kWordBytes = 16;     // what the library loads at once, and its alignment
constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();

bool is_whole(std::int64_t elements, DType dtype) {
  return elements * size_of(dtype) % kWordBytes == 0;
}

/// Lines along the last dim, dense, of whole words each and on their boundaries; no element twice.
bool lies_in_words(const Array& x) {
  if (reinterpret_cast<std::uintptr_t>(x.bytes()) % kWordBytes != 0) return false;
  const Shape &shape = x.shape(), &strides = x.strides();
  if (strides[3] != 1 || shape[3] > kMostColumns || !is_whole(shape[3], x.dtype())) return false;
  for (std::size_t dim = 0; dim < 3; ++dim) {
    if (shape[dim] > kMostElements) return false;
    if (strides[dim] < shape[3] || !is_whole(strides[dim], x.dtype())) return false;
  }
  return true;
}

bool is_dense(const Array& lse) {
  const Shape& strides = lse.strides();
  return strides[2] == 1 && strides[1] == lse.size(2) && strides[0] == lse.size(1) * lse.size(2);
}

std::array<std::int64_t, 4> strides_of(const Array& x) {
  std::array<std::int64_t, 4> strides{};
  std::copy_n(x.strides().data(), strides.size(), strides.begin());
  return strides;
}

}  // namespace

std::optional<AttentionBound> attention_bound(const AttentionOptions& options, std::int64_t queries,
                                              std::int64_t keys) {
  if (!options.causal || options.causal_offset >= keys - 1) return AttentionBound::kNone;
  if (options.causal_offset == 0) return AttentionBound::kTopLeft;
  if (options.causal_offset > 0 && options.causal_offset == keys - queries) {
    return AttentionBound::kBottomRight;
  }
  return std::nullopt;
}

std::optional<AttentionPlan> plan_attention(const Array& q, const Array& k, const Array& v,
                                            const AttentionOptions& options, const Array& out,
                                            const Array& lse) {
  const std::int64_t queries = q.size(2), keys = k.size(2);
  const auto bound = attention_bound(options, queries, keys);
  if (!bound.has_value() || queries < kLeastRows || keys < kLeastRows) return std::nullopt;
  if (!is_half(q.dtype()) || q.num_elements() == 0 || v.num_elements() == 0 || !is_dense(lse)) {
    return std::nullopt;
  }
  AttentionPlan plan{.dtype = q.dtype(),
                     .bound = *bound,
                     .scale = static_cast<float>(options.scale),
                     .batch = q.size(0),
                     .heads = q.size(1),
                     .queries = queries,
                     .keys = keys,
                     .depth = q.size(3),
                     .width = v.size(3),
                     .strides = {}};
  for (const Array* x : {&q, &k, &v, &out}) {
    if (!lies_in_words(*x)) return std::nullopt;
    plan.strides.push_back(strides_of(*x));
  }
  return plan;
}

std::optional<AttentionPlan> plan_attention_grad(const Array& grad, const Array& q, const Array& k,
                                                 const Array& v, const Array& out, const Array& lse,
                                                 const AttentionOptions& options,
                                                 const AttentionGradients& grads) {
  std::optional<AttentionPlan> plan = plan_attention(q, k, v, options, out, lse);
  if (!plan.has_value()) return std::nullopt;
  for (const Array* x : {&grad, &grads.q, &grads.k, &grads.v}) {
    if (!lies_in_words(*x)) return std::nullopt;
    plan->strides.push_back(strides_of(*x));
  }
  return plan;
}

}  // namespace tessera::kernels
