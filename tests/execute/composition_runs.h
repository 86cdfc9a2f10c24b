// tests/execute/composition_runs.h: compositions that the solver has placed, run on ranks and on
// one, from the same values.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execute/own_moves.h"
#include "execute/traffic.h"
#include "placement/plan_cost.h"
#include "program/memory.h"
#include "program/unfold.h"
#include "runtime/sim/sim_world.h"
#include "testing/arrays.h"
#include "testing/results.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compositions.h"
#include "tests/support/counted_world.h"
#include "tests/support/patience.h"

namespace tessera::testing {

/// By name, so that a value is the same wherever it lies: reals in (-1, 1), second moments not
/// negative, and integers below the least number of words that compositions have.
inline Array begins_with(const WantedValue& wanted) {
  std::uint64_t seed = 17;
  for (const char letter : wanted.name) seed = seed * 31 + static_cast<std::uint64_t>(letter);
  const Shape& shape = wanted.spec.global_shape();
  if (!is_floating(wanted.spec.dtype())) {
    return Array::from_values(shape, wanted.spec.dtype(),
                              random_integers(shape, 200, seed).to_vector());
  }
  Array whole = random_values(shape, wanted.spec.dtype(), seed);
  if (!wanted.name.ends_with(".v")) return whole;
  std::vector<double> squares = whole.to_vector();
  for (double& each : squares) each *= each;
  return Array::from_values(shape, wanted.spec.dtype(), squares);
}

using WholeValues = std::map<std::string, std::vector<double>>;

/// The most by which elements differ, as a part of the largest one.
inline double relative_difference(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(got[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  return largest == 0 ? most : most / largest;
}

/// One run on one rank.
struct PlacedRun {
  ProgramTensors left;
  std::vector<RankMove> moves;
  std::int64_t start_bytes = 0;  ///< of what the program begins with
  std::int64_t peak_bytes = 0;   ///< the most that arrays took while it ran
};

/// `memory` is the Runtime's world's.
inline PlacedRun run_placed(Runtime& runtime, ExactAllocator& memory, const Program& program) {
  const auto run = value_or_throw(ProgramRun::make(runtime, program));
  ProgramTensors given;
  for (const WantedValue& wanted : run->wanted()) {
    given[wanted.name] =
        distribute(runtime, to_device(runtime.kernels(), begins_with(wanted)), wanted.spec);
  }
  TrafficLog log(runtime);
  memory.forget_peak();
  PlacedRun seen{.start_bytes = memory.use().used_bytes};
  seen.left = run->run(std::move(given), log.listener());
  seen.peak_bytes = memory.use().peak_bytes;
  seen.moves = log.moves();
  return seen;
}

/// On one rank, in this thread: nothing moves.
inline WholeValues run_alone(const Program& program) {
  const auto world = value_or_throw(
      make_sim_world(0, 1, {.value_bytes = std::numeric_limits<std::int64_t>::max()}));
  CountedWorld counted(*world);
  Runtime runtime(counted);
  WholeValues whole;
  for (const auto& [name, tensor] : run_placed(runtime, counted.exact_allocator(), program).left) {
    whole[name] = to_host(tensor.local()).to_vector();
  }
  return whole;
}

/// Of one rank of several.
struct RankSeen {
  std::vector<RankMove> moves;
  std::int64_t start_bytes = 0, peak_bytes = 0;
  std::map<std::string, double> differences;  ///< from one rank's values, by name
};

/// On as many ranks as it is of; empty where they are another launch's.
inline std::vector<RankSeen> run_on_ranks(const Program& program, const WholeValues& wanted) {
  const WorldOptions options{
      .timeout = kCallTimeout, .threads_per_rank = 1, .allocator = [](std::int64_t) {
        return std::make_shared<ExactAllocator>();
      }};
  return results_of(static_cast<int>(program.ranks), options,
                    [&](World& world) {
                      Runtime runtime(world);
                      auto& memory = dynamic_cast<ExactAllocator&>(*world.allocator());
                      const PlacedRun run = run_placed(runtime, memory, program);
                      RankSeen seen{.moves = run.moves,
                                    .start_bytes = run.start_bytes,
                                    .peak_bytes = run.peak_bytes};
                      for (const auto& [name, tensor] : run.left) {
                        const auto want = wanted.find(name);
                        if (want == wanted.end()) continue;
                        const std::vector<double> got = to_host(full_tensor(tensor)).to_vector();
                        seen.differences[name] = relative_difference(got, want->second);
                      }
                      return seen;
                    })
      .value();
}

/// What is left but for views, which show what was written since only where nothing has moved them.
inline WholeValues without_views(WholeValues values, const Program& program) {
  for (const AnyStep& step : value_or_throw(unfold(program)).steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr || !value_or_throw(builtin_ops().find(call->op))->def.is_view) continue;
    for (const ProgramValue& value : call->out) values.erase(value.name);
  }
  return values;
}

/// What a step needs beside its operands and results, at most, which memory_of() leaves out.
class Workspace {
 public:
  explicit Workspace(const Program& program) : program_(program) {
    for (const ProgramValue& value : program.values) know(value);
    for (const AnyStep& step : value_or_throw(unfold(program)).steps) take(step);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void know(const ProgramValue& value) {
    specs_[value.name] = value_or_throw(spec_of(program_, value));
  }
  std::int64_t held(const std::string& name) const {
    const Spec& spec = specs_.at(name);
    const Coord first(static_cast<std::size_t>(spec.mesh().ndim()), 0);
    return num_elements(spec.local_shape(first)) * size_of(spec.dtype());
  }
  void take(const AnyStep& step) {
    if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      know(move->out);
      take_move(*move);
    } else if (const auto* call = std::get_if<CallStep>(&step.what)) {
      for (const ProgramValue& value : call->out) know(value);
      take_call(*call);
    }
  }
  /// What plans state: arrays between two of their steps, and where ranks are processes, packed
  /// messages.
  void take_move(const MoveStep& move) {
    Plan made = value_or_throw(plan(specs_.at(move.value), specs_.at(move.out.name)));
    if (backend() == Backend::kThreads) made.pack_bytes = 0;
    for (const std::int64_t rank : ranks_of(made)) {
      const std::int64_t stated = cost_on(made, rank).peak_local_bytes;
      bytes_ = std::max(bytes_, stated - held(move.value) - held(move.out.name));
    }
  }
  /// Products of einsum are made of matrices: operands in another order are copied, and so is what
  /// it makes.
  void take_call(const CallStep& call) {
    if (call.op != "einsum") return;
    std::int64_t copies = held(call.out[0].name);
    for (const Json& arg : *call.args[0].if_array()) copies += held(*arg.if_string());
    bytes_ = std::max(bytes_, copies);
  }

  const Program& program_;
  std::map<std::string, Spec> specs_;
  std::int64_t bytes_ = 0;
};

inline std::int64_t total_of(const std::vector<MovedBytes>& moves) {
  std::int64_t bytes = 0;
  for (const MovedBytes& each : moves) bytes += each.bytes.total;
  return bytes;
}

/// Bytes that all ranks together receive: what each step says, which is what it moved.
inline std::int64_t check_moves(const Program& placed, const std::vector<RankSeen>& ranks) {
  std::vector<std::vector<RankMove>> moves;
  for (const RankSeen& seen : ranks) moves.push_back(seen.moves);
  const Program said = value_or_throw(with_own_moves(placed));
  std::int64_t bytes = 0;
  for (const StepTraffic& step : value_or_throw(traffic_of(said, moves))) {
    CAPTURE(step.place, step.what, total_of(step.predicted), total_of(step.executed));
    CHECK(step.as_predicted());
    bytes += total_of(step.executed);
  }
  return bytes;
}

/// Each rank holds no more than the program says, and than the cap, but for its workspace. Threads
/// pack nothing, and keep the cap without it.
inline void check_memory(const Program& placed, const std::vector<RankSeen>& ranks,
                         std::optional<std::int64_t> cap) {
  const std::vector<StageMemory> said = value_or_throw(memory_of(placed, builtin_ops()));
  REQUIRE(said.size() == 1);
  const std::int64_t workspace = Workspace(placed).bytes();
  for (const RankSeen& seen : ranks) {
    CHECK(seen.start_bytes == said[0].start_bytes);
    CHECK(seen.peak_bytes <= said[0].peak_bytes + workspace);
    CHECK(seen.peak_bytes > said[0].peak_bytes * 99 / 100);
    if (cap) CHECK(seen.peak_bytes <= *cap + (backend() == Backend::kThreads ? 0 : workspace));
  }
}

/// Solves it, runs it on its ranks and on one, and compares values, bytes and memory. Returns the
/// bytes moved; none where its ranks are another launch's.
inline std::optional<std::int64_t> check_run(const Composition& of,
                                             const PropagatedProgram& found) {
  CAPTURE(of.name);
  const WholeValues alone = without_views(run_alone(of.one_rank), of.one_rank);
  const std::vector<RankSeen> ranks = run_on_ranks(found.program, alone);
  if (ranks.empty()) return std::nullopt;
  for (const RankSeen& seen : ranks) {
    CHECK(seen.differences.size() == alone.size());
    for (const auto& [name, difference] : seen.differences) {
      CAPTURE(name);
      CHECK(difference < 1e-9);
    }
  }
  check_memory(found.program, ranks, of.memory_cap);
  return check_moves(found.program, ranks);
}

}  // namespace tessera::testing
