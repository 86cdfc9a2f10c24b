// tests/support/compositions.h: code of one rank whose good placements people know, each with the
// pins from which the solver has to find them, and the pins that write them by hand. Tests price
// them in the sizes that they have, and run them smaller, in F64.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "dtensor/ops.h"
#include "kernels/shapes_device.h"
#include "program/solver/propagate_program.h"
#include "program/unfold.h"
#include "runtime/sim/sim_world.h"

namespace tessera::testing {

/// Dims are divided by `divisor`, and the rates of work with them, so that moves and work keep
/// their proportion. The divisor of head counts is 1.
struct CompositionSize {
  DType dtype = DType::kF32;
  std::int64_t divisor = 1;
  int ranks = 8;
};

struct Composition {
  std::string name;
  Program one_rank;
  ProgramMesh mesh;
  std::vector<std::string> pins, by_hand;    ///< what is given; what people would add
  std::map<std::string, std::string> found;  ///< where parameters then lie, by name
  ComputeRate rate;                          ///< dear beside the links of node8
  std::optional<std::int64_t> memory_cap = {};

  /// Nothing placed.
  Program free() const { return value_or_throw(free_on_mesh(one_rank, mesh)); }
  /// `topology` must outlive them.
  PropagateOptions options(const Topology& topology) const {
    return {.topology = &topology, .rate = rate, .memory_cap = memory_cap};
  }
};

/// One rank, whose tensors have shapes alone.
class OneRank {
 public:
  explicit OneRank(const CompositionSize& size)
      : size_(size),
        world_(
            value_or_throw(make_sim_world(0, 1,
                                          {.value_bytes = std::numeric_limits<std::int64_t>::max(),
                                           .device = &shapes_device()}))),
        runtime_(*world_),
        mesh_(value_or_throw(Mesh::make(Shape{1}, {"one"}))) {}

  Runtime& runtime() { return runtime_; }
  std::int64_t dim(std::int64_t full) const { return full / size_.divisor; }
  /// Bytes of F32 values with two dims that are divided.
  std::int64_t bytes(std::int64_t full) const {
    const std::int64_t width = size_of(size_.dtype) / size_of(DType::kF32);
    return full * width / (size_.divisor * size_.divisor);
  }
  DTensor input(const Shape& shape, const std::string& name, std::optional<DType> dtype = {}) {
    const Placements whole = {Replicate{}};
    const DType own = dtype.value_or(size_.dtype);
    return empty(runtime_, value_or_throw(Spec::make(mesh_, shape, own, whole))).set_name(name);
  }
  DTensor parameter(const Shape& shape, const std::string& name) {
    return input(shape, name).set_requires_grad(true);
  }
  /// `body` returns what is to be there after the step, beside gradients.
  Composition of(std::string name, const std::string& axis,
                 const std::function<std::vector<DTensor>()>& body) {
    std::vector<DTensor> kept;
    Program captured = value_or_throw(capture(runtime_, "step", [&] { kept = body(); }));
    const double less = 1.0 / static_cast<double>(size_.divisor);
    return {.name = std::move(name),
            .one_rank = std::move(captured),
            .mesh = {.name = "m",
                     .mesh = value_or_throw(Mesh::make(Shape{size_.ranks}, {axis})),
                     .stage = {}},
            .pins = {},
            .by_hand = {},
            .found = {},
            .rate = {.tflops = 10.0 * less * less * less, .gb_per_s = 200.0 * less * less}};
  }

 private:
  CompositionSize size_;
  std::unique_ptr<World> world_;
  Runtime runtime_;
  Mesh mesh_;
};

/// Its moves are priced in bytes.
inline Composition product_then_relu(const CompositionSize& size = {.ranks = 4}) {
  OneRank here(size);
  const DTensor a = here.input({64, 4}, "a"), b = here.input({4, 4096}, "b");
  Composition made = here.of("60x", "tp", [&] { return std::vector{relu(matmul(a, b))}; });
  made.pins = {"a=S(1)", "b=S(0)"};
  return made;
}

inline Composition two_products(const CompositionSize& size = {}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(256), dim = here.dim(1024), wide = here.dim(4096);
  const DTensor x = here.input({tokens, dim}, "x"), dz = here.input({tokens, dim}, "dz");
  const DTensor w1 = here.parameter({dim, wide}, "w1"), w2 = here.parameter({wide, dim}, "w2");
  Composition made = here.of("MLP", "tp", [&]() -> std::vector<DTensor> {
    const DTensor z = add(x, matmul(relu(matmul(x, w1)), w2));
    backward(z, dz);
    return {z.detach()};
  });
  made.pins = {"x=R", "dz=R", "add=R"};
  made.by_hand = {"w1=S(1)", "w2=S(0)"};
  made.found = {{"w1", "(S(1))"}, {"w2", "(S(0))"}};
  return made;
}

inline Composition attention_by_heads(const CompositionSize& size = {}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(256), dim = here.dim(1024);
  const DTensor x = here.input({1, tokens, dim}, "x"), dz = here.input({1, tokens, dim}, "dz");
  const DTensor wq = here.parameter({dim, dim}, "wq"), wk = here.parameter({dim, dim}, "wk");
  const DTensor wv = here.parameter({dim, dim}, "wv"), wo = here.parameter({dim, dim}, "wo");
  Composition made = here.of("attention", "tp", [&]() -> std::vector<DTensor> {
    const auto heads = [&](const DTensor& w) {
      return transpose(unflatten(matmul(x, w), 2, {16, dim / 16}), 1, 2);
    };
    const DTensor o = attention(heads(wq), heads(wk), heads(wv), 0.125);
    const DTensor z = add(x, matmul(flatten(transpose(o, 1, 2), 2, 3), wo));
    backward(z, dz);
    return {z.detach()};
  });
  made.pins = {"x=R", "dz=R", "add=R"};
  made.by_hand = {"wq=S(1)", "wk=S(1)", "wv=S(1)", "wo=S(0)"};
  made.found = {{"wq", "(S(1))"}, {"wk", "(S(1))"}, {"wv", "(S(1))"}, {"wo", "(S(0))"}};
  return made;
}

inline Composition sequence_parallel(const CompositionSize& size = {}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(512), dim = here.dim(1024), wide = here.dim(4096);
  const DTensor x = here.input({1, tokens, dim}, "x"), dz = here.input({1, tokens, dim}, "dz");
  const DTensor scale = here.parameter({dim}, "scale");
  const DTensor w1 = here.parameter({dim, wide}, "w1"), w2 = here.parameter({wide, dim}, "w2");
  Composition made = here.of("sequence parallel", "tp", [&]() -> std::vector<DTensor> {
    const DTensor z = add(x, matmul(relu(matmul(rms_norm(x, scale), w1)), w2));
    backward(z, dz);
    return {z.detach()};
  });
  made.pins = {"w1=S(1)", "w2=S(0)", "x=S(1)", "dz=S(1)"};
  made.by_hand = {"rms_norm=S(1)", "add=S(1)"};
  made.found = {{"rms_norm", "(S(1))"}, {"add", "(S(1))"}};
  return made;
}

inline Composition vocabulary_parallel(const CompositionSize& size = {}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(512), dim = here.dim(512), words = here.dim(65536);
  const DTensor ids = here.input({tokens}, "ids", DType::kI64);
  const DTensor targets = here.input({tokens}, "targets", DType::kI64);
  const DTensor one = here.input({}, "one");
  const DTensor table = here.parameter({words, dim}, "table");
  const DTensor head = here.parameter({dim, words}, "head");
  Composition made = here.of("vocabulary", "tp", [&]() -> std::vector<DTensor> {
    const DTensor loss = sum(cross_entropy(matmul(embedding(table, ids), head), targets));
    backward(loss, one);
    return {loss.detach()};
  });
  // Columns of the table would do as well. It does not fit twice.
  made.pins = {"table@tp!=S(1)"};
  made.by_hand = {"table=S(0)", "head=S(1)"};
  made.found = {{"table", "(S(0))"}, {"head", "(S(1))"}};
  made.memory_cap = here.bytes(std::int64_t{160} << 20);
  return made;
}

/// Two layers, their gradients, and AdamW: each rank its own rows, in both passes.
inline Composition trained_layers(const CompositionSize& size = {.ranks = 4}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(2048), dim = here.dim(512);
  const DTensor x = here.input({tokens, dim}, "x"), one = here.input({}, "one");
  std::map<std::string, DTensor> parameters, first, second;
  for (const char* name : {"w1", "w2"}) {
    parameters[name] = here.parameter({dim, dim}, name);
    first[name] = here.input({dim, dim}, std::string(name) + ".m");
    second[name] = here.input({dim, dim}, std::string(name) + ".v");
  }
  Composition made = here.of("FSDP", "dp", [&]() -> std::vector<DTensor> {
    const DTensor y = matmul(relu(matmul(x, parameters["w1"])), parameters["w2"]);
    const DTensor loss = mean(y);
    backward(loss, one);
    const NoGrad off(here.runtime());
    for (auto& [name, each] : parameters) {
      adamw_(each, each.grad(), first[name], second[name], 1e-3, 1);
    }
    return {loss.detach()};
  });
  made.pins = {"x=S(0)", "relu=S(0)", "relu_grad=S(0)"};
  made.by_hand = {"w1=S(0)", "w2=S(0)", "w1.m=S(0)", "w1.v=S(0)", "w2.m=S(0)", "w2.v=S(0)"};
  made.rate.gb_per_s = 0.0;  // or the moments alone are cut, which saves time
  made.memory_cap = here.bytes(std::int64_t{8} << 20);
  return made;
}

/// As products over (expert, dim, dim); tokens are fewer than weights.
inline Composition experts_on_data_axis(const CompositionSize& size = {}) {
  OneRank here(size);
  const std::int64_t tokens = here.dim(64), dim = here.dim(256), wide = here.dim(1024);
  const DTensor x = here.input({tokens, dim}, "x"), chosen = here.input({tokens, 8}, "chosen");
  const DTensor dy = here.input({tokens, dim}, "dy");
  const DTensor up = here.parameter({8, dim, wide}, "up");
  const DTensor down = here.parameter({8, wide, dim}, "down");
  const auto product = [](const DTensor& a, const DTensor& b, std::string_view equation) {
    const DTensor operands[] = {a, b};
    return einsum(operands, equation);
  };
  Composition made = here.of("experts", "dp", [&]() -> std::vector<DTensor> {
    const DTensor hidden = relu(product(x, up, "td,edf->etf"));
    const DTensor each = product(hidden, down, "etf,efd->etd");
    const DTensor y = product(each, chosen, "etd,te->td");
    backward(y, dy);
    return {y.detach()};
  });
  made.pins = {"x=S(0)", "dy=S(0)", "chosen=S(0)"};
  made.by_hand = {"up=S(0)", "down=S(0)"};
  made.found = {{"up", "(S(0))"}, {"down", "(S(0))"}};
  return made;
}

/// The program with these pins, placed.
inline PropagatedProgram solved_with(const Program& program, const std::vector<std::string>& pins,
                                     const OpTable& ops, PropagateOptions options) {
  for (const std::string& pin : pins) {
    options.constraints.push_back(value_or_throw(parse_constraint(pin)));
  }
  return value_or_throw(propagate_program(program, ops, options));
}

/// Each step on a line, with placements and without sizes: "matmul (S(1))", "w1.moved (R)".
inline std::string plan_of(const Program& program) {
  std::string text;
  const auto add = [&](const std::string& what, const ProgramValue& value) {
    const Spec spec = value_or_throw(spec_of(program, value));
    text += what + ' ' + to_string(value_or_throw(spec.placements())) + '\n';
  };
  for (const AnyStep& step : value_or_throw(unfold(program)).steps) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      for (const ProgramValue& value : call->out) add(call->op, value);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      add(move->out.name, move->out);
    }
  }
  return text;
}

/// "(S(0))"; "none" where the program begins with no such value and makes none.
inline std::string placements_of(const Program& program, const std::string& name) {
  const auto text = [&](const ProgramValue& value) {
    return to_string(value_or_throw(value_or_throw(spec_of(program, value)).placements()));
  };
  for (const ProgramValue& value : program.values) {
    if (value.name == name) return text(value);
  }
  for (const AnyStep& step : program.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr) continue;
    for (const ProgramValue& value : call->out) {
      if (value.name == name) return text(value);
    }
  }
  return "none";
}

}  // namespace tessera::testing
