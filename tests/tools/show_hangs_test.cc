// scripts/show_hangs: what ./test shows of the jobs of a suite that ctest ended for its time.
#include <filesystem>

#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {

TEST_CASE("of jobs that were killed in the middle the open calls are shown, of others nothing",
          "[tools][hangs]") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "records");
  // Once they train, the first job is asked to end and keeps its records, the second is killed.
  const std::string script = R"(
    cd "$0" && touch stamp && sleep 0.1
    train=("$1/tessera-train" --config "$2/configs/parity_softmax.json" --data "$2/README.md"
           --ranks 2 --parallel '{"tp":2}' --steps 1000000)
    for signal in TERM KILL; do
      rm -f steps
      "${train[@]}" > steps & job=$!
      for _ in {1..600}; do grep -qs ^step steps && break; sleep 0.1; done
      kill -$signal $job; wait
    done
    ls records | wc -l
    "$2/scripts/show_hangs" stamp "$1")";
  const Ran ran =
      run_program("/bin/bash", {"-c", script, folder / "", built(), test_data("/../..")}, "",
                  {{"TESSERA_RECORDER_DIR", folder / "records"}});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.exit_code == 0);
  CHECK_THAT(ran.out, Catch::StartsWith("2\n"));
  CHECK_THAT(ran.out, Catch::Contains("records of ranks 0, 1 of a job of 2 ranks"));
  CHECK_THAT(ran.out, Catch::Contains("; no end"));
  CHECK_THAT(ran.out, Catch::EndsWith("flight records of 1 jobs that did not end\n"));
}

}  // namespace tessera::testing
