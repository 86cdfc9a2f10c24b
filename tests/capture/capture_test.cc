// What DTensor code does on a rank, as a program: ops, moves, regions, passes, and what ends.
#include "capture/capture.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>

#include "dtensor/gather_bucket.h"
#include "dtensor/local_map.h"
#include "dtensor/ops.h"
#include "dtensor/recompute.h"
#include "kernels/shapes_device.h"
#include "program/program_json.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

/// Rank 1 of `ranks` along "tp", alone.
struct Alone {
  explicit Alone(std::int64_t ranks)
      : world(
            value_or_throw(make_sim_world(1, ranks,
                                          {.value_bytes = std::numeric_limits<std::int64_t>::max(),
                                           .device = &shapes_device()}))),
        runtime(*world),
        mesh(value_or_throw(Mesh::make(Shape{ranks}, {"tp"}))) {}
  DTensor tensor(const Shape& shape, const Placement& placement, const std::string& name = {}) {
    const Placements placements = {placement};
    DTensor made = empty(runtime, value_or_throw(Spec::make(mesh, shape, DType::kF32, placements)));
    return made.set_name(name);
  }
  DTensor parameter(const Shape& shape, const Placement& placement, const std::string& name) {
    return tensor(shape, placement, name).set_requires_grad(true);
  }
  /// What `body` does, read again from its JSON.
  Program program(const std::function<void()>& body) {
    const Program captured = value_or_throw(capture(runtime, "test", body));
    CHECK(value_or_throw(read_program(write_program(captured), "test", runtime.ops())) == captured);
    return captured;
  }

  std::unique_ptr<World> world;
  Runtime runtime;
  Mesh mesh;
};

/// A line a step: "matmul a, b -> matmul", "move x -> moved: reduce_scatter 96 of 288".
std::string line_of(const AnyStep& step) {
  const auto moves_text = [](const std::vector<ProgramMove>& moves) {
    std::string text;
    for (const ProgramMove& move : moves) {
      text += text.empty() ? ": " : ", ";
      text += move.collective + ' ' + std::to_string(move.bytes.max) + " of " +
              std::to_string(move.bytes.total);
    }
    return text;
  };
  const auto work = [&](const std::string& name, const auto& what) {
    std::string text = name;
    for (const Json& each : what.args) text += ' ' + each.to_string();
    text += " ->";
    for (const ProgramValue& value : what.out) text += ' ' + value.name;
    return text + moves_text(what.moves);
  };
  if (const auto* call = std::get_if<CallStep>(&step.what)) return work(call->op, *call);
  if (const auto* region = std::get_if<RegionStep>(&step.what)) return work(region->name, *region);
  if (const auto* move = std::get_if<MoveStep>(&step.what)) {
    return (move->implicit ? "implicit " : "move ") + move->value + " -> " + move->out.name +
           moves_text(move->moves.value());
  }
  if (const auto* read = std::get_if<HostReadStep>(&step.what)) {
    return "read " + read->value + ' ' + std::to_string(read->bytes);
  }
  std::string text = "free";
  for (const std::string& name : std::get<FreeStep>(step.what).values) text += ' ' + name;
  return text;
}
std::vector<std::string> lines_of(const Program& program) {
  std::vector<std::string> lines;
  for (const AnyStep& step : program.steps) lines.push_back(line_of(step));
  return lines;
}
using Lines = std::vector<std::string>;

TEST_CASE("a product of cut operands moves its summands before what comes next", "[capture]") {
  Alone here(4);
  const DTensor a = here.tensor({64, 4}, Shard{1}, "a"), b = here.tensor({4, 4096}, Shard{0}, "b");
  DTensor c, d;
  const Program program = here.program([&] {
    c = matmul(a, b);
    d = relu(c);
  });
  // 64 x 4096 F32 are 1 MiB; each rank gets a fourth of three others' summands.
  CHECK(lines_of(program) == Lines{"matmul \"a\" \"b\" -> matmul",
                                   "implicit matmul -> moved: reduce_scatter 786432 of 3145728",
                                   "relu \"moved\" -> relu", "free moved"});
  REQUIRE(program.values.size() == 2);
  CHECK(program.values[0].name == "a");
  CHECK(program.values[0].role == ValueRole::kBuffer);
  const auto& move = std::get<MoveStep>(program.steps[1].what);
  CHECK(move.needed_by == "relu.self");
  CHECK((*move.moves)[0].ranks == 4);
  CHECK((*move.moves)[0].axes == std::vector<std::string>{"tp"});
  CHECK(program.steps[0].origin.phase == StepPhase::kForward);
  CHECK(program.steps[0].origin.site.starts_with("tests/capture/capture_test.cc:"));
  CHECK(program.ranks == 4);
}

TEST_CASE("a value on the host is read where it is asked for", "[capture]") {
  Alone here(2);
  const DTensor x = here.tensor({8}, Shard{0}, "x");
  DTensor total;
  const Program program = here.program([&] {
    const ModuleScope scope(here.runtime, "loss");
    total = sum(x);
    static_cast<void>(item(total));
  });
  // All of a scalar's ranks get the other's summand, and read 4 bytes.
  const Lines lines = lines_of(program);
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0] == "sum \"x\" -> loss.sum");
  CHECK(lines[1] == "move loss.sum -> loss.moved: all_reduce 4 of 8");
  CHECK(lines[2] == "read loss.moved 4");
  CHECK(program.steps[2].origin.module == "loss");
}

TEST_CASE("autograd's steps are of the backward pass, and parameters known", "[capture]") {
  Alone here(2);
  const DTensor x = here.tensor({6, 4}, Shard{0}, "x");
  const DTensor w = here.parameter({4, 3}, Replicate{}, "mlp.w");
  const Program program = here.program([&] {
    const ModuleScope scope(here.runtime, "mlp");
    backward(sum(matmul(x, w)));
  });
  const auto at = std::ranges::find(program.values, "mlp.w", &ProgramValue::name);
  REQUIRE(at != program.values.end());
  CHECK(at->role == ValueRole::kParameter);
  CHECK(at->module == "mlp");
  std::vector<StepPhase> phases;
  std::vector<std::string> reduced;
  for (const AnyStep& step : program.steps) {
    if (step.origin.phase) phases.push_back(*step.origin.phase);
    const auto* move = std::get_if<MoveStep>(&step.what);
    if (move == nullptr || move->moves->empty()) continue;
    CHECK(step.origin.phase == StepPhase::kBackward);
    reduced.push_back(line_of(step));
  }
  CHECK(std::ranges::is_sorted(phases));
  CHECK(phases.front() == StepPhase::kForward);
  CHECK(phases.back() == StepPhase::kBackward);
  // The gradient's 12 elements are summed over both ranks: each gets the other's.
  REQUIRE(reduced.size() == 1);
  CHECK(reduced[0].ends_with(": all_reduce 48 of 96"));
}

TEST_CASE("a region's plain tensors are values that vary along the axes that cut them",
          "[capture]") {
  Alone here(2);
  const DTensor x = here.tensor({4, 3}, Shard{0}, "x");
  DTensor out;
  const Program program = here.program([&] {
    const LocalArg args[] = {{.name = "x", .tensor = x, .placements = {Shard{0}}}};
    const LocalResult results[] = {{"y", here.mesh, {Replicate{}}, {2, 3}}};
    out = local_map(here.runtime, "halves", args, results, [&](const LocalInputs& in) {
      return std::vector<DTensor>{
          all_reduce_sum(neg(in["x"]), {here.mesh, {0}}, SumGradient::kReplicated)};
    })[0];
  });
  CHECK(lines_of(program) == Lines{"to_local \"x\" -> x.1", "neg \"x.1\" -> neg",
                                   "all_reduce_sum \"neg\" -> all_reduce_sum: all_reduce 24 of 48",
                                   "free neg", "from_local \"all_reduce_sum\" -> from_local"});
  for (const AnyStep& step : program.steps) {
    if (std::holds_alternative<FreeStep>(step.what)) continue;
    CHECK(step.origin.from == "local_map halves");
  }
  const ProgramValue& local = std::get<RegionStep>(program.steps[0].what).out[0];
  CHECK(!local.mesh);
  CHECK(local.global_shape == Shape{2, 3});
  CHECK(local.varies == std::vector<std::string>{"tp"});
}

TEST_CASE("a bucket's exchange is one region", "[capture]") {
  Alone here(2);
  const DTensor a = here.parameter({4, 2}, Shard{0}, "a"), b = here.parameter({2}, Shard{0}, "b");
  const auto whole = [&](const DTensor& x) {
    return value_or_throw(
        Spec::make(here.mesh, x.global_shape(), DType::kF32, Placements{Replicate{}}));
  };
  const DTensor x = here.tensor({6, 2}, Shard{0}, "x");
  GatherBucket bucket("unit", {{a, whole(a)}, {b, whole(b)}});
  const Program program = here.program([&] {
    std::vector<DTensor> used = bucket.gather(GatheredLife::kForward);
    const DTensor loss = sum(matmul(mul(x, used[1]), transpose(used[0], 0, 1)));
    used.clear();
    bucket.end_use();
    backward(loss);
  });
  std::vector<std::string> moves;
  for (const AnyStep& step : program.steps) {
    const auto* region = std::get_if<RegionStep>(&step.what);
    if (region == nullptr || region->moves.empty()) continue;
    CHECK(step.origin.module == "unit");
    moves.push_back(line_of(step));
  }
  // Each gets the other's half of 8 + 2 elements, for the backward pass once more, and gives back
  // half of their gradients.
  REQUIRE(moves.size() == 3);
  CHECK(moves[0] ==
        R"(fsdp_all_gather "a" "b" -> unit.a.gathered unit.b.gathered: all_gather 20 of 40)");
  CHECK(moves[1] ==
        R"(fsdp_all_gather "a" "b" -> unit.a.gathered.1 unit.b.gathered.1: all_gather 20 of 40)");
  CHECK(moves[2].starts_with("fsdp_reduce_scatter "));
  CHECK(moves[2].ends_with(": reduce_scatter 20 of 40"));
}

TEST_CASE("a piece that runs again says so", "[capture]") {
  Alone here(2);
  const DTensor x = here.parameter({4, 4}, Shard{0}, "x");
  const Program program = here.program([&] {
    const PieceFn piece = [](std::span<const DTensor> in) {
      return std::vector<DTensor>{exp(in[0])};
    };
    const DTensor inputs[] = {x};
    backward(sum(recompute(here.runtime, Recompute::kFull, inputs, piece)[0]));
  });
  std::vector<StepPhase> exps;
  for (const AnyStep& step : program.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call != nullptr && call->op == "exp") exps.push_back(*step.origin.phase);
  }
  CHECK(exps == std::vector<StepPhase>{StepPhase::kForward, StepPhase::kRecompute});
}

TEST_CASE("what is written in place takes the old value's role", "[capture]") {
  Alone here(2);
  Capture captured(here.runtime, "in place");
  DTensor x = here.tensor({4}, Shard{0});
  captured.declare(x, ValueRole::kState, "moments", "optimizer");
  static_cast<void>(mul_(x, 0.5));
  const Program program = captured.finish();
  REQUIRE(program.values.size() == 1);
  REQUIRE(program.steps.size() == 1);
  const auto& call = std::get<CallStep>(program.steps[0].what);
  CHECK(call.args[0] == Json("moments"));
  CHECK(call.out[0].role == ValueRole::kState);
  CHECK(call.out[0].name != "moments");
}

TEST_CASE("a Runtime has one observer, and none after a capture", "[capture]") {
  Alone here(2);
  {
    const Capture captured(here.runtime, "one");
    const StatusOr<Program> second = capture(here.runtime, "two", [] {});
    CHECK(message_of(second.status()) ==
          "capture: the Runtime is observed already; finish that first");
  }
  CHECK(here.runtime.observer == nullptr);
  // What the code throws is the capture's error.
  const DTensor a = here.tensor({4, 3}, Shard{0}), b = here.tensor({4, 3}, Shard{0});
  CHECK(!capture(here.runtime, "three", [&] { static_cast<void>(matmul(a, b)); }).ok());
  CHECK(here.runtime.observer == nullptr);
}

}  // namespace
}  // namespace tessera
