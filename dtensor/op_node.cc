#include "dtensor/op_node.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/dispatch.h"
#include "dtensor/redistribute.h"

namespace tessera {

namespace {

/// A recorded op call. It keeps the resolved call, so specs and attributes are not copied.
struct OpNode final : GradNode {
  OpNode(std::shared_ptr<const ResolvedCall> resolved, const Site& where, Runtime& rt)
      : GradNode(rt, where), call(std::move(resolved)) {}
  std::string_view name() const override { return call->op->def.name; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override;
  void release() override { saved.clear(); }

  DTensor saved_input(int i) const;
  DTensor saved_output(int i) const;

  std::shared_ptr<const ResolvedCall> call;
  absl::InlinedVector<SavedTensor, 3> saved;  ///< OpDef::saved_inputs, then saved_outputs
};

int position_of(const std::vector<int>& list, int value) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == value) return static_cast<int>(i);
  }
  return -1;
}

DTensor OpNode::saved_input(int i) const {
  const OpDef& def = call->op->def;
  const int at = position_of(def.saved_inputs, i);
  TSR_CHECK(at >= 0,
            absl::StrFormat("gradient of %s reads input %d, which it does not save", def.name, i));
  const SavedTensor& kept = saved[static_cast<std::size_t>(at)];
  if (kept.spec == nullptr) return {};
  const std::size_t arg = std::min(static_cast<std::size_t>(i), def.args.size() - 1);
  return restore(kept, "operand " + def.args[arg].name);
}

DTensor OpNode::saved_output(int i) const {
  const OpDef& def = call->op->def;
  const int at = position_of(def.saved_outputs, i);
  TSR_CHECK(at >= 0,
            absl::StrFormat("gradient of %s reads output %d, which it does not save", def.name, i));
  return restore(saved[def.saved_inputs.size() + static_cast<std::size_t>(at)],
                 absl::StrFormat("result %d", i));
}

/// An op's gradient written with dispatched ops.
class DispatchContext final : public GradContext {
 public:
  DispatchContext(OpNode& node, std::span<const DTensor> cotangents)
      : node_(node), cotangents_(cotangents) {}

  Var input(int i) override { return add(node_.saved_input(i)); }
  Var output(int i) override { return add(node_.saved_output(i)); }
  Var cotangent(int i) override { return add(cotangents_[static_cast<std::size_t>(i)]); }
  const Attrs& attrs() const override { return node_.call->attrs; }
  int num_inputs() const override { return static_cast<int>(node_.call->inputs.size()); }
  bool needs(int i) const override { return node_.edges[static_cast<std::size_t>(i)].wanted(); }
  const Shape& input_shape(int i) const override { return input_spec(i).global_shape(); }
  DType input_dtype(int i) const override { return input_spec(i).dtype(); }
  const Shape& output_shape(int i) const override {
    return node_.call->outputs[static_cast<std::size_t>(i)]->global_shape();
  }
  const Shape& shape(Var value) const override { return tensor(value).global_shape(); }
  DType dtype(Var value) const override { return tensor(value).dtype(); }
  std::vector<Var> call_all(std::string_view op, std::span<const Var> operands,
                            const Attrs& attrs) override {
    static const DTensor kAbsent;
    absl::InlinedVector<const DTensor*, 4> pointers;
    for (const Var& each : operands) pointers.push_back(each.defined() ? &tensor(each) : &kAbsent);
    Results results = dispatch(node_.runtime, find_op(node_.runtime, op),
                               {pointers.data(), pointers.size()}, attrs, node_.site);
    std::vector<Var> vars;
    for (DTensor& each : results) vars.push_back(add(std::move(each)));
    return vars;
  }

  const DTensor& tensor(Var value) const { return tensors_[static_cast<std::size_t>(value.id)]; }

 private:
  const Spec& input_spec(int i) const {
    const Spec* spec = node_.call->inputs[static_cast<std::size_t>(i)];
    TSR_CHECK(spec != nullptr,
              absl::StrFormat("gradient of %s asks for absent operand %d", node_.name(), i));
    return *spec;
  }
  Var add(DTensor tensor) {
    if (!tensor.defined()) return {};
    tensors_.push_back(std::move(tensor));
    return {static_cast<int>(tensors_.size()) - 1};
  }

  OpNode& node_;
  std::span<const DTensor> cotangents_;
  absl::InlinedVector<DTensor, 8> tensors_;
};

void OpNode::run(std::span<const DTensor> cotangents, std::span<DTensor> grads) {
  const Op& op = *call->op;
  if (!op.def.gradient) {
    throw Error(unimplemented(absl::StrFormat(
        "backward: %s has no gradient; detach() its operands or its result. [forward at %s:%d]",
        op.def.name, site.file_name(), site.line())));
  }
  DispatchContext context(*this, cotangents);
  const std::vector<Var> vars = op.def.gradient(context);
  for (std::size_t i = 0; i < vars.size() && i < grads.size(); ++i) {
    if (!vars[i].defined() || !edges[i].wanted()) continue;
    DTensor grad = context.tensor(vars[i]);
    const Spec& input = *call->inputs[i];
    TSR_CHECK(grad.global_shape() == input.global_shape(),
              absl::StrFormat("gradient of %s for operand %d: %s of %s", op.def.name, i,
                              grad.spec().to_string(), input.to_string()));
    if (grad.dtype() != input.dtype()) {
      const DTensor* operands[] = {&grad};
      grad = dispatch(runtime, find_op(runtime, known_op("to")), operands,
                      {{"dtype", input.dtype()}}, site)[0];
    }
    grads[i] = std::move(grad);
  }
}

/// A 0-d plain tensor that counts as R on a mesh.
struct PromoteNode final : GradNode {
  PromoteNode(Runtime& rt, const Spec* from, const Spec* to, const Site& where)
      : GradNode(rt, where), plain_spec(from), mesh_spec(to) {}
  std::string_view name() const override { return "scalar operand"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    const DTensor whole =
        move(cotangents[0], mesh_spec,
             {Origin::kImplicit, "gradient", "the gradient of a plain scalar is whole"}, site);
    if (!whole.local().is_null()) grads[0] = make_tensor(runtime, plain_spec, whole.local());
  }
  const Spec* plain_spec;
  const Spec* mesh_spec;
};

}  // namespace

DTensor promote_scalar(const DTensor& x, const Spec* as, const Site& site) {
  Runtime& runtime = x.runtime();
  DTensor result = make_tensor(runtime, as, runtime.coord_on(as) ? x.local() : Array());
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<PromoteNode>(runtime, x.impl()->spec, as, site);
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

void record_call(const std::shared_ptr<const ResolvedCall>& call, Operands operands,
                 std::span<const DTensor> results, const Site& site) {
  const OpDef& def = call->op->def;
  bool any_floating = false;
  for (const Spec* output : call->outputs) any_floating |= is_floating(output->dtype());
  if (!any_floating) return;
  auto node = std::make_shared<OpNode>(call, site, results[0].runtime());
  node->num_results = static_cast<int>(results.size());
  for (const DTensor* each : operands) node->edges.push_back(edge_of(*each));
  for (const int i : def.saved_inputs) {
    const bool given = static_cast<std::size_t>(i) < operands.size() &&
                       operands[static_cast<std::size_t>(i)]->defined();
    node->saved.push_back(given ? save(*operands[static_cast<std::size_t>(i)]) : SavedTensor{});
  }
  for (const int i : def.saved_outputs)
    node->saved.push_back(save(results[static_cast<std::size_t>(i)]));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_floating(call->outputs[i]->dtype())) attach(results[i], node, static_cast<int>(i));
  }
}

}  // namespace tessera
