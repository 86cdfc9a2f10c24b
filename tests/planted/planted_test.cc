// Faults that device code of others had, planted in planted.cu: each is reported at its line by the
// sanitizer that judges it, and the same code without the fault is not.
#include "tests/tools/program.h"

namespace tessera::testing {

TEST_CASE("the thread sanitizer reports every planted race of device code",
          "[emulation][planted]") {
  const std::string name =
      GENERATE("block-barrier", "warp-barrier", "exchange", "blocks", "atomic", "fence", "streams",
               "host-read", "host-write", "callback", "graph");
  const Ran right = run_program("planted_thread", {name, "right"});
  CAPTURE(name, right.err);
  CHECK(right.exit_code == 0);
  CHECK(right.err.empty());
  const Ran wrong =
      run_program("planted_thread", {name, "wrong"}, "", {{"TSAN_OPTIONS", "exitcode=66"}});
  CAPTURE(wrong.err);
  CHECK(wrong.exit_code == 66);
  CHECK_THAT(wrong.err,
             Catch::Contains("ThreadSanitizer: data race") && Catch::Contains("planted.cu:"));
}

TEST_CASE("the address sanitizer reports every planted overrun of device code",
          "[emulation][planted]") {
  const std::string name = GENERATE("overrun", "shared-overrun", "dynamic-overrun", "freed");
  const std::map<std::string, std::string> options = {
      {"ASAN_OPTIONS", "detect_leaks=0:exitcode=67"}};
  const Ran right = run_program("planted_address", {name, "right"}, "", options);
  CAPTURE(name, right.err);
  CHECK(right.exit_code == 0);
  const Ran wrong = run_program("planted_address", {name, "wrong"}, "", options);
  CAPTURE(wrong.err);
  CHECK(wrong.exit_code == 67);
  CHECK_THAT(wrong.err,
             Catch::Contains("AddressSanitizer: heap-") && Catch::Contains("planted.cu:"));
}

}  // namespace tessera::testing
