// dtensor/local_map.h: a region of plain local tensors with declared placements at its border.
// What enters and leaves is checked against the declaration; a mismatch names region, argument, got
// and expected.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

enum class OnMismatch : std::uint8_t { kError, kRedistribute };

struct LocalArg {
  std::string name;
  DTensor tensor;
  Placements placements;     ///< one per axis of the tensor's own mesh
  GradPlacements grad = {};  ///< as for to_local(); may be left out where no R axis needs it
  OnMismatch on_mismatch = OnMismatch::kError;
};
struct LocalResult {
  std::string name;
  Mesh mesh;
  Placements placements;
  Shape global_shape;
  GradPlacements grad = {};  ///< as for from_local()
};

/// A region's arguments inside it: plain tensors by the names that they were declared under.
class LocalInputs {
 public:
  LocalInputs(std::string region, std::span<const LocalArg> args, std::vector<DTensor> locals);
  /// Errors: InvalidArgument naming region, name and the declared ones.
  const DTensor& operator[](std::string_view name) const;
  /// InvalidArgument naming the first argument that nobody has asked for.
  Status check_all_read() const;

 private:
  std::string region_;
  std::span<const LocalArg> args_;
  std::vector<DTensor> locals_;
  mutable std::vector<bool> read_;
};
/// Results by position; each plain.
using LocalFn = std::function<std::vector<DTensor>(const LocalInputs&)>;

/// Runs `fn` on local tensors. Errors: FailedPrecondition for a mismatch; InvalidArgument for a
/// repeated argument name, before any collective; after `fn` for an argument that it has not read
/// (a declaration that nothing keeps) or a wrong number of results.
std::vector<DTensor> local_map(Runtime& runtime, const std::string& region,
                               std::span<const LocalArg> args, std::span<const LocalResult> results,
                               const LocalFn& fn, const Site& site = Site::current());

// ---- collectives inside regions: differentiable ops on plain tensors ----

/// Axes of a mesh, this rank's group along them.
struct AxisGroup {
  Mesh mesh;
  std::vector<int> axes;
};
/// Consecutive rows (dim 0) to each rank of the group, rows from rank 0, 1, … in turn. Backward:
/// the splits swapped.
DTensor all_to_all_v(const DTensor& x, std::span<const std::int64_t> send_splits,
                     std::span<const std::int64_t> recv_splits, const AxisGroup& group,
                     const Site& site = Site::current());
/// Sum over the group. Backward: identity where each rank computes the same from it (cotangent R);
/// all-reduce else.
enum class SumGradient : std::uint8_t { kReplicated, kPartial };
DTensor all_reduce_sum(const DTensor& x, const AxisGroup& group, SumGradient grad,
                       const Site& site = Site::current());
/// Rows of all ranks one after another. Backward: reduce-scatter.
DTensor all_gather_rows(const DTensor& x, std::span<const std::int64_t> rows,
                        const AxisGroup& group, const Site& site = Site::current());
/// The sum over the group, of which rank r keeps the next rows[r] rows. Backward: all-gather.
DTensor reduce_scatter_rows(const DTensor& x, std::span<const std::int64_t> rows,
                            const AxisGroup& group, const Site& site = Site::current());

}  // namespace tessera
