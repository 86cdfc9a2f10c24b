// Elements addressed by their row-major position in the whole tensor, and elements that a mask
// chooses in row-major order.
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/index_search.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

/// A whole array as one dim.
Array flat(KernelContext& ctx, const Array& x) {
  return kernels::contiguous(ctx, x).try_view({x.num_elements()});
}

/// Positions in a whole array; negative ones count from the end.
Array flat_positions(KernelCall& call, std::string_view op, const Array& whole,
                     const Array& index) {
  const ops::AddressedDim addressed{.op = op, .global_size = whole.num_elements()};
  return flat(call.ctx, ops::local_positions(call, addressed, index));
}

void add_take(OpTable& table) {
  table.must_add(
      {.name = "take",
       .doc = "Elements of self by their row-major position, in the index's shape.",
       .args = {in("self"), in("index")},
       .rule = "..., * -> * | ...! | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array& self = call.inputs[0];
             const Array at = flat_positions(call, "take", self, call.inputs[1]);
             const Array taken = ops::scratch(call, at.shape(), self.dtype());
             kernels::gather(call.ctx, flat(call.ctx, self), 0, at, kernels::Absent::kError, taken);
             kernels::copy(call.ctx, taken.try_view(call.outputs[0].shape()), call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
         TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
         return std::vector<TensorMeta>{{inputs[1].shape, inputs[0].dtype}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Var zeros = c.call("new_zeros", {c.cotangent(0)}, {{"size", c.input_shape(0)}});
         return {c.call("put", {zeros, c.input(1), c.cotangent(0)}, {{"accumulate", true}}), Var{}};
       },
       .saved_inputs = {1},
       .samples = {{.shapes = {{8, 6}, {7, 6}}, .dtypes = {kF, kI}, .below = {2, 48}},
                   {.shapes = {{5, 3}, {8}}, .dtypes = {kF, kI}, .below = {2, 15}}}});
}

void run_put(KernelCall& call) {
  const Array& out = call.outputs[0];
  if (out.storage() != call.inputs[0].storage()) kernels::copy(call.ctx, call.inputs[0], out);
  const Array at = flat_positions(call, "put", out, call.inputs[1]);
  const Array all = flat(call.ctx, out);
  kernels::scatter_combine(
      call.ctx, all, 0, at, flat(call.ctx, call.inputs[2]),
      call.attrs.get_bool("accumulate") ? kernels::Combine::kAdd : kernels::Combine::kAssign,
      kernels::Absent::kError);
  if (all.storage() != out.storage()) kernels::copy(call.ctx, all.try_view(out.shape()), out);
}

Metas infer_put(std::span<const TensorMeta> inputs, const Attrs&) {
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
  if (inputs[1].shape != inputs[2].shape || inputs[2].dtype != inputs[0].dtype) {
    return invalid_argument("source " + to_string(inputs[2].shape) + " " +
                            std::string(name_of(inputs[2].dtype)) +
                            " must have the index's shape " + to_string(inputs[1].shape) +
                            " and self's dtype " + std::string(name_of(inputs[0].dtype)));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

std::vector<Var> put_gradient(GradContext& c) {
  Var self = c.cotangent(0), source;
  if (!c.attrs().get_bool("accumulate")) {
    const Var zeros = c.call("new_zeros", {self}, {{"size", c.input_shape(2)}});
    self = c.call("put", {self, c.input(1), zeros});
  }
  if (c.needs(2)) source = c.call("take", {c.cotangent(0), c.input(1)});
  return {self, Var{}, source};
}

void add_put(OpTable& table) {
  OpDef put = {
      .name = "put",
      .doc =
          "self with the elements of source, which has the index's shape, written (or added) at "
          "row-major positions; of equal positions the last wins.",
      .args = {in("self"), in("index"), in("source")},
      .attrs = {ops::bool_attr("accumulate", false)},
      .rule = "",
      .kernel = run_put,
      .infer = infer_put,
      .gradient = put_gradient,
      .saved_inputs = {1},
      .declined = {"P(max), R, R; P(min), R, R: where source is infinite, a rank that holds the "
                   "opposite infinity of self, as one without elements does, gives NaN"},
      .samples = {{.shapes = {{8, 6}, {7}, {7}},
                   .dtypes = {kF, kI, kF},
                   .below = {2, 48, 2},
                   .unique_dim = {-1, 0, -1}},
                  {.shapes = {{8, 6}, {7, 6}, {7, 6}},
                   .attrs = {{"accumulate", true}},
                   .dtypes = {kF, kI, kF},
                   .below = {2, 48, 2}},
                  {.shapes = {{5, 3}, {4}, {4}},
                   .attrs = {{"accumulate", true}},
                   .dtypes = {kF, kI, kF},
                   .below = {2, 15, 2}}}};
  const auto choose = [](const Attrs& attrs) -> std::size_t {
    return attrs.get_bool("accumulate") ? 1 : 0;
  };
  OpDef in_place = put;
  ops::use_rule_cases(put,
                      {"..., *, * -> ... | ...! *! | lin A+C | max A,C | min A,C | prod A*C",
                       "..., *, * -> ... | ...! *:sum | lin A+C"},
                      choose);
  table.must_add(std::move(put));
  in_place.name = "put_";
  in_place.doc += " In place.";
  ops::use_rule_cases(in_place,
                      {"..., *, * -> &A ... | ...! *! | lin A+C | max A,C | min A,C | prod A*C",
                       "..., *, * -> &A ... | ...! *:sum | lin A+C"},
                      choose);
  in_place.rule = "..., *, * -> &A ... | ...! *!";
  table.must_add(std::move(in_place));
}

// ---- masks ----

Status check_mask(const TensorMeta& self, const TensorMeta& mask) {
  const StatusOr<Shape> both = ops::broadcast(self.shape, mask.shape);
  if (mask.dtype == DType::kBool && both.ok() && *both == self.shape) return {};
  return invalid_argument("mask " + to_string(mask.shape) + " " + std::string(name_of(mask.dtype)) +
                          " must be BOOL and broadcast to self " + to_string(self.shape));
}

/// For each element of a whole mask of `shape`, how many before it (row-major) are true; the last
/// entry counts all.
std::vector<std::int64_t> places_of(KernelContext& ctx, const Array& mask, const Shape& shape) {
  const Array dense = kernels::contiguous(ctx, ops::broadcast_view(mask, shape));
  const bool* chosen = dense.data<bool>();
  std::vector<std::int64_t> places = {0};
  for (std::int64_t i = 0; i < dense.num_elements(); ++i) {
    places.push_back(places.back() + (chosen[i] ? 1 : 0));
  }
  return places;
}

/// The mask and its counts are whole on every rank; self may be cut anyhow.
void run_masked_scatter(KernelCall& call) {
  const Array& out = call.outputs[0];
  if (out.storage() != call.inputs[0].storage()) kernels::copy(call.ctx, call.inputs[0], out);
  const OperandView view = ops::input_view(call, 0);
  const Shape whole = view.spec != nullptr ? view.spec->global_shape() : out.shape();
  const std::vector<std::int64_t> places = places_of(call.ctx, call.inputs[1], whole);
  const Array source = flat(call.ctx, call.inputs[2]);
  if (places.back() > source.num_elements()) {
    throw Error(out_of_range("masked_scatter: the mask chooses " + std::to_string(places.back()) +
                             " elements, source has " + std::to_string(source.num_elements())));
  }
  // As a scatter of positions: −1 where the mask is false.
  const Array from = ops::scratch(call, {out.num_elements()}, DType::kI64);
  const auto global = ops::global_indices(view, out.shape());
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    std::int64_t at = 0, step = 1, rest = i;
    for (std::size_t d = out.shape().size(); d-- > 0;) {
      at += global[d][static_cast<std::size_t>(rest % out.shape()[d])] * step;
      rest /= out.shape()[d];
      step *= whole[d];
    }
    const auto place = static_cast<std::size_t>(at);
    from.data<std::int64_t>()[i] = places[place + 1] > places[place] ? places[place] : -1;
  }
  const Array taken = ops::scratch(call, from.shape(), out.dtype());
  kernels::gather(call.ctx, source, 0, from, kernels::Absent::kSkip, taken);
  const Array chosen = ops::scratch(call, from.shape(), DType::kBool);
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    chosen.data<bool>()[i] = from.data<std::int64_t>()[i] >= 0;
  }
  kernels::where(call.ctx, chosen.try_view(out.shape()), taken.try_view(out.shape()), out, out);
}

void add_masked_scatter(OpTable& table) {
  OpDef scatter = {
      .name = "masked_scatter",
      .doc =
          "self with the first elements of a 1-D source, in row-major order, where mask is true.",
      .args = {in("self"), in("mask"), in("source")},
      .rule = "*, ..., s -> * | ...! s! | lin A+C | max A,C | min A,C | prod A*C",
      .kernel = run_masked_scatter,
      .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
        TSR_RETURN_IF_ERROR(check_mask(inputs[0], inputs[1]));
        if (inputs[2].shape.size() != 1 || inputs[2].dtype != inputs[0].dtype) {
          return invalid_argument(
              "source " + to_string(inputs[2].shape) + " " + std::string(name_of(inputs[2].dtype)) +
              " must have one dim and self's dtype " + std::string(name_of(inputs[0].dtype)));
        }
        return std::vector<TensorMeta>{inputs[0]};
      },
      .gradient = [](GradContext& c) -> std::vector<Var> {
        Var self, source;
        if (c.needs(0)) {
          self = c.call("masked_fill", {c.cotangent(0), c.input(1)}, {{"value", 0.0}});
        }
        if (c.needs(2)) {
          source = c.call("masked_scatter_backward", {c.cotangent(0), c.input(1)},
                          {{"sizes", c.input_shape(2)}});
        }
        return {self, Var{}, source};
      },
      .saved_inputs = {1},
      .samples = {{.shapes = {{8, 6}, {8, 6}, {48}}, .dtypes = {kF, DType::kBool, kF}},
                  {.shapes = {{5, 3}, {3}, {15}}, .dtypes = {kF, DType::kBool, kF}}}};
  OpDef in_place = scatter;
  in_place.name = "masked_scatter_";
  in_place.doc += " In place.";
  in_place.rule = "*, ..., s -> &A * | ...! s! | lin A+C | max A,C | min A,C | prod A*C";
  table.must_add(std::move(scatter));
  table.must_add(std::move(in_place));
}

void add_masked_scatter_backward(OpTable& table) {
  table.must_add(
      {.name = "masked_scatter_backward",
       .doc = "Cotangent of masked_scatter's source: grad's elements where mask is true, in "
              "row-major order, then zeros.",
       .args = {in("grad"), in("mask")},
       .attrs = {ops::ints_attr("sizes")},
       .rule = "*, ... -> K | *! ...! | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array grad = flat(call.ctx, call.inputs[0]);
             const Array mask = kernels::contiguous(
                 call.ctx, ops::broadcast_view(call.inputs[1], call.inputs[0].shape()));
             const std::vector<std::int64_t> chosen = kernels::nonzero_positions(call.ctx, mask);
             if (static_cast<std::int64_t>(chosen.size()) > call.outputs[0].size(0)) {
               throw Error(out_of_range("masked_scatter_backward: the mask chooses " +
                                        std::to_string(chosen.size()) + " elements, sizes is " +
                                        to_string(call.outputs[0].shape())));
             }
             kernels::fill(call.ctx, 0.0, call.outputs[0]);
             const auto count = static_cast<std::int64_t>(chosen.size());
             const Array at = ops::scratch(call, {count}, DType::kI64);
             std::copy(chosen.begin(), chosen.end(), at.data<std::int64_t>());
             kernels::gather(call.ctx, grad, 0, at, kernels::Absent::kError,
                             call.outputs[0].slice(0, 0, count));
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_RETURN_IF_ERROR(check_mask(inputs[0], inputs[1]));
         const Shape sizes = attrs.get_ints("sizes");
         if (sizes.size() == 1) return std::vector<TensorMeta>{{sizes, inputs[0].dtype}};
         return invalid_argument("sizes is " + to_string(sizes) + "; a source has one dim");
       },
       .samples = {{.shapes = {{8, 6}, {8, 6}},
                    .attrs = {{"sizes", Shape{48}}},
                    .dtypes = {kF, DType::kBool}},
                   {.shapes = {{5, 3}, {5, 1}},
                    .attrs = {{"sizes", Shape{15}}},
                    .dtypes = {kF, DType::kBool}}}});
}

}  // namespace

void add_index_flat_ops(OpTable& table) {
  add_take(table);
  add_put(table);
  add_masked_scatter(table);
  add_masked_scatter_backward(table);
}

}  // namespace tessera
