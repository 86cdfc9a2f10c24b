// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/index.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor argsort(const DTensor& self, std::int64_t dim, bool descending, bool stable,
    const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  if (descending != false) attrs.set("descending", descending);
  if (stable != true) attrs.set("stable", stable);
  return call_op(known_op("argsort"), {&self}, attrs, site);
}
DTensor bincount(const DTensor& self, std::int64_t minlength, const DTensor& weights,
    const Site& site) {
  return call_op(known_op("bincount"), {&self, &weights}, {{"minlength", minlength}}, site);
}
DTensor bucketize(const DTensor& self, const DTensor& boundaries, bool out_int32, bool right,
    const Site& site) {
  Attrs attrs;
  if (out_int32 != false) attrs.set("out_int32", out_int32);
  if (right != false) attrs.set("right", right);
  return call_op(known_op("bucketize"), {&self, &boundaries}, attrs, site);
}
DTensor embedding(const DTensor& weight, const DTensor& indices, const Site& site) {
  return call_op(known_op("embedding"), {&weight, &indices}, {}, site);
}
DTensor embedding_bag(const DTensor& weight, const DTensor& indices, const DTensor& offsets,
    std::int64_t mode, const Site& site) {
  Attrs attrs;
  if (mode != 0) attrs.set("mode", mode);
  return call_op(known_op("embedding_bag"), {&weight, &indices, &offsets}, attrs, site);
}
DTensor gather(const DTensor& self, std::int64_t dim, const DTensor& index, const Site& site) {
  return call_op(known_op("gather"), {&self, &index}, {{"dim", dim}}, site);
}
DTensor index(const DTensor& self, std::span<const DTensor> indices, const Shape& dims,
    const Site& site) {
  Attrs attrs;
  if (!dims.empty()) attrs.set("dims", dims);
  return listed_call_op(known_op("index"), {&self}, indices, attrs, site);
}
DTensor index_add(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, const Site& site) {
  return call_op(known_op("index_add"), {&self, &index, &source}, {{"dim", dim}}, site);
}
DTensor index_copy(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, const Site& site) {
  return call_op(known_op("index_copy"), {&self, &index, &source}, {{"dim", dim}}, site);
}
DTensor index_fill(const DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site) {
  return call_op(known_op("index_fill"), {&self, &index}, {{"dim", dim}, {"value", value}}, site);
}
DTensor index_put(const DTensor& self, const DTensor& values, std::span<const DTensor> indices,
    const Shape& dims, bool accumulate, const Site& site) {
  Attrs attrs;
  if (!dims.empty()) attrs.set("dims", dims);
  if (accumulate != false) attrs.set("accumulate", accumulate);
  return listed_call_op(known_op("index_put"), {&self, &values}, indices, attrs, site);
}
DTensor index_reduce(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& source, std::string_view reduce, bool include_self, const Site& site) {
  Attrs attrs = {{"dim", dim}, {"reduce", std::string(reduce)}};
  if (include_self != true) attrs.set("include_self", include_self);
  return call_op(known_op("index_reduce"), {&self, &index, &source}, attrs, site);
}
DTensor index_select(const DTensor& self, std::int64_t dim, const DTensor& index,
    const Site& site) {
  return call_op(known_op("index_select"), {&self, &index}, {{"dim", dim}}, site);
}
DTensor masked_scatter(const DTensor& self, const DTensor& mask, const DTensor& source,
    const Site& site) {
  return call_op(known_op("masked_scatter"), {&self, &mask, &source}, {}, site);
}
DTensor msort(const DTensor& self, std::int64_t dim, const Site& site) {
  Attrs attrs;
  if (dim != 0) attrs.set("dim", dim);
  return call_op(known_op("msort"), {&self}, attrs, site);
}
DTensor offset2bag(const DTensor& offsets, const DTensor& indices, const Site& site) {
  return call_op(known_op("offset2bag"), {&offsets, &indices}, {}, site);
}
DTensor one_hot(const DTensor& self, std::int64_t num_classes, const Site& site) {
  return call_op(known_op("one_hot"), {&self}, {{"num_classes", num_classes}}, site);
}
DTensor positions_like(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("positions_like"), {&self}, {{"dim", dim}}, site);
}
DTensor put(const DTensor& self, const DTensor& index, const DTensor& source, bool accumulate,
    const Site& site) {
  Attrs attrs;
  if (accumulate != false) attrs.set("accumulate", accumulate);
  return call_op(known_op("put"), {&self, &index, &source}, attrs, site);
}
DTensor repeat_interleave(const DTensor& self, const DTensor& repeats, std::int64_t dim,
    std::int64_t output_size, const Site& site) {
  return call_op(known_op("repeat_interleave_tensor"), {&self, &repeats},
    {{"dim", dim}, {"output_size", output_size}}, site);
}
// NOLINTNEXTLINE(readability-function-size)
std::array<DTensor, 3> route_topk(const DTensor& logits, std::int64_t k, const DTensor& bias,
    const DTensor& ids, std::string_view score, bool normalise, double scale, const Site& site) {
  Attrs attrs = {{"k", k}};
  if (score != "softmax") attrs.set("score", std::string(score));
  if (normalise != false) attrs.set("normalise", normalise);
  if (scale != 1.0) attrs.set("scale", scale);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("route_topk"), {&logits, &bias, &ids},
    attrs, site));
}
DTensor scatter(const DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site) {
  return call_op(known_op("scatter"), {&self, &index, &src}, {{"dim", dim}}, site);
}
DTensor scatter_add(const DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site) {
  return call_op(known_op("scatter_add"), {&self, &index, &src}, {{"dim", dim}}, site);
}
DTensor scatter_reduce(const DTensor& self, std::int64_t dim, const DTensor& index,
    const DTensor& src, std::string_view reduce, bool include_self, const Site& site) {
  Attrs attrs = {{"dim", dim}, {"reduce", std::string(reduce)}};
  if (include_self != true) attrs.set("include_self", include_self);
  return call_op(known_op("scatter_reduce"), {&self, &index, &src}, attrs, site);
}
DTensor scatter(const DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site) {
  return call_op(known_op("scatter_value"), {&self, &index}, {{"dim", dim}, {"value", value}},
    site);
}
DTensor searchsorted(const DTensor& sorted_sequence, const DTensor& self, bool out_int32,
    bool right, const Site& site) {
  Attrs attrs;
  if (out_int32 != false) attrs.set("out_int32", out_int32);
  if (right != false) attrs.set("right", right);
  return call_op(known_op("searchsorted"), {&sorted_sequence, &self}, attrs, site);
}
DTensor select_scatter(const DTensor& self, const DTensor& src, std::int64_t dim,
    std::int64_t index, const Site& site) {
  return call_op(known_op("select_scatter"), {&self, &src}, {{"dim", dim}, {"index", index}}, site);
}
DTensor slice_scatter(const DTensor& self, const DTensor& src, const SliceScatterOptions& options,
    const Site& site) {
  Attrs attrs;
  if (options.dim != 0) attrs.set("dim", options.dim);
  if (options.start != 0) attrs.set("start", options.start);
  if (options.end != std::numeric_limits<std::int64_t>::max()) attrs.set("end", options.end);
  if (options.step != 1) attrs.set("step", options.step);
  return call_op(known_op("slice_scatter"), {&self, &src}, attrs, site);
}
std::pair<DTensor, DTensor> sort(const DTensor& self, std::int64_t dim, bool descending,
    bool stable, const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  if (descending != false) attrs.set("descending", descending);
  if (stable != true) attrs.set("stable", stable);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("sort"), {&self}, attrs, site));
}
std::pair<DTensor, DTensor> sort_by_key(const DTensor& keys, std::int64_t num_keys,
    const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("sort_by_key"), {&keys},
    {{"num_keys", num_keys}}, site));
}
DTensor take(const DTensor& self, const DTensor& index, const Site& site) {
  return call_op(known_op("take"), {&self, &index}, {}, site);
}
DTensor take_along_dim(const DTensor& self, const DTensor& indices, std::int64_t dim,
    const Site& site) {
  return call_op(known_op("take_along_dim"), {&self, &indices}, {{"dim", dim}}, site);
}
std::pair<DTensor, DTensor> topk(const DTensor& self, std::int64_t k, std::int64_t dim,
    bool largest, bool sorted, const Site& site) {
  Attrs attrs = {{"k", k}};
  if (dim != -1) attrs.set("dim", dim);
  if (largest != true) attrs.set("largest", largest);
  if (sorted != true) attrs.set("sorted", sorted);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("topk"), {&self}, attrs, site));
}

}  // namespace tessera
