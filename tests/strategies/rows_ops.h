// tests/strategies/rows_ops.h: a small table of ops of the tests' own, with rules from the
// notation's description. It lets rows, propagation and verification be judged without the built-in
// ops.
#pragma once

// GCC 12 takes Abseil's move of an inlined vector for a read of uninitialised memory.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/select.h"
#include "strategies/rules/propagate.h"

namespace tessera::testing {

using kernels::Binary;
using kernels::Unary;

inline AttrDef dim_def() { return {"dim", AttrDef::Type::kInt, AttrValue{std::int64_t{0}}}; }
inline std::vector<AttrDef> reduce_defs() {
  return {{"dims", AttrDef::Type::kInts, AttrValue{Shape{}}},
          {"keepdim", AttrDef::Type::kBool, AttrValue{false}}};
}

/// Shapes of a call by an index along `dim`: elsewhere index and src lie within self.
inline StatusOr<std::vector<TensorMeta>> infer_within(std::span<const TensorMeta> inputs,
                                                      const Attrs& attrs,
                                                      const TensorMeta& result) {
  const Shape &self = inputs[0].shape, &index = inputs[1].shape;
  const auto dim = static_cast<std::size_t>(attrs.get_int("dim"));
  bool fits = self.size() == index.size() && dim < self.size();
  for (std::size_t d = 0; fits && d < self.size(); ++d) fits = d == dim || index[d] <= self[d];
  for (std::size_t d = 0; fits && inputs.size() > 2 && d < self.size(); ++d) {
    fits = index[d] <= inputs[2].shape[d];
  }
  if (!fits) return invalid_argument("index " + to_string(index) + " for self " + to_string(self));
  return std::vector<TensorMeta>{result};
}

inline Kernel binary_kernel(Binary op) {
  return [op](KernelCall& call) {
    kernels::binary(call.ctx, op, call.inputs[0], call.inputs[1], call.outputs[0]);
  };
}
inline Kernel unary_kernel(Unary op) {
  return [op](KernelCall& call) { kernels::unary(call.ctx, op, call.inputs[0], call.outputs[0]); };
}
inline Kernel reduce_kernel(ReduceOp op) {
  return [op](KernelCall& call) {
    std::vector<int> dims;
    const int ndim = call.inputs[0].ndim();
    for (const std::int64_t dim : call.attrs.get_ints("dims")) {
      dims.push_back(static_cast<int>(dim < 0 ? dim + ndim : dim));
    }
    for (int d = 0; call.attrs.get_ints("dims").empty() && d < ndim; ++d) dims.push_back(d);
    kernels::reduce(call.ctx, op, call.inputs[0], dims, call.outputs[0]);
  };
}
inline int dim_of(const KernelCall& call) {
  const auto dim = static_cast<int>(call.attrs.get_int("dim"));
  return dim < 0 ? dim + call.inputs[0].ndim() : dim;
}

inline OpDef op_def(std::string name, std::string rule, int num_args, Kernel kernel) {
  OpDef def;
  def.name = std::move(name);
  def.doc = "An op of the tests.";
  constexpr std::string_view kNames = "abcdef";
  for (int i = 0; i < num_args; ++i) {
    def.args.push_back(in(std::string(1, kNames[static_cast<std::size_t>(i)])));
  }
  def.rule = std::move(rule);
  def.kernel = std::move(kernel);
  return def;
}

inline void add_pointwise_ops(OpTable& table) {
  const std::vector<Sample> pairs = {
      {.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}, {.shapes = {{2, 1, 3}, {4, 1}}}};
  OpDef add = op_def("add", "*, * -> * | lin A+B | mono AB", 2, binary_kernel(Binary::kAdd));
  add.samples = pairs;
  add.gradient = [](GradContext& grad) {
    return std::vector<Var>{grad.sum_to(grad.cotangent(0), grad.input_shape(0)),
                            grad.sum_to(grad.cotangent(0), grad.input_shape(1))};
  };
  table.must_add(add);
  OpDef mul = op_def("mul", "*, * -> * | lin A*B", 2, binary_kernel(Binary::kMul));
  mul.samples = pairs;
  mul.saved_inputs = {0, 1};
  mul.gradient = [](GradContext& grad) {
    const Var out = grad.cotangent(0);
    return std::vector<Var>{
        grad.sum_to(grad.call("mul", {out, grad.input(1)}), grad.input_shape(0)),
        grad.sum_to(grad.call("mul", {out, grad.input(0)}), grad.input_shape(1))};
  };
  table.must_add(mul);
  OpDef relu = op_def("relu", "* -> * | mono A", 1, unary_kernel(Unary::kRelu));
  relu.samples = {{.shapes = {{8, 6}}}, {.shapes = {{5}}}};
  table.must_add(relu);
  OpDef add_ = op_def("add_", "*, * -> &A * | lin A+B", 2, binary_kernel(Binary::kAdd));
  add_.samples = {{.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}};
  table.must_add(add_);
  OpDef where = op_def(
      "where", "*, *, * -> * | lin B+C | mono BC | max B,C | min B,C", 3, [](KernelCall& call) {
        kernels::where(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2], call.outputs[0]);
      });
  where.samples = {
      {.shapes = {{5, 4}, {5, 4}, {4}}, .dtypes = {DType::kBool, DType::kF64, DType::kF64}}};
  table.must_add(where);
}

inline void add_contracting_ops(OpTable& table) {
  OpDef mm = op_def("mm", "mk, kn -> mn | k:sum | lin A*B", 2, [](KernelCall& call) {
    kernels::matmul(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
  });
  mm.samples = {{.shapes = {{8, 6}, {6, 4}}}, {.shapes = {{5, 3}, {3, 7}}}};
  table.must_add(mm);
  OpDef addmm = op_def("addmm", "mn, mk, kn -> mn | k:sum | lin A+B*C", 3, [](KernelCall& call) {
    kernels::matmul(call.ctx, call.inputs[1], call.inputs[2], call.outputs[0]);
    kernels::binary(call.ctx, Binary::kAdd, call.outputs[0], call.inputs[0], call.outputs[0]);
  });
  addmm.samples = {{.shapes = {{8, 4}, {8, 6}, {6, 4}}}, {.shapes = {{5, 7}, {5, 3}, {3, 7}}}};
  table.must_add(addmm);
  const std::vector<Sample> reduced = {
      {.shapes = {{8, 6}}, .attrs = {{"dims", Shape{0}}}},
      {.shapes = {{5, 3}}, .attrs = {{"dims", Shape{-1}}, {"keepdim", true}}},
      {.shapes = {{5, 3}}}};
  OpDef sum = op_def("sum", "*r@dims -> * | r:sum | lin A", 1, reduce_kernel(ReduceOp::kSum));
  sum.attrs = reduce_defs();
  sum.samples = reduced;
  // GradContext::sum_to calls it by ATen's name for the list.
  table.must_add(sum);
  OpDef amax = op_def("amax", "*r@dims -> * | r:max | max A", 1, reduce_kernel(ReduceOp::kMax));
  amax.attrs = reduce_defs();
  amax.samples = reduced;
  table.must_add(amax);
  OpDef softmax = op_def("softmax", "*r@dim -> *r | r!", 1, [](KernelCall& call) {
    kernels::softmax(call.ctx, call.inputs[0], dim_of(call), call.outputs[0]);
  });
  softmax.attrs = {dim_def()};
  softmax.samples = {{.shapes = {{5, 3}}, .attrs = {{"dim", std::int64_t{1}}}}};
  table.must_add(softmax);
  OpDef topk = op_def("topk", "*r@dim -> *K, *K int | r!", 1, [](KernelCall& call) {
    kernels::topk(call.ctx, call.inputs[0], dim_of(call), kernels::Order::kDescending,
                  call.outputs[0], call.outputs[1]);
  });
  topk.num_outputs = 2;
  topk.attrs = {{"k", AttrDef::Type::kInt, {}}, dim_def()};
  topk.infer = [](std::span<const TensorMeta> inputs,
                  const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
    TensorMeta values = inputs[0];
    std::int64_t& size = values.shape[static_cast<std::size_t>(attrs.get_int("dim"))];
    if (attrs.get_int("k") > size) return invalid_argument("k is larger than the dim");
    size = attrs.get_int("k");
    TensorMeta places = values;
    places.dtype = DType::kI64;
    return std::vector<TensorMeta>{values, places};
  };
  topk.samples = {
      {.shapes = {{5, 4}}, .attrs = {{"k", std::int64_t{2}}, {"dim", std::int64_t{1}}}}};
  table.must_add(topk);
}

inline void add_indexed_ops(OpTable& table) {
  using D = DType;
  OpDef gather =
      op_def("gather", "*g@dim, *i@dim -> *i | g#:sum | lin A | mono A", 2, [](KernelCall& call) {
        kernels::gather(call.ctx, call.inputs[0], dim_of(call), call.inputs[1], call.absent,
                        call.outputs[0]);
      });
  gather.attrs = {dim_def()};
  gather.infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) {
    return infer_within(inputs, attrs, {inputs[1].shape, inputs[0].dtype});
  };
  gather.samples = {{.shapes = {{8, 4}, {8, 3}},
                     .attrs = {{"dim", std::int64_t{1}}},
                     .dtypes = {D::kF64, D::kI64},
                     .below = {0, 4}},
                    {.shapes = {{8, 4}, {4, 3}},
                     .attrs = {{"dim", std::int64_t{1}}},
                     .dtypes = {D::kF64, D::kI64},
                     .below = {0, 4}},
                    {.shapes = {{5, 3}, {7, 3}},
                     .attrs = {{"dim", std::int64_t{0}}},
                     .dtypes = {D::kF64, D::kI64},
                     .below = {0, 5}}};
  table.must_add(gather);
  OpDef scatter_add =
      op_def("scatter_add_", "*g@dim, *i@dim, *i@dim -> &A *g | g#:own i:sum | lin A+C", 3,
             [](KernelCall& call) {
               kernels::scatter_add(call.ctx, call.outputs[0], dim_of(call), call.inputs[1],
                                    call.inputs[2], call.absent);
             });
  scatter_add.attrs = {dim_def()};
  scatter_add.infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) {
    return infer_within(inputs, attrs, inputs[0]);
  };
  scatter_add.samples = {
      {.shapes = {{4, 4}, {4, 4}, {4, 4}}, .dtypes = {D::kF64, D::kI64, D::kF64}, .below = {0, 4}},
      {.shapes = {{4, 4}, {4, 3}, {8, 3}}, .dtypes = {D::kF64, D::kI64, D::kF64}, .below = {0, 4}}};
  table.must_add(scatter_add);
  OpDef scatter = op_def("scatter_", "*g@dim, *i@dim, *i@dim -> &A *g | g#:own i! | lin A+C", 3,
                         [](KernelCall& call) {
                           kernels::scatter(call.ctx, call.outputs[0], dim_of(call), call.inputs[1],
                                            call.inputs[2], call.absent);
                         });
  scatter.args = {in("self"), in("index"), in("src")};
  scatter.attrs = {dim_def()};
  scatter.samples = {{.shapes = {{6, 5}, {4, 5}, {4, 5}},
                      .dtypes = {D::kF64, D::kI64, D::kF64},
                      .below = {0, 6},
                      .unique_dim = {-1, 0, -1}}};
  table.must_add(scatter);
  OpDef embedding =
      op_def("embedding", "vd, * -> *d | v#:sum | lin A | mono A", 2, [](KernelCall& call) {
        kernels::embedding(call.ctx, call.inputs[0], call.inputs[1], call.absent, call.outputs[0]);
      });
  embedding.samples = {{.shapes = {{5, 3}, {4, 2}}, .dtypes = {D::kF64, D::kI64}, .below = {0, 5}},
                       {.shapes = {{8, 6}, {7}}, .dtypes = {D::kF64, D::kI32}, .below = {0, 8}}};
  table.must_add(embedding);
}

inline OpTable small_table() {
  OpTable table;
  add_pointwise_ops(table);
  add_contracting_ops(table);
  add_indexed_ops(table);
  return table;
}

/// "S(0), R -> S(0)" of every row, on one axis.
inline std::vector<std::string> rows_text(const OpTable& table, std::string_view name,
                                          const std::vector<TensorMeta>& inputs,
                                          const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(table.find(name));
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  std::vector<std::string> text;
  for (const Row& row : value_or_throw(rows_of(op, inputs, complete, 2))) {
    text.push_back(to_string(row) + " | " + row.why);
  }
  return text;
}
inline TensorMeta f64(Shape shape) { return {std::move(shape), DType::kF64}; }
inline TensorMeta i64(Shape shape) { return {std::move(shape), DType::kI64}; }

}  // namespace tessera::testing
