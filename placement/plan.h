// placement/plan.h: how a tensor gets from one spec to another, as data, before anything moves.
// A plan is a chain of steps from layout to layout; a step is one collective over a set of mesh
// axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/spec.h"

namespace tessera TSR_API {

/// One collective (or local) step. Every step is an exchange of index-set intersections; the kind
/// names the native collective that it equals, for backends that have one, and for people.
struct PlanStep {
  enum class Kind : std::uint8_t {
    kLocal,          ///< slice or fill: no bytes move
    kAllGather,      ///< S → R
    kReduceScatter,  ///< P → S; folds
    kAllReduce,      ///< P → R, small tensors; folds
    kAllToAll,       ///< S(a) → S(b) on one axis
    kExchange        ///< any other move
  };
  Kind kind = Kind::kLocal;
  std::vector<int> axes;  ///< mesh axes along which bytes move, ascending; peers differ on no other
  Spec src;
  Spec dst;
};
std::string_view name_of(PlanStep::Kind kind) noexcept;

struct Plan {
  Spec src;
  Spec dst;
  std::vector<PlanStep> steps;  ///< empty where the local data serves as it is
};

/// Steps that take `src` to `dst`. Pure and deterministic: equal on all ranks.
/// R → P keeps the value on coord 0 of the axis and fills the identity elsewhere (−0.0 for a sum).
/// Several Partial kinds reduce from the last mesh axis to the first; sum and avg commute.
/// Errors: InvalidArgument where shapes, dtypes or meshes differ; Unimplemented for P(a) → P(b), a
/// ≠ b.
StatusOr<Plan> plan(const Spec& src, const Spec& dst);

/// How a step combines the boxes of several contributors: fold by `op`, then divide by `divisor`.
struct Fold {
  ReduceOp op = ReduceOp::kSum;  ///< never kAvg: an average is a sum with a divisor
  std::int64_t divisor = 1;
  bool operator==(const Fold&) const = default;
};
/// nullopt where the step does not reduce.
std::optional<Fold> fold_of(const PlanStep& step);
/// The kind whose identity fills `rank`'s whole target in a step R → P (−0.0 for a sum); nullopt
/// where boxes fill it.
std::optional<ReduceOp> fill_of(const PlanStep& step, std::int64_t rank);

/// A box of elements that goes from one rank's local array into another's.
struct Transfer {
  std::int64_t peer = 0;         ///< the other rank (world numbering)
  std::int64_t contributor = 0;  ///< place among the ranks folded; boxes of 0 land, later ones fold
  std::vector<std::vector<Run>> dims;  ///< per tensor dim; the box is their product
  std::int64_t num_elements() const noexcept;
};

/// What `rank` reads in one step, own local copies included (peer = rank), ascending by
/// contributor. The boxes of one contributor cover every element of the target exactly once, a rank
/// gives one box at most; empty boxes are left out, and a rank that is filled reads none. Cost:
/// O(peers that hold something needed).
std::vector<Transfer> transfers_into(const PlanStep& step, std::int64_t rank);
/// What `rank` sends in one step: the mirror of transfers_into over all ranks of the mesh.
std::vector<Transfer> transfers_from(const PlanStep& step, std::int64_t rank);

/// Units: bytes that `rank` receives from others over all steps.
std::int64_t bytes_received(const Plan& plan, std::int64_t rank);

}  // namespace tessera
