// parallel/mesh_views.h: the same ranks seen as a dense mesh (dp_replicate, dp_shard, cp, tp) and a
// sparse mesh (dp_replicate, efsdp, ep, etp), within each stage of pp. Expert parallelism is
// borrowed from the data, context and tensor axes; it is not a factor of the world.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "dtensor/recompute.h"
#include "parallel/dispatch_config.h"
#include "parallel/fsdp_policy.h"
#include "placement/api.h"
#include "placement/spec.h"

namespace tessera TSR_API {

/// How queries cut over cp meet every key.
enum class ContextMethod : std::uint8_t {
  kAllGather,  ///< keys and values are gathered over cp
  kRing        ///< they go around the ranks of cp, see ring_attention()
};
/// The order in which pipeline stages run micro-batches, see parallel/pipeline_schedule.h.
enum class PipelineOrder : std::uint8_t { k1F1B, kInterleaved1F1B };

/// Degrees of parallelism, as a user writes them.
struct ParallelConfig {
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;  ///< −1: what the others leave
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t pp = 1;
  PipelineOrder pp_schedule = PipelineOrder::k1F1B;
  std::int64_t pp_microbatches = 0;            ///< pieces of each micro-batch; 0: as many as fit
  std::int64_t pp_stages_per_rank = 0;         ///< 0: one, or two where they interleave
  std::vector<std::int64_t> pp_layers = {};    ///< of each stage; empty: as even as can be
  std::optional<bool> sequence_parallel = {};  ///< default: where tp > 1
  bool strict_even = false;                    ///< refuse experts that ep does not divide
  ContextMethod cp_method = ContextMethod::kAllGather;
  bool cp_load_balance = false;            ///< see TokenOrder::balanced()
  Recompute recompute = Recompute::kNone;  ///< of every layer, in backward
  FsdpPolicy fsdp = {};
  DispatchConfig dispatch = {};

  bool uses_sequence_parallel() const { return tp > 1 && sequence_parallel.value_or(true); }
};

/// A placement for every axis that dense() may have; MeshViews drops those that it has not.
struct DensePlacement {
  Placement dp_replicate = Replicate{};
  Placement dp_shard = Replicate{};
  Placement cp = Replicate{};
  Placement tp = Replicate{};
};
/// The same for sparse().
struct SparsePlacement {
  Placement dp_replicate = Replicate{};
  Placement efsdp = Replicate{};
  Placement ep = Replicate{};
  Placement etp = Replicate{};
};

/// Both views of the ranks of one pipeline stage, row-major, the last axis adjacent. Axes of size 1
/// are left out, but for dp_shard and tp (dense), efsdp and ep (sparse). Source: torchtitan
/// ParallelDims.
class MeshViews {
 public:
  /// Views of stage 0 of `num_ranks` ranks. Errors: InvalidArgument for a degree < 1, degrees that
  /// do not multiply out to `num_ranks`, or an ep·etp that does not divide dp_shard·cp·tp.
  static StatusOr<MeshViews> make(const ParallelConfig& config, std::int64_t num_ranks);
  /// The same for stage `stage` of pp. Errors: InvalidArgument outside [0, pp).
  StatusOr<MeshViews> at_stage(std::int64_t stage) const;
  std::int64_t stage() const noexcept { return stage_; }
  /// The stage whose ranks include `rank`.
  std::int64_t stage_of(std::int64_t rank) const { return rank / dense_.num_ranks(); }

  const ParallelConfig& config() const noexcept { return config_; }
  /// Axes "dp_replicate", "dp_shard", "cp", "tp".
  const Mesh& dense() const noexcept { return dense_; }
  /// Axes "dp_replicate", "efsdp" (dp_shard·cp·tp / (ep·etp)), "ep", "etp".
  const Mesh& sparse() const noexcept { return sparse_; }
  Placements on_dense(const DensePlacement& placement) const;
  Placements on_sparse(const SparsePlacement& placement) const;
  /// Positions of the named axes, in the order of the mesh; axes that it has not are skipped.
  std::vector<int> dense_axes(std::initializer_list<std::string_view> names) const;
  std::vector<int> sparse_axes(std::initializer_list<std::string_view> names) const;
  /// Axes over which dense parameters are stored in shards: dp_shard and cp.
  std::vector<int> fsdp_axes() const { return dense_axes({"dp_shard", "cp"}); }

  std::int64_t tp() const noexcept { return config_.tp; }
  std::int64_t ep() const noexcept { return config_.ep; }
  std::int64_t etp() const noexcept { return config_.etp; }
  std::int64_t fsdp() const noexcept { return config_.dp_shard * config_.cp; }
  std::int64_t efsdp() const noexcept { return fsdp() * tp() / (ep() * etp()); }
  /// True where experts live on the sparse mesh, and each tp rank routes tokens of its own.
  bool uses_expert_parallel() const noexcept { return ep() > 1 || etp() > 1; }
  bool uses_sequence_parallel() const noexcept { return config_.uses_sequence_parallel(); }

  /// Errors: InvalidArgument naming the layer and the sizes: heads that tp does not divide; experts
  /// that ep does not divide (only under strict_even: uneven and empty shards train like others).
  Status check_heads(std::string_view layer, std::int64_t num_heads) const;
  Status check_experts(std::string_view layer, std::int64_t num_experts) const;

 private:
  ParallelConfig config_;
  std::int64_t stage_ = 0;
  Mesh dense_;
  Mesh sparse_;
};

}  // namespace tessera
