// NCCL emulated between processes, which sanitizers watch: each rank is a program of its own.
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

std::vector<Ran> run_ring(const std::string& sanitizer, int dying_round) {
  const ScratchFolder folder;
  std::vector<StartedProgram> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back("nccl_ring_" + sanitizer,
                       std::vector<std::string>{std::to_string(rank), "3", folder / "id", "8",
                                                std::to_string(dying_round)});
  }
  std::vector<Ran> ran;
  for (StartedProgram& rank : ranks) ran.push_back(rank.finish());
  return ran;
}

}  // namespace

TEST_CASE("NCCL emulated between processes has no race and no error of memory",
          "[emulation][nccl][processes]") {
  const std::string sanitizer = GENERATE("thread", "address");
  for (const Ran& ran : run_ring(sanitizer, -1)) {
    CAPTURE(sanitizer, ran.err);
    CHECK(ran.exit_code == 0);
    CHECK(ran.out == "fine\n");
  }
  const std::vector<Ran> left = run_ring(sanitizer, 3);
  CHECK(left[2].exit_code == 9);
  for (const std::size_t at : {0U, 1U}) {
    CAPTURE(sanitizer, left[at].err);
    CHECK(left[at].exit_code == 0);
    CHECK(left[at].out == "remote error\n");
  }
}

}  // namespace tessera::testing
