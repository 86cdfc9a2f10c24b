#include "tools/tessera_train/placements.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "moe/train/placement_table.h"
#include "moe/train/report.h"
#include "moe/train/simulate.h"
#include "program/memory.h"
#include "program/module_cost.h"

namespace tessera {
namespace {

/// What both need of the flags.
struct Question {
  std::int64_t num_ranks = 1;
  DType dtype = DType::kF32;
  ModelConfig config;
  ParallelConfig parallel;
};
Question read_question(const TrainFlags& flags) {
  Question question{.num_ranks = flags.ranks.value_or(1)};
  if (question.num_ranks < 1) {
    throw Error(
        invalid_argument(absl::StrFormat("--ranks %d: at least 1 is allowed", question.num_ranks)));
  }
  question.dtype = value_or_throw(parse_dtype(flags.dtype));
  question.config = value_or_throw(read_model_config(flags.config));
  question.parallel = value_or_throw(parse_parallel_config(flags.parallel, "--parallel"));
  return question;
}

/// What the rank holds at most. Other ranks hold what is on meshes that they share with it.
std::int64_t peak_bytes_of(const Program& step) {
  OpTable ops;
  add_builtin_ops(ops);
  std::int64_t most = 0;
  for (const StageMemory& each : value_or_throw(memory_of(step, ops))) {
    most = std::max(most, each.peak_bytes);
  }
  return most;
}

/// What moves, as a run's log counts it.
std::vector<EventLog::Total> totals_of(const Program& step) {
  std::vector<EventLog::Total> totals;
  for (const ModuleMoves& own : value_or_throw(moves_by_module(step))) {
    for (const MoveTotal& move : own.moves) {
      totals.push_back({.name = move.collective,
                        .axes = move.axes,
                        .module = own.module,
                        .origin = move.implicit ? Origin::kImplicit : Origin::kExplicit,
                        .count = move.calls,
                        .bytes_received = move.bytes.max});
    }
  }
  return totals;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

void print_placements(const TrainFlags& flags) {
  const Question question = read_question(flags);
  const std::vector<PlacedParameter> placed = value_or_throw(
      placed_parameters(question.config, question.parallel, question.num_ranks, question.dtype));
  print(flags.format == "json" ? placements_json(placed).to_string() + "\n"
                               : describe_placements(placed));
}

void print_simulation(const TrainFlags& flags) {
  const Question question = read_question(flags);
  const SimulatedPlace place{.rank = *flags.simulate,
                             .num_ranks = question.num_ranks,
                             .dtype = question.dtype,
                             .topology = value_or_throw(topology_of(flags))};
  const TokenData data = value_or_throw(TokenData::read(flags.data, question.config));
  const Program step = value_or_throw(trace_step(question.config, question.parallel, place, data));
  print(absl::StrFormat(
      "Rank %d of %d, one step under %s; at most %d bytes of arrays\n", place.rank, place.num_ranks,
      step.routing == "balanced" ? "forced balance" : "forced loads", peak_bytes_of(step)));
  print(describe_moves(std::array{totals_of(step)}));
}

}  // namespace tessera
