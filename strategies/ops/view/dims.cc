// Views that add, drop, reorder or repeat whole dims: cuts go with their dims.
#include <algorithm>

#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

/// For each dim of the result, the operand's dim, or −1 for a new one.
using DimSources = StatusOr<std::vector<int>> (*)(const Shape& shape, const Attrs& attrs);

std::vector<int> identity(std::size_t ndim) {
  std::vector<int> sources(ndim);
  for (std::size_t d = 0; d < ndim; ++d) sources[d] = static_cast<int>(d);
  return sources;
}

/// Set on a rank where squeeze's dim is not of size 1 in the whole tensor, whatever its size here.
constexpr std::string_view kKeeps = "keeps";

StatusOr<std::vector<int>> squeeze_sources(const Shape& shape, const Attrs& attrs) {
  std::vector<int> sources = identity(shape.size());
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, ops::nameable_dims(shape.size())));
  if (shape.empty()) return sources;
  const bool drops = shape[static_cast<std::size_t>(dim)] == 1 && !attrs.get_bool_or(kKeeps, false);
  if (drops) sources.erase(sources.begin() + dim);
  return sources;
}

StatusOr<std::vector<int>> unsqueeze_sources(const Shape& shape, const Attrs& attrs) {
  std::vector<int> sources = identity(shape.size());
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size()) + 1));
  sources.insert(sources.begin() + dim, -1);
  return sources;
}

StatusOr<std::vector<int>> transpose_sources(const Shape& shape, const Attrs& attrs) {
  std::vector<int> sources = identity(shape.size());
  TSR_ASSIGN_OR_RETURN(const int a, ops::dim_attr(attrs, ops::nameable_dims(shape.size()), "dim0"));
  TSR_ASSIGN_OR_RETURN(const int b, ops::dim_attr(attrs, ops::nameable_dims(shape.size()), "dim1"));
  if (shape.empty()) return sources;
  std::swap(sources[static_cast<std::size_t>(a)], sources[static_cast<std::size_t>(b)]);
  return sources;
}

StatusOr<std::vector<int>> permute_sources(const Shape& shape, const Attrs& attrs) {
  const Shape order = attrs.get_ints("dims");
  std::vector<int> sources;
  std::vector<bool> seen(shape.size(), false);
  for (const std::int64_t entry : order) {
    TSR_ASSIGN_OR_RETURN(const int dim, normalize_dim(entry, static_cast<int>(shape.size())));
    seen[static_cast<std::size_t>(dim)] = true;
    sources.push_back(dim);
  }
  const bool all = std::find(seen.begin(), seen.end(), false) == seen.end();
  if (!all || order.size() != shape.size()) {
    return invalid_argument("dims " + to_string(order) + " must list each of " +
                            std::to_string(shape.size()) + " dims once");
  }
  return sources;
}

StatusOr<std::vector<int>> expand_sources(const Shape& shape, const Attrs& attrs) {
  const std::size_t ndim = attrs.get_ints("size").size();
  if (ndim < shape.size()) {
    return invalid_argument("size " + to_string(attrs.get_ints("size")) +
                            " has fewer dims than the operand " + to_string(shape));
  }
  std::vector<int> sources(ndim - shape.size(), -1);
  for (const int dim : identity(shape.size())) sources.push_back(dim);
  return sources;
}

/// Sizes and strides of the result over the operand's.
template <DimSources kSources>
Metas infer_dims(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& shape = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const std::vector<int> sources, kSources(shape, attrs));
  TensorMeta out = {{}, inputs[0].dtype};
  for (const int source : sources) {
    out.shape.push_back(source < 0 ? 1 : shape[static_cast<std::size_t>(source)]);
  }
  return std::vector<TensorMeta>{out};
}

Metas infer_expand(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_dims<expand_sources>(inputs, attrs));
  const Shape size = attrs.get_ints("size");
  const std::size_t lead = size.size() - inputs[0].shape.size();
  for (std::size_t d = 0; d < size.size(); ++d) {
    std::int64_t& have = out[0].shape[d];
    const bool keeps = size[d] == -1 && d >= lead;
    if (!keeps && (size[d] < 0 || (have != 1 && have != size[d]))) {
      return invalid_argument("size " + to_string(size) + " does not fit the operand " +
                              to_string(inputs[0].shape) +
                              ": only dims of size 1 expand, and -1 keeps a dim");
    }
    if (!keeps) have = size[d];
  }
  return out;
}

template <DimSources kSources>
StatusOr<std::vector<Strategy>> dim_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const std::vector<int> sources, kSources(inputs[0]->global_shape(), attrs));
  return ops::dim_map_strategies(*inputs[0], outputs[0], sources);
}

template <DimSources kSources>
void run_dims(KernelCall& call) {
  const Array& x = call.inputs[0];
  Shape shape;
  Shape strides;
  for (const int source : value_or_throw(kSources(x.shape(), call.attrs))) {
    shape.push_back(source < 0 ? 1 : x.size(source));
    strides.push_back(source < 0 ? 0 : x.strides()[static_cast<std::size_t>(source)]);
  }
  call.outputs[0] = x.as_strided(shape, strides, x.offset());
}

void run_expand(KernelCall& call) {
  const Array& x = call.inputs[0];
  Shape size = call.attrs.get_ints("size");
  const std::size_t lead = size.size() - x.shape().size();
  for (std::size_t d = lead; d < size.size(); ++d) {
    if (size[d] == -1) size[d] = x.shape()[d - lead];
  }
  call.outputs[0] = ops::broadcast_view(x, size);
}

Attrs localize_expand(const Attrs& attrs, std::span<const Spec>, std::span<const Spec> outputs,
                      const Coord& coord) {
  Attrs local = attrs;
  local.set("size", outputs[0].local_shape(coord));
  return local;
}

Attrs localize_squeeze(const Attrs& attrs, std::span<const Spec> inputs,
                       std::span<const Spec> outputs, const Coord&) {
  Attrs local = attrs;
  local.set(kKeeps, outputs[0].ndim() == inputs[0].ndim());
  return local;
}

template <DimSources kSources>
OpDef dim_op(std::string name, std::string doc, Gradient gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .rule = "",
          .kernel = run_dims<kSources>,
          .infer = infer_dims<kSources>,
          .gradient = std::move(gradient),
          .strategies = dim_strategies<kSources>,
          .is_view = true};
}

std::vector<Var> squeeze_back(GradContext& c) {
  if (c.output_shape(0).size() == c.input_shape(0).size()) return {c.cotangent(0)};
  return {
      c.call("unsqueeze", {c.cotangent(0)},
             {{"dim", value_or_throw(normalize_dim(c.attrs().get_int("dim"),
                                                   static_cast<int>(c.input_shape(0).size())))}})};
}

std::vector<Var> unsqueeze_back(GradContext& c) {
  return {c.call("squeeze", {c.cotangent(0)}, {{"dim", c.attrs().get_int("dim")}})};
}

std::vector<Var> transpose_back(GradContext& c) {
  return {c.call("transpose", {c.cotangent(0)}, c.attrs())};
}

std::vector<Var> permute_back(GradContext& c) {
  const auto sources = value_or_throw(permute_sources(c.input_shape(0), c.attrs()));
  Shape inverse(sources.size(), 0);
  for (std::size_t d = 0; d < sources.size(); ++d) {
    inverse[static_cast<std::size_t>(sources[d])] = static_cast<std::int64_t>(d);
  }
  return {c.call("permute", {c.cotangent(0)}, {{"dims", inverse}})};
}

void add_size_one_dims(OpTable& table) {
  OpDef squeeze = dim_op<squeeze_sources>(
      "squeeze", "Without a dim of size 1; a dim of another size stays.", squeeze_back);
  squeeze.attrs = {ops::int_attr("dim")};
  squeeze.localize = localize_squeeze;
  squeeze.view_order = OpDef::ViewOrder::kRowMajor;
  squeeze.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                     {.shapes = {{8, 1, 6}}, .attrs = {{"dim", 1}}},
                     {.shapes = {{5, 3}}, .attrs = {{"dim", 0}}}};
  table.must_add(std::move(squeeze));
  OpDef unsqueeze =
      dim_op<unsqueeze_sources>("unsqueeze", "With a new dim of size 1.", unsqueeze_back);
  unsqueeze.attrs = {ops::int_attr("dim")};
  unsqueeze.view_order = OpDef::ViewOrder::kRowMajor;
  unsqueeze.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                       {.shapes = {{5, 3}}, .attrs = {{"dim", -1}}}};
  table.must_add(std::move(unsqueeze));
}

void add_orders(OpTable& table) {
  OpDef transpose = dim_op<transpose_sources>("transpose", "Two dims swapped.", transpose_back);
  transpose.attrs = {ops::int_attr("dim0"), ops::int_attr("dim1")};
  transpose.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim0", 0}, {"dim1", 1}}},
                       {.shapes = {{5, 3, 8}}, .attrs = {{"dim0", -1}, {"dim1", 0}}}};
  table.must_add(std::move(transpose));
  OpDef permute = dim_op<permute_sources>("permute", "Dims in another order.", permute_back);
  permute.attrs = {ops::ints_attr("dims")};
  permute.samples = {{.shapes = {{8, 6}}, .attrs = {{"dims", Shape{1, 0}}}},
                     {.shapes = {{5, 3, 8}}, .attrs = {{"dims", Shape{2, 0, -2}}}}};
  table.must_add(std::move(permute));
}

void add_expand(OpTable& table) {
  OpDef expand = dim_op<expand_sources>(
      "expand", "Dims of size 1 repeated without a copy; new dims may lead.",
      [](GradContext& c) { return std::vector<Var>{c.sum_to(c.cotangent(0), c.input_shape(0))}; });
  expand.kernel = run_expand;
  expand.infer = infer_expand;
  expand.localize = localize_expand;
  expand.attrs = {ops::ints_attr("size")};
  expand.samples = {{.shapes = {{8, 6}}, .attrs = {{"size", Shape{7, 8, 6}}}},
                    {.shapes = {{8, 1}}, .attrs = {{"size", Shape{8, 6}}}},
                    {.shapes = {{5, 3}}, .attrs = {{"size", Shape{4, -1, 3}}}},
                    {.shapes = {{1, 8}}, .attrs = {{"size", Shape{5, 8}}}}};
  table.must_add(std::move(expand));
}

}  // namespace

void add_dims_ops(OpTable& table) {
  add_size_one_dims(table);
  add_orders(table);
  add_expand(table);
}

}  // namespace tessera
