// Pipeline schedules as data: they are complete, never block for good, idle as long as the closed
// forms say, and hold as many micro-batches as they must.
#include "parallel/pipeline_schedule.h"

#include <algorithm>

namespace tessera::testing {
namespace {

using Kind = PipelinePass::Kind;

std::string error_of(const Status& status) {
  return status.ok() ? "accepted" : std::string(message_of(status));
}

}  // namespace

TEST_CASE("1f1b runs to its end for any sizes, idle for pp - 1 pairs of passes",
          "[parallel][pipeline]") {
  const std::int64_t ranks = GENERATE(1, 2, 3, 4, 7, 8);
  const std::int64_t micro_batches = GENERATE(1, 2, 3, 5, 8, 16);
  const PipelineCosts costs = GENERATE(PipelineCosts{1, 1}, PipelineCosts{1, 2});
  CAPTURE(ranks, micro_batches, costs.backward);
  const PipelineSchedule schedule =
      value_or_throw(make_1f1b({.ranks = ranks, .micro_batches = micro_batches}));
  const PipelineTimeline timeline = value_or_throw(simulate(schedule, costs));
  const std::int64_t pair = costs.forward + costs.backward;
  CHECK(timeline.end == (micro_batches + ranks - 1) * pair);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(timeline.idle[at] == (ranks - 1) * pair);  // a share of (p − 1) / (m + p − 1)
    CHECK(timeline.most_held[at] == std::min(micro_batches, ranks - rank));
  }
}

TEST_CASE("interleaved stages divide idle time by their number", "[parallel][pipeline][C59]") {
  const std::int64_t ranks = GENERATE(2, 3, 4, 8);
  const std::int64_t stages_per_rank = GENERATE(2, 3, 4);
  const std::int64_t rounds = GENERATE(1, 2, 4);
  const PipelineCosts costs = GENERATE(PipelineCosts{1, 1}, PipelineCosts{1, 2});
  CAPTURE(ranks, stages_per_rank, rounds, costs.backward);
  const std::int64_t micro_batches = rounds * ranks;
  const PipelineSchedule schedule = value_or_throw(make_interleaved_1f1b(
      {.ranks = ranks, .stages_per_rank = stages_per_rank, .micro_batches = micro_batches}));
  const PipelineTimeline timeline = value_or_throw(simulate(schedule, costs));
  // A pass is 1 / v of a rank's layers: idle for (p − 1) / v pairs of passes of all its layers.
  const std::int64_t pair = costs.forward + costs.backward;
  CHECK(timeline.end == (micro_batches * stages_per_rank + ranks - 1) * pair);
  for (const std::int64_t idle : timeline.idle) CHECK(idle == (ranks - 1) * pair);
}

TEST_CASE("interleaved stages run any number of micro-batches to the end",
          "[parallel][pipeline][C59]") {
  for (const PipelineCosts costs : {PipelineCosts{1, 1}, PipelineCosts{1, 2}}) {
    const std::int64_t pair = costs.forward + costs.backward;
    for (std::int64_t ranks = 2; ranks <= 4; ++ranks) {
      for (std::int64_t stages_per_rank = 2; stages_per_rank <= 3; ++stages_per_rank) {
        std::int64_t last_end = 0;
        for (std::int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
          CAPTURE(ranks, stages_per_rank, micro_batches, costs.backward);
          const PipelineSchedule schedule =
              value_or_throw(make_interleaved_1f1b({.ranks = ranks,
                                                    .stages_per_rank = stages_per_rank,
                                                    .micro_batches = micro_batches}));
          const PipelineTimeline timeline = value_or_throw(simulate(schedule, costs));
          // As of whole rounds; a round shorter than pp comes back to a rank's next stage before
          // the rank's turn is over, and leaves it idle for what is missing.
          const std::int64_t missing = std::max<std::int64_t>(0, ranks - micro_batches);
          const std::int64_t idle = (ranks - 1 + (stages_per_rank - 1) * missing) * pair;
          for (const std::int64_t each : timeline.idle) CHECK(each == idle);
          CHECK(timeline.end >= last_end);
          last_end = timeline.end;
          // Held: what the first backward pass of rank 0 needs before it, at most a round more.
          const std::int64_t round =
              micro_batches < ranks
                  ? micro_batches
                  : (micro_batches + micro_batches / ranks - 1) / (micro_batches / ranks);
          CHECK(timeline.most_held[0] <=
                std::min(micro_batches * stages_per_rank,
                         2 * (ranks - 1) + 1 + (stages_per_rank - 1) * round));
        }
      }
    }
  }
}

TEST_CASE("stages of a schedule pass micro-batches on in order", "[parallel][pipeline]") {
  const PipelineSchedule schedule =
      value_or_throw(make_interleaved_1f1b({.ranks = 2, .stages_per_rank = 2, .micro_batches = 4}));
  // Narayanan et al., 2021, figure 4, with two devices: chunks alternate every two micro-batches.
  const std::vector<PipelinePass> first_six = {{Kind::kForward, 0, 0}, {Kind::kForward, 0, 1},
                                               {Kind::kForward, 2, 0}, {Kind::kForward, 2, 1},
                                               {Kind::kForward, 0, 2}, {Kind::kBackward, 2, 0}};
  const std::vector<PipelinePass>& rank0 = schedule.by_rank[0];
  CHECK(std::vector<PipelinePass>(rank0.begin(), rank0.begin() + 6) == first_six);
}

TEST_CASE("a schedule that cannot run is refused with the pass that is wrong",
          "[parallel][pipeline]") {
  const PipelineSchedule good = value_or_throw(make_1f1b({.ranks = 2, .micro_batches = 2}));
  PipelineSchedule stuck = good;
  std::swap(stuck.by_rank[1][0], stuck.by_rank[1][1]);  // backward before its forward
  CHECK(error_of(simulate(stuck).status()) ==
        "schedule: no rank can go on; rank 0, before the backward of stage 0, micro-batch 0, waits "
        "for the backward of stage 1, micro-batch 0; rank 1, before the backward of stage 1, "
        "micro-batch 0, waits for the forward of stage 1, micro-batch 0");
  PipelineSchedule crossed = good;  // each rank waits for the other: rank 1 wants 1 before 0
  std::swap(crossed.by_rank[1][0], crossed.by_rank[1][2]);
  crossed.by_rank[0] = {{Kind::kForward, 0, 0},
                        {Kind::kBackward, 0, 0},
                        {Kind::kForward, 0, 1},
                        {Kind::kBackward, 0, 1}};
  CHECK_THAT(error_of(simulate(crossed).status()), Catch::Contains("no rank can go on"));
  PipelineSchedule twice = good;
  twice.by_rank[0][1] = twice.by_rank[0][0];
  CHECK(error_of(simulate(twice).status()) ==
        "schedule: rank 0 runs the forward of stage 0, micro-batch 0 twice");
  PipelineSchedule foreign = good;
  foreign.by_rank[0][0].stage = 1;
  CHECK(error_of(simulate(foreign).status()) ==
        "schedule: rank 0 has the forward of stage 1, micro-batch 0, which is another rank's");
  PipelineSchedule less = good;
  less.by_rank[1].pop_back();
  CHECK(error_of(simulate(less).status()) ==
        "schedule: 7 passes; 2 stages x 2 micro-batches need 8");
}

TEST_CASE("sizes that a schedule does not have are refused", "[parallel][pipeline]") {
  CHECK(error_of(make_1f1b({.ranks = 2, .stages_per_rank = 2, .micro_batches = 4}).status()) ==
        "1f1b: 2 stages a rank; it has one, interleaved_1f1b has more");
  CHECK(error_of(make_1f1b({.ranks = 2, .micro_batches = 0}).status()) ==
        "1f1b: 2 ranks x 1 stages a rank, 0 micro-batches; each is at least 1");
  CHECK(
      error_of(
          make_interleaved_1f1b({.ranks = 2, .stages_per_rank = 2, .micro_batches = 0}).status()) ==
      "interleaved_1f1b: 2 ranks x 2 stages a rank, 0 micro-batches; each is at least 1");
  CHECK(error_of(make_interleaved_1f1b({.ranks = 2, .micro_batches = 2}).status()) ==
        "interleaved_1f1b: pp 2 with 1 stages a rank; it needs at least 2 of both");
}

TEST_CASE("a schedule prints as a table", "[parallel][pipeline]") {
  const PipelineSchedule schedule = value_or_throw(make_1f1b({.ranks = 2, .micro_batches = 3}));
  CHECK(value_or_throw(describe_schedule(schedule)) ==
        "pipeline of 2 ranks with 1 stage each, 3 micro-batches; a cell is one slot of time: F "
        "forward, B backward, micro-batch\n"
        "  rank  0  F0 F1    B0 F2 B1    B2\n"
        "  rank  1     F0 B0 F1 B1 F2 B2\n"
        "  rank  0  idle 2 of 8 slots (25.0 %), holds at most 2 forward passes\n"
        "  rank  1  idle 2 of 8 slots (25.0 %), holds at most 1 forward passes\n");
}

}  // namespace tessera::testing
