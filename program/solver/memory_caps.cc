// Memory is a sum over what is alive at a step, so a cap is a sum over variables for each step; but
// only few steps matter. The problem is solved without any; the step at which most is held then
// becomes a cap; and so on until nothing exceeds it. What the sums leave out (views, copies that
// may or may not be alive) memory_of() counts: where a step exceeds its cap once more, copies are
// counted with the rest, and the sum has to become less by the excess. A bound is taken from sums
// that leave out, never from such as were lowered.
#include "program/solver/memory_caps.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "program/fold.h"
#include "program/solver/placed_program.h"

namespace tessera {
namespace {

constexpr int kMostRounds = 16;

/// The problem's step at which most is held.
int step_of_peak(const StageMemory& fullest, const PlacedProgram& placed) {
  const auto at = static_cast<std::size_t>(std::max<std::int64_t>(fullest.peak_step, 0));
  return at < placed.step_of.size() ? placed.step_of[at] : 0;
}

class CapSearch {
 public:
  CapSearch(PlacementProblem& problem, const OpTable& ops, const PropagateOptions& options)
      : problem_(problem), ops_(ops), options_(options) {}

  StatusOr<CappedSolution> run() {
    TSR_ASSIGN_OR_RETURN(CappedSolution found, solve());
    if (!options_.memory_cap) return finished(std::move(found));
    double bound = found.network.bound;
    std::int64_t least = INT64_MAX;
    bool lowered = false;
    for (int round = 0; round < kMostRounds; ++round) {
      TSR_ASSIGN_OR_RETURN(const StageMemory fullest, fullest_stage(placed_.program, ops_));
      least = std::min(least, fullest.peak_bytes);
      if (fullest.peak_bytes <= *options_.memory_cap) {
        found.network.bound = std::min(bound, found.network.cost);
        found.network.exact &= !lowered;
        return finished(std::move(found));
      }
      lowered |= tighten(fullest, found.network.states);
      StatusOr<CappedSolution> next = solve();
      if (!next.ok()) return no_room(next.status(), least);
      found = *std::move(next);
      if (!lowered) bound = std::max(bound, found.network.bound);
    }
    return no_room(absl::OkStatus(), least);
  }

 private:
  StatusOr<CappedSolution> solve() {
    CostNetwork network = problem_.network();
    for (const auto& [step, cap] : caps_) network.add_cap(cap);
    CappedSolution found;
    TSR_ASSIGN_OR_RETURN(found.network,
                         solve_network(network, {.time_limit_s = options_.time_limit_s}));
    placed_ = placed_program(problem_, solution_of(problem_, found.network.states));
    return found;
  }

  /// True where a cap became lower than what may be held.
  bool tighten(const StageMemory& fullest, const std::vector<int>& states) {
    const auto most = static_cast<double>(*options_.memory_cap);
    const int step = step_of_peak(fullest, placed_);
    const auto [at, is_new] = caps_.try_emplace(step);
    CostCap& cap = at->second;
    const auto held = [&] { return problem_.network().amount_of(cap, states); };
    if (is_new) {
      cap = problem_.held_at(step, CopiesHeld::kNone);
      cap.limit = most;
      if (held() > most) return false;
    }
    if (lowered_.insert(step).second) cap = problem_.held_at(step, CopiesHeld::kAll);
    cap.limit = held() - std::max(1.0, static_cast<double>(fullest.peak_bytes) - most);
    return true;
  }

  CappedSolution finished(CappedSolution found) const {
    found.program = fold(placed_.program);
    return found;
  }
  Status no_room(const Status& status, std::int64_t least) const {
    if (!status.ok() && status.code() != absl::StatusCode::kResourceExhausted) return status;
    return absl::ResourceExhaustedError(absl::StrFormat(
        "no placements were found that keep a rank's memory within %s; the least peak that was "
        "found is %s",
        byte_text(*options_.memory_cap, 1), byte_text(least, 1)));
  }

  PlacementProblem& problem_;
  const OpTable& ops_;
  const PropagateOptions& options_;
  std::map<int, CostCap> caps_;  ///< by step
  std::set<int> lowered_;        ///< steps whose caps are
  PlacedProgram placed_;
};

}  // namespace

StatusOr<StageMemory> fullest_stage(const Program& program, const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(const std::vector<StageMemory> stages, memory_of(program, ops));
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.peak_bytes < b.peak_bytes; });
}

StatusOr<CappedSolution> solve_under_cap(PlacementProblem& problem, const OpTable& ops,
                                         const PropagateOptions& options) {
  return CapSearch(problem, ops, options).run();
}

}  // namespace tessera
