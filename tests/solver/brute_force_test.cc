// Solved programs beside every assignment there is, and beside what dispatch would do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "program/call_arguments.h"
#include "program/solver/call_candidates.h"
#include "program/solver/cost_network.h"
#include "program/solver/prices.h"
#include "program/solver/propagate_program.h"
#include "tests/solver/small_program.h"

namespace tessera {
namespace {

using testing::builtin_ops;
using testing::SmallProgram;
using Random = std::mt19937;

int below(Random& random, std::size_t count) {
  return static_cast<int>(random() % static_cast<unsigned>(count));
}

const std::vector<std::string> kPlacements = {"R", "S(0)", "S(1)"};

/// Matrices of the sizes 4 and 8, some pinned, some free, and calls on them.
SmallProgram random_program(Random& random, const Shape& mesh, int num_calls) {
  SmallProgram small(mesh, mesh.size() == 1 ? std::vector<std::string>{"tp"}
                                            : std::vector<std::string>{"dp", "tp"});
  std::vector<std::string> values;
  const auto size = [&] { return std::int64_t{4} << below(random, 3); };
  for (int i = 0; i < 2 + below(random, 2); ++i) {
    std::string placements;
    for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
      placements += (axis == 0 ? "" : ", ") +
                    kPlacements[static_cast<std::size_t>(below(random, kPlacements.size()))];
    }
    if (below(random, 3) == 0) placements.clear();
    values.push_back(
        small.value("x" + std::to_string(i), {size(), size()}, ValueRole::kInput, placements));
  }
  for (int c = 0; c < num_calls; ++c) {
    const auto any = [&] { return values[static_cast<std::size_t>(below(random, values.size()))]; };
    const std::string name = "y" + std::to_string(c);
    const std::string a = any();
    const Shape shape = small.meta(a).shape;
    const auto fitting = [&](const auto& fits) -> std::string {
      std::vector<std::string> found;
      for (const std::string& each : values) {
        if (fits(small.meta(each).shape)) found.push_back(each);
      }
      return found.empty() ? "" : found[static_cast<std::size_t>(below(random, found.size()))];
    };
    switch (below(random, 7)) {
      case 0:
      case 1:
        if (shape.size() == 2) {
          const std::string b = fitting(
              [&](const Shape& other) { return other.size() == 2 && other[0] == shape[1]; });
          if (!b.empty()) {
            values.push_back(small.call("matmul", {a, b}, name));
            continue;
          }
        }
        [[fallthrough]];
      case 2: {
        const std::string b = fitting([&](const Shape& other) { return other == shape; });
        values.push_back(small.call(below(random, 2) == 0 ? "add" : "mul", {a, b}, name));
        break;
      }
      case 3:
        values.push_back(small.call("relu", {a}, name));
        break;
      case 4:
        if (shape.size() == 2) {
          values.push_back(small.call("transpose", {a}, name,
                                      {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}}));
          break;
        }
        [[fallthrough]];
      case 5:
        if (!shape.empty()) {
          values.push_back(small.call("softmax", {a}, name, {{"dim", std::int64_t{-1}}}));
          break;
        }
        [[fallthrough]];
      default:
        values.push_back(small.call("exp", {a}, name));
    }
  }
  return small;
}

/// Tries every way in which each call may run and each free value may lie, one after another.
class BruteForce {
 public:
  BruteForce(const Program& program, const PropagateOptions& options)
      : program_(program), prices_(options) {
    for (const ProgramValue& value : program.values) {
      if (value.layout) made_[value.name] = {value_or_throw(spec_of(program, value))};
      whole_[value.name] = whole(value);
    }
    for (const AnyStep& step : program.steps) read(std::get<CallStep>(step.what));
    for (const ProgramValue& value : program.values) {
      if (!value.layout) free_.push_back(value.name);
    }
  }
  /// The least cost below `limit`, or `limit`.
  double run(double limit) {
    best_ = limit;
    place_free(0);
    return best_;
  }
  bool gave_up() const noexcept { return work_ > kMostWork; }

 private:
  struct Call {
    const Op* op = nullptr;
    std::vector<std::string> operands;
    std::string result;
    std::vector<CallCandidate> candidates;
    std::vector<double> work;
  };
  static constexpr std::int64_t kMostWork = 3'000'000;

  Spec whole(const ProgramValue& value) const {
    const Mesh& mesh = program_.meshes[0].mesh;
    const Placements all(static_cast<std::size_t>(mesh.ndim()), Replicate{});
    return value_or_throw(Spec::make(mesh, value.global_shape, value.dtype, all));
  }
  void read(const CallStep& step) {
    Call& call = calls_.emplace_back();
    call.op = value_or_throw(builtin_ops().find(step.op));
    const Attrs attrs = value_or_throw(attrs_of_call(*call.op, step.attrs));
    CandidateQuery query{.op = call.op, .attrs = &attrs};
    for (const Json& arg : step.args) {
      call.operands.push_back(*arg.if_string());
      query.operands.emplace_back(whole_.at(call.operands.back()));
      query.made.push_back(made_[call.operands.back()]);
    }
    call.candidates = value_or_throw(candidates_of(query));
    call.result = step.out[0].name;
    whole_[call.result] = whole(step.out[0]);
    for (const CallCandidate& each : call.candidates) {
      made_[call.result].push_back(each.outputs[0]);
      call.work.push_back(prices_.of_work(*call.op, attrs, each));
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        read_as_[call.operands[i]].insert(prices_.specs().of(each.inputs[i]));
      }
    }
  }
  /// Free values lie as somebody reads them, or whole: elsewhere they would only move.
  void place_free(std::size_t number) {
    if (number == free_.size()) return run_call(0, 0.0);
    const std::string& name = free_[number];
    std::set<int> places = read_as_[name];
    places.insert(prices_.specs().of(whole_.at(name)));
    for (const int place : places) {
      if (prices_.specs().spec(place).has_partial()) continue;
      lies_[name] = place;
      place_free(number + 1);
    }
  }
  double copies_cost(const std::string& name) {
    const std::set<int> wanted(had_[name].begin(), had_[name].end());
    return prices_.copies(lies_.at(name), {wanted.begin(), wanted.end()}).cost;
  }
  void run_call(std::size_t number, double work) {
    if (++work_ > kMostWork) return;
    double cost = work;
    for (const auto& [name, had] : had_) cost += had.empty() ? 0.0 : copies_cost(name);
    if (cost >= best_) return;
    if (number == calls_.size()) {
      best_ = cost;
      return;
    }
    const Call& call = calls_[number];
    for (const std::string& each : call.operands) {
      if (!lies_.contains(each)) lies_[each] = prices_.specs().of(made_.at(each).front());
    }
    for (std::size_t c = 0; c < call.candidates.size(); ++c) {
      const CallCandidate& candidate = call.candidates[c];
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        had_[call.operands[i]].push_back(prices_.specs().of(candidate.inputs[i]));
      }
      lies_[call.result] = prices_.specs().of(candidate.outputs[0]);
      run_call(number + 1, work + call.work[c]);
      for (const std::string& each : call.operands) had_[each].pop_back();
    }
  }

  const Program& program_;
  Prices prices_;
  std::vector<Call> calls_;
  std::vector<std::string> free_;
  std::map<std::string, std::vector<Spec>> made_;
  std::map<std::string, Spec> whole_;
  std::map<std::string, std::set<int>> read_as_;
  std::map<std::string, int> lies_;
  std::map<std::string, std::vector<int>> had_;
  double best_ = 0.0;
  std::int64_t work_ = 0;
};

PropagatedProgram solved(const Program& program, const PropagateOptions& options) {
  PropagatedProgram result = value_or_throw(propagate_program(program, builtin_ops(), options));
  REQUIRE(value_or_throw(price_of(result.program, builtin_ops(), options)) ==
          Approx(result.cost).epsilon(1e-9).margin(1e-9));
  return result;
}

TEST_CASE("small programs get the cheapest of all assignments", "[solver]") {
  Random random(20261128);
  const Topology topology = value_or_throw(topology_preset("node8"));
  int judged = 0, costly = 0;
  while (judged < 100) {
    const bool plane = judged % 2 == 1;
    const int calls = plane ? 2 + below(random, 4) : 3 + below(random, 5);
    const SmallProgram small = random_program(random, plane ? Shape{2, 2} : Shape{4}, calls);
    PropagateOptions options;
    if (judged % 4 >= 2) {
      options.topology = &topology;
      options.rate = {.tflops = 1e-4, .gb_per_s = 1e-2};
    }
    const PropagatedProgram result = solved(small.program(), options);
    INFO(write_program(small.program()) << '\n' << write_program(result.program));
    CHECK(result.is_exact);
    const double less = result.cost * (1 - 1e-7);
    BruteForce all(small.program(), options);
    const double found = all.run(less);
    if (all.gave_up() && found >= less) continue;  // too large for every assignment
    CHECK(found >= less);
    ++judged;
    costly += result.cost > 0;
  }
  CHECK(costly > 50);
}

TEST_CASE("larger programs never cost more than what dispatch would do", "[solver]") {
  Random random(7);
  std::vector<double> gains;
  for (int i = 0; i < 1000; ++i) {
    const SmallProgram small =
        random_program(random, i % 2 == 0 ? Shape{4} : Shape{2, 2}, 8 + below(random, 9));
    const PropagatedProgram cheapest = solved(small.program(), {});
    const PropagatedProgram greedy = value_or_throw(
        propagate_program(small.program(), builtin_ops(), {.mode = PropagateMode::kGreedy}));
    CHECK(cheapest.cost <= greedy.cost);
    if (greedy.cost > 0) gains.push_back(cheapest.cost / greedy.cost);
  }
  std::sort(gains.begin(), gains.end());
  INFO("programs in which something moves: " << gains.size() << "; the median costs "
                                             << gains[gains.size() / 2] << " of dispatch's");
  CHECK(gains.size() > 400);
  CHECK(gains[gains.size() / 2] < 1.0);
}

}  // namespace
}  // namespace tessera
