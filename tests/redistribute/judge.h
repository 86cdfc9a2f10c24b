// tests/redistribute/judge.h: one pair of specs judged: planned, simulated, compared, its bytes
// counted.
#pragma once

#include "tests/redistribute/simulate.h"

namespace tessera::judge {

/// Plans, runs and judges; "" or the pair with the first flaw.
inline std::string judge(const Spec& src, const Spec& dst, HeldCache& cache,
                         const PlanOptions& options = {}) {
  const auto where = [&] { return src.to_string() + " to " + dst.to_string() + ": "; };
  const StatusOr<Plan> made = plan(src, dst, options);
  if (!made.ok()) return where() + std::string(message_of(made.status()));
  if (made->src != src || made->dst != dst) return where() + "the plan is for another pair";
  const Repeats repeats = options.topology == nullptr ? Repeats::kRefused : Repeats::kAllowed;
  Simulation simulation(*made, cache, repeats);
  const std::string flaw = simulation.run();
  if (!flaw.empty()) return where() + flaw;
  if (options.topology != nullptr || src.has_partial() || dst.has_partial()) return "";
  const auto has = cache.of(src);
  const auto needs = cache.of(dst);
  for (const auto& [rank, moved] : simulation.moved()) {
    const std::int64_t bound = lacks(has->on(rank), needs->on(rank));
    if (moved.received != bound) {
      return where() + "rank " + std::to_string(rank) + " receives " +
             std::to_string(moved.received) + " elements, and lacks " + std::to_string(bound);
    }
  }
  return "";
}

}  // namespace tessera::judge
