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
  return std::vector<TensorMeta>{{inputs[0].shape, attrs.get_dtype("dtype", inputs[0].dtype)}};
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
  full.attrs = {ops::double_attr("fill_value"), dtype_attr()};
  for (Sample& sample : full.samples) sample.attrs.set("fill_value", 3.0);
  table.must_add(std::move(full));
}

}  // namespace tessera
