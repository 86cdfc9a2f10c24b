// placement/plan.h: how a tensor gets from one spec to another, as data, before anything moves.
// A plan is a chain of steps from layout to layout; a step is one collective among the ranks of its
// group. docs/redistribution.md gives every step's messages and bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/spec.h"
#include "placement/topology.h"

namespace tessera TSR_API {

/// Which of several ranks that hold the same elements is read from. A rank that holds what it needs
/// always reads its own.
enum class ReplicaChoice : std::uint8_t {
  kAligned,  ///< the one with the reader's coords on the axes that replicate the source
  kSpread    ///< readers take the replicas in turn, so that all of them send
};

/// One collective (or local) step. Every step is an exchange of index-set intersections; the kind
/// names the native collective that it equals, for backends that have one, and for people.
struct PlanStep {
  enum class Kind : std::uint8_t {
    kLocal,          ///< slice or fill: no bytes move
    kAllGather,      ///< S → R
    kReduceScatter,  ///< P → S; folds
    kAllReduce,      ///< P → R on equal local shapes; folds
    kAllToAll,       ///< S(a) → S(b) on one axis
    kExchange        ///< any other move
  };
  Kind kind = Kind::kLocal;
  /// Mesh axes along which bytes move, ascending; peers differ on no other. Empty between two
  /// meshes: there the group is every rank of either.
  std::vector<int> axes;
  Spec src;  ///< what ranks have before the step
  Spec dst;  ///< what they have after it
  ReplicaChoice replica = ReplicaChoice::kAligned;
  /// Spec of the local array that the step writes, where `dst` is a part of what that array will
  /// hold: the parts of other ranks are gathered into it by the next step. Empty: that of `dst`.
  std::optional<Spec> host;
  /// The source elements lie in the array that the step writes, at their final places.
  bool in_place = false;
  /// What ranks hold since the plan's start, where not all of it is in `src`: copied on the rank by
  /// the step that first writes `host`, and not received again by the step in place.
  std::optional<Spec> kept;

  /// Spec of the local array read, and of the one written.
  const Spec& array_read() const noexcept { return in_place ? *host : src; }
  const Spec& array_written() const noexcept { return host ? *host : dst; }
};
std::string_view name_of(PlanStep::Kind kind) noexcept;

struct Plan {
  Spec src;
  Spec dst;
  std::vector<PlanStep> steps;  ///< empty where the local data serves as it is
  /// Most bytes that a rank may hold in buffers for packed messages.
  std::int64_t pack_bytes = 0;
};

struct PlanOptions {
  /// Prices steps in time; null: by bytes received, then messages.
  const Topology* topology = nullptr;
  /// Cap of the buffers for packed messages on one rank; backends that read their peers' memory use
  /// none.
  std::int64_t pack_bytes = std::int64_t{64} << 20;
};

/// Steps that take `src` to `dst`, which may lie on different meshes over any ranks of one world.
/// Pure and deterministic: equal on all ranks.
/// R → P keeps the value on coord 0 of the axis and fills the identity elsewhere (−0.0 for a sum);
/// S → P keeps every shard where it is. Several Partial kinds reduce from the last mesh axis to the
/// first; sum and avg commute.
/// Cost: independent of the number of ranks on one mesh with few axes; between meshes O(ranks).
/// Errors: InvalidArgument where shapes or dtypes differ, or for a cap below least_pack_bytes()
/// (the text gives it); OutOfRange where a size overflows.
StatusOr<Plan> plan(const Spec& src, const Spec& dst, const PlanOptions& options = {});

/// The least cap of pack buffers under which every step of a plan in a group of `num_ranks` runs.
std::int64_t least_pack_bytes(std::int64_t num_ranks) noexcept;

/// How a step combines the boxes of several contributors: fold by `op`, then divide by `divisor`.
struct Fold {
  ReduceOp op = ReduceOp::kSum;  ///< never kAvg: an average is a sum with a divisor
  std::int64_t divisor = 1;
  bool operator==(const Fold&) const = default;
};
/// nullopt where the step does not reduce.
std::optional<Fold> fold_of(const PlanStep& step);
/// The kind whose identity (−0.0 for a sum) fills the elements of `rank`'s array that no box covers
/// in a step to Partial; nullopt where boxes cover all.
std::optional<ReduceOp> fill_of(const PlanStep& step, std::int64_t rank);

/// A box of elements that goes from one rank's local array into another's.
struct Transfer {
  std::int64_t peer = 0;         ///< the other rank (world numbering)
  std::int64_t contributor = 0;  ///< place among the ranks folded; boxes of 0 land, later ones fold
  std::vector<std::vector<Run>> dims;  ///< per tensor dim; the box is their product
  std::int64_t num_elements() const noexcept;
  bool operator==(const Transfer&) const = default;
};

/// What `rank` reads in one step, own local copies included (peer = rank), ascending by
/// contributor. `src` of a run counts in the sender's array_read(), `dst` in the reader's
/// array_written(). The boxes of one contributor cover every element of the target at most once (of
/// `dst`: exactly once, but for what fill_of() fills and what lies in place). A peer may give
/// several boxes. Empty boxes are left out.
/// Cost: O(peers that may hold something needed).
std::vector<Transfer> transfers_into(const PlanStep& step, std::int64_t rank);
/// What `rank` sends in one step: the mirror of transfers_into over all ranks; the boxes for one
/// peer stand in the same order as there.
std::vector<Transfer> transfers_from(const PlanStep& step, std::int64_t rank);

/// The ranks among which `rank` takes the step, ascending in coords of `axes` (between meshes:
/// ascending); it is one of them, or the list is empty.
std::vector<std::int64_t> group_of(const PlanStep& step, std::int64_t rank);

/// Units: bytes that `rank` receives from others over all steps.
std::int64_t bytes_received(const Plan& plan, std::int64_t rank);

}  // namespace tessera
