// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/view.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor _pad_circular(const DTensor& self, const Shape& pad, const Site& site) {
  return call_op(known_op("_pad_circular"), {&self}, {{"pad", pad}}, site);
}
DTensor atleast_1d(const DTensor& self, const Site& site) {
  return call_op(known_op("atleast_1d"), {&self}, {}, site);
}
DTensor atleast_2d(const DTensor& self, const Site& site) {
  return call_op(known_op("atleast_2d"), {&self}, {}, site);
}
DTensor atleast_3d(const DTensor& self, const Site& site) {
  return call_op(known_op("atleast_3d"), {&self}, {}, site);
}
DTensor broadcast_to(const DTensor& self, const Shape& size, const Site& site) {
  return call_op(known_op("broadcast_to"), {&self}, {{"size", size}}, site);
}
DTensor cartesian_prod(std::span<const DTensor> tensors, const Site& site) {
  return listed_call_op(known_op("cartesian_prod"), {}, tensors, {}, site);
}
DTensor cat(std::span<const DTensor> tensors, std::int64_t dim, const Site& site) {
  Attrs attrs;
  if (dim != 0) attrs.set("dim", dim);
  return listed_call_op(known_op("cat"), {}, tensors, attrs, site);
}
std::vector<DTensor> chunk(const DTensor& self, std::int64_t chunks, std::int64_t dim,
    const Site& site) {
  Attrs attrs = {{"chunks", chunks}};
  if (dim != 0) attrs.set("dim", dim);
  return results_of<std::vector<DTensor>>(call_all(known_op("chunk"), {&self}, attrs, site));
}
DTensor column_stack(std::span<const DTensor> tensors, const Site& site) {
  return listed_call_op(known_op("column_stack"), {}, tensors, {}, site);
}
DTensor constant_pad_nd(const DTensor& self, const Shape& pad, double value, const Site& site) {
  Attrs attrs = {{"pad", pad}};
  if (value != 0.0) attrs.set("value", value);
  return call_op(known_op("constant_pad_nd"), {&self}, attrs, site);
}
DTensor diag(const DTensor& self, std::int64_t diagonal, const Site& site) {
  Attrs attrs;
  if (diagonal != 0) attrs.set("diagonal", diagonal);
  return call_op(known_op("diag"), {&self}, attrs, site);
}
DTensor diag_embed(const DTensor& self, std::int64_t offset, std::int64_t dim1, std::int64_t dim2,
    const Site& site) {
  Attrs attrs;
  if (offset != 0) attrs.set("offset", offset);
  if (dim1 != -2) attrs.set("dim1", dim1);
  if (dim2 != -1) attrs.set("dim2", dim2);
  return call_op(known_op("diag_embed"), {&self}, attrs, site);
}
DTensor diagonal(const DTensor& self, std::int64_t offset, std::int64_t dim1, std::int64_t dim2,
    const Site& site) {
  Attrs attrs;
  if (offset != 0) attrs.set("offset", offset);
  if (dim1 != 0) attrs.set("dim1", dim1);
  if (dim2 != 1) attrs.set("dim2", dim2);
  return call_op(known_op("diagonal"), {&self}, attrs, site);
}
DTensor diagonal_scatter(const DTensor& self, const DTensor& src, std::int64_t offset,
    std::int64_t dim1, std::int64_t dim2, const Site& site) {
  Attrs attrs;
  if (offset != 0) attrs.set("offset", offset);
  if (dim1 != 0) attrs.set("dim1", dim1);
  if (dim2 != 1) attrs.set("dim2", dim2);
  return call_op(known_op("diagonal_scatter"), {&self, &src}, attrs, site);
}
DTensor expand(const DTensor& self, const Shape& size, const Site& site) {
  return call_op(known_op("expand"), {&self}, {{"size", size}}, site);
}
DTensor expand_as(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("expand_as"), {&self, &other}, {}, site);
}
DTensor flatten(const DTensor& self, std::int64_t start_dim, std::int64_t end_dim,
    const Site& site) {
  Attrs attrs;
  if (start_dim != 0) attrs.set("start_dim", start_dim);
  if (end_dim != -1) attrs.set("end_dim", end_dim);
  return call_op(known_op("flatten"), {&self}, attrs, site);
}
DTensor flip(const DTensor& self, const Shape& dims, const Site& site) {
  return call_op(known_op("flip"), {&self}, {{"dims", dims}}, site);
}
DTensor hstack(std::span<const DTensor> tensors, const Site& site) {
  return listed_call_op(known_op("hstack"), {}, tensors, {}, site);
}
DTensor mT(const DTensor& self, const Site& site) {
  return call_op(known_op("mT"), {&self}, {}, site);
}
std::vector<DTensor> meshgrid(std::span<const DTensor> tensors, std::string_view indexing,
    const Site& site) {
  Attrs attrs;
  if (indexing != "ij") attrs.set("indexing", std::string(indexing));
  return results_of<std::vector<DTensor>>(listed_call_all(known_op("meshgrid"), {}, tensors, attrs,
    site));
}
DTensor moveaxis(const DTensor& self, const Shape& source, const Shape& destination,
    const Site& site) {
  return call_op(known_op("moveaxis"), {&self}, {{"source", source}, {"destination", destination}},
    site);
}
DTensor movedim(const DTensor& self, const Shape& source, const Shape& destination,
    const Site& site) {
  return call_op(known_op("movedim"), {&self}, {{"source", source}, {"destination", destination}},
    site);
}
DTensor narrow(const DTensor& self, std::int64_t dim, std::int64_t start, std::int64_t length,
    const Site& site) {
  return call_op(known_op("narrow"), {&self}, {{"dim", dim}, {"start", start}, {"length", length}},
    site);
}
DTensor permute(const DTensor& self, const Shape& dims, const Site& site) {
  return call_op(known_op("permute"), {&self}, {{"dims", dims}}, site);
}
DTensor ravel(const DTensor& self, const Site& site) {
  return call_op(known_op("ravel"), {&self}, {}, site);
}
DTensor reflection_pad1d(const DTensor& self, const Shape& padding, const Site& site) {
  return call_op(known_op("reflection_pad1d"), {&self}, {{"padding", padding}}, site);
}
DTensor reflection_pad2d(const DTensor& self, const Shape& padding, const Site& site) {
  return call_op(known_op("reflection_pad2d"), {&self}, {{"padding", padding}}, site);
}
DTensor repeat(const DTensor& self, const Shape& repeats, const Site& site) {
  return call_op(known_op("repeat"), {&self}, {{"repeats", repeats}}, site);
}
DTensor repeat_interleave(const DTensor& self, std::int64_t repeats, std::int64_t dim,
    const Site& site) {
  return call_op(known_op("repeat_interleave"), {&self}, {{"repeats", repeats}, {"dim", dim}},
    site);
}
DTensor replication_pad1d(const DTensor& self, const Shape& padding, const Site& site) {
  return call_op(known_op("replication_pad1d"), {&self}, {{"padding", padding}}, site);
}
DTensor replication_pad2d(const DTensor& self, const Shape& padding, const Site& site) {
  return call_op(known_op("replication_pad2d"), {&self}, {{"padding", padding}}, site);
}
DTensor reshape(const DTensor& self, const Shape& shape, const Site& site) {
  return call_op(known_op("reshape"), {&self}, {{"shape", shape}}, site);
}
DTensor reshape_as(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("reshape_as"), {&self, &other}, {}, site);
}
DTensor roll(const DTensor& self, const Shape& shifts, const Shape& dims, const Site& site) {
  return call_op(known_op("roll"), {&self}, {{"shifts", shifts}, {"dims", dims}}, site);
}
DTensor rot90(const DTensor& self, const Shape& dims, std::int64_t k, const Site& site) {
  Attrs attrs = {{"dims", dims}};
  if (k != 1) attrs.set("k", k);
  return call_op(known_op("rot90"), {&self}, attrs, site);
}
DTensor select(const DTensor& self, std::int64_t dim, std::int64_t index, const Site& site) {
  return call_op(known_op("select"), {&self}, {{"dim", dim}, {"index", index}}, site);
}
DTensor slice(const DTensor& self, std::int64_t dim, std::int64_t start, std::int64_t end,
    std::int64_t step, const Site& site) {
  Attrs attrs = {{"dim", dim}};
  if (start != 0) attrs.set("start", start);
  if (end != std::numeric_limits<std::int64_t>::max()) attrs.set("end", end);
  if (step != 1) attrs.set("step", step);
  return call_op(known_op("slice"), {&self}, attrs, site);
}
std::vector<DTensor> split(const DTensor& self, std::int64_t split_size, std::int64_t dim,
    const Site& site) {
  Attrs attrs = {{"split_size", split_size}};
  if (dim != 0) attrs.set("dim", dim);
  return results_of<std::vector<DTensor>>(call_all(known_op("split"), {&self}, attrs, site));
}
std::vector<DTensor> split_with_sizes(const DTensor& self, const Shape& split_sizes,
    std::int64_t dim, const Site& site) {
  Attrs attrs = {{"split_sizes", split_sizes}};
  if (dim != 0) attrs.set("dim", dim);
  return results_of<std::vector<DTensor>>(call_all(known_op("split_with_sizes"), {&self}, attrs,
    site));
}
DTensor squeeze(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("squeeze"), {&self}, {{"dim", dim}}, site);
}
DTensor stack(std::span<const DTensor> tensors, std::int64_t dim, const Site& site) {
  Attrs attrs;
  if (dim != 0) attrs.set("dim", dim);
  return listed_call_op(known_op("stack"), {}, tensors, attrs, site);
}
DTensor swapaxes(const DTensor& self, std::int64_t axis0, std::int64_t axis1, const Site& site) {
  return call_op(known_op("swapaxes"), {&self}, {{"axis0", axis0}, {"axis1", axis1}}, site);
}
DTensor swapdims(const DTensor& self, std::int64_t dim0, std::int64_t dim1, const Site& site) {
  return call_op(known_op("swapdims"), {&self}, {{"dim0", dim0}, {"dim1", dim1}}, site);
}
DTensor t(const DTensor& self, const Site& site) {
  return call_op(known_op("t"), {&self}, {}, site);
}
std::vector<DTensor> tensor_split(const DTensor& self, std::int64_t sections, std::int64_t dim,
    const Site& site) {
  Attrs attrs = {{"sections", sections}};
  if (dim != 0) attrs.set("dim", dim);
  return results_of<std::vector<DTensor>>(call_all(known_op("tensor_split"), {&self}, attrs, site));
}
DTensor tile(const DTensor& self, const Shape& dims, const Site& site) {
  return call_op(known_op("tile"), {&self}, {{"dims", dims}}, site);
}
DTensor transpose(const DTensor& self, std::int64_t dim0, std::int64_t dim1, const Site& site) {
  return call_op(known_op("transpose"), {&self}, {{"dim0", dim0}, {"dim1", dim1}}, site);
}
DTensor tril(const DTensor& self, std::int64_t diagonal, const Site& site) {
  Attrs attrs;
  if (diagonal != 0) attrs.set("diagonal", diagonal);
  return call_op(known_op("tril"), {&self}, attrs, site);
}
DTensor triu(const DTensor& self, std::int64_t diagonal, const Site& site) {
  Attrs attrs;
  if (diagonal != 0) attrs.set("diagonal", diagonal);
  return call_op(known_op("triu"), {&self}, attrs, site);
}
std::vector<DTensor> unbind(const DTensor& self, std::int64_t dim, const Site& site) {
  Attrs attrs;
  if (dim != 0) attrs.set("dim", dim);
  return results_of<std::vector<DTensor>>(call_all(known_op("unbind"), {&self}, attrs, site));
}
DTensor unflatten(const DTensor& self, std::int64_t dim, const Shape& sizes, const Site& site) {
  return call_op(known_op("unflatten"), {&self}, {{"dim", dim}, {"sizes", sizes}}, site);
}
DTensor unfold(const DTensor& self, std::int64_t dimension, std::int64_t size, std::int64_t step,
    const Site& site) {
  return call_op(known_op("unfold"), {&self},
    {{"dimension", dimension}, {"size", size}, {"step", step}}, site);
}
DTensor unsqueeze(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("unsqueeze"), {&self}, {{"dim", dim}}, site);
}
DTensor upsample_nearest1d(const DTensor& self, const Shape& output_size, const Site& site) {
  return call_op(known_op("upsample_nearest1d"), {&self}, {{"output_size", output_size}}, site);
}
DTensor upsample_nearest2d(const DTensor& self, const Shape& output_size, const Site& site) {
  return call_op(known_op("upsample_nearest2d"), {&self}, {{"output_size", output_size}}, site);
}
DTensor view(const DTensor& self, const Shape& size, const Site& site) {
  return call_op(known_op("view"), {&self}, {{"size", size}}, site);
}
DTensor view_as(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("view_as"), {&self, &other}, {}, site);
}
DTensor vstack(std::span<const DTensor> tensors, const Site& site) {
  return listed_call_op(known_op("vstack"), {}, tensors, {}, site);
}

}  // namespace tessera
