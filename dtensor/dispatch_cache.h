// dtensor/dispatch_cache.h: what a Runtime remembers between calls: resolved calls by op, interned
// specs and attributes; plans; what scopes ask for. For this layer's sources only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "dtensor/known_op.h"
#include "dtensor/resolved_call.h"

namespace tessera {

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

/// What scopes ask of an op (with_row.cc): its key, null where it is nothing, and its rows.
const Spec* asked_key(const DispatchCache& cache, const Op& op);
std::vector<ForcedRow> asked_rows(const DispatchCache& cache, const Op& op);

}  // namespace tessera
