// dtensor/observer.h: who is told what a Runtime does, step by step: ops, moves, what enters and
// leaves local regions, host reads. Each is told when it is over, with the tensors as they then
// are. A Runtime that nobody observes pays one branch for each.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "dtensor/dtensor.h"
#include "placement/api.h"
#include "runtime/call/event.h"

namespace tessera TSR_API {

/// An op that ran. Operands as its kernel got them: undefined where an optional one is absent.
struct CallSeen {
  const Op& op;
  std::span<const DTensor* const> operands;
  const Attrs& attrs;  ///< completed
  std::span<const DTensor> results;
  std::string_view row;  ///< that was chosen, as texts have it
  bool communicates = false;
  const Site& site;
};

/// How several tensors came to move together: not at all, by one call, or as a GatherBucket.
enum class BucketLife : std::uint8_t { kNone, kCall, kGathered };

/// Tensors that were redistributed: from[i] became to[i].
struct MoveSeen {
  std::span<const DTensor> from, to;
  Origin origin = Origin::kExplicit;
  std::string_view needed_by = {};  ///< "matmul.other": the operand it was for
  BucketLife life = BucketLife::kNone;
  const Site& site;
};

struct MoveBegun {
  std::span<const DTensor> from;
  std::span<const Spec* const> to;
  std::span<const std::string_view> names;  ///< of what is made
  const Site& site;
};

/// Whether collectives since the last step are a region's.
enum class RegionKind : std::uint8_t { kLocal, kCommunicates };

/// Work outside the op table: what it read and made. In-place results are tensors that it wrote.
struct RegionSeen {
  std::string_view name;
  std::span<const DTensor> args, results;
  RegionKind kind = RegionKind::kLocal;
  const Site& site;
};

struct HostReadSeen {
  const Array& array;
  std::string_view why, tensor;
  const Site& site;
};

/// Parts of a training step that the engine cannot tell by itself.
enum class PassMark : std::uint8_t { kBackward, kUpdate };

/// What the program around the steps says of them. What is not said is empty.
struct StepMarks {
  std::optional<int> stage = {};
  std::optional<std::int64_t> micro_batch = {};
  std::optional<PassMark> pass = {};
  std::string_view region = {};  ///< of local_map()
};

/// Calls come from the Runtime's own thread, between its steps; they may not run steps. Tensors and
/// texts are lent for the call.
class ProgramObserver {
 public:
  virtual ~ProgramObserver() = default;
  virtual void on_call(const CallSeen& seen) = 0;
  virtual void on_move(const MoveSeen& seen) = 0;
  /// A bucket's moves have begun: from[i] will be as to[i] says, and memory for it is there.
  virtual void on_move_begun(const void* bucket, const MoveBegun& seen) = 0;
  /// Its results are there, in the order of to.
  virtual void on_move_ended(const void* bucket, std::span<const DTensor> results) = 0;
  virtual void on_region(const RegionSeen& seen) = 0;
  virtual void on_host_read(const HostReadSeen& seen) = 0;
  /// A tensor around memory that no step made: from the host, or filled.
  virtual void on_made(const DTensor& made) = 0;

  StepMarks marks;
};

/// Sets marks for a scope; those that are not given stay.
class MarkScope {
 public:
  MarkScope(Runtime& runtime, const StepMarks& marks);
  ~MarkScope();
  MarkScope(const MarkScope&) = delete;
  MarkScope& operator=(const MarkScope&) = delete;

 private:
  ProgramObserver* observer_;
  StepMarks before_;
};

/// Tells the observer, if there is one, of a region that read `args` and made `result`, or nothing
/// where that is undefined. Undefined arguments are left out.
void tell_region(Runtime& runtime, std::string_view name, RegionKind kind,
                 std::initializer_list<std::reference_wrapper<const DTensor>> args,
                 const DTensor& result, const Site& site);

}  // namespace tessera
