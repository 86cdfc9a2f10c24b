// parallel/pipeline_schedule.h: who does what in a pipeline: for each rank of pp the list of its
// forward and backward passes. A pass is one stage on one micro-batch; stage s stands on rank
// s mod pp. A schedule is data: it can be checked, timed and drawn before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/mesh_views.h"
#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

struct PipelineShape {
  std::int64_t ranks = 1;  ///< of pp
  std::int64_t stages_per_rank = 1;
  std::int64_t micro_batches = 1;

  std::int64_t num_stages() const { return ranks * stages_per_rank; }
  std::int64_t rank_of(std::int64_t stage) const { return stage % ranks; }
  bool operator==(const PipelineShape&) const = default;
};

struct PipelinePass {
  enum class Kind : std::uint8_t { kForward, kBackward };
  Kind kind = Kind::kForward;
  std::int64_t stage = 0;
  std::int64_t micro = 0;
  bool operator==(const PipelinePass&) const = default;
};
/// "forward of stage 1, micro-batch 3"
std::string to_string(const PipelinePass& pass);

struct PipelineSchedule {
  PipelineShape shape;
  std::vector<std::vector<PipelinePass>> by_rank;  ///< in the order in which a rank runs them
};

/// Rank r runs pp − 1 − r forward passes, then one forward and one backward in turn: at most pp − r
/// micro-batches are held. Errors: InvalidArgument for sizes < 1, or more than one stage a rank.
/// Source: PipeDream-Flush, Narayanan et al., 2021.
StatusOr<PipelineSchedule> make_1f1b(const PipelineShape& shape);
/// Several stages a rank, micro-batches in rounds of pp: idle time shrinks by the number of stages
/// a rank. Of micro-batches that are no multiple of pp the rounds are longer, which costs memory,
/// not time; fewer than pp leave ranks idle between their stages, too. Errors: InvalidArgument for
/// sizes < 1, one rank, or one stage a rank. Source: Megatron-LM's interleaved schedule, Narayanan
/// et al., 2021 (which refuses what pp does not divide).
StatusOr<PipelineSchedule> make_interleaved_1f1b(const PipelineShape& shape);
StatusOr<PipelineSchedule> make_schedule(PipelineOrder order, const PipelineShape& shape);

/// How long a pass of one stage takes. Units: any, whole numbers.
struct PipelineCosts {
  std::int64_t forward = 1;
  std::int64_t backward = 1;
};
struct PipelineTimeline {
  std::vector<std::vector<std::int64_t>> starts;  ///< of each pass, by rank
  std::int64_t end = 0;                           ///< of the last pass
  std::vector<std::int64_t> idle;                 ///< by rank, within [0, end)
  std::vector<std::int64_t> most_held;  ///< by rank: most forward passes that await their backward
};
/// Runs the schedule on paper, each pass as soon as its rank is free and its input is there;
/// transfers take no time, sends never block. Errors: InvalidArgument unless every rank reaches its
/// end, and every (stage, micro-batch) runs forward once and then backward once on its own rank;
/// the text names the first pass that is wrong, or what each rank waits for.
StatusOr<PipelineTimeline> simulate(const PipelineSchedule& schedule,
                                    const PipelineCosts& costs = {});

/// The schedule as a table: a line per rank, a column per slot of time ("0" to "9", "a" … are
/// micro-batches; see the legend that it begins with). Errors: those of simulate().
StatusOr<std::string> describe_schedule(const PipelineSchedule& schedule,
                                        const PipelineCosts& costs = {});

}  // namespace tessera
