// A step on the simulated backend against the same step on ranks: their events are the same.
#include "moe/simulate.h"

#include <algorithm>

#include "tests/moe/training_run.h"
#include "tests/support/launch.h"

namespace tessera::testing {
namespace {

struct Job {
  ModelConfig config;
  TokenData data;
};
Job balanced_job(std::int64_t seq) {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  config.seq = seq;
  config.routing.force_balance = true;
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  TokenData data = value_or_throw(TokenData::read(files, config));
  return {std::move(config), std::move(data)};
}

/// Transfers and host reads as lines, in the order in which they were begun.
std::vector<std::string> lines_of(std::vector<Event> events) {
  std::erase_if(events, [](const Event& event) {
    return event.kind != Event::Kind::kCollective && event.kind != Event::Kind::kHostRead;
  });
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.start_us < b.start_us; });
  std::vector<std::string> lines;
  for (const Event& event : events) {
    lines.push_back(event.name + " " + event.tensor + " @" + event.axes + " in " + event.module +
                    ": sent " + std::to_string(event.bytes_sent) + ", received " +
                    std::to_string(event.bytes_received));
  }
  return lines;
}

std::vector<std::string> executed(World& world, const Job& job, const ParallelConfig& parallel) {
  Runtime runtime(world);
  Model model(runtime, value_or_throw(MeshViews::make(parallel, world.size())), job.config,
              DType::kF32);
  model.parameters().initialize(0);
  Trainer trainer(model, job.data);
  runtime.events().clear();
  trainer.step(0);
  return lines_of(runtime.events().events());
}

struct Composition {
  std::string name;
  ParallelConfig parallel;
  std::int64_t seq = 16;
  int num_ranks() const {
    const ParallelConfig& p = parallel;
    return static_cast<int>(p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp);
  }
};

}  // namespace

TEST_CASE("under forced balance the simulated and the executed events of a step are the same",
          "[moe][simulate]") {
  const auto each = GENERATE(
      Composition{"one rank", {}}, Composition{"FSDP4", {.dp_shard = 4}},
      Composition{"HSDP2x2", {.dp_replicate = 2, .dp_shard = 2}}, Composition{"TP2", {.tp = 2}},
      Composition{"TP2 without SP", {.tp = 2, .sequence_parallel = false}},
      Composition{"FSDP2 EP2", {.dp_shard = 2, .ep = 2}},
      Composition{"FSDP4 TP2 EP2", {.dp_shard = 4, .tp = 2, .ep = 2}},
      Composition{"HSDP2x2 TP2 EP2", {.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2}},
      Composition{"FSDP4 TP2 EP2 ETP2", {.dp_shard = 4, .tp = 2, .ep = 2, .etp = 2}},
      Composition{"CP2 gathered", {.cp = 2, .ep = 2}},
      Composition{"CP4 ring balanced",
                  {.cp = 4, .ep = 2, .cp_method = ContextMethod::kRing, .cp_load_balance = true}},
      Composition{"dp2 cp2 tp2 ep4", {.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4}},
      Composition{"dp2 cp2 tp2 ep8", {.dp_shard = 2, .cp = 2, .tp = 2, .ep = 8}},
      Composition{"TP4 EP4 uneven", {.tp = 4, .ep = 4}, 13},
      Composition{"pp2 dp2 tp2 ep2", {.dp_shard = 2, .tp = 2, .ep = 2, .pp = 2}});
  if (backend() != Backend::kThreads) return;
  CAPTURE(each.name);
  const Job job = balanced_job(each.seq);
  const std::vector<std::vector<std::string>> ranks =
      results_of(each.num_ranks(), {}, [&](World& world) {
        return executed(world, job, each.parallel);
      }).value();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    CHECK(ranks[rank].size() > (ranks.size() > 1 ? 9u : 0u));
    const SimulatedStep step = value_or_throw(simulate_step(
        job.config, each.parallel,
        {.rank = static_cast<std::int64_t>(rank), .num_ranks = each.num_ranks()}, job.data));
    CHECK(lines_of(step.events) == ranks[rank]);
  }
}

}  // namespace tessera::testing
