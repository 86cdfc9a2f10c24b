// dtensor/front/index.h: typed functions of the ops in strategies/ops/index/. Each throws Error,
// naming what was seen and what is allowed, for operands and attributes that its op does not take,
// before any collective.
// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/keep_dim.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The indices of a stable sort along a dim; NaN counts as largest. Rule: *r@dim -> *r int | r!
DTensor argsort(const DTensor& self, std::int64_t dim = -1, bool descending = false,
    bool stable = true, const Site& site = Site::current());
/// How often each of 0 … minlength − 1 occurs, or the sum of their weights; all values must lie
/// in that range (the result's size may not depend on them). Rule: n, n? -> k | k#:own n:sum | lin
/// B
DTensor bincount(const DTensor& self, std::int64_t minlength, const DTensor& weights = {},
    const Site& site = Site::current());
/// For each value, how many of the ascending boundaries are less; `right`: less or equal. NaN
/// stands behind all numbers. Rule: *, s -> * int | s:sum | max[0] A
DTensor bucketize(const DTensor& self, const DTensor& boundaries, bool out_int32 = false,
    bool right = false, const Site& site = Site::current());
/// Rows of weight [v, d] by id. Rule: vd, * -> *d | v#:sum | lin A | mono A | prod A
DTensor embedding(const DTensor& weight, const DTensor& indices,
    const Site& site = Site::current());
/// Rows of weight [v, d] by id, summed (mode 0), averaged (1) or maximised (2) over bags; bag b
/// holds indices [offsets[b], offsets[b + 1]); an empty one gives 0.
DTensor embedding_bag(const DTensor& weight, const DTensor& indices, const DTensor& offsets,
    std::int64_t mode = 0, const Site& site = Site::current());
/// out[.., i, ..] = self[.., index[.., i, ..], ..] along a dim. Rule: *g@dim, *i@dim -> *i | g#:sum
/// | lin A | mono A | prod A
DTensor gather(const DTensor& self, std::int64_t dim, const DTensor& index,
    const Site& site = Site::current());
/// Slices addressed by indices (broadcast together) on the dims listed, by default the first; their
/// dims stand where the addressed ones stood if those are neighbours, else in front. Negative
/// indices count from the end.
DTensor index(const DTensor& self, std::span<const DTensor> indices, const Shape& dims = {},
    const Site& site = Site::current());
/// self with slices of source added at a 1-D index along a dim, in operand order. Rule: *g@dim, i,
/// *i@dim -> *g | g#:own i:sum | lin A+C
DTensor index_add(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, const Site& site = Site::current());
/// self with slices of source in place of those at a 1-D index of a dim; of equal indices the last
/// wins. Rule: *g@dim, i, *i@dim -> *g | g#:own i! | lin A+C | max A,C | min A,C | prod A*C
DTensor index_copy(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, const Site& site = Site::current());
/// self with `value` in the slices at a 1-D index of a dim. Rule: *g@dim, i -> *g | g#:own i! | lin
/// A if value==0 | aff A | mono A | prod A if value==0 | prod A if value==1
DTensor index_fill(const DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site = Site::current());
/// self with `values` (broadcast) in the slices that `index` would read, or added to them; of equal
/// indices the last wins.
DTensor index_put(const DTensor& self, const DTensor& values, std::span<const DTensor> indices,
    const Shape& dims = {}, bool accumulate = false, const Site& site = Site::current());
/// self with slices of source combined (prod, mean, amax, amin) into those at a 1-D index of a dim,
/// with self's slice or without it.
DTensor index_reduce(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, std::string_view reduce, bool include_self = true,
    const Site& site = Site::current());
/// Slices of a dim, in the order of a 1-D index. Rule: *g@dim, i -> *i@dim | g#:sum | lin A | mono
/// A | prod A
DTensor index_select(const DTensor& self, std::int64_t dim, const DTensor& index,
    const Site& site = Site::current());
/// self with the first elements of a 1-D source, in row-major order, where mask is true. Rule: *,
/// ..., s -> * | ...! s! | lin A+C | max A,C | min A,C | prod A*C
DTensor masked_scatter(const DTensor& self, const DTensor& mask, const DTensor& source,
    const Site& site = Site::current());
/// Sort along the first dim; NaN counts as largest. Takes dim: 0 to 0. Rule: *r@dim -> *r | r!
DTensor msort(const DTensor& self, std::int64_t dim = 0, const Site& site = Site::current());
/// The bag that each index lies in: bag b holds those from offsets[b] to offsets[b + 1]. Rule: b, n
/// -> n int | b! n!
DTensor offset2bag(const DTensor& offsets, const DTensor& indices,
    const Site& site = Site::current());
/// A new last dim of num_classes with 1 at each index and 0 elsewhere. Takes num_classes: 1 to
/// 4611686018427387904. Rule: * -> *k int | k#:own
DTensor one_hot(const DTensor& self, std::int64_t num_classes, const Site& site = Site::current());
/// 0, 1, … along a dim of the operand, as one dim of I64. Rule: *r@dim -> r int | *!
DTensor positions_like(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// self with the elements of source, which has the index's shape, written (or added) at row-major
/// positions; of equal positions the last wins.
DTensor put(const DTensor& self, const DTensor& index, const DTensor& source,
    bool accumulate = false, const Site& site = Site::current());
/// Each element of a dim repeated as often as `repeats` says; output_size is their sum. Rule:
/// *r@dim, r -> *K@dim | r! | lin A | mono A | prod A
DTensor repeat_interleave(const DTensor& self, const DTensor& repeats, std::int64_t dim,
    std::int64_t output_size, const Site& site = Site::current());
/// Routing of tokens to experts: scores of the logits (softmax, sigmoid or sqrt_softplus), the ids
/// of the k largest of each row after a bias, as topk chooses (or the ids given, and no choice),
/// and weights: the scores there without the bias, normalised to shares of their sum + 1e-20, times
/// scale. Takes logits: floating, 1 dims or more; bias: dtype of logits; k: at least 0. Rule: *r,
/// r?, *K? -> *r, *K int, *K | r!
std::array<DTensor, 3> route_topk(const DTensor& logits, std::int64_t k, const DTensor& bias = {},
    const DTensor& ids = {}, std::string_view score = "softmax", bool normalise = false,
    double scale = 1.0, const Site& site = Site::current());
/// self with [.., index[.., i, ..], ..] = src[.., i, ..] along a dim; of equal indices the last
/// wins. Rule: *g@dim, *i@dim, *i@dim -> *g | g#:own i! | lin A+C | max A,C | min A,C | prod A*C
DTensor scatter(const DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site = Site::current());
/// self with src[.., i, ..] added at [.., index[.., i, ..], ..] along a dim, in operand order.
/// Rule: *g@dim, *i@dim, *i@dim -> *g | g#:own i:sum | lin A+C
DTensor scatter_add(const DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site = Site::current());
/// self with src[.., i, ..] combined (sum, prod, mean, amax, amin) into [.., index[.., i, ..], ..]
/// along a dim, with self's element or without it.
DTensor scatter_reduce(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& src, std::string_view reduce, bool include_self = true,
    const Site& site = Site::current());
/// self with `value` at [.., index[.., i, ..], ..] along a dim. Rule: *g@dim, *i@dim -> *g | g#:own
/// i! | lin A if value==0 | aff A | mono A | prod A if value==0 | prod A if value==1
DTensor scatter(const DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site = Site::current());
/// For each value, how many elements of its ascending sequence (the last dim) are less; `right`:
/// less or equal. NaN stands behind all numbers. Rule: *s, *m -> *m int | s:sum | max[0] B
DTensor searchsorted(const DTensor& sorted_sequence, const DTensor& self, bool out_int32 = false,
    bool right = false, const Site& site = Site::current());
/// self with src in place of its slice at `index` of a dim. Rule: *r@dim, * -> *r | lin A+B | max
/// A,B | min A,B | prod A*B
DTensor select_scatter(const DTensor& self, const DTensor& src, std::int64_t dim,
    std::int64_t index, const Site& site = Site::current());
struct SliceScatterOptions {
  std::int64_t dim = 0;
  std::int64_t start = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  std::int64_t step = 1;
};
/// self with src in place of its slice [start, end) by step of a dim. Rule: *r@dim, *K@dim -> *r |
/// lin A+B | max A,B | min A,B | prod A*B
DTensor slice_scatter(const DTensor& self, const DTensor& src,
    const SliceScatterOptions& options = {}, const Site& site = Site::current());
/// Stable sort along a dim, with the index that each element had; NaN counts as largest. Rule:
/// *r@dim -> *r, *r int | r!
std::pair<DTensor, DTensor> sort(const DTensor& self, std::int64_t dim = -1,
    bool descending = false, bool stable = true, const Site& site = Site::current());
/// The stable order of keys in [0, num_keys) as source positions, and how often each key occurs.
/// Rule: n -> n int, K int | n!
std::pair<DTensor, DTensor> sort_by_key(const DTensor& keys, std::int64_t num_keys,
    const Site& site = Site::current());
/// Elements of self by their row-major position, in the index's shape. Rule: ..., * -> * | ...! |
/// lin A | mono A | prod A
DTensor take(const DTensor& self, const DTensor& index, const Site& site = Site::current());
/// out[.., i, ..] = self[.., indices[.., i, ..], ..] along a dim; all other dims broadcast. Rule:
/// *g@dim, *i@dim -> *i | g#:sum | lin A | mono A | prod A
DTensor take_along_dim(const DTensor& self, const DTensor& indices, std::int64_t dim,
    const Site& site = Site::current());
/// The k largest (or smallest) elements along a dim, sorted, with their indices; the lower index
/// wins ties, NaN counts as largest. Rule: *r@dim -> *K@dim, *K@dim int | r!
std::pair<DTensor, DTensor> topk(const DTensor& self, std::int64_t k, std::int64_t dim = -1,
    bool largest = true, bool sorted = true, const Site& site = Site::current());

}  // namespace tessera
