#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>

#include "tests/simulation/job.h"
#include "tests/support/paths.h"

namespace tessera::seeded {
namespace {

constexpr std::uint64_t kPlainSeeds = 300;
constexpr std::uint64_t kDeepSeeds = 10'000;

struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
/// TESSERA_SEEDS="FIRST:COUNT" or "SEED", else `otherwise`.
Range seeds_asked_for(const Range& otherwise) {
  const char* const text = std::getenv("TESSERA_SEEDS");
  if (text == nullptr) return otherwise;
  Range range{.count = 1};
  char colon = ':';
  std::istringstream(text) >> range.first >> colon >> range.count;
  return range;
}

std::string describe(std::uint64_t seed, const Plan& plan, const Outcome& outcome) {
  std::ostringstream text;
  text << "seed " << seed << " (" << (plan.backend == Backend::kThreads ? "threads" : "messages")
       << ", " << plan.program.num_ranks << " ranks, " << name_of(plan.fault) << " on rank "
       << plan.rank << "): " << outcome.flaw << "\n  again: TESSERA_SEEDS=" << seed << " "
       << testing::built() << "/test_simulation '[replay]'";
  return text.str();
}

/// What is wrong with these seeds. `happened`: which faults came about.
std::vector<std::string> flaws_of(const Range& range, std::set<Fault>& happened) {
  std::vector<std::string> flaws;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const Plan plan = make_plan(seed);
    const Outcome outcome = run_plan(plan);
    if (outcome.happened) happened.insert(plan.fault);
    if (outcome.flaw.empty()) continue;
    flaws.push_back(describe(seed, plan, outcome));
    std::cerr << flaws.back() << std::endl;  // at once: a later seed may end the process
  }
  return flaws;
}

/// The plan of a seed with another backend and schedule, where nothing goes wrong.
Plan without_fault(std::uint64_t seed, Backend backend, std::uint64_t schedule) {
  Plan plan = make_plan(seed);
  plan.fault = Fault::kNone;
  plan.backend = backend;
  plan.schedule = schedule;
  return plan;
}

}  // namespace

TEST_CASE("a seed runs alike each time", "[simulation]") {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan = make_plan(seed);
    const Outcome one = run_plan(plan, Simulation::Trace::kText);
    const Outcome other = run_plan(plan, Simulation::Trace::kText);
    CAPTURE(seed);
    CHECK(one.trace_hash == other.trace_hash);
    CHECK(one.trace == other.trace);
    CHECK(one.values_hash == other.values_hash);
    CHECK(one.first == other.first);
    hashes.insert(one.trace_hash);
  }
  CHECK(hashes.size() == 20);
}

TEST_CASE("a hundred schedules give the same bits on both backends", "[simulation][R15]") {
  const std::uint64_t seed = GENERATE(11, 12, 13);
  std::set<std::uint64_t> traces, values;
  std::vector<std::string> flaws;
  for (std::uint64_t schedule = 0; schedule < 100; ++schedule) {
    for (const Backend backend : {Backend::kThreads, Backend::kMessages}) {
      const Outcome outcome = run_plan(without_fault(seed, backend, schedule));
      if (!outcome.flaw.empty()) flaws.push_back(outcome.flaw);
      traces.insert(outcome.trace_hash);
      values.insert(outcome.values_hash);
    }
  }
  CHECK(flaws == std::vector<std::string>{});
  CHECK(traces.size() > 150);
  CHECK(values.size() == 1);
}

TEST_CASE("each allocation of a program may fail", "[simulation][R21]") {
  const Backend backend = GENERATE(Backend::kThreads, Backend::kMessages);
  std::vector<std::string> flaws;
  std::uint64_t num_failed = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Plan plan = without_fault(seed, backend, /*schedule=*/seed);
    const std::uint64_t count = run_plan(plan).num_allocations;
    plan.fault = Fault::kAllocation;
    for (plan.count = 1; plan.count <= count; ++plan.count) {
      const Outcome outcome = run_plan(plan);
      if (!outcome.flaw.empty()) flaws.push_back(describe(seed, plan, outcome));
      if (outcome.first.code() != absl::StatusCode::kResourceExhausted) {
        flaws.push_back("no error of allocation " + std::to_string(plan.count));
      }
      ++num_failed;
    }
  }
  CHECK(flaws == std::vector<std::string>{});
  CHECK(num_failed > 100);
}

TEST_CASE("every seed ends in the right values on all ranks or in one error on all",
          "[simulation][seeds]") {
  std::set<Fault> happened;
  CHECK(flaws_of({1, kPlainSeeds}, happened) == std::vector<std::string>{});
  CHECK(happened.size() == kNumFaults - 3);  // all but nothing, a late rank and a paused process
}

TEST_CASE("ten thousand seeds", "[.deep][simulation]") {
  std::set<Fault> happened;
  const Range range = seeds_asked_for({kPlainSeeds + 1, kDeepSeeds});
  CHECK(flaws_of(range, happened) == std::vector<std::string>{});
}

TEST_CASE("one seed with every switch of threads", "[.replay]") {
  const Range range = seeds_asked_for({1, 1});
  const Plan plan = make_plan(range.first);
  const Outcome outcome = run_plan(plan, Simulation::Trace::kText);
  for (const std::string& line : outcome.trace) std::cout << line << "\n";
  std::cout << describe(range.first, plan, outcome) << "\n  ends with " << outcome.first.ToString()
            << "\n  trace hash " << outcome.trace_hash << ", " << outcome.num_steps << " steps\n";
  CHECK(outcome.flaw.empty());
}

}  // namespace tessera::seeded
