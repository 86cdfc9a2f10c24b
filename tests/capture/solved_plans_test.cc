// Compositions that people write by hand, found by the solver from parameters that are free: code
// of one rank is captured with its backward pass, laid on a mesh, and solved.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "capture/capture.h"
#include "dtensor/ops.h"
#include "kernels/shapes_device.h"
#include "program/solver/propagate_program.h"
#include "program/unfold.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

/// One rank, whose tensors have shapes alone.
struct OneRank {
  OneRank()
      : world(
            value_or_throw(make_sim_world(0, 1,
                                          {.value_bytes = std::numeric_limits<std::int64_t>::max(),
                                           .device = &shapes_device()}))),
        runtime(*world),
        mesh(value_or_throw(Mesh::make(Shape{1}, {"one"}))) {}
  DTensor input(const Shape& shape, const std::string& name, DType dtype = DType::kF32) {
    const Placements whole = {Replicate{}};
    return empty(runtime, value_or_throw(Spec::make(mesh, shape, dtype, whole))).set_name(name);
  }
  DTensor parameter(const Shape& shape, const std::string& name) {
    return input(shape, name).set_requires_grad(true);
  }
  Program on(std::vector<std::string> axes, const Shape& sizes, const std::function<void()>& body) {
    const Program captured = value_or_throw(capture(runtime, "step", body));
    const Mesh many = value_or_throw(Mesh::make(view_of(sizes), std::move(axes)));
    return value_or_throw(free_on_mesh(captured, {.name = "m", .mesh = many, .stage = {}}));
  }

  std::unique_ptr<World> world;
  Runtime runtime;
  Mesh mesh;
};

PropagatedProgram solve(OneRank& here, const Program& program, const std::vector<std::string>& pins,
                        PropagateOptions options) {
  for (const std::string& pin : pins) {
    options.constraints.push_back(value_or_throw(parse_constraint(pin)));
  }
  PropagatedProgram solved =
      value_or_throw(propagate_program(program, here.runtime.ops(), options));
  CHECK(value_or_throw(price_of(solved.program, here.runtime.ops(), options)) ==
        Approx(solved.cost).epsilon(1e-9));
  return solved;
}

/// Prices of a node of 8 ranks whose work is dear beside its links.
struct Node {
  Topology topology = value_or_throw(topology_preset("node8"));
  PropagateOptions options() const {
    return {.topology = &topology, .rate = {.tflops = 10.0, .gb_per_s = 200.0}};
  }
};

std::string placed(const PropagatedProgram& solved, const std::string& name) {
  for (const ProgramValue& value : solved.program.values) {
    if (value.name != name) continue;
    return to_string(value_or_throw(value_or_throw(spec_of(solved.program, value)).placements()));
  }
  return "none";
}

/// As cheap as the composition that `by_hand` pins, within rounding of sums.
void check_not_dearer(OneRank& here, const Program& program, const std::vector<std::string>& pins,
                      std::vector<std::string> by_hand, const PropagateOptions& options,
                      const PropagatedProgram& found) {
  by_hand.insert(by_hand.end(), pins.begin(), pins.end());
  const PropagatedProgram written = solve(here, program, by_hand, options);
  CHECK(found.cost <= written.cost * (1 + 1e-9));
}

TEST_CASE("a column-cut and a row-cut matrix around an activation", "[capture][solver]") {
  OneRank here;
  const DTensor x = here.input({256, 1024}, "x"), dz = here.input({256, 1024}, "dz");
  const DTensor w1 = here.parameter({1024, 4096}, "w1"), w2 = here.parameter({4096, 1024}, "w2");
  const Program program = here.on({"tp"}, {8}, [&] {
    const DTensor z = add(x, matmul(relu(matmul(x, w1)), w2)).set_name("z");
    backward(z, dz);
  });
  const Node node;
  const std::vector<std::string> pins = {"x=R", "dz=R", "add=R"};
  const PropagatedProgram found = solve(here, program, pins, node.options());
  CHECK(placed(found, "w1") == "(S(1))");
  CHECK(placed(found, "w2") == "(S(0))");
  check_not_dearer(here, program, pins, {"w1=S(1)", "w2=S(0)"}, node.options(), found);
}

TEST_CASE("heads over ranks: projections by columns, the output by rows", "[capture][solver]") {
  OneRank here;
  const DTensor x = here.input({1, 256, 1024}, "x"), dz = here.input({1, 256, 1024}, "dz");
  const DTensor wq = here.parameter({1024, 1024}, "wq"), wk = here.parameter({1024, 1024}, "wk");
  const DTensor wv = here.parameter({1024, 1024}, "wv"), wo = here.parameter({1024, 1024}, "wo");
  const Program program = here.on({"tp"}, {8}, [&] {
    const auto heads = [&](const DTensor& w) {
      return transpose(unflatten(matmul(x, w), 2, {16, 64}), 1, 2);
    };
    const DTensor o = attention(heads(wq), heads(wk), heads(wv), 0.125);
    const DTensor z = add(x, matmul(flatten(transpose(o, 1, 2), 2, 3), wo));
    backward(z, dz);
  });
  const Node node;
  const std::vector<std::string> pins = {"x=R", "dz=R", "add=R"};
  const PropagatedProgram found = solve(here, program, pins, node.options());
  for (const char* each : {"wq", "wk", "wv"}) CHECK(placed(found, each) == "(S(1))");
  CHECK(placed(found, "wo") == "(S(0))");
  check_not_dearer(here, program, pins, {"wq=S(1)", "wk=S(1)", "wv=S(1)", "wo=S(0)"},
                   node.options(), found);
}

/// Where what an op makes lies, of the first such op.
std::string made_by(const PropagatedProgram& solved, const std::string& op) {
  const Program flat = value_or_throw(unfold(solved.program));
  for (const AnyStep& step : flat.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr || call->op != op) continue;
    return to_string(value_or_throw(value_or_throw(spec_of(flat, call->out[0])).placements()));
  }
  return "none";
}

TEST_CASE("norms between cut products run on a share of the sequence", "[capture][solver]") {
  OneRank here;
  const DTensor x = here.input({1, 512, 1024}, "x"), dz = here.input({1, 512, 1024}, "dz");
  const DTensor scale = here.parameter({1024}, "scale");
  const DTensor w1 = here.parameter({1024, 4096}, "w1"), w2 = here.parameter({4096, 1024}, "w2");
  const Program program = here.on({"tp"}, {8}, [&] {
    const DTensor z = add(x, matmul(relu(matmul(rms_norm(x, scale), w1)), w2));
    backward(z, dz);
  });
  const Node node;
  const std::vector<std::string> pins = {"w1=S(1)", "w2=S(0)", "x=S(1)", "dz=S(1)"};
  const PropagatedProgram found = solve(here, program, pins, node.options());
  CHECK(made_by(found, "rms_norm") == "(S(1))");
  CHECK(made_by(found, "add") == "(S(1))");
  check_not_dearer(here, program, pins, {"rms_norm=S(1)", "add=S(1)"}, node.options(), found);
}

TEST_CASE("the vocabulary is cut in the embedding and in the loss", "[capture][solver]") {
  OneRank here;
  const DTensor ids = here.input({512}, "ids", DType::kI64);
  const DTensor targets = here.input({512}, "targets", DType::kI64);
  const DTensor table = here.parameter({65536, 512}, "table");
  const DTensor head = here.parameter({512, 65536}, "head");
  const Program program = here.on({"tp"}, {8}, [&] {
    const DTensor loss = sum(cross_entropy(matmul(embedding(table, ids), head), targets));
    backward(loss);
  });
  const Node node;
  // Columns of the table would do as well. It does not fit twice.
  const std::vector<std::string> pins = {"table@tp!=S(1)"};
  PropagateOptions options = node.options();
  options.memory_cap = std::int64_t{160} << 20;
  const PropagatedProgram found = solve(here, program, pins, options);
  CHECK(found.peak_bytes <= *options.memory_cap);
  CHECK(placed(found, "table") == "(S(0))");
  CHECK(placed(found, "head") == "(S(1))");
  check_not_dearer(here, program, pins, {"table=S(0)", "head=S(1)"}, options, found);
}

/// Two layers, their gradients, and AdamW.
Program trained(OneRank& here) {
  const DTensor x = here.input({2048, 512}, "x");
  std::map<std::string, DTensor> parameters;
  for (const char* name : {"w1", "w2"}) parameters[name] = here.parameter({512, 512}, name);
  std::map<std::string, DTensor> first, second;
  for (const auto& [name, each] : parameters) {
    first[name] = here.input({512, 512}, name + ".m");
    second[name] = here.input({512, 512}, name + ".v");
  }
  return here.on({"dp"}, {4}, [&] {
    const DTensor y = matmul(relu(matmul(x, parameters["w1"])), parameters["w2"]);
    backward(mean(y));
    const NoGrad off(here.runtime);
    for (auto& [name, each] : parameters) {
      adamw_(each, each.grad(), first[name], second[name], 1e-3, 1);
    }
  });
}

TEST_CASE("parameters are cut over the data axis where memory forces it", "[capture][solver]") {
  OneRank here;
  const Program program = trained(here);
  // Each rank its own rows, in both passes.
  const std::vector<std::string> pins = {"x=S(0)", "relu=S(0)", "relu_grad=S(0)"};
  Node node;
  PropagateOptions options = node.options();
  options.rate.gb_per_s = 0.0;  // or the moments alone are cut, which saves time
  const PropagatedProgram free = solve(here, program, pins, options);
  for (const char* each : {"w1", "w2", "w1.m", "w2.v"}) CHECK(placed(free, each) == "(R)");
  CHECK(free.peak_bytes > 9 << 20);
  PropagateOptions capped = options;
  capped.memory_cap = 8 << 20;
  const PropagatedProgram found = solve(here, program, pins, capped);
  CHECK(found.peak_bytes <= 8 << 20);
  int cut = 0;
  for (const char* each : {"w1", "w2", "w1.m", "w1.v", "w2.m", "w2.v"}) {
    cut += placed(found, each) != "(R)";
  }
  CHECK(cut >= 3);
  check_not_dearer(here, program, pins,
                   {"w1=S(0)", "w2=S(0)", "w1.m=S(0)", "w1.v=S(0)", "w2.m=S(0)", "w2.v=S(0)"},
                   capped, found);
  PropagateOptions impossible;
  impossible.memory_cap = 1 << 20;
  const auto refused = propagate_program(program, here.runtime.ops(), impossible);
  REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(message_of(refused.status())).find("1.0 MiB") != std::string::npos);
}

TEST_CASE("experts lie on the data axis where tokens are fewer than weights", "[capture][solver]") {
  OneRank here;
  const DTensor x = here.input({64, 256}, "x"), chosen = here.input({64, 8}, "chosen");
  const DTensor dy = here.input({64, 256}, "dy");
  const DTensor up = here.parameter({8, 256, 1024}, "up");
  const DTensor down = here.parameter({8, 1024, 256}, "down");
  const auto product = [](const DTensor& a, const DTensor& b, std::string_view equation) {
    const DTensor operands[] = {a, b};
    return einsum(operands, equation);
  };
  const Program program = here.on({"dp"}, {8}, [&] {
    const DTensor hidden = relu(product(x, up, "td,edf->etf"));
    const DTensor each = product(hidden, down, "etf,efd->etd");
    backward(product(each, chosen, "etd,te->td"), dy);
  });
  const Node node;
  const std::vector<std::string> pins = {"x=S(0)", "dy=S(0)", "chosen=S(0)"};
  const PropagatedProgram found = solve(here, program, pins, node.options());
  CHECK(placed(found, "up") == "(S(0))");
  CHECK(placed(found, "down") == "(S(0))");
  check_not_dearer(here, program, pins, {"up=S(0)", "down=S(0)"}, node.options(), found);
}

}  // namespace
}  // namespace tessera
