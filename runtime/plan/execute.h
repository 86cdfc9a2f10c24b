// runtime/plan/execute.h: plans at work. A rank's share of a plan is made ready once, as a
// PlanProgram, and executed any number of times; several tensors move together as a bucket, in one
// call for each step and group.
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/plan.h"
#include "runtime/call/event.h"

namespace tessera TSR_API {

class World;
struct ProgramShare;

/// What a redistribution says about itself in events and errors.
struct ExecuteInfo {
  std::string_view tensor = {};
  Origin origin = Origin::kExplicit;
  std::string_view why = {};
  std::source_location site = std::source_location::current();
};

/// One rank's share of a plan: groups, boxes, folds and fills of its steps. A value: copies share.
class PlanProgram {
 public:
  /// Collective: no, but every rank of a step's group makes one before the step. Cost: that of
  /// transfers_into() and transfers_from(). Throws Error: InvalidArgument where the plan names
  /// ranks outside the world.
  PlanProgram(World& world, const Plan& plan);
  /// True if no step does anything on this rank.
  bool is_empty() const noexcept;
  const ProgramShare& share() const noexcept { return *share_; }

 private:
  std::shared_ptr<const ProgramShare> share_;
};

/// Executes a plan on this rank's local array: fills, folds, copies; logs one event for each
/// collective that moves bytes and one for the redistribution. The result is `local` itself where
/// no step is needed, and null on a rank outside the target's mesh; a rank outside the source's
/// gives a null array. Collective: yes, among the ranks of either mesh. Throws Error:
/// InvalidArgument where `local` is not this rank's part of the source.
Array execute(World& world, const PlanProgram& program, const Array& local,
              const ExecuteInfo& info = {});
/// The same for a plan that is executed once.
Array execute(World& world, const Plan& plan, const Array& local, const ExecuteInfo& info = {});

/// Executes a bucket of plans, locals[i] by programs[i]: the i-th collectives of all plans that
/// have one group are one call; several all_reduces are two calls at most, with the bytes of
/// theirs. All ranks give the same plans in the same order. Cost: the messages of the longest plan,
/// not of all.
std::vector<Array> execute_all(World& world, std::span<const PlanProgram> programs,
                               std::span<const Array> locals, const ExecuteInfo& info = {});

struct ExecutionState;

/// A bucket under way. The first collectives have been started; wait() does the rest, so it has to
/// be called, and on all ranks in the same order where a plan has several collectives. The sources
/// must not be written before. Belongs to its rank, and may not outlive its World.
class BucketWork {
 public:
  explicit BucketWork(std::unique_ptr<ExecutionState> state);
  BucketWork(BucketWork&&) noexcept;
  BucketWork& operator=(BucketWork&&) noexcept;
  ~BucketWork();
  /// The arrays, in the order of the programs; once. Throws what execute() throws.
  std::vector<Array> wait();

 private:
  std::unique_ptr<ExecutionState> state_;
};
[[nodiscard]] BucketWork execute_all_async(World& world, std::span<const PlanProgram> programs,
                                           std::span<const Array> locals,
                                           const ExecuteInfo& info = {});

}  // namespace tessera
