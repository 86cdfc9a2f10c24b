// parallel/mesh_views.h: the same ranks seen as a dense mesh (fsdp, tp) and a sparse mesh (efsdp,
// ep). Expert parallelism is borrowed from the data and tensor axes; it is not a factor of the
// world.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "placement/api.h"
#include "placement/spec.h"

namespace tessera TSR_API {

/// Degrees of parallelism, as a user writes them.
struct ParallelConfig {
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;  ///< −1: what the others leave
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t pp = 1;
  std::optional<bool> sequence_parallel = {};  ///< default: where tp > 1
  bool strict_even = false;                    ///< refuse experts that ep does not divide

  bool uses_sequence_parallel() const { return tp > 1 && sequence_parallel.value_or(true); }
};

/// Both views of `num_ranks` ranks, row-major, the last axis adjacent. Source: torchtitan
/// ParallelDims.
class MeshViews {
 public:
  /// Errors: InvalidArgument for a degree < 1, degrees that do not multiply out to `num_ranks`, or
  /// an ep that does not divide dp_shard·cp·tp; Unimplemented for a degree above 1 of pp,
  /// dp_replicate, cp or etp.
  static StatusOr<MeshViews> make(const ParallelConfig& config, std::int64_t num_ranks);

  const ParallelConfig& config() const noexcept { return config_; }
  /// Axes "fsdp" (dp_shard·cp) and "tp".
  const Mesh& dense() const noexcept { return dense_; }
  /// Axes "efsdp" (dp_shard·cp·tp / ep) and "ep".
  const Mesh& sparse() const noexcept { return sparse_; }
  static constexpr int kFsdp = 0, kTp = 1;   ///< axes of dense()
  static constexpr int kEfsdp = 0, kEp = 1;  ///< axes of sparse()

  std::int64_t tp() const { return dense_.size(kTp); }
  std::int64_t ep() const { return sparse_.size(kEp); }
  bool uses_expert_parallel() const { return ep() > 1; }
  bool uses_sequence_parallel() const { return config_.uses_sequence_parallel(); }

  /// Errors: InvalidArgument naming the layer and the sizes: heads that tp does not divide; experts
  /// that ep does not divide (only under strict_even: uneven and empty shards train like others).
  Status check_heads(std::string_view layer, std::int64_t num_heads) const;
  Status check_experts(std::string_view layer, std::int64_t num_experts) const;

 private:
  ParallelConfig config_;
  Mesh dense_;
  Mesh sparse_;
};

}  // namespace tessera
