// Recomputed layers train like recorded ones, bit for bit, and count, exchange and keep what they
// should.
#include "dtensor/recompute.h"

#include <algorithm>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

void make_small(ModelConfig& config) {
  shrink(config);
  config.n_layers = 3;
  config.accum = 2;
}

RunOptions options_of(const ParallelConfig& parallel, int num_ranks, Recompute mode) {
  RunOptions options{.parallel = parallel, .num_ranks = num_ranks, .num_steps = 2};
  options.parallel.recompute = mode;
  options.change_config = make_small;
  return options;
}

/// What a rank's log counts of transfers along an axis in the routed experts, by name.
std::int64_t exchanges(const StepReport& step) {
  std::int64_t count = 0;
  for (const EventLog::Total& total : step.moved) {
    const bool routed = total.module.find("routed_experts") != std::string::npos;
    if (routed && total.name == "all_to_all_v") count += total.count;
  }
  return count;
}

std::int64_t host_reads(const StepReport& step) {
  std::int64_t count = 0;
  for (const EventLog::Total& total : step.moved) {
    if (total.kind == Event::Kind::kHostRead && total.name == "moe.dispatch.counts") {
      count += total.count;
    }
  }
  return count;
}

void check_same_training(const RunResult& recorded, const RunResult& again) {
  for (std::size_t step = 0; step < recorded.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(again.steps[step].loss == recorded.steps[step].loss);
    CHECK(again.steps[step].grad_norm == recorded.steps[step].grad_norm);
    CHECK(again.steps[step].tokens_per_expert == recorded.steps[step].tokens_per_expert);
  }
  CHECK(again.elements == recorded.elements);
}

}  // namespace

TEST_CASE("recomputed layers train with the bits of recorded ones",
          "[moe][recompute][C18][C35][C43]") {
  struct Case {
    ParallelConfig parallel;
    int num_ranks;
  };
  const Case cases[] = {
      {{}, 1}, {{.dp_shard = 2, .tp = 2, .ep = 2}, 4}, {{.dp_shard = 2, .ep = 2, .pp = 2}, 4}};
  const Case& which = cases[static_cast<std::size_t>(GENERATE(0, 1, 2))];
  CAPTURE(which.num_ranks);
  const RunResult recorded = train(options_of(which.parallel, which.num_ranks, Recompute::kNone));
  check_same_training(recorded,
                      train(options_of(which.parallel, which.num_ranks, Recompute::kFull)));
  check_same_training(recorded,
                      train(options_of(which.parallel, which.num_ranks, Recompute::kSelective)));
}

TEST_CASE("with all scores tied the second pass routes as the first", "[moe][recompute][C9]") {
  const auto tied = [](Recompute mode) {
    RunOptions options = options_of({.dp_shard = 2, .ep = 2}, 2, mode);
    options.num_steps = 0;
    options.inspect = [](Model& model, Trainer& trainer) -> std::vector<double> {
      for (Parameter& parameter : model.parameters().all()) {
        DTensor values = parameter.stored().detach();
        if (parameter.name().ends_with("router.gate.weight")) fill_(values, 0.0);
      }
      const StepReport report = trainer.step(0);
      std::vector<double> seen = {report.loss, report.grad_norm};
      for (const auto& counts : report.tokens_per_expert) {
        seen.insert(seen.end(), counts.begin(), counts.end());
      }
      return seen;
    };
    return train(options).inspected;
  };
  const std::vector<double> recorded = tied(Recompute::kNone);
  CHECK(tied(Recompute::kFull) == recorded);
  CHECK(tied(Recompute::kSelective) == recorded);
}

TEST_CASE("full recompute repeats the exchanges of the forward pass, selective none",
          "[moe][recompute][C27]") {
  const ParallelConfig parallel = {.dp_shard = 2, .ep = 2};
  const auto first_step = [&](Recompute mode) {
    return train(options_of(parallel, 2, mode)).steps[1];
  };
  const StepReport none = first_step(Recompute::kNone);
  const StepReport full = first_step(Recompute::kFull);
  const StepReport selective = first_step(Recompute::kSelective);
  // Two MoE layers, two micro-batches: counts, rows there and rows back, and two of them backward.
  CHECK(exchanges(none) == 4 * 5);
  CHECK(exchanges(full) == 4 * 8);
  CHECK(exchanges(selective) == 4 * 5);
  CHECK(host_reads(none) == 4);
  CHECK(host_reads(full) == 8);
  CHECK(host_reads(selective) == 4);
}

TEST_CASE("a first step with recomputed layers exchanges in the order of all later ones",
          "[moe][recompute]") {
  // Units that will be gathered again are known from their first pass on, so that the gather of
  // each begins beside the backward pass of the one after it.
  RunOptions options = options_of({.dp_shard = 2}, 2, Recompute::kFull);
  options.num_steps = 0;
  options.inspect = [](Model& model, Trainer& trainer) -> std::vector<double> {
    EventLog& log = model.context().runtime.events();
    const auto begun_in = [&](std::int64_t step) {
      log.clear();
      trainer.step(step);
      std::vector<Event> events = log.events();
      std::erase_if(events, [](const Event& e) { return e.kind != Event::Kind::kCollective; });
      std::ranges::stable_sort(events, {}, &Event::start_us);
      std::vector<std::string> lines;
      for (const Event& e : events) lines.push_back(e.module + ' ' + e.name + ' ' + e.tensor);
      return lines;
    };
    const std::vector<std::string> first = begun_in(0), second = begun_in(1);
    std::size_t same = 0;
    while (same < first.size() && same < second.size() && first[same] == second[same]) ++same;
    return {static_cast<double>(same), static_cast<double>(first.size()),
            static_cast<double>(second.size())};
  };
  const std::vector<double> seen = train(options).inspected;
  REQUIRE(seen.size() == 3);
  CHECK(seen[1] > 20);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
}

}  // namespace tessera::testing
