// How often a training step reads on the host, under every dispatcher and composition: exact sizes
// once a forward pass of a layer, and every step once when it is over.
#include <map>
#include <string>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

using Reads = std::map<std::string, std::int64_t>;

Reads reads_of(const StepReport& step) {
  Reads reads;
  for (const EventLog::Total& total : step.moved) {
    if (total.kind == Event::Kind::kHostRead) reads[total.name] += total.count;
  }
  return reads;
}

struct Case {
  ParallelConfig parallel;
  bool pads = false;
  std::int64_t reads_of_counts = 0;  ///< 1 MoE layer, 2 micro-batches
};

std::int64_t num_ranks(const ParallelConfig& p) {
  return p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp;
}

}  // namespace

TEST_CASE("a step reads on the host once, and exact sizes once a forward pass",
          "[moe][dispatch][C24][C25]") {
  const DispatchConfig bounded = {.rows_bound = 4096};
  const Case which = GENERATE_COPY(
      Case{{}}, Case{{.dp_shard = 2}}, Case{{.tp = 2}}, Case{{.cp = 2}},
      Case{{.dp_shard = 2, .ep = 2}, false, 2}, Case{{.dp_shard = 2, .ep = 2, .dispatch = bounded}},
      Case{{.dp_shard = 2, .ep = 2}, true},
      Case{{.dp_shard = 2, .ep = 2, .recompute = Recompute::kFull}, false, 4},
      Case{{.dp_shard = 2, .ep = 2, .recompute = Recompute::kSelective}, false, 2},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.chunks = 3}}, false, 2},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather"}}, false, 2},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .rows_bound = 4096}}},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather"}}, true},
      Case{{.dp_shard = 2,
            .tp = 2,
            .ep = 4,
            .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2}},
           false,
           2},
      Case{{.dp_shard = 2,
            .tp = 2,
            .ep = 4,
            .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 4096}}},
      Case{{.dp_shard = 2,
            .tp = 2,
            .ep = 4,
            .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2}},
           true},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "peer", .chunks = 2}}, false, 2},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "peer", .rows_bound = 4096}}},
      Case{{.dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "peer"}}, true},
      Case{{.dp_shard = 2,
            .tp = 2,
            .ep = 4,
            .dispatch = {.dispatcher = "peer", .ranks_per_node = 2, .rows_bound = 4096}}},
      Case{{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2}, false, 2},
      Case{{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .dispatch = bounded}},
      Case{{.dp_replicate = 2, .dp_shard = 2, .ep = 2, .dispatch = bounded}},
      Case{{.cp = 2, .tp = 2, .ep = 4, .dispatch = bounded}},
      Case{{.dp_shard = 2, .ep = 2, .pp = 2, .dispatch = bounded}});
  const ParallelConfig& p = which.parallel;
  CAPTURE(p.dp_replicate, p.dp_shard, p.cp, p.tp, p.ep, p.etp, p.pp, p.dispatch.rows_bound,
          p.dispatch.dispatcher, static_cast<int>(p.recompute), which.pads);
  const auto change = [&](ModelConfig& config) {
    shrink(config);
    config.accum = 2;
    config.routing.batch_aux_coeff = 0.01;
    config.routing.z_loss_coeff = 0.01;
    if (!which.pads) return;
    config.routing.capacity_factor = 2.0;
    config.routing.pad_to_capacity = true;
  };
  Reads wanted = {{"moe.step", 1}};
  if (which.reads_of_counts > 0) wanted["moe.dispatch.counts"] = which.reads_of_counts;
  for (const RunResult& run : train_all({.model = "grouped",
                              .parallel = p,
                              .num_ranks = static_cast<int>(num_ranks(p)),
                              .num_steps = 1,
                              .change_config = change})) {
    CHECK(reads_of(run.steps[0]) == wanted);
  }
}

}  // namespace tessera::testing
