// The position of the extreme along a dim. Where the dim is cut, every rank puts up its own
// candidate.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/reduce.h"
#include "strategies/ops/candidates.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Extreme;

StatusOr<std::vector<TensorMeta>> infer_arg(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  Shape shape = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  if (shape[static_cast<std::size_t>(dim)] == 0) {
    return invalid_argument("dim " + std::to_string(dim) + " of " + to_string(shape) +
                            " is empty: no element is extreme");
  }
  if (attrs.get_bool("keepdim")) {
    shape[static_cast<std::size_t>(dim)] = 1;
  } else {
    shape.erase(shape.begin() + dim);
  }
  return std::vector<TensorMeta>{{shape, DType::kI64}};
}

template <Extreme kWhich>
void run_arg(KernelCall& call) {
  const Array& x = call.inputs[0];
  const int dim = ops::kernel_dim(call, x);
  const int dims[] = {dim};
  const Shape kept = ops::keep_dims(x.shape(), dims);
  const Array values = ops::scratch(call, kept, x.dtype());
  kernels::arg_extreme(call.ctx, kWhich, x, dim, values, call.outputs[0].try_view(kept));
}

/// This rank's extreme with its global index; none where its shard is empty.
template <Extreme kWhich>
void select_own(KernelCall& call) {
  const Array& x = call.inputs[0];
  const int dim = ops::kernel_dim(call, x);
  Shape shape = x.shape();
  std::int64_t& size = shape[static_cast<std::size_t>(dim)];
  size = std::min<std::int64_t>(size, 1);
  const ops::Candidates own = {ops::scratch(call, shape, x.dtype()),
                               ops::scratch(call, shape, DType::kI64)};
  if (size > 0) kernels::arg_extreme(call.ctx, kWhich, x, dim, own.values, own.indices);
  const ops::Candidates candidates = ops::make_candidates(call, own, dim);
  call.outputs[0] = candidates.values;
  call.outputs[1] = candidates.indices;
}

template <Extreme kWhich>
void choose(KernelCall& call) {
  const int dim = ops::kernel_dim(call, call.inputs[0]);
  const ops::Candidates all = ops::by_index(call, {call.inputs[0], call.inputs[1]});
  const int first_dim[] = {0};
  const Shape kept = ops::keep_dims(all.values.shape(), first_dim);
  const Array values = ops::scratch(call, kept, all.values.dtype());
  const Array places = ops::scratch(call, kept, DType::kI64);
  const Array chosen = ops::scratch(call, kept, DType::kI64);
  kernels::arg_extreme(call.ctx, kWhich, all.values, 0, values, places);
  kernels::gather(call.ctx, all.indices, 0, places, kernels::Absent::kError, chosen);
  const Array result = chosen.transpose(0, dim);
  kernels::copy(call.ctx, result, call.outputs[0].try_view(result.shape()));
}

template <Extreme kWhich>
void add_arg(OpTable& table, const char* name, const char* which) {
  table.must_add(
      {.name = name,
       .doc = std::string("Index of the ") + which +
              " element along a dim; NaN counts as it, and the first of equals wins.",
       .args = {in("self")},
       .attrs = {ops::int_attr("dim"), ops::bool_attr("keepdim", false)},
       .rule = "*r@dim -> * int | r!",
       .kernel = run_arg<kWhich>,
       .infer = infer_arg,
       .lowerings = {{"r", "each rank's extreme, joined; the lower index wins ties",
                      [](const Attrs&) {
                        return ops::selection_steps(1, select_own<kWhich>, choose<kWhich>);
                      }}},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}, .differentiable = false},
                   {.shapes = {{8, 3}},
                    .attrs = {{"dim", 0}, {"keepdim", true}},
                    .dtypes = {DType::kI64},
                    .below = {3},
                    .differentiable = false},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", -2}}, .differentiable = false}}});
}

}  // namespace

void add_argmax_ops(OpTable& table) {
  add_arg<Extreme::kMax>(table, "argmax", "largest");
  add_arg<Extreme::kMin>(table, "argmin", "smallest");
}

}  // namespace tessera
