// Every built-in op, proven row by row: on axes of 2, 3 and 4 and on 2x2, in place and not, with
// special values and other dtypes, gradients included; every row that the search finds is there or
// declined; and the prover refutes what is changed in the rules.
#include <algorithm>
#include <atomic>
#include <thread>

#include "strategies/verify/verify.h"
#include "strategies/verify/verify_faults.h"
#include "strategies/verify/verify_mutants.h"

namespace tessera {
namespace {

std::string describe(const VerifyFailure& failure) {
  return failure.op + " on " + failure.mesh + ", row " + failure.row + ", sample " +
         failure.sample + ": " + failure.detail;
}

/// `work(i)` for every i below `count`, on two threads.
template <class Work>
void on_two_threads(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::thread other(run);
  run();
  other.join();
}

TEST_CASE("every row of every built-in op gives the one-rank result, and none is missing",
          "[strategies][ops]") {
  OpTable table;
  add_builtin_ops(table);
  const std::vector<const Op*> ops = table.ops();
  std::vector<VerifyReport> reports(ops.size());
  on_two_threads(ops.size(), [&](std::size_t i) { reports[i] = verify(table, *ops[i]); });
  std::int64_t proven = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    proven += reports[i].rows_proven;
    INFO(ops[i]->def.name);
    CHECK(reports[i].rows_failed == 0);
    CHECK(reports[i].rows_proven > 0);
    CHECK(reports[i].rows_missing == 0);
    for (const VerifyFailure& failure : reports[i].failures) UNSCOPED_INFO(describe(failure));
    CHECK(reports[i].failures.empty());
  }
  CHECK(ops.size() >= 250);
  CHECK(proven > 10000);  // rows do not vanish unseen
}

struct Judged {
  std::int64_t refuted = 0, survived = 0;
};

/// Mutants and faults of every `step`th op.
Judged judge_every(std::size_t step) {
  OpTable table;
  add_builtin_ops(table);
  std::vector<const Op*> ops;
  const std::vector<const Op*> all = table.ops();
  for (std::size_t i = 0; i < all.size(); i += step) ops.push_back(all[i]);
  std::vector<MutantReport> reports(ops.size()), faults(ops.size());
  std::vector<std::string> errors(ops.size());
  on_two_threads(ops.size(), [&](std::size_t i) {
    try {
      reports[i] = judge_mutants(*ops[i]);
      faults[i] = judge_faults(table, *ops[i]);
    } catch (const std::exception& error) {
      errors[i] = error.what();
    }
  });
  Judged judged;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    judged.refuted += reports[i].refuted + faults[i].refuted;
    judged.survived +=
        static_cast<std::int64_t>(reports[i].survivors.size() + faults[i].survivors.size());
    INFO(ops[i]->def.name);
    CHECK(errors[i] == "");
    for (const MutantSurvivor& survivor : reports[i].survivors) {
      CAPTURE(survivor.change);
      CHECK_FALSE(survivor.reason.empty());
    }
  }
  return judged;
}

TEST_CASE("97 of 100 mutants of the built-in rules, and faults in what ops run, are refuted",
          "[strategies][ops][mutants][.deep]") {
  const auto [refuted, survived] = judge_every(1);
  CAPTURE(refuted, survived);
  CHECK(refuted > 2000);
  CHECK(refuted * 100 >= (refuted + survived) * 97);
}

TEST_CASE("97 of 100 mutants and faults of every fifth built-in op are refuted",
          "[strategies][ops][mutants]") {
  const auto [refuted, survived] = judge_every(5);
  CAPTURE(refuted, survived);
  CHECK(refuted > 400);
  CHECK(refuted * 100 >= (refuted + survived) * 97);
}

}  // namespace
}  // namespace tessera
