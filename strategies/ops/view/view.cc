// The same elements in row-major order under other sizes. Cuts walk from dims to dims; where one
// does not fit, the strategies name the redistribution.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

/// `sizes` with one −1 replaced by what is left of `elements`.
StatusOr<Shape> resolve_sizes(Shape sizes, std::int64_t elements) {
  CheckedInt known = 1;
  std::int64_t* open = nullptr;
  bool good = true;
  for (std::int64_t& size : sizes) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else {
      good = good && size >= 0;
      known *= size;
    }
  }
  const Shape asked = sizes;
  if (open != nullptr && known > 0) *open = elements / known.clamped();
  const CheckedInt held = open != nullptr ? known * *open : known;
  if (!good || held != elements || (open != nullptr && *open < 0)) {
    return invalid_argument("sizes " + to_string(asked) + " do not hold " +
                            std::to_string(elements) + " elements (one size may be -1)");
  }
  return sizes;
}

template <const char* kAttr>
Metas infer_sizes(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(Shape sizes,
                       resolve_sizes(attrs.get_ints(kAttr), num_elements(inputs[0].shape)));
  return std::vector<TensorMeta>{{std::move(sizes), inputs[0].dtype}};
}

Metas infer_flatten(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& shape = inputs[0].shape;
  const int ndim = ops::nameable_dims(shape.size());
  TSR_ASSIGN_OR_RETURN(const int first, ops::dim_attr(attrs, ndim, "start_dim"));
  TSR_ASSIGN_OR_RETURN(const int last, ops::dim_attr(attrs, ndim, "end_dim"));
  if (first > last) {
    return invalid_argument("start_dim " + std::to_string(first) + " lies behind end_dim " +
                            std::to_string(last));
  }
  if (shape.empty()) return std::vector<TensorMeta>{{{1}, inputs[0].dtype}};
  Shape out(shape.begin(), shape.begin() + first);
  out.push_back(1);
  for (int d = first; d <= last; ++d) out.back() *= shape[static_cast<std::size_t>(d)];
  out.insert(out.end(), shape.begin() + last + 1, shape.end());
  return std::vector<TensorMeta>{{out, inputs[0].dtype}};
}

Metas infer_unflatten(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& shape = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  TSR_ASSIGN_OR_RETURN(const Shape sizes, resolve_sizes(attrs.get_ints("sizes"),
                                                        shape[static_cast<std::size_t>(dim)]));
  Shape out(shape.begin(), shape.begin() + dim);
  out.insert(out.end(), sizes.begin(), sizes.end());
  out.insert(out.end(), shape.begin() + dim + 1, shape.end());
  return std::vector<TensorMeta>{{out, inputs[0].dtype}};
}

StatusOr<std::vector<Strategy>> strategies(std::span<const Spec* const> inputs,
                                           std::span<const TensorMeta> outputs, const Attrs&) {
  const Spec& input = *inputs[0];
  const Shape& from = input.global_shape();
  const Shape& to = outputs[0].shape;
  return ops::walk_strategies(input, outputs[0], ops::reshape_walk(input.mesh(), from, to),
                              ops::reshape_walk(input.mesh(), to, from));
}

/// The result's sizes on this rank, which the attributes of the global call do not say.
constexpr std::string_view kLocalShape = "local_shape";

Attrs localize(const Attrs& attrs, std::span<const Spec>, std::span<const Spec> outputs,
               const Coord& coord) {
  Attrs local = attrs;
  local.set(kLocalShape, outputs[0].local_shape(coord));
  return local;
}

enum class Copying : std::uint8_t { kRefuse, kAllow };

/// The alias of these sizes; a copy where the strides allow none and copying does.
Array view_as(KernelContext& ctx, const Array& x, const Shape& shape, Copying copying) {
  const Array view = x.try_view(shape);
  if (!view.is_null()) return view;
  if (copying == Copying::kRefuse) {
    throw Error(failed_precondition("view: strides " + to_string(x.strides()) + " of local " +
                                    to_string(x.shape()) + " allow no view as " + to_string(shape) +
                                    "; use reshape, which copies"));
  }
  return kernels::contiguous(ctx, x).try_view(shape);
}

template <Metas (*kInfer)(std::span<const TensorMeta>, const Attrs&), Copying kCopying>
void run_view(KernelCall& call) {
  const Array& x = call.inputs[0];
  const TensorMeta meta = {x.shape(), x.dtype()};
  const Shape shape = call.attrs.has(kLocalShape)
                          ? call.attrs.get_ints(kLocalShape)
                          : value_or_throw(kInfer({&meta, 1}, call.attrs))[0].shape;
  call.outputs[0] = view_as(call.ctx, x, shape, kCopying);
}

std::vector<Var> gradient(GradContext& c) {
  return {c.call("reshape", {c.cotangent(0)}, {{"shape", c.input_shape(0)}})};
}

OpDef view_op(std::string name, std::string doc, Infer infer, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .rule = "",
          .kernel = std::move(kernel),
          .infer = std::move(infer),
          .gradient = gradient,
          .strategies = strategies,
          .localize = localize,
          .is_view = true,
          .view_order = OpDef::ViewOrder::kRowMajorOrCopy};
}

constexpr char kSize[] = "size";
constexpr char kShape[] = "shape";

std::vector<Sample> size_samples(std::string_view attr) {
  return {{.shapes = {{8, 6}}, .attrs = {{attr, Shape{8, 3, 2}}}},
          {.shapes = {{8, 3}}, .attrs = {{attr, Shape{2, 4, 3}}}},
          {.shapes = {{5, 3}}, .attrs = {{attr, Shape{-1}}}},
          {.shapes = {{4, 8, 3}}, .attrs = {{attr, Shape{32, 3}}}},
          {.shapes = {{6, 4}}, .attrs = {{attr, Shape{8, 3}}}}};
}

}  // namespace

void add_view_ops(OpTable& table) {
  OpDef view = view_op("view", "The same storage under other sizes.", infer_sizes<kSize>,
                       run_view<infer_sizes<kSize>, Copying::kRefuse>);
  view.attrs = {ops::ints_attr(kSize)};
  view.view_order = OpDef::ViewOrder::kRowMajor;
  view.samples = size_samples(kSize);
  table.must_add(std::move(view));

  OpDef reshape = view_op(
      "reshape", "The same values under other sizes: a view, or a copy where strides allow none.",
      infer_sizes<kShape>, run_view<infer_sizes<kShape>, Copying::kAllow>);
  reshape.attrs = {ops::ints_attr(kShape)};
  reshape.samples = size_samples(kShape);
  table.must_add(std::move(reshape));

  OpDef flatten = view_op("flatten", "Dims start_dim to end_dim as one.", infer_flatten,
                          run_view<infer_flatten, Copying::kAllow>);
  flatten.attrs = {ops::int_attr("start_dim", 0), ops::int_attr("end_dim", -1)};
  flatten.samples = {{.shapes = {{8, 6}}},
                     {.shapes = {{5, 3}}},
                     {.shapes = {{2, 8, 3, 2}}, .attrs = {{"start_dim", 1}, {"end_dim", 2}}}};
  table.must_add(std::move(flatten));

  OpDef unflatten = view_op("unflatten", "One dim as several, major first.", infer_unflatten,
                            run_view<infer_unflatten, Copying::kAllow>);
  unflatten.attrs = {ops::int_attr("dim"), ops::ints_attr("sizes")};
  unflatten.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 0}, {"sizes", Shape{4, 2}}}},
                       {.shapes = {{3, 15}}, .attrs = {{"dim", -1}, {"sizes", Shape{5, -1}}}},
                       {.shapes = {{6, 2}}, .attrs = {{"dim", 0}, {"sizes", Shape{2, 3}}}}};
  table.must_add(std::move(unflatten));
}

}  // namespace tessera
