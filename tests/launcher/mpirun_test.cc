// cmake/tessera_mpirun: what it shows of a run, what it ends with, and that nobody is left behind.
#include <chrono>
#include <sstream>

#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

/// Every mpirun that was found when the tests were configured.
std::vector<std::string> all_mpiexecs() {
  std::vector<std::string> paths;
  std::istringstream list(TSR_MPIEXECS);
  for (std::string path; std::getline(list, path, ':');) paths.push_back(path);
  return paths;
}

/// Runs a shell script, which knows its rank as $rank, on 3 ranks.
Ran run_ranks_of(const ScratchFolder& folder, const std::string& mpiexec, const std::string& script,
                 const std::string& timeout = "30") {
  const std::string file = folder.file(
      "ranks.sh", "cd $(dirname $0)\nrank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n" + script + "\n");
  return run_program(TSR_MPIRUN, {"-n", "3", "--mpiexec", mpiexec, "--logs", folder / "logs",
                                  "--timeout", timeout, "--", "bash", file});
}

/// A process that has ended may wait for its parent to ask: it is not alive.
bool is_alive(const std::string& pid_file) {
  const std::string pid = std::to_string(std::stol(read_whole_file(pid_file)));
  const std::string stat = read_whole_file("/proc/" + pid + "/stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

}  // namespace

TEST_CASE("a run in which all is well shows rank 0's output and keeps everybody's", "[mpirun]") {
  const std::string mpiexec = GENERATE(from_range(all_mpiexecs()));
  CAPTURE(mpiexec);
  const ScratchFolder folder;
  const Ran ran =
      run_ranks_of(folder, mpiexec, "echo rank $rank; echo threads $OMP_NUM_THREADS >&2");
  CHECK(ran.exit_code == 0);
  CHECK(ran.out == "rank 0\nthreads 1\n");
  CHECK(ran.err == "");
  CHECK(read_whole_file(folder / "logs/rank_2.log") == "rank 2\nthreads 1\n");
}

TEST_CASE("the rank that fails first comes first, and its exit code is the run's", "[mpirun]") {
  const std::string mpiexec = GENERATE(from_range(all_mpiexecs()));
  CAPTURE(mpiexec);
  const ScratchFolder folder;
  // Rank 0 takes long; mpirun ends it once rank 2 has failed.
  const Ran ran = run_ranks_of(folder, mpiexec,
                               "echo $rank begins\n"
                               "[ $rank != 2 ] || { sleep 0.5; echo two is wrong; exit 7; }\n"
                               "[ $rank = 1 ] || { echo $$ > zero.pid; exec sleep 100; }");
  CAPTURE(ran.out, ran.err);
  CHECK(ran.exit_code == 7);
  CHECK_THAT(ran.out, Catch::StartsWith("=== rank 2, the first to fail (exit code 7): " +
                                        folder / "logs/rank_2.log" +
                                        "\n2 begins\ntwo is wrong\n=== rank 0 ("));
  CHECK_THAT(ran.out, Catch::Contains("=== rank 1 (exit code 0), the end of "));
  CHECK_FALSE(is_alive(folder / "zero.pid"));
}

TEST_CASE("a run past its time ends with 124, and with all ranks, however deaf", "[mpirun]") {
  const std::string mpiexec = GENERATE(from_range(all_mpiexecs()));
  CAPTURE(mpiexec);
  const ScratchFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = run_ranks_of(folder, mpiexec,
                               "[ $rank = 1 ] || exit 0\n"
                               "trap '' TERM INT\n"
                               "echo $$ > one.pid\n"
                               "echo one goes on\n"
                               "while :; do sleep 0.1; done",
                               "8");  // a busy machine takes seconds to start three ranks
  CAPTURE(ran.out, ran.err);
  CHECK(ran.exit_code == 124);
  CHECK_THAT(ran.out, Catch::StartsWith("=== timed out after 8 seconds\n"));
  // The script around the rank may see its end, or be ended itself.
  CHECK_THAT(ran.out, Catch::Contains("=== rank 1 (did not end by itself), the end of ") ||
                          Catch::Contains("=== rank 1 (exit code 137), the end of "));
  CHECK_THAT(ran.out, Catch::Contains("one goes on"));
  CHECK_FALSE(is_alive(folder / "one.pid"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("a program that is not there, and a command line that makes no sense", "[mpirun]") {
  const ScratchFolder folder;
  const std::string mpiexec = all_mpiexecs()[0];
  const Ran missing = run_program(TSR_MPIRUN, {"-n", "2", "--mpiexec", mpiexec, "--logs",
                                               folder / "logs", "--", folder / "nothing"});
  CAPTURE(missing.out);
  CHECK(missing.exit_code == 127);
  CHECK_THAT(missing.out, Catch::Contains("No such file or directory"));

  const auto error_of = [](const std::vector<std::string>& arguments, int code) {
    const Ran ran = run_program(TSR_MPIRUN, arguments);
    CHECK(ran.exit_code == code);
    CHECK(ran.out == "");
    return ran.err;
  };
  CHECK_THAT(error_of({"-n", "0", "--", "true"}, 2),
             Catch::StartsWith("tessera_mpirun: -n \"0\" is not a number of ranks; usage: "));
  CHECK_THAT(error_of({"-n", "2"}, 2), Catch::StartsWith("tessera_mpirun: no program is given"));
  CHECK_THAT(error_of({"-n", "2", "--timeout", "1h", "--", "true"}, 2),
             Catch::StartsWith("tessera_mpirun: --timeout \"1h\" is not a number of seconds"));
  CHECK_THAT(error_of({"-n", "2", "--mpiexec", folder / "mpirun", "--", "true"}, 4),
             Catch::Contains("is not there; install an MPI, or name one by --mpiexec"));
}

}  // namespace tessera::testing
