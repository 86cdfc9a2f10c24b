// Tensors filled by position: each rank computes the values of its part from the global indices, so
// that every placement holds the same numbers. In place on a tensor that has its placement already.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/select.h"
#include "strategies/ops/create/random_fill.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

/// The values of a part of a tensor of `shape` whose elements stand at `global` indices.
using Values = std::function<double(std::span<const std::int64_t> at)>;

void fill_by_index(KernelCall& call, const Values& value_at) {
  const Array& out = call.outputs[0];
  const auto global = ops::global_indices(ops::result_view(call), out.shape());
  const Array values = Array::empty(out.shape(), DType::kF64);
  Shape at(out.shape().size(), 0);
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = at.size(); d-- > 0;) {
      at[d] = global[d][static_cast<std::size_t>(rest % out.shape()[d])];
      rest /= out.shape()[d];
    }
    values.data<double>()[i] = value_at(view_of(at));
  }
  kernels::copy(call.ctx, to_device(call.ctx, values), out);
}

const Shape& global_shape(const KernelCall& call) {
  const OperandView view = ops::result_view(call);
  return view.spec != nullptr ? view.spec->global_shape() : call.outputs[0].shape();
}

Infer of_ndim(std::size_t ndim) {
  return [ndim](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
    if (inputs[0].shape.size() == ndim) return std::vector<TensorMeta>{inputs[0]};
    return invalid_argument("self " + to_string(inputs[0].shape) + ", but must have " +
                            std::to_string(ndim) + (ndim == 1 ? " dim" : " dims"));
  };
}

OpDef filled(std::string name, std::string doc, std::vector<AttrDef> attrs, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = std::move(attrs),
          .rule = "* -> &A * | aff A | mono A",
          .kernel = std::move(kernel),
          .infer = of_ndim(1),
          .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; }};
}

std::vector<Sample> line_samples(const Attrs& attrs) {
  return {{.shapes = {{8}}, .attrs = attrs, .differentiable = false},
          {.shapes = {{5}}, .attrs = attrs, .differentiable = false},
          {.shapes = {{1}}, .attrs = attrs, .differentiable = false}};
}

/// `steps` values from start to end, both included; computed from the nearer end.
double on_line(double start, double end, std::int64_t steps, std::int64_t i) {
  if (steps <= 1) return start;
  const double step = (end - start) / static_cast<double>(steps - 1);
  return i < steps / 2 ? start + step * static_cast<double>(i)
                       : end - step * static_cast<double>(steps - 1 - i);
}

void add_lines(OpTable& table) {
  OpDef arange = filled("arange_", "start, start + step, … along the only dim.",
                        {ops::element_attr("start", 0.0), ops::element_attr("step", 1.0)},
                        [](KernelCall& call) {
                          const double start = call.attrs.get_double("start");
                          const double step = call.attrs.get_double("step");
                          fill_by_index(call, [=](std::span<const std::int64_t> at) {
                            return start + step * static_cast<double>(at[0]);
                          });
                        });
  arange.samples = line_samples({{"start", -2.0}, {"step", 1.5}});
  table.must_add(std::move(arange));
  OpDef linspace =
      filled("linspace_", "Evenly spaced values from start to end, both included.",
             {ops::element_attr("start"), ops::element_attr("end")}, [](KernelCall& call) {
               const double start = call.attrs.get_double("start");
               const double end = call.attrs.get_double("end");
               const std::int64_t steps = global_shape(call)[0];
               fill_by_index(call, [=](std::span<const std::int64_t> at) {
                 return on_line(start, end, steps, at[0]);
               });
             });
  linspace.samples = line_samples({{"start", -1.0}, {"end", 2.5}});
  table.must_add(std::move(linspace));
  OpDef logspace =
      filled("logspace_", "base to the power of what linspace_ gives.",
             {ops::double_attr("start"), ops::double_attr("end"), ops::double_attr("base", 10.0)},
             [](KernelCall& call) {
               const double start = call.attrs.get_double("start");
               const double end = call.attrs.get_double("end");
               const double base = call.attrs.get_double("base");
               const std::int64_t steps = global_shape(call)[0];
               fill_by_index(call, [=](std::span<const std::int64_t> at) {
                 return std::pow(base, on_line(start, end, steps, at[0]));
               });
             });
  logspace.samples = line_samples({{"start", -1.0}, {"end", 1.0}, {"base", 2.0}});
  table.must_add(std::move(logspace));
}

void add_eye(OpTable& table) {
  OpDef eye =
      filled("eye_", "1 on the main diagonal of a matrix, 0 elsewhere.", {}, [](KernelCall& call) {
        fill_by_index(call,
                      [](std::span<const std::int64_t> at) { return at[0] == at[1] ? 1.0 : 0.0; });
      });
  eye.rule += " | prod A";  // 0 and 1 are their own powers
  eye.infer = of_ndim(2);
  eye.samples = {{.shapes = {{8, 6}}, .differentiable = false},
                 {.shapes = {{5, 3}}, .differentiable = false}};
  table.must_add(std::move(eye));
}

// ---- randperm ----

/// The global permutation: positions in ascending order of their random keys; every rank makes it
/// whole and keeps its part.
void run_randperm(KernelCall& call) {
  const std::int64_t size = global_shape(call)[0];
  const Array keys = ops::scratch(call, {size}, DType::kF64);
  std::vector<std::vector<std::int64_t>> all(
      1, std::vector<std::int64_t>(static_cast<std::size_t>(size)));
  std::iota(all[0].begin(), all[0].end(), 0);
  kernels::RandomSpec spec;
  spec.seed = static_cast<std::uint64_t>(call.attrs.get_int("seed"));
  spec.stream = static_cast<std::uint64_t>(call.attrs.get_int("stream"));
  kernels::random(call.ctx, spec, {size}, all, keys);
  const Array sorted = ops::scratch(call, {size}, DType::kF64);
  const Array order = ops::scratch(call, {size}, DType::kI64);
  kernels::sort(call.ctx, keys, 0, kernels::Order::kAscending, sorted, order);
  const Array& out = call.outputs[0];
  const Array held = held_positions(call.ctx, ops::result_view(call), 0, out.size(0));
  const Array own = ops::scratch(call, out.shape(), DType::kI64);
  kernels::gather(call.ctx, order, 0, held, kernels::Absent::kError, own);
  kernels::copy(call.ctx, own, out);
}

void add_randperm(OpTable& table) {
  OpDef randperm = filled("randperm_", "0 … n − 1 in a random order, the same whatever the cut.",
                          ops::with_seed({}), run_randperm);
  randperm.samples = line_samples({{"seed", 17}, {"stream", 4}});
  table.must_add(std::move(randperm));
}

}  // namespace

void add_factory_fill_ops(OpTable& table) {
  add_lines(table);
  add_eye(table);
  add_randperm(table);
}

}  // namespace tessera
