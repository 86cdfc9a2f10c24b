// Tensors like another: same shape and cuts, values from attributes. The operand's values are never
// read, so its Partial axes hold the result replicated.
#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

/// Without one, the operand's dtype.
AttrDef dtype_attr() {
  AttrDef attr = {"dtype", AttrDef::Type::kDType, {}};
  attr.default_value.emplace();
  return attr;
}

StatusOr<std::vector<TensorMeta>> infer_like(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  return std::vector<TensorMeta>{{inputs[0].shape, attrs.get_dtype_or("dtype", inputs[0].dtype)}};
}

StatusOr<std::vector<Strategy>> like_strategies(std::span<const Spec* const> inputs,
                                                std::span<const TensorMeta> outputs, const Attrs&) {
  const Spec& input = *inputs[0];
  Layout layout = input.layout();
  for (auto& partial : layout.partial) partial.reset();
  TSR_ASSIGN_OR_RETURN(
      Spec out, Spec::make(input.mesh(), outputs[0].shape, outputs[0].dtype, std::move(layout)));
  return std::vector<Strategy>{{{input}, {std::move(out)}, "cut like the operand"}};
}

OpDef like(std::string name, std::string doc, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {dtype_attr()},
          .rule = "",
          .kernel = std::move(kernel),
          .infer = infer_like,
          .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; },
          .strategies = like_strategies,
          .samples = {
              {.shapes = {{8, 6}}},
              {.shapes = {{5, 3}}, .attrs = {{"dtype", DType::kI64}}, .differentiable = false}}};
}

/// Sizes of their own: cut like the operand where it has them, else whole on every rank.
StatusOr<std::vector<TensorMeta>> infer_new(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  return std::vector<TensorMeta>{
      {attrs.get_ints("size"), attrs.get_dtype_or("dtype", inputs[0].dtype)}};
}

StatusOr<std::vector<Strategy>> new_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs) {
  if (outputs[0].shape == inputs[0]->global_shape()) return like_strategies(inputs, outputs, attrs);
  Layout whole;
  whole.dims.resize(outputs[0].shape.size());
  whole.partial.resize(static_cast<std::size_t>(inputs[0]->mesh().ndim()));
  TSR_ASSIGN_OR_RETURN(Spec out, Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype,
                                            std::move(whole)));
  return std::vector<Strategy>{{{*inputs[0]}, {std::move(out)}, "whole on every rank"}};
}

OpDef of_size(std::string name, std::string doc, Kernel kernel) {
  OpDef def = {.name = std::move(name),
               .doc = std::move(doc),
               .args = {in("self")},
               .attrs = {ops::ints_attr("size"), dtype_attr()},
               .rule = "",
               .kernel = std::move(kernel),
               .infer = infer_new,
               .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; },
               .strategies = new_strategies};
  def.samples = {{.shapes = {{8, 6}}, .attrs = {{"size", Shape{7, 6}}}},
                 {.shapes = {{5, 3}}, .attrs = {{"size", Shape{5, 3}}}},
                 {.shapes = {{5, 3}},
                  .attrs = {{"size", Shape{}}, {"dtype", DType::kI64}},
                  .differentiable = false}};
  return def;
}

template <int kValue>
void run_fill(KernelCall& call) {
  kernels::fill(call.ctx, kValue, call.outputs[0]);
}

}  // namespace

void add_creation_ops(OpTable& table) {
  table.must_add(like("zeros_like", "Zeros of the operand's shape.", run_fill<0>));
  table.must_add(like("ones_like", "Ones of the operand's shape.", run_fill<1>));
  table.must_add(like("empty_like",
                      "A tensor of the operand's shape to be overwritten; zeros until then.",
                      run_fill<0>));
  OpDef full = like("full_like", "One number in the operand's shape.", [](KernelCall& call) {
    kernels::fill(call.ctx, call.attrs.get_double("fill_value"), call.outputs[0]);
  });
  full.attrs = {ops::element_attr("fill_value"), dtype_attr()};
  for (Sample& sample : full.samples) sample.attrs.set("fill_value", 3.0);
  table.must_add(std::move(full));

  const auto run_full = [](KernelCall& call) {
    kernels::fill(call.ctx, call.attrs.get_double("fill_value"), call.outputs[0]);
  };
  table.must_add(of_size("new_zeros", "Zeros of `size` on the operand's mesh.", run_fill<0>));
  table.must_add(of_size("new_ones", "Ones of `size` on the operand's mesh.", run_fill<1>));
  table.must_add(of_size("new_empty",
                         "A tensor of `size` on the operand's mesh, to be overwritten; zeros until "
                         "then.",
                         run_fill<0>));
  OpDef new_full = of_size("new_full", "One number in `size`, on the operand's mesh.", run_full);
  new_full.attrs = {ops::ints_attr("size"), ops::element_attr("fill_value"), dtype_attr()};
  for (Sample& sample : new_full.samples) sample.attrs.set("fill_value", -2.0);
  table.must_add(std::move(new_full));
}

}  // namespace tessera
