// runtime/recorder/verdict.h: what the flight records of a job say together: who called what else
// than the others, who never came, who did not finish. Any subset of the ranks' records will do;
// what a missing or overwritten record would tell is unknown, never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/recorder/file.h"

namespace tessera {

/// The first call of a lane (a group's collectives, or an ordered pair's messages) at which
/// something is wrong.
struct RecordsFinding {
  enum class Kind : std::uint8_t {
    kMismatch,     ///< ranks made different calls
    kNeverCalled,  ///< a rank never made a call that others of its group made
    kUnfinished,   ///< all whose record there is made the same call, but not all came to its end
    kNotEnded      ///< of ranks, not of a call: the record stops without an end
  };
  struct Call {
    std::int64_t rank = 0;
    std::string text;
    RecordedCall::State state = RecordedCall::State::kStarted;
  };

  Kind kind = Kind::kMismatch;
  std::string field;                ///< kMismatch: what differs
  std::optional<std::int64_t> odd;  ///< kMismatch: the one rank without which all agree
  std::vector<std::int64_t> group;  ///< world ranks
  std::uint64_t sequence = 0;
  std::vector<Call> calls;            ///< in order of the group
  std::vector<std::int64_t> missing;  ///< never made the call; kNotEnded: stopped without an end
  std::vector<std::int64_t> unknown;  ///< no record so far back, torn, or the job had failed before
  std::string text;
  std::int64_t time_ns = 0;  ///< first start of the call
};
std::string_view name_of(RecordsFinding::Kind kind) noexcept;
std::string_view name_of(RecordedCall::State state) noexcept;

struct RecordsVerdict {
  std::int64_t world_size = 0;
  std::vector<std::int64_t> present, missing;  ///< ranks with and without a record
  struct Failure {
    std::int64_t rank = 0;
    std::string text;
    std::int64_t time_ns = 0;
  };
  std::vector<Failure> failures;         ///< first to last
  std::vector<RecordsFinding> findings;  ///< causes before what follows from them, then by time
  struct Last {
    std::int64_t rank = 0;
    std::string call;  ///< the last unfinished, else the last; empty where there is none
    RecordedCall::State state = RecordedCall::State::kStarted;
    flight::End end = flight::End::kOpen;
    bool torn = false;  ///< the process was killed while it wrote
  };
  std::vector<Last> last_calls;  ///< by rank

  bool clean() const noexcept { return failures.empty() && findings.empty(); }
};

/// Requires records of one job, of ranks that differ, by rank; at least one.
RecordsVerdict judge(std::span<const RankRecords> records);

/// The last call that did not finish, else the last; null where there is none.
const RecordedCall* last_call(const RankRecords& records);

}  // namespace tessera
