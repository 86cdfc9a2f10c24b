// execute/traffic.h: what a program said that its steps would move, beside what they moved when it
// ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "execute/program_run.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// One collective that a rank took part in. Units: bytes received by it.
struct RankMove {
  std::int64_t step = 0;   ///< its number among the steps that ran, `free` and repeats not counted
  std::string collective;  ///< as programs name it
  std::string axes;        ///< "dp,tp"
  std::int64_t bytes = 0;
  bool operator==(const RankMove&) const = default;
};

/// Listens to one run on this rank; the Runtime's log must keep its events meanwhile.
class TrafficLog {
 public:
  explicit TrafficLog(Runtime& runtime);
  /// To be given to ProgramRun::run(). Valid while the log is.
  AfterStep listener();
  const std::vector<RankMove>& moves() const noexcept { return moves_; }

 private:
  void take_events();

  Runtime& runtime_;
  std::size_t next_event_;
  std::int64_t step_ = 0;
  std::vector<RankMove> moves_;
};

struct MovedBytes {
  std::string collective, axes;
  Volume bytes;  ///< of the rank with most, and of all
  bool operator==(const MovedBytes&) const = default;
};

/// A step that was to move something, or did. A round of a repeat has steps of its own.
struct StepTraffic {
  std::string place;  ///< "/steps/3/steps/0"
  std::string what;   ///< "x -> x.moved"
  std::vector<MovedBytes> predicted, executed;
  bool as_predicted() const { return predicted == executed; }
};

/// Predicted: what redistributions say that they move, or else moves_of(); what calls and regions
/// say of themselves.
/// `by_rank`: each rank's moves of one run of it. Errors: those of moves_of() and unfold().
StatusOr<std::vector<StepTraffic>> traffic_of(const Program& program,
                                              const std::vector<std::vector<RankMove>>& by_rank);

}  // namespace tessera
