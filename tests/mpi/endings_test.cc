// Jobs that end otherwise than by returning, and processes that divide: no crash, no hang, the exit
// code that was asked for.
#include <algorithm>

#include "testing/program.h"
#include "tests/support/llvm_openmp.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

/// Far above what a job takes, so that a hang is told from a busy machine.
const std::vector<std::string> kLimited = {"-k", "5", "120"};
constexpr int kTimedOut = 124;

/// Says what each process ended with: MPICH's launcher may end with a code of its own, 1 or 9,
/// where a rank's connection closes before its code is read.
const std::string kSayCode = "\"$@\"; code=$?; echo \"code $code\"; exit $code";

Ran run_ending(const std::string& backend, const std::string& ending) {
  std::vector<std::string> words = kLimited;
  std::string program = "/ending_run";
  if (backend == "mpi") {
    words.insert(words.end(), {TSR_MPIEXEC, "--oversubscribe", "-n", "2"});
  }
#ifdef TSR_MPICH_EXEC
  if (backend == "mpich") {
    words.insert(words.end(), {TSR_MPICH_EXEC, "-n", "2"});
    program = "/mpich_ending_run";
  }
#endif
  words.insert(words.end(), {"sh", "-c", kSayCode, "sh", built() + program,
                             backend == "threads" ? "threads" : "mpi", ending});
  return run_program("/usr/bin/timeout", words, "",
                     {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                      {"OMPI_MCA_mpi_yield_when_idle", "1"}});
}

std::string backend_here() {
#ifdef TSR_MPICH_EXEC
  return GENERATE("threads", "mpi", "mpich");
#else
  return GENERATE("threads", "mpi");
#endif
}

}  // namespace

TEST_CASE("a process that forks, or whose child exits or becomes another program, goes on",
          "[endings][R24]") {
  const std::string backend = backend_here();
  const std::string ending = GENERATE("fork", "fork_exit", "exec");
  if (kHasLlvmOpenMp && ending == "fork_exit") {
    skip("a forked process that exits: LLVM's OpenMP runtime aborts in it");
    return;
  }
  const Ran ran = run_ending(backend, ending);
  CAPTURE(backend, ending, ran.out, ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(count_of(ran.out, "sum 6\n") == 1);
}

TEST_CASE("a job made twice in one process, and a session started twice, end once",
          "[endings][R24]") {
  const std::string backend = backend_here();
  const Ran ran = run_ending(backend, "twice");
  CAPTURE(backend, ran.out, ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(count_of(ran.out, "sum 6\n") == 2);
}

TEST_CASE("a call that nobody waited for ends with its job", "[endings][R24]") {
  const std::string backend = backend_here();
  const Ran ran = run_ending(backend, "drop_pending");
  CAPTURE(backend, ran.out, ran.err);
  CHECK(ran.exit_code == 0);
}

TEST_CASE("exit() without ending the session keeps its code", "[endings][R24]") {
  const std::string backend = backend_here();
  const std::string ending = GENERATE("exit", "quick_exit");
  const Ran ran = run_ending(backend, ending);
  CAPTURE(backend, ending, ran.out, ran.err);
  // A launcher may end the second rank before it says its code.
  CHECK(count_of(ran.out, "code 7\n") >= 1);
  CHECK(count_of(ran.out, "code ") == count_of(ran.out, "code 7\n"));
  const bool may_replace = backend == "mpich" && (ran.exit_code == 1 || ran.exit_code == 9);
  if (!may_replace) CHECK(ran.exit_code == 7);
}

TEST_CASE("exit() of a rank while others wait ends the job, and they say who has gone",
          "[endings][R24]") {
  const std::string backend = backend_here();
  const Ran ran = run_ending(backend, "exit_pending");
  CAPTURE(backend, ran.out, ran.err);
  CHECK(ran.exit_code != 0);
  CHECK(ran.exit_code < kTimedOut);  // neither the limit nor a signal
  CHECK(count_of(ran.out, "sum") == 0);
  if (backend == "threads") CHECK(ran.exit_code == 7);
  // MPICH's launcher leaves no survivor.
  if (backend == "mpi") CHECK_THAT(ran.err, Catch::Contains("rank 1"));
}

TEST_CASE("static objects may go in any order after main()", "[endings][R24]") {
  const std::string backend = backend_here();
  const std::string ending = GENERATE("static", "static_session_first");
  const Ran ran = run_ending(backend, ending);
  CAPTURE(backend, ending, ran.out, ran.err);
  CHECK(ran.exit_code == 0);
  const std::size_t ranks = backend == "threads" ? 1 : 2;
  CHECK(count_of(ran.out, backend == "threads" ? "sum 1\n" : "sum 3\n") == ranks);
  CHECK(count_of(ran.out, "late 5\n") == ranks);
}

}  // namespace tessera::testing
