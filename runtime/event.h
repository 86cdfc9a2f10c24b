// runtime/event.h: what a rank did that costs something: transfers, host reads, redistributions.
// Tests, the audit, the trainer's summary and traces read the same events.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "placement/api.h"
#include "placement/placement.h"

namespace tessera TSR_API {

enum class Origin : std::uint8_t { kExplicit, kImplicit };

struct Event {
  enum class Kind : std::uint8_t { kCollective, kRedistribute, kHostRead };
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
  double start_us = 0, end_us = 0;  ///< since the World was made
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
  struct Total {
    Event::Kind kind = Event::Kind::kCollective;
    std::string name, axes, module;
    Origin origin = Origin::kExplicit;
    std::int64_t count = 0, bytes_received = 0;
  };
  /// Sorted by kind, module, name, axes, origin.
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
  std::string module_;
};

}  // namespace tessera
