// dtensor/runtime.h: one rank's state: world, op table, interned specs, dispatch cache, policies,
// modes, and by what topology moves are planned. One Runtime per rank; every DTensor points to its
// own, nothing is global. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "placement/api.h"
#include "placement/topology.h"
#include "runtime/world.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// What happens when an op has to redistribute an operand that nobody asked to move: what moves
/// bytes between ranks is told of (kWarn) or an error (kForbid); kForce has every redistribution
/// written, those that only cut a rank's own part too, and names the line to add.
enum class ImplicitPolicy : std::uint8_t { kAllow, kWarn, kForbid, kForce };

/// Extra checks that cost communication: replicated tensors are compared across replicas by hash.
enum class CheckedMode : std::uint8_t { kOff, kOn };

struct DispatchCache;   // dtensor/dispatch_cache.h
struct RecomputePass;   // dtensor/recompute.cc
class ProgramObserver;  // dtensor/observer.h

class Runtime {
 public:
  /// Holds the built-in ops. `world` must outlive the Runtime and every DTensor of it. All moves
  /// are planned by `topology`, none: as on one host. Collective: no without one; with one yes,
  /// over the world: all ranks have to give the same. Throws Error(InvalidArgument) on every rank,
  /// naming those that differ, or for what validate() refuses.
  explicit Runtime(World& world, const std::optional<Topology>& topology = std::nullopt);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  World& world() noexcept { return *world_; }
  std::int64_t rank() const noexcept { return world_->rank(); }
  OpTable& ops() noexcept { return ops_; }
  /// Of the device that the World's arrays lie on.
  KernelContext& kernels() noexcept { return kernels_; }
  /// Of the host: for what ranks tell each other of sizes.
  KernelContext& host_kernels() noexcept { return host_kernels_; }
  DispatchCache& cache() noexcept { return *cache_; }
  EventLog& events() noexcept { return world_->events(); }
  /// What moves are planned by.
  const Topology& topology() const noexcept { return topology_; }

  /// The one stored copy of an equal spec; equal specs have equal pointers for the life of the
  /// Runtime.
  const Spec* intern(Spec spec);
  /// This rank's coord on the mesh of an interned spec; null for a rank outside the mesh.
  const Coord* coord_on(const Spec* spec);

  bool grad_enabled = true;
  /// Number of the forward pass, equal on all ranks: it seeds noise drawn by modules. A recomputed
  /// pass runs under the number of the first.
  std::uint64_t pass = 0;
  ImplicitPolicy implicit_policy = ImplicitPolicy::kAllow;
  CheckedMode checked = CheckedMode::kOff;
  RecomputePass* recompute_pass = nullptr;  ///< set by recompute() while a piece runs
  ProgramObserver* observer = nullptr;      ///< is told of each step; not owned

 private:
  struct SpecTable;
  World* world_;
  Topology topology_;
  OpTable ops_;
  KernelContext kernels_, host_kernels_;
  std::unique_ptr<SpecTable> specs_;
  std::unique_ptr<DispatchCache> cache_;
};

/// Turns gradients off (or a policy on) for a scope.
class NoGrad {
 public:
  explicit NoGrad(Runtime& runtime) : runtime_(runtime), before_(runtime.grad_enabled) {
    runtime.grad_enabled = false;
  }
  ~NoGrad() { runtime_.grad_enabled = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Runtime& runtime_;
  bool before_;
};
class PolicyScope {
 public:
  PolicyScope(Runtime& runtime, ImplicitPolicy policy)
      : runtime_(runtime), before_(runtime.implicit_policy) {
    runtime.implicit_policy = policy;
  }
  ~PolicyScope() { runtime_.implicit_policy = before_; }
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;

 private:
  Runtime& runtime_;
  ImplicitPolicy before_;
};
/// Appends a name to the module path of events inside a scope; backward passes report the path of
/// their forward op.
class ModuleScope {
 public:
  ModuleScope(Runtime& runtime, std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Runtime& runtime_;
  std::string before_;
};

}  // namespace tessera
