// dtensor/dispatch.h: from an op call on DTensors to its local execution: one lookup of a resolved
// call. A resolved call is keyed by op, interned specs and attributes; it holds the local op, the
// result specs and the moves.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "dtensor/dtensor.h"
#include "dtensor/known_op.h"
#include "placement/api.h"
#include "runtime/plan/execute.h"
#include "strategies/rules/aliasing.h"
#include "strategies/rules/local_op.h"

namespace tessera TSR_API {

/// An operand that the chosen rows want elsewhere.
struct OperandMove {
  int operand = 0;
  const Spec* to = nullptr;
  std::int64_t bytes = 0;  ///< estimate over all ranks
  std::string why;
  bool communicates = false;
};

/// Everything about a call that does not depend on the data. Immutable once made.
struct ResolvedCall {
  /// A plain 0-d operand beside operands on a mesh: it counts as R there.
  struct Promotion {
    int operand = 0;
    const Spec* as = nullptr;
  };
  const Op* op = nullptr;
  Attrs attrs;                     ///< completed
  std::unique_ptr<LocalOp> local;  ///< null on a rank outside the mesh
  Communicator* group = nullptr;   ///< of a lowering's axes
  /// What each kWindow step of a lowering moves, by the step's number; null for other steps.
  std::vector<std::shared_ptr<const ExchangeBoxes>> windows;
  std::string group_axes;
  absl::InlinedVector<const Spec*, 3> inputs;  ///< as the kernel gets them; null where absent
  absl::InlinedVector<const Spec*, 2> outputs;
  absl::InlinedVector<Promotion, 1> promotions;
  absl::InlinedVector<OperandMove, 1> moves;
  ViewAliasing view;
  /// Operands that are sums and pass as sums beside operands that have to be finite.
  absl::InlinedVector<int, 2> sums;
  bool lowered = false;
  bool mutates = false;
};

/// A key that borrows, for lookups, and one that owns.
struct CallKeyView {
  const Op* op;
  std::span<const Spec* const> specs;
  const Attrs* attrs;
};
struct CallKey {
  const Op* op;
  absl::InlinedVector<const Spec*, 4> specs;
  Attrs attrs;
  operator CallKeyView() const { return {op, {specs.data(), specs.size()}, &attrs}; }
};
struct CallKeyHash {
  using is_transparent = void;
  std::size_t operator()(const CallKeyView& key) const noexcept;
};
struct CallKeyEqual {
  using is_transparent = void;
  bool operator()(const CallKeyView& a, const CallKeyView& b) const noexcept;
};

/// A plan, and this rank's share of it once it has been executed.
struct CachedPlan {
  Plan plan;
  std::optional<PlanProgram> program;
};

class ReturningStorage;  // dtensor/autograd.h

struct DispatchCache {
  absl::flat_hash_map<CallKey, std::shared_ptr<const ResolvedCall>, CallKeyHash, CallKeyEqual>
      calls;
  std::array<const Op*, kNumKnownOps> known{};
  absl::flat_hash_map<std::string, const Op*> by_name;
  /// Plans by source and target, both interned.
  absl::flat_hash_map<std::pair<const Spec*, const Spec*>, std::unique_ptr<CachedPlan>> plans;
  /// Where redistribute() was asked to bring tensors of a spec.
  absl::flat_hash_map<const Spec*, std::vector<std::pair<Placements, const Spec*>>> targets;
  /// Pairs of specs whose ranks were found to hold the same elements.
  absl::flat_hash_set<std::pair<const Spec*, const Spec*>> reinterpreted;
  absl::node_hash_set<std::string> modules;
  const std::string* module = nullptr;  ///< the path that ModuleScope built
  std::uint64_t next_sequence = 1;
  int backward_depth = 0;  ///< backward() calls under way: one runs inside another
  /// Storages whose bytes need not be kept for the backward pass.
  absl::flat_hash_map<const Storage*, ReturningStorage*> returning;
  Spec before_outs;  ///< its address divides operands from out= in a key
  /// What scopes ask for, the innermost last.
  struct AskedRow {
    std::string op;
    ForcedRow row;
    const Spec* key = nullptr;  ///< of all that is asked of the op so far
  };
  std::vector<AskedRow> asked;
  /// Their addresses set calls apart that run by other rows.
  absl::node_hash_map<std::string, Spec> asked_keys;
  int num_amendments = 0;  ///< of the op table, when `known` and `by_name` were filled
};

/// What scopes ask of an op (dtensor/with_row.h): its key, null where it is nothing, and its rows.
const Spec* asked_key(const DispatchCache& cache, const Op& op);
std::vector<ForcedRow> asked_rows(const DispatchCache& cache, const Op& op);

using Operands = std::span<const DTensor* const>;
using Results = absl::InlinedVector<DTensor, 2>;

/// Runs one op: moves operands where the policy lets it, executes, records. An undefined operand is
/// an absent optional one. Errors: those of propagate(); FailedPrecondition for a forbidden move or
/// a refused in-place write.
Results dispatch(Runtime& runtime, const Op& op, Operands operands, const Attrs& attrs,
                 const Site& site);
/// What a call reads, and the tensors that take its results.
struct Into {
  Operands operands;
  Operands outs;
};
/// The same, with results written into tensors that exist and never move. Operands that share
/// their storage are read as they were. Errors: those of propagate_into(); InvalidArgument where
/// two of `outs` share storage; FailedPrecondition where a tensor involved needs a gradient, or one
/// of `outs` cannot be written.
Results dispatch_into(Runtime& runtime, const Op& op, const Into& into, const Attrs& attrs,
                      const Site& site);
const Op& find_op(Runtime& runtime, std::string_view name);
const Op& find_op(Runtime& runtime, KnownOp op);

/// The history of a call just made, if any operand needs a gradient.
void record_call(const std::shared_ptr<const ResolvedCall>& call, Operands operands,
                 std::span<const DTensor> results, const Site& site);

/// The same local data under `as`, a spec of a mesh on which the tensor counts as R; recorded.
DTensor promote_scalar(const DTensor& x, const Spec* as, const Site& site);

/// What the window steps of a lowering move, from this rank's point of view.
std::vector<std::shared_ptr<const ExchangeBoxes>> plan_windows(const ResolvedCall& call,
                                                               const Coord& coord);
/// Interprets the steps of a lowering. Collective: yes, over the call's lowering axes.
void run_lowering(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                  std::span<Array> outputs, const Site& site);

/// How a tensor is moved, for events.
struct MoveInfo {
  Origin origin = Origin::kExplicit;
  std::string_view tensor = {};
  std::string_view why = {};
  /// Of the gradient, as redistribute() takes it; checked.
  std::span<const std::optional<Placement>> grad = {};
};
/// The plan between two interned specs, made once and priced as on one host. Throws Error.
const Plan& plan_between(Runtime& runtime, const Spec* src, const Spec* dst);
/// The same, ready to be executed on this rank.
const PlanProgram& program_between(Runtime& runtime, const Spec* src, const Spec* dst);
/// Plans and moves; the tensor itself where nothing changes, its gradient included.
DTensor move(const DTensor& x, const Spec* to, const MoveInfo& info, const Site& site);

/// Checked mode only: throws FailedPrecondition where a tensor that is R on an axis has other bits
/// on some rank there. Collective: yes, over the axes of size > 1 on which `x` is R.
void check_replicas(const DTensor& x, std::string_view where, const Site& site);
/// Checked mode only: throws OutOfRange on every rank, before the op runs, where an index that a
/// rule marks `#` lies outside the dim that it addresses on any of them; the text names the first
/// such position of the whole operand, and the value. Collective: yes, over the op's mesh.
void check_indices(Runtime& runtime, const ResolvedCall& call, Operands operands, const Site& site);
/// Checked mode only: throws FailedPrecondition on every rank where the summands of `call.sums` are
/// finite on a rank and its results are not: summands times an infinity (or over 0) do not add up
/// to their sum times it. Collective: yes, over the op's mesh.
void check_sums(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                std::span<const Array> outputs, const Site& site);
/// Checked mode only: warns on stderr where a P(sum) cotangent has the same bits on all ranks of an
/// axis, as if it was computed from replicated data. Collective: yes, over the Partial axes.
void warn_if_partial_looks_replicated(const DTensor& cotangent, std::string_view where,
                                      const Site& site);

}  // namespace tessera
