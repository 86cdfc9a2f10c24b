// Training by placed programs: the open step of both parity models, placed by the solver on meshes
// of 4 and 8 ranks and by hand, against one rank's ordinary steps.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "execute/own_moves.h"
#include "execute/traffic.h"
#include "program/unfold.h"
#include "testing/results.h"
#include "tests/execute/composition_runs.h"
#include "tests/plan/placed_step.h"
#include "tests/support/patience.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kSteps = 3;

struct PlanSeen {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::vector<std::int64_t>>> counts;
};

PlanSeen run_plan(World& world, const PlanJob& job, const std::string& model, const Program& plan) {
  Runtime runtime(world);
  PlanTrainer trainer(runtime, plan, job.config, job.data, DType::kF64);
  trainer.load(value_or_throw(WeightFiles::open(parity_path(model, "init.safetensors"))));
  PlanSeen seen;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const StepReport report = trainer.step(step);
    seen.losses.push_back(report.loss);
    seen.norms.push_back(report.grad_norm);
    seen.counts.push_back(report.tokens_per_expert);
  }
  return seen;
}

void check_alike(const PlanSeen& seen, const RunResult& reference) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const StepReport& wanted = reference.steps[step];
    CHECK(std::abs(seen.losses[step] - wanted.loss) < 1e-9);
    CHECK(std::abs(seen.norms[step] - wanted.grad_norm) < 1e-9);
    CHECK(seen.counts[step] == wanted.tokens_per_expert);
  }
}

const RunResult& one_rank(const std::string& model) {
  static std::map<std::string, RunResult> known;
  if (!known.contains(model)) {
    known[model] = train_on_threads({.model = model, .dtype = DType::kF64, .num_steps = kSteps});
  }
  return known[model];
}

TEST_CASE("a step of ops alone is the trainer's on one rank", "[moe][plan]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const PlanJob job = job_of(model);
  const OpenStep open = value_or_throw(open_step(job.config, DType::kF64));
  const auto ranks = results_of(1, {.timeout = kCallTimeout}, [&](World& world) {
                       return run_plan(world, job, model, open.program);
                     }).value();
  if (!ranks.empty()) check_alike(ranks[0], one_rank(model));
}

TEST_CASE("a step that was placed by hand trains as one rank does", "[moe][plan]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const PlanJob job = job_of(model);
  const OpenStep open = value_or_throw(open_step(job.config, DType::kF64));
  const Program plan = by_hand(open.program, mesh_of({4}));
  const auto ranks = results_of(4, {.timeout = kCallTimeout}, [&](World& world) {
                       return run_plan(world, job, model, plan);
                     }).value();
  for (const PlanSeen& seen : ranks) check_alike(seen, one_rank(model));
}

int num_moves(const Program& program) {
  int moves = 0;
  for (const AnyStep& step : value_or_throw(unfold(program)).steps) {
    moves += std::holds_alternative<MoveStep>(step.what);
  }
  return moves;
}

/// F64, from placements that are all free.
void check_solved(const std::string& model, const Shape& mesh) {
  CAPTURE(model, to_string(mesh));
  const PlanJob job = job_of(model);
  const OpenStep open = value_or_throw(open_step(job.config, DType::kF64));
  const ProgramMesh on = mesh_of(mesh);
  const Program free = value_or_throw(free_on_mesh(open.program, on));
  // Work is dear beside moves, so that ranks share it.
  const Topology node = value_or_throw(topology_preset("node8"));
  const PropagatedProgram solved = value_or_throw(propagate_program(
      free, builtin_ops(), {.topology = &node, .rate = {.tflops = 1e-3, .gb_per_s = 1e-2}}));
  CHECK(num_moves(solved.program) > 20);
  const int ranks = static_cast<int>(on.mesh.num_ranks());
  const auto seen = results_of(ranks, {.timeout = kCallTimeout}, [&](World& world) {
                      return run_plan(world, job, model, solved.program);
                    }).value();
  for (const PlanSeen& each : seen) check_alike(each, one_rank(model));
}

TEST_CASE("a solved step trains as one rank does", "[moe][plan]") {
  check_solved("softmax", GENERATE(Shape{4}, Shape{2, 2}));
  check_solved("grouped", Shape{2, 2});
}

TEST_CASE("a solved step trains as one rank does on larger meshes", "[.deep]") {
  const std::string model = GENERATE("softmax", "grouped");
  check_solved(model, GENERATE(Shape{4}, Shape{2, 4}, Shape{2, 2, 2}));
}

/// Where all may lie whole, and work costs nothing, only the cap cuts. Where work is dear, ranks
/// share it anyway.
PropagatedProgram under_cap(const std::string& model, const Shape& mesh, double part_of_whole,
                            const ComputeRate& rate) {
  const OpenStep open = value_or_throw(open_step(job_of(model).config, DType::kF64));
  const Program free = value_or_throw(free_on_mesh(open.program, mesh_of(mesh)));
  const Topology node = value_or_throw(topology_preset("node8"));
  PropagateOptions options{.topology = &node, .rate = rate};
  const std::int64_t whole =
      value_or_throw(propagate_program(free, builtin_ops(), options)).peak_bytes;
  options.memory_cap = static_cast<std::int64_t>(static_cast<double>(whole) * part_of_whole);
  PropagatedProgram solved = value_or_throw(propagate_program(free, builtin_ops(), options));
  CHECK(solved.peak_bytes <= *options.memory_cap);
  return solved;
}

/// Values of one rank, the stated bytes, and the stated memory on every rank.
void check_under_cap(const std::string& model, const Shape& mesh, double part_of_whole,
                     const ComputeRate& rate = {}) {
  CAPTURE(model, to_string(mesh), part_of_whole, rate.tflops);
  const PropagatedProgram solved = under_cap(model, mesh, part_of_whole, rate);
  CHECK(num_moves(solved.program) > 20);
  const std::vector<RankSeen> ranks = run_on_ranks(solved.program, {});
  if (ranks.empty()) return;  // another launch's
  check_memory(solved.program, ranks, solved.peak_bytes);
  check_moves(solved.program, ranks);
  const auto seen = results_of(static_cast<int>(solved.program.ranks), {.timeout = kCallTimeout},
                               [&](World& world) {
                                 return run_plan(world, job_of(model), model, solved.program);
                               })
                        .value();
  for (const PlanSeen& each : seen) check_alike(each, one_rank(model));
}

TEST_CASE("a step that a cap cuts keeps it, and trains as one rank does", "[moe][plan]") {
  check_under_cap("softmax", {4}, 0.85);
}

TEST_CASE("a step that is cut anyway keeps a cap below what it would take", "[moe][plan]") {
  check_under_cap("softmax", {4}, 0.85, {.tflops = 1e-3, .gb_per_s = 1e-2});
}

TEST_CASE("steps that a cap cuts keep it", "[.deep]") {
  const bool on_two_axes = GENERATE(true, false);
  if (on_two_axes) {
    check_under_cap("softmax", {2, 2}, 0.7);
  } else {
    check_under_cap("grouped", {4}, 0.5);
  }
}

TEST_CASE("a plan moves what its program says", "[moe][plan]") {
  const PlanJob job = job_of("softmax");
  const OpenStep open = value_or_throw(open_step(job.config, DType::kF64));
  const Program plan = value_or_throw(with_own_moves(by_hand(open.program, mesh_of({2, 2}))));
  const auto moved = results_of(4, {.timeout = kCallTimeout}, [&](World& world) {
                       Runtime runtime(world);
                       const auto run = value_or_throw(ProgramRun::make(runtime, plan));
                       ProgramTensors given;
                       for (const WantedValue& wanted : run->wanted()) {
                         given[wanted.name] = zeros(runtime, wanted.spec);
                       }
                       TrafficLog log(runtime);
                       run->run(std::move(given), log.listener());
                       return log.moves();
                     }).value();
  if (moved.empty()) return;  // another launch's
  const std::vector<StepTraffic> steps = value_or_throw(traffic_of(plan, moved));
  CHECK(!steps.empty());
  for (const StepTraffic& step : steps) {
    CAPTURE(step.place, step.what);
    CHECK(step.as_predicted());
  }
}

TEST_CASE("a plan of another model, or another dtype, is refused by name", "[moe][plan]") {
  const PlanJob job = job_of("softmax");
  const OpenStep open = value_or_throw(open_step(job.config, DType::kF64));
  ModelConfig other = job.config;
  other.vocab = 300;
  CHECK(
      message_of(check_plan(open.program, other, DType::kF64)) ==
      "plan \"step\": \"tok_embeddings.weight\" is parameter F64[256, 64], and in the model's step "
      "parameter F64[300, 64]; a plan is solved from the step of the same config and dtype "
      "(placement-audit trace --train CONFIG --open)");
  CHECK(check_plan(open.program, job.config, DType::kF64).ok());
  CHECK(!check_plan(open.program, job.config, DType::kF32).ok());
}

TEST_CASE("what has no form of ops is named", "[moe][plan]") {
  ModelConfig config = job_of("softmax").config;
  config.norm_type = 1.0;
  CHECK(message_of(open_step(config, DType::kF64).status()) ==
        "open step: norm_type is 1; the norm by ops is the second");
}

}  // namespace
}  // namespace tessera::testing
