// Reductions, selection, indexed reads and writes.
#include <utility>

#include "dtensor/op_call.h"
#include "dtensor/ops.h"

namespace tessera {

namespace {

std::pair<DTensor, DTensor> pair_of(Results results) {
  return {std::move(results[0]), std::move(results[1])};
}
DTensor reduce(KnownOp op, const DTensor& x, const Shape& dims, KeepDim keep, const Site& site) {
  return call_op(op, {&x}, {{"dim", dims}, {"keepdim", keep == KeepDim::kYes}}, site);
}

}  // namespace

DTensor sum(const DTensor& x, const Shape& dims, KeepDim keep, const Site& site) {
  return reduce(KnownOp::kSum, x, dims, keep, site);
}
DTensor mean(const DTensor& x, const Shape& dims, KeepDim keep, const Site& site) {
  return reduce(KnownOp::kMean, x, dims, keep, site);
}
DTensor amax(const DTensor& x, const Shape& dims, KeepDim keep, const Site& site) {
  return reduce(KnownOp::kAmax, x, dims, keep, site);
}
DTensor argmax(const DTensor& x, std::int64_t dim, KeepDim keep, const Site& site) {
  return call_op(KnownOp::kArgmax, {&x}, {{"dim", dim}, {"keepdim", keep == KeepDim::kYes}}, site);
}
DTensor sum_of_squares(const DTensor& x, const Site& site) {
  return call_op(KnownOp::kSumOfSquares, {&x}, {}, site);
}
DTensor softmax(const DTensor& x, std::int64_t dim, const Site& site) {
  return call_op(KnownOp::kSoftmax, {&x}, {{"dim", dim}}, site);
}
DTensor cumsum(const DTensor& x, std::int64_t dim, const Site& site) {
  return call_op(KnownOp::kCumsum, {&x}, {{"dim", dim}}, site);
}
std::pair<DTensor, DTensor> topk(const DTensor& x, std::int64_t k, std::int64_t dim,
                                 const Site& site) {
  return pair_of(call_all(KnownOp::kTopk, {&x}, {{"k", k}, {"dim", dim}}, site));
}
std::pair<DTensor, DTensor> sort(const DTensor& x, std::int64_t dim, bool descending,
                                 const Site& site) {
  return pair_of(call_all(KnownOp::kSort, {&x}, {{"dim", dim}, {"descending", descending}}, site));
}
std::pair<DTensor, DTensor> sort_by_key(const DTensor& keys, std::int64_t num_keys,
                                        const Site& site) {
  return pair_of(call_all(KnownOp::kSortByKey, {&keys}, {{"num_keys", num_keys}}, site));
}

DTensor gather(const DTensor& x, std::int64_t dim, const DTensor& index, const Site& site) {
  return call_op(KnownOp::kGather, {&x, &index}, {{"dim", dim}}, site);
}
DTensor scatter(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                const Site& site) {
  return call_op(KnownOp::kScatter, {&x, &index, &src}, {{"dim", dim}}, site);
}
DTensor scatter(const DTensor& x, std::int64_t dim, const DTensor& index, double value,
                const Site& site) {
  return call_op(KnownOp::kScatterValue, {&x, &index}, {{"dim", dim}, {"value", value}}, site);
}
DTensor& scatter_(DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                  const Site& site) {
  call_op(KnownOp::kScatterInPlace, {&x, &index, &src}, {{"dim", dim}}, site);
  return x;
}
DTensor& scatter_(DTensor& x, std::int64_t dim, const DTensor& index, double value,
                  const Site& site) {
  call_op(KnownOp::kScatterValueInPlace, {&x, &index}, {{"dim", dim}, {"value", value}}, site);
  return x;
}
DTensor scatter_add(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                    const Site& site) {
  return call_op(KnownOp::kScatterAdd, {&x, &index, &src}, {{"dim", dim}}, site);
}
DTensor index_select(const DTensor& x, std::int64_t dim, const DTensor& index, const Site& site) {
  return call_op(KnownOp::kIndexSelect, {&x, &index}, {{"dim", dim}}, site);
}
DTensor index_add(const DTensor& x, std::int64_t dim, const DTensor& index, const DTensor& src,
                  const Site& site) {
  return call_op(KnownOp::kIndexAdd, {&x, &index, &src}, {{"dim", dim}}, site);
}
DTensor embedding(const DTensor& weight, const DTensor& ids, const Site& site) {
  return call_op(KnownOp::kEmbedding, {&weight, &ids}, {}, site);
}

}  // namespace tessera
