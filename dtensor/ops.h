// dtensor/ops.h: the tensor API: ops on DTensors, by rule-driven dispatch, recorded for autograd.
// Every op throws Error on bad shapes or placements, before any collective. Names and attributes
// are ATen's.
#pragma once

#include <initializer_list>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"
#include "strategies/rules/attrs.h"

namespace tessera TSR_API {

/// Any op of the runtime's table, by name (also a user's own).
std::vector<DTensor> call(Runtime& runtime, std::string_view op, std::span<const DTensor> operands,
                          const Attrs& attrs = {}, const Site& site = Site::current());

/// Any op, its results written into `outs`, which keep their placements (out=). An op that cannot
/// give exactly those is refused before anything moves, with the rows that would work.
void call_into(std::span<const DTensor> outs, std::string_view op,
               std::span<const DTensor> operands, const Attrs& attrs = {},
               const Site& site = Site::current());

// pointwise
DTensor add(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor sub(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor mul(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor div(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor maximum(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor add(const DTensor& a, double b, const Site& site = Site::current());
DTensor mul(const DTensor& a, double b, const Site& site = Site::current());
DTensor neg(const DTensor& x, const Site& site = Site::current());
DTensor abs(const DTensor& x, const Site& site = Site::current());
DTensor exp(const DTensor& x, const Site& site = Site::current());
DTensor log(const DTensor& x, const Site& site = Site::current());
DTensor sqrt(const DTensor& x, const Site& site = Site::current());
DTensor square(const DTensor& x, const Site& site = Site::current());
DTensor sign(const DTensor& x, const Site& site = Site::current());
DTensor relu(const DTensor& x, const Site& site = Site::current());
DTensor gelu(const DTensor& x, const Site& site = Site::current());
DTensor tanh(const DTensor& x, const Site& site = Site::current());
DTensor sigmoid(const DTensor& x, const Site& site = Site::current());
DTensor silu(const DTensor& x, const Site& site = Site::current());
DTensor swiglu(const DTensor& gate, const DTensor& up, const Site& site = Site::current());
DTensor eq(const DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b,
              const Site& site = Site::current());
DTensor masked_fill(const DTensor& x, const DTensor& mask, double value,
                    const Site& site = Site::current());
DTensor cast(const DTensor& x, DType dtype, const Site& site = Site::current());
DTensor clone(const DTensor& x, const Site& site = Site::current());
DTensor& add_(DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor& mul_(DTensor& a, double b, const Site& site = Site::current());
DTensor& copy_(DTensor& a, const DTensor& b, const Site& site = Site::current());
DTensor& fill_(DTensor& a, double value, const Site& site = Site::current());

// products; in matmul leading dims broadcast, and a vector stands for a row or a column
DTensor matmul(const DTensor& a, const DTensor& b, const Site& site = Site::current());
/// x (…, k), w (n, k) → (…, n)
DTensor linear(const DTensor& x, const DTensor& w, const Site& site = Site::current());
/// The same plus bias [n].
DTensor linear(const DTensor& x, const DTensor& w, const DTensor& bias,
               const Site& site = Site::current());
/// x (T, k) in groups of counts (E), w (E, n, k) → (T, n)
DTensor grouped_mm(const DTensor& x, const DTensor& w, const DTensor& counts,
                   const Site& site = Site::current());
struct AttentionArgs {
  double scale = 1.0;
  bool causal = true;
};
/// q, k (B, H, L, E), v (B, H, L, V) → (B, H, L, V)
DTensor attention(const DTensor& q, const DTensor& k, const DTensor& v, const AttentionArgs& args,
                  const Site& site = Site::current());

// reductions, selection
enum class KeepDim : std::uint8_t { kNo, kYes };
DTensor sum(const DTensor& x, const Shape& dims = {}, KeepDim keep = KeepDim::kNo,
            const Site& site = Site::current());
DTensor mean(const DTensor& x, const Shape& dims = {}, KeepDim keep = KeepDim::kNo,
             const Site& site = Site::current());
DTensor amax(const DTensor& x, const Shape& dims = {}, KeepDim keep = KeepDim::kNo,
             const Site& site = Site::current());
DTensor argmax(const DTensor& x, std::int64_t dim, KeepDim keep = KeepDim::kNo,
               const Site& site = Site::current());
DTensor sum_of_squares(const DTensor& x, const Site& site = Site::current());
DTensor softmax(const DTensor& x, std::int64_t dim, const Site& site = Site::current());
DTensor cumsum(const DTensor& x, std::int64_t dim, const Site& site = Site::current());
/// Values and I64 indices of the k largest, sorted; the lower index wins ties.
std::pair<DTensor, DTensor> topk(const DTensor& x, std::int64_t k, std::int64_t dim,
                                 const Site& site = Site::current());
std::pair<DTensor, DTensor> sort(const DTensor& x, std::int64_t dim, bool descending = false,
                                 const Site& site = Site::current());
/// Permutation (I64) that sorts integer keys stably, and counts per key.
std::pair<DTensor, DTensor> sort_by_key(const DTensor& keys, std::int64_t num_keys,
                                        const Site& site = Site::current());

// indexed
DTensor gather(const DTensor& x, std::int64_t dim, const DTensor& index,
               const Site& site = Site::current());
DTensor scatter(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                const Site& site = Site::current());
DTensor scatter(const DTensor& x, std::int64_t dim, const DTensor& index, double value,
                const Site& site = Site::current());
DTensor& scatter_(DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                  const Site& site = Site::current());
DTensor& scatter_(DTensor& x, std::int64_t dim, const DTensor& index, double value,
                  const Site& site = Site::current());
DTensor scatter_add(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                    const Site& site = Site::current());
DTensor index_select(const DTensor& x, std::int64_t dim, const DTensor& index,
                     const Site& site = Site::current());
DTensor index_add(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                  const Site& site = Site::current());
DTensor embedding(const DTensor& weight, const DTensor& ids, const Site& site = Site::current());

// layers
DTensor rms_norm(const DTensor& x, const DTensor& weight, double eps,
                 const Site& site = Site::current());
/// x (…, L, H, E) with tables (L, E/2).
DTensor rope(const DTensor& x, const DTensor& cos, const DTensor& sin,
             const Site& site = Site::current());
/// Loss per row of logits (…, V) with targets (…). A class dim cut across ranks stays cut.
DTensor cross_entropy(const DTensor& logits, const DTensor& target,
                      const Site& site = Site::current());

// shape
DTensor view(const DTensor& x, const Shape& shape, const Site& site = Site::current());
DTensor reshape(const DTensor& x, const Shape& shape, const Site& site = Site::current());
DTensor flatten(const DTensor& x, std::int64_t start, std::int64_t end,
                const Site& site = Site::current());
DTensor unflatten(const DTensor& x, std::int64_t dim, const Shape& sizes,
                  const Site& site = Site::current());
DTensor unsqueeze(const DTensor& x, std::int64_t dim, const Site& site = Site::current());
DTensor squeeze(const DTensor& x, std::int64_t dim, const Site& site = Site::current());
DTensor transpose(const DTensor& x, std::int64_t a, std::int64_t b,
                  const Site& site = Site::current());
DTensor permute(const DTensor& x, const Shape& dims, const Site& site = Site::current());
DTensor expand(const DTensor& x, const Shape& sizes, const Site& site = Site::current());
DTensor contiguous(const DTensor& x, const Site& site = Site::current());
DTensor slice(const DTensor& x, std::int64_t dim, std::int64_t start, std::int64_t end,
              const Site& site = Site::current());
std::vector<DTensor> split(const DTensor& x, const Shape& sizes, std::int64_t dim,
                           const Site& site = Site::current());
DTensor cat(std::span<const DTensor> xs, std::int64_t dim, const Site& site = Site::current());

// random, in place, by global index; the stream is a name (see kernels/random.h)
struct RandomArgs {
  std::uint64_t seed = 0;
  std::string_view stream = {};
};
DTensor& uniform_(DTensor& x, double low, double high, const RandomArgs& random);
DTensor& normal_(DTensor& x, double mean, double std, const RandomArgs& random);
struct TruncatedNormal {
  double mean = 0, std = 1, low = -2, high = 2;  ///< absolute bounds
};
DTensor& truncated_normal_(DTensor& x, const TruncatedNormal& args, const RandomArgs& random);

}  // namespace tessera
