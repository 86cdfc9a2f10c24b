// tests/runtime/ranks.h: worlds of ranks whose outcomes the test asserts on.
#pragma once

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/world.h"
#include "testing/results.h"
#include "tests/support/patience.h"

namespace tessera::testing {

inline std::vector<std::int64_t> all_ranks(const World& world) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// What happened on each rank, and what the run of all ranks said.
struct Outcome {
  std::vector<Status> ranks;
  Status first;
  double seconds = 0;
};
inline Outcome outcome_of(int num_ranks, const std::function<void(World&)>& body,
                          WorldOptions options = {}) {
  const Launched launched = launch(num_ranks, options, [&](World& world, std::string& report) {
    try {
      body(world);
    } catch (const Error& error) {
      report = encode(error.status());
      throw;
    }
  });
  Outcome outcome{{}, launched.first, launched.seconds};
  for (const std::string& report : launched.reports) {
    outcome.ranks.push_back(report.empty() ? Status() : decode<Status>(report));
  }
  return outcome;
}

/// Runs ranks that note what went wrong; empty where all went well.
inline std::vector<std::string> complaints_of(
    int num_ranks, const std::function<void(World&, std::vector<std::string>&)>& body) {
  const auto notes_of = [&](World& world) {
    std::vector<std::string> notes;
    body(world, notes);
    return notes;
  };
  const auto results = results_of(num_ranks, {}, notes_of);
  std::vector<std::string> all;
  if (!results.first.ok()) all.emplace_back(message_of(results.first));
  for (std::size_t rank = 0; rank < results.ranks.size(); ++rank) {
    for (const std::string& text : results.ranks[rank].value_or(std::vector<std::string>{})) {
      all.push_back("rank " + std::to_string(rank) + ": " + text);
    }
  }
  return all;
}

inline bool contains(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string_view::npos;
}

}  // namespace tessera::testing
