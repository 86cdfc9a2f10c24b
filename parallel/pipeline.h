// parallel/pipeline.h: runs a pipeline schedule on this rank: activations go to the next stage,
// their gradients back, between ranks of the same position in each stage's block of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "dtensor/dtensor.h"
#include "parallel/mesh_views.h"
#include "parallel/pipeline_schedule.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The ranks with this rank's position in every block of pp: who it hands activations to, and what
/// adds up results of all stages. With pp 1 its calls do nothing.
class StageGroup {
 public:
  /// Throws Error for a rank outside pp.
  StageGroup(World& world, const MeshViews& views);
  std::int64_t size() const noexcept { return size_; }
  /// This rank's place in pp.
  std::int64_t rank() const noexcept { return rank_; }
  /// Null where pp is 1.
  Communicator* communicator() const noexcept { return communicator_; }
  /// Each value over all stages. Every rank has the same number of values, whatever its stages
  /// hold. Collective: yes, over pp.
  void all_reduce(std::span<double> values, ReduceOp op, std::string_view what) const;
  /// The same of a plain tensor, where it lies: one of its own where pp is 1.
  DTensor all_reduce(const DTensor& values, ReduceOp op, std::string_view what) const;
  /// The p-norm of what all stages hold, from the norm of this rank's own. p = inf: the largest.
  /// Collective: yes, over pp.
  double norm(double own, double p) const;

 private:
  Communicator* communicator_ = nullptr;
  std::int64_t size_ = 1;
  std::int64_t rank_ = 0;
};

/// What the stages of this rank do.
struct StageFunctions {
  /// What stage s hands to stage s + 1 for a micro-batch: on this rank's mesh; all stages place it
  /// alike.
  std::function<Spec(std::int64_t micro)> boundary;
  /// A forward pass; `input` is undefined for stage 0. Returns what `boundary` says; the last stage
  /// returns a 0-d loss.
  std::function<DTensor(const PipelinePass& pass, const DTensor& input)> forward;
};

/// Sends and receives are asynchronous: a send never waits for its receiver, and the input of the
/// next pass is asked for before the current one runs. Transfers are events with axes "pp". One run
/// at a time.
class PipelineRunner {
 public:
  /// `group` must outlive it. Throws Error for a schedule that simulate() refuses or whose ranks
  /// are not pp.
  PipelineRunner(Runtime& runtime, const StageGroup& group, PipelineSchedule schedule);
  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  /// All passes of this rank, forward and backward; gradients add up in the leaves. Collective:
  /// yes, among the ranks of all stages.
  void run(const StageFunctions& functions);

 private:
  /// What a pass gets from another rank: the forward's input, or the backward's cotangent.
  using Key = std::tuple<PipelinePass::Kind, std::int64_t, std::int64_t>;
  static Key key_of(const PipelinePass& pass) { return {pass.kind, pass.stage, pass.micro}; }
  struct Arrival {
    DTensor tensor;
    std::shared_ptr<Work> work;  ///< null for a tensor without elements on this rank
  };
  struct Held {
    DTensor input, output;
  };

  bool gets_input(const PipelinePass& pass) const;
  void ask_for(const PipelinePass& pass, const StageFunctions& functions);
  DTensor take(const PipelinePass& pass, const StageFunctions& functions);
  void send(const DTensor& x, const PipelinePass& to, std::string_view what);
  void forward(const PipelinePass& pass, const StageFunctions& functions);
  void backward_pass(const PipelinePass& pass, const StageFunctions& functions);

  Runtime& runtime_;
  const StageGroup& group_;
  PipelineSchedule schedule_;
  /// By rank of pp: the passes of this rank that it feeds, in the order in which it sends.
  std::vector<std::vector<PipelinePass>> fed_by_;
  std::vector<std::size_t> asked_;  ///< by rank of pp: how many of fed_by_ have been asked for
  std::map<Key, Arrival> arrivals_;
  std::map<std::pair<std::int64_t, std::int64_t>, Held> held_;  ///< (stage, micro)
  std::vector<std::shared_ptr<Work>> sends_;
};

}  // namespace tessera
