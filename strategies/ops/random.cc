// Random values in place. An element's value depends on seed, stream and its index in the whole
// tensor only, so every placement holds the same numbers.
#include "kernels/random.h"

#include <numeric>

#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Distribution;
using kernels::RandomSpec;

/// Global indices of the local elements along each dim.
std::vector<std::vector<std::int64_t>> global_indices(const KernelCall& call, const Array& out) {
  std::vector<std::vector<std::int64_t>> indices;
  for (int dim = 0; dim < out.ndim(); ++dim) {
    std::vector<std::int64_t>& index =
        indices.emplace_back(static_cast<std::size_t>(out.size(dim)));
    std::iota(index.begin(), index.end(), 0);
    if (call.output_views.empty()) continue;
    const Spec& spec = *call.output_views[0].spec;
    const auto d = static_cast<std::size_t>(dim);
    for (std::int64_t& i : index) {
      i = local_to_global(spec.mesh(), spec.global_shape()[d], spec.layout().dims[d],
                          *call.output_views[0].coord, i);
    }
  }
  return indices;
}

void fill_random(KernelCall& call, RandomSpec spec) {
  const Array& out = call.outputs[0];
  spec.seed = static_cast<std::uint64_t>(call.attrs.get_int("seed"));
  spec.stream = static_cast<std::uint64_t>(call.attrs.get_int("stream"));
  const Shape& global_shape =
      call.output_views.empty() ? out.shape() : call.output_views[0].spec->global_shape();
  kernels::random(call.ctx, spec, global_shape, global_indices(call, out), out);
}

void add_random(OpTable& table, std::string name, std::string doc, std::vector<AttrDef> attrs,
                Kernel kernel) {
  attrs.push_back(ops::int_attr("seed"));
  attrs.push_back(ops::int_attr("stream"));
  const Attrs sample = {{"seed", 17}, {"stream", -5}};
  table.must_add({.name = std::move(name),
                  .doc = std::move(doc),
                  .args = {in("self")},
                  .attrs = std::move(attrs),
                  .rule = "* -> &A *",
                  .kernel = std::move(kernel),
                  .infer = ops::infer_in_place,
                  .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; },
                  .samples = {{.shapes = {{8, 6}}, .attrs = sample, .differentiable = false},
                              {.shapes = {{5, 3}}, .attrs = sample, .differentiable = false}}});
}

}  // namespace

void add_random_ops(OpTable& table) {
  add_random(table, "uniform_", "Uniform values in [from, to).",
             {ops::double_attr("from", 0.0), ops::double_attr("to", 1.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kUniform,
                                  .a = call.attrs.get_double("from"),
                                  .b = call.attrs.get_double("to")});
             });
  add_random(table, "normal_", "Normal values.",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kNormal,
                                  .a = call.attrs.get_double("mean"),
                                  .b = call.attrs.get_double("std")});
             });
  add_random(table, "truncated_normal_", "Normal values kept inside [low, high].",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0),
              ops::double_attr("low", -2.0), ops::double_attr("high", 2.0)},
             [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kTruncatedNormal,
                                  .a = call.attrs.get_double("mean"),
                                  .b = call.attrs.get_double("std"),
                                  .low = call.attrs.get_double("low"),
                                  .high = call.attrs.get_double("high")});
             });
}

}  // namespace tessera
