// Small programs drawn at random, placed at random, with the moves that they then need: executed
// they give what one rank gives, move what was predicted, and are captured as what they are.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "capture/capture.h"
#include "execute/own_moves.h"
#include "program/implicit_moves.h"
#include "tests/execute/placed_program.h"

namespace tessera::testing {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : numbers_{seed} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(numbers_.next() % n); }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  Numbers numbers_;
};

constexpr std::int64_t kRows = 8, kColumns = 12;

/// A program of one mesh whose values are all (8, 12), (12, 8), (8), or 0-d.
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, const Mesh& mesh) : draw_(seed) {
    program_.name = "random " + std::to_string(seed);
    program_.source.kind = "program";
    program_.ranks = mesh.num_ranks();
    program_.meshes.push_back({.name = "m", .mesh = mesh, .stage = {}});
    for (const char* name : {"a", "b"}) add_input(name, {kRows, kColumns});
    add_input("c", {kColumns, kRows});
    const std::size_t steps = 3 + draw_.below(5);
    for (std::size_t i = 0; i < steps; ++i) add_step("v" + std::to_string(i));
  }
  const Program& program() const { return program_; }

 private:
  Placements placements(const Shape& shape) {
    Placements drawn;
    const Mesh& mesh = program_.meshes[0].mesh;
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      const std::size_t choice = draw_.below(shape.size() + 1);
      drawn.push_back(choice == shape.size() ? Placement(Replicate{})
                                             : Placement(Shard{static_cast<int>(choice)}));
    }
    return drawn;
  }
  ProgramValue value(const std::string& name, const Shape& shape, bool placed) {
    ProgramValue made{.name = name, .global_shape = shape, .dtype = DType::kF64, .mesh = 0};
    if (placed) {
      made.layout =
          value_or_throw(Spec::make(program_.meshes[0].mesh, shape, DType::kF64, placements(shape)))
              .layout();
    }
    shapes_[name] = shape;
    return made;
  }
  void add_input(const std::string& name, const Shape& shape) {
    ProgramValue made = value(name, shape, true);
    made.role = ValueRole::kInput;
    program_.values.push_back(std::move(made));
  }
  std::vector<std::string> of_shape(const Shape& shape) const {
    std::vector<std::string> names;
    for (const auto& [name, is] : shapes_) {
      if (is == shape) names.push_back(name);
    }
    return names;
  }
  void add(const std::string& op, Json::Array args, const std::string& out, const Shape& shape,
           Json::Object attrs = {}) {
    CallStep call{.op = op, .args = std::move(args), .attrs = std::move(attrs)};
    call.out.push_back(value(out, shape, draw_.below(3) == 0));
    program_.steps.push_back({std::move(call)});
  }
  void add_step(const std::string& out) {
    const Shape wide = {kRows, kColumns}, tall = {kColumns, kRows};
    const Shape shape = draw_.of(std::vector<Shape>{wide, tall});
    const std::string x = draw_.of(of_shape(shape)), y = draw_.of(of_shape(shape));
    const Shape other = {shape[1], shape[0]};
    switch (draw_.below(8)) {
      case 0:
        return add("add", {x, y}, out, shape);
      case 1:
        return add("mul", {x, y}, out, shape);
      case 2:
        return add("tanh", {x}, out, shape);
      case 3:
        return add("matmul", {x, draw_.of(of_shape(other))}, out, {shape[0], shape[0]});
      case 4:
        // Turned back, or twice alike, a capture takes it for a value that is there.
        if (turned_.contains(x) || !turned_.insert(x).second) return add("tanh", {x}, out, shape);
        turned_.insert(out);
        return add("transpose", {x}, out, other, {{"dim0", 0}, {"dim1", 1}});
      case 5:
        return add("softmax", {x}, out, shape, {{"dim", 1}});
      case 6:
        return add("sum", {x}, out, {shape[0]}, {{"dim", Json(Json::Array{1})}});
      default:
        return add("relu", {x}, out, shape);
    }
  }

  Draw draw_;
  Program program_;
  std::map<std::string, Shape> shapes_;
  std::set<std::string> turned_;
};

/// The same without placements, on one rank: what it computes.
Program on_one_rank(const Program& program) {
  Program plain = program;
  plain.ranks = 1;
  plain.meshes.clear();
  const auto lift = [](ProgramValue& value) {
    value.mesh.reset();
    value.layout.reset();
  };
  for (ProgramValue& value : plain.values) lift(value);
  for (AnyStep& step : plain.steps) {
    for (ProgramValue& value : std::get<CallStep>(step.what).out) lift(value);
  }
  return plain;
}

/// Steps with values numbered in the order in which they are made, to compare programs that call
/// them otherwise. Inputs that a capture meets have the order of their first use.
std::vector<std::string> numbered_lines(const Program& program) {
  std::map<std::string, std::string> numbers;
  const auto number = [&](const std::string& name) {
    const auto [at, is_new] = numbers.try_emplace(name, std::to_string(numbers.size()));
    return at->second;
  };
  std::vector<std::string> lines;
  const auto placed = [&](const ProgramValue& value) {
    return number(value.name) + " " + value_or_throw(spec_of(program, value)).to_string();
  };
  for (const AnyStep& step : program.steps) {
    std::string line;
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      line = call->op;
      for (const Json& arg : call->args) line += ' ' + number(*arg.if_string());
      line += " (" + call->row.substr(0, call->row.find(';')) + ") -> " + placed(call->out[0]);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      line = (move->implicit ? "implicit " : "explicit ") + number(move->value) + " -> ";
      line += placed(move->out);
    } else {
      continue;  // a capture says where values end
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

struct RandomSeen {
  RunSeen seen;
  std::vector<std::string> captured;  ///< lines
};

RandomSeen run_random(Rank& rank, const Program& program) {
  RandomSeen result;
  result.seen = run_on(rank, program);
  const auto run = value_or_throw(ProgramRun::make(rank.runtime, program));
  ProgramTensors given = random_given(rank.runtime, *run);
  Capture capture(rank.runtime, "again");
  ProgramTensors left = run->run(std::move(given));
  result.captured = numbered_lines(capture.finish());
  return result;
}

TEST_CASE("random programs give what one rank gives, and move what was predicted", "[execute]") {
  const MeshAxes axes = GENERATE(MeshAxes{{"a", 4}}, MeshAxes{{"a", 2}, {"b", 2}});
  constexpr std::uint64_t kPrograms = 100;
  std::vector<Program> programs;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    programs.push_back(RandomProgram(seed, make_mesh(axes)).program());
  }
  const auto run_all = [&](Rank& rank) {
    std::vector<RandomSeen> all;
    for (const Program& program : programs) {
      all.push_back(run_random(rank, with_moves(program, builtin_ops())));
    }
    return all;
  };
  const auto ranks = run_ranks(axes, run_all);
  const auto one = run_ranks({{"a", 1}}, [&](Rank& rank) {
    std::vector<RunSeen> all;
    for (const Program& program : programs) all.push_back(run_on(rank, on_one_rank(program)));
    return all;
  });
  std::size_t moves = 0;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program placed = value_or_throw(with_own_moves(with_moves(programs[p], builtin_ops())));
    CAPTURE(write_program(placed));
    std::vector<RunSeen> seen;
    for (const auto& rank : ranks) seen.push_back(rank[p].seen);
    CHECK(first_misprediction(placed, seen) == "");
    moves += seen[0].moves.size();
    CHECK(ranks[0][p].captured == numbered_lines(placed));
    const RunSeen& wanted = one[0][p];
    REQUIRE(seen[0].names == wanted.names);
    for (std::size_t v = 0; v < wanted.values.size(); ++v) {
      REQUIRE(seen[0].values[v].size() == wanted.values[v].size());
      double most = 0.0;
      for (std::size_t i = 0; i < wanted.values[v].size(); ++i) {
        const double difference = std::abs(seen[0].values[v][i] - wanted.values[v][i]);
        most = std::max(most, difference / (1.0 + std::abs(wanted.values[v][i])));
      }
      CHECK(most < 1e-12);
    }
  }
  CHECK(moves > kPrograms);
}

}  // namespace
}  // namespace tessera::testing
