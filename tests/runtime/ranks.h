// tests/runtime/ranks.h: rank threads whose outcomes the main thread asserts on.
#pragma once

#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/world.h"

namespace tessera::testing {

inline std::vector<std::int64_t> all_ranks(const World& world) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
inline Communicator& everyone(World& world) {
  return *value_or_throw(world.group(all_ranks(world)));
}

/// What happened on each rank, and what run_ranks said.
struct Outcome {
  std::vector<Status> ranks;
  Status first;
  double seconds = 0;
};
inline Outcome outcome_of(int num_ranks, const std::function<void(World&)>& body,
                          WorldOptions options = {}) {
  Outcome outcome;
  outcome.ranks.resize(static_cast<std::size_t>(num_ranks));
  const auto start = std::chrono::steady_clock::now();
  outcome.first = run_ranks(num_ranks, options, [&](World& world) {
    try {
      body(world);
    } catch (const Error& error) {
      outcome.ranks[static_cast<std::size_t>(world.rank())] = error.status();
      throw;
    }
  });
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

/// Runs ranks that note what went wrong; empty where all went well.
inline std::vector<std::string> complaints_of(
    int num_ranks, const std::function<void(World&, std::vector<std::string>&)>& body) {
  std::vector<std::vector<std::string>> by_rank(static_cast<std::size_t>(num_ranks));
  const Status status = run_ranks(num_ranks, {}, [&](World& world) {
    body(world, by_rank[static_cast<std::size_t>(world.rank())]);
  });
  std::vector<std::string> all;
  if (!status.ok()) all.emplace_back(message_of(status));
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const std::string& text : by_rank[rank]) {
      all.push_back("rank " + std::to_string(rank) + ": " + text);
    }
  }
  return all;
}

inline bool contains(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string_view::npos;
}

}  // namespace tessera::testing
