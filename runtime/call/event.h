// runtime/call/event.h: what a rank did that costs something: transfers, host reads,
// redistributions. Tests, the audit, the trainer's summary and traces read the same events.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "placement/api.h"
#include "placement/placement.h"

namespace tessera TSR_API {

class Allocator;

enum class Origin : std::uint8_t { kExplicit, kImplicit };

/// Bytes that go to or come from another rank in one call.
struct Flow {
  std::int64_t rank = 0;  ///< the other one: of the world, or of the group, as its holder says
  std::int64_t bytes = 0;
  bool operator==(const Flow&) const = default;
};

/// What only traces need of an event.
struct EventTrace {
  std::uint64_t call = 0;  ///< of a collective: the same number on all its ranks, and on no other
  std::vector<Flow> sent = {}, received = {};  ///< by world rank; none of zero bytes
  std::int64_t memory_bytes = 0;               ///< in use when the event was over
};

/// How the bytes of arrays on devices went between processes.
enum class DevicePath : std::uint8_t {
  kNone,    ///< not so: the arrays lie on the host, or ranks are threads
  kStaged,  ///< through pinned memory of the host
  kDirect   ///< in messages from and to the devices' memory
};

struct Event {
  /// kSpan: a stretch of the program's own (a step, its backward pass), kept by traces only.
  enum class Kind : std::uint8_t { kCollective, kRedistribute, kHostRead, kSpan };
  Kind kind = Kind::kCollective;
  std::string name = {};    ///< collective ("all_gather", "all_to_all_v", …) or what was read
  std::string tensor = {};  ///< name of the tensor or op operand, where known
  std::string module = {};  ///< module path at the time ("layers.1.moe.router"), see ModuleScope
  std::string axes = {};    ///< mesh axes along which bytes move: "tp", "dp,tp"
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  Origin origin = Origin::kExplicit;
  std::string why = {};  ///< implicit ones: op, operand and row
  const char* file = "";
  int line = 0;
  double start_us = 0, end_us = 0;  ///< World::now_us()
  EventTrace trace = {};            ///< see EventLog::trace()
  DevicePath device_path = DevicePath::kNone;
  /// The backend's library formed the sum, in an order of its own: see ReduceBy::kNative.
  bool reduced_natively = false;
};

/// One rank's events, in order. Not thread-safe: a rank writes its own.
class EventLog {
 public:
  void add(Event event);
  const std::vector<Event>& events() const noexcept { return events_; }
  /// Forgets all events and totals.
  void clear();
  /// Keeps only totals by (kind, name, axes, origin, module) from now on: for long runs. Events so
  /// far stay counted.
  void summarize_only();
  /// Keeps events again, with what traces need, up to `max_events` of them; later ones are only
  /// counted. `memory` is asked for bytes in use.
  void trace(std::int64_t max_events, std::shared_ptr<const Allocator> memory);
  bool is_tracing() const noexcept { return memory_ != nullptr; }
  /// Events that trace() had no room for.
  std::int64_t num_left_out() const noexcept { return num_left_out_; }
  struct Total {
    Event::Kind kind = Event::Kind::kCollective;
    std::string name, axes, module;
    Origin origin = Origin::kExplicit;
    std::int64_t count = 0, bytes_received = 0;
  };
  /// Sorted by kind, module, name, axes, origin; without spans.
  std::vector<Total> totals() const;
  /// Of collectives only: a redistribution's bytes are those of its collectives.
  std::int64_t bytes_received() const noexcept { return bytes_received_; }
  /// Names the module of later events; returns the one before.
  std::string set_module(std::string path);
  const std::string& module() const noexcept { return module_; }

 private:
  void count(const Event& event);

  std::vector<Event> events_;
  std::vector<Total> totals_;                            ///< in order of first occurrence
  absl::flat_hash_map<std::size_t, std::size_t> index_;  ///< hash of the key → position in totals_
  std::int64_t bytes_received_ = 0;
  bool keep_events_ = true;
  std::shared_ptr<const Allocator> memory_;  ///< null unless tracing
  std::int64_t max_events_ = 0;
  std::int64_t num_left_out_ = 0;
  std::string module_;
};

}  // namespace tessera
