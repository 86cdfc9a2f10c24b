// Whole slices of a dim addressed by a 1-D index, and rows of a table addressed by ids.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_index_select(std::span<const TensorMeta> inputs,
                                                     const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
  if (inputs[1].shape.size() != 1) {
    return invalid_argument("index " + to_string(inputs[1].shape) + ", but must have one dim");
  }
  out.shape[static_cast<std::size_t>(dim)] = inputs[1].shape[0];
  return std::vector<TensorMeta>{out};
}

StatusOr<std::vector<TensorMeta>> infer_index_add(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto slices, infer_index_select(inputs, attrs));
  if (inputs[2] != slices[0]) {
    return invalid_argument("source " + to_string(inputs[2].shape) + " of " +
                            std::string(name_of(inputs[2].dtype)) + ", but must be " +
                            to_string(slices[0].shape) + " of self's dtype " +
                            std::string(name_of(inputs[0].dtype)));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

StatusOr<std::vector<TensorMeta>> infer_select_grad(std::span<const TensorMeta> inputs,
                                                    const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::check_cotangent(inputs[0]));
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
  if (inputs[1].shape != Shape{out.shape[static_cast<std::size_t>(dim)]}) {
    return invalid_argument("index " + to_string(inputs[1].shape) + ", but grad " +
                            to_string(out.shape) + " has so many slices along dim " +
                            std::to_string(dim) + " as an index of one dim has entries");
  }
  out.shape[static_cast<std::size_t>(dim)] = attrs.get_int("size");
  return std::vector<TensorMeta>{out};
}

void run_index_select(KernelCall& call) {
  const Array& x = call.inputs[0];
  const int dim = ops::kernel_dim(call, x);
  if (dim == 0 && x.ndim() == 2 && call.absent == kernels::Absent::kError) {
    kernels::permute_rows(call.ctx, x, call.inputs[1], call.outputs[0]);
  } else {
    kernels::index_select(call.ctx, x, dim, call.inputs[1], call.absent, call.outputs[0]);
  }
}

void run_index_add(KernelCall& call) {
  if (call.outputs[0].storage() != call.inputs[0].storage()) {
    kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
  }
  kernels::index_add(call.ctx, call.outputs[0], ops::kernel_dim(call, call.inputs[0]),
                     call.inputs[1], call.inputs[2], call.absent);
}

const DType kF = DType::kF64;
const DType kI = DType::kI64;

void add_index_select(OpTable& table) {
  table.must_add(
      {.name = "index_select",
       .doc = "Slices of a dim, in the order of a 1-D index.",
       .args = {in("self"), in("index")},
       .attrs = {ops::int_attr("dim")},
       .rule = "*g@dim, i -> *i@dim | g#:sum | lin A | mono A | prod A",
       .kernel = run_index_select,
       .infer = infer_index_select,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const std::int64_t dim = c.attrs().get_int("dim");
         const Shape& shape = c.input_shape(0);
         const int place = value_or_throw(normalize_dim(dim, static_cast<int>(shape.size())));
         return {c.call("index_select_grad", {c.cotangent(0), c.input(1)},
                        {{"dim", dim}, {"size", shape[static_cast<std::size_t>(place)]}}),
                 Var{}};
       },
       .saved_inputs = {1},
       .samples = {
           {.shapes = {{8, 6}, {9}}, .attrs = {{"dim", 0}}, .dtypes = {kF, kI}, .below = {2, 8}},
           {.shapes = {{5, 3}, {8}}, .attrs = {{"dim", -1}}, .dtypes = {kF, kI}, .below = {2, 3}},
           {.shapes = {{2, 8, 2}, {3}},
            .attrs = {{"dim", 1}},
            .dtypes = {kF, kI},
            .below = {2, 8}}}});
  table.must_add(
      {.name = "index_select_grad",
       .doc = "Cotangent of index_select's self: slices added into zeros of `size` along the dim.",
       .args = {in("grad"), in("index")},
       .attrs = {ops::int_attr("dim"), ops::int_attr("size")},
       .rule = "*i@dim, i -> *g@dim | g#:own i:sum | lin A",
       .kernel =
           [](KernelCall& call) {
             kernels::fill(call.ctx, 0.0, call.outputs[0]);
             kernels::index_add(call.ctx, call.outputs[0], ops::kernel_dim(call, call.inputs[0]),
                                call.inputs[1], call.inputs[0], call.absent);
           },
       .infer = infer_select_grad,
       .samples = {{.shapes = {{8, 6}, {8}},
                    .attrs = {{"dim", 0}, {"size", 9}},
                    .dtypes = {kF, kI},
                    .below = {2, 9}},
                   {.shapes = {{5, 3}, {3}},
                    .attrs = {{"dim", 1}, {"size", 8}},
                    .dtypes = {kF, kI},
                    .below = {2, 8}}}});
}

void add_index_add(OpTable& table) {
  OpDef add = {
      .name = "index_add",
      .doc = "self with slices of source added at a 1-D index along a dim, in operand order.",
      .args = {in("self"), in("index"), in("source")},
      .attrs = {ops::int_attr("dim")},
      .rule = "*g@dim, i, *i@dim -> *g | g#:own i:sum | lin A+C",
      .kernel = run_index_add,
      .infer = infer_index_add,
      .gradient = [](GradContext& c) -> std::vector<Var> {
        Var source;
        if (c.needs(2)) {
          source = c.call("index_select", {c.cotangent(0), c.input(1)},
                          {{"dim", c.attrs().get_int("dim")}});
        }
        return {c.cotangent(0), Var{}, source};
      },
      .saved_inputs = {1},
      .declined = {"P(max), R, R; P(min), R, R: where source is infinite, a rank that holds the "
                   "opposite infinity of self, as one without elements does, gives NaN"},
      .samples = {{.shapes = {{8, 6}, {9}, {9, 6}},
                   .attrs = {{"dim", 0}},
                   .dtypes = {kF, kI, kF},
                   .below = {2, 8, 2}},
                  {.shapes = {{5, 3}, {8}, {5, 8}},
                   .attrs = {{"dim", 1}},
                   .dtypes = {kF, kI, kF},
                   .below = {2, 3, 2}}}};
  OpDef in_place = add;
  in_place.name = "index_add_";
  in_place.doc = "Adds slices of source into self at a 1-D index along a dim, in operand order.";
  in_place.rule = "*g@dim, i, *i@dim -> &A *g | g#:own i:sum | lin A+C";
  table.must_add(std::move(add));
  table.must_add(std::move(in_place));
}

StatusOr<std::vector<TensorMeta>> infer_embedding(std::span<const TensorMeta> inputs,
                                                  const Attrs&) {
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "indices"));
  if (inputs[0].shape.size() != 2) {
    return invalid_argument("weight " + to_string(inputs[0].shape) + ", but must be [v, d]");
  }
  TensorMeta out = {inputs[1].shape, inputs[0].dtype};
  out.shape.push_back(inputs[0].shape[1]);
  return std::vector<TensorMeta>{out};
}

void add_embedding(OpTable& table) {
  table.must_add({.name = "embedding",
                  .doc = "Rows of weight [v, d] by id.",
                  .args = {in("weight"), in("indices")},
                  .rule = "vd, * -> *d | v#:sum | lin A | mono A | prod A",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::embedding(call.ctx, call.inputs[0], call.inputs[1], call.absent,
                                           call.outputs[0]);
                      },
                  .infer = infer_embedding,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    return {c.call("embedding_grad", {c.cotangent(0), c.input(1)},
                                   {{"num_embeddings", c.input_shape(0)[0]}}),
                            Var{}};
                  },
                  .saved_inputs = {1},
                  .samples = {{.shapes = {{8, 6}, {8}}, .dtypes = {kF, kI}, .below = {2, 8}},
                              {.shapes = {{5, 3}, {2, 8}}, .dtypes = {kF, kI}, .below = {2, 5}},
                              {.shapes = {{2, 8}, {3}}, .dtypes = {kF, kI}, .below = {2, 2}}}});
  table.must_add({.name = "embedding_grad",
                  .doc = "Cotangent of embedding's weight: rows of grad added by id.",
                  .args = {in("grad"), in("indices")},
                  .attrs = {ops::int_attr("num_embeddings")},
                  .rule = "*d, * -> vd | v#:own *:sum | lin A",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::embedding_grad(call.ctx, call.inputs[0], call.inputs[1],
                                                call.absent, call.outputs[0]);
                      },
                  .infer = [](std::span<const TensorMeta> inputs,
                              const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
                    TSR_RETURN_IF_ERROR(ops::check_cotangent(inputs[0]));
                    TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "indices"));
                    const Shape &grad = inputs[0].shape, &ids = inputs[1].shape;
                    if (!std::equal(grad.begin(), grad.end() - 1, ids.begin(), ids.end())) {
                      return invalid_argument("grad " + to_string(grad) + " and indices " +
                                              to_string(ids) +
                                              ": grad must have a row for each index");
                    }
                    return std::vector<TensorMeta>{
                        {{attrs.get_int("num_embeddings"), grad.back()}, inputs[0].dtype}};
                  },
                  .samples = {{.shapes = {{8, 6}, {8}},
                               .attrs = {{"num_embeddings", 8}},
                               .dtypes = {kF, kI},
                               .below = {2, 8}},
                              {.shapes = {{2, 8, 3}, {2, 8}},
                               .attrs = {{"num_embeddings", 5}},
                               .dtypes = {kF, kI},
                               .below = {2, 5}}}});
}

}  // namespace

void add_index_rows_ops(OpTable& table) {
  add_index_select(table);
  add_index_add(table);
  add_embedding(table);
}

}  // namespace tessera
