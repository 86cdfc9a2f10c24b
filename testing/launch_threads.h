// testing/launch_threads.h: ranks as threads of this process.
#pragma once

#include <chrono>

#include "testing/results.h"

namespace tessera::testing {

/// `run`: run_ranks() or another with its parameters, which joins its threads.
inline Launched launch_threads(int num_ranks, const WorldOptions& options, const RankBody& body,
                               decltype(run_ranks)& run = run_ranks) {
  Launched launched;
  launched.reports.resize(static_cast<std::size_t>(num_ranks));
  const auto start = std::chrono::steady_clock::now();
  launched.first = run(num_ranks, options, [&](World& world) {
    body(world, launched.reports[static_cast<std::size_t>(world.rank())]);
  });
  launched.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return launched;
}

}  // namespace tessera::testing
