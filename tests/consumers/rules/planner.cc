// A program of somebody else that plans for 2,048 devices with no kernel and no rank: which row an
// op takes, what that moves, and by which steps; with an op of its own beside the built-in ones.
#include <cstdio>

#include "kernels/elementwise.h"
#include "placement/plan.h"
#include "strategies/rules/propagate.h"

namespace {

using namespace tessera;

std::string text_of(const Spec& spec) { return spec.to_string(); }

void print_call(const OpTable& table, const char* name, const Attrs& attrs,
                std::initializer_list<Spec> operands) {
  std::vector<const Spec*> inputs;
  for (const Spec& operand : operands) inputs.push_back(&operand);
  const Resolution call =
      value_or_throw(propagate(*value_or_throw(table.find(name)), inputs, attrs));
  std::printf("%s by %s\n", name, call.why.c_str());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (*inputs[i] == call.inputs[i]) continue;
    const Plan moves = value_or_throw(plan(*inputs[i], call.inputs[i]));
    std::printf("  operand %zu: %lld bytes in", i, static_cast<long long>(call.moved_bytes[i]));
    for (const PlanStep& step : moves.steps) {
      std::printf(" %s", std::string(name_of(step.kind)).c_str());
    }
    std::printf("\n");
  }
  std::printf("  gives %s\n", text_of(call.outputs[0]).c_str());
}

}  // namespace

int main() {
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{256, 8}), {"dp", "tp"}));
  const auto spec = [&](const Shape& shape, Placement dp, Placement tp) {
    return value_or_throw(Spec::make(mesh, shape, DType::kBF16, Placements{dp, tp}));
  };
  OpTable table;
  add_builtin_ops(table);
  const Status added = table.add({.name = "my_gate",
                                  .doc = "x scaled by a gate of its rows",
                                  .args = {in("x").floating(), in("gate").floating()},
                                  .rule = "m n, m -> m n",
                                  .kernel = [](KernelCall&) {},
                                  .samples = {{.shapes = {{4, 3}, {4}}}}});
  if (!added.ok()) {
    std::printf("my_gate: %s\n", std::string(message_of(added)).c_str());
    return 1;
  }
  // A router whose tokens are cut, and whose weight is cut along what it sums over.
  const Spec tokens = spec({1'048'576, 7'168}, Shard{0}, Replicate{});
  const Spec scores = spec({7'168, 256}, Replicate{}, Shard{0});
  print_call(table, "matmul", {}, {tokens, scores});
  print_call(table, "my_gate", {}, {tokens, spec({1'048'576}, Shard{0}, Shard{0})});
  // Scores are sums that no rank has yet: what is not linear has them added up first.
  const Spec sums = spec({1'048'576, 256}, Shard{0}, Partial{ReduceOp::kSum});
  print_call(table, "sigmoid", {}, {sums});
  // Values are no business of this library.
  try {
    KernelContext ctx;
    const Array x = Array::zeros({2}, DType::kF32);
    kernels::copy(ctx, x, x);
  } catch (const Error& error) {
    std::printf("%s\n", std::string(message_of(error.status())).c_str());
  }
}
