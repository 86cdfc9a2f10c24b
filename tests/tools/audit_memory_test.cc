// placement-audit memory: what a rank holds over the step, a cap as a check, and what is said of a
// wrong one.
#include <algorithm>
#include <sstream>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

// A rank holds w 32 B throughout; from step 0 on w.r, 128 B, and at step 1 y, 64 B.
const std::string kMemoryProgram =
    R"j({"version":1,"name":"one layer","source":{"kind":"program"},"ranks":4,
"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
 {"name":"w","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"parameter",
  "module":"layers.0"}],
"steps":[
 {"redistribute":"w","to":["R"],"out":"w.r","module":"layers.0","phase":"forward"},
 {"region":"work","args":["w.r"],"out":[
  {"name":"y","shape":[16,4],"dtype":"F32","mesh":"m","placements":["S(0)"]}],
  "module":"layers.0","site":"model.py:3","phase":"forward"}]}
)j";

Ran memory_of_program(std::vector<std::string> arguments,
                      const std::string& input = kMemoryProgram) {
  arguments.insert(arguments.begin(), {"memory", "-"});
  return run_program("placement-audit", arguments, input);
}

TEST_CASE("memory says what a rank holds at its peak", "[tools][memory]") {
  const Ran ran = memory_of_program({"--format", "text"});
  CHECK(ran.exit_code == 0);
  CHECK(ran.err.empty());
  CHECK(ran.out ==
        "one layer: program, 4 ranks\n\n"
        "what a rank holds at its peak\n"
        "stage    first    ranks    param     grad    optim   buffer    input gathered    activ"
        "      all\n"
        "    -        0        4       32        -        -        -        -      128       64"
        "      224\n\n"
        "4 ranks from 0: 224 B at step 1, /steps/1, forward\n"
        "  in layers.0 (model.py:3)\n"
        "  w.r in layers.0                                            gathered                   "
        "    128\n"
        "  y in layers.0                                              activation                 "
        "     64\n"
        "  w in layers.0                                              parameter                  "
        "     32\n"
        "        step      held  P param, g grad, O optim, B buffer, I input, G gathered, a activ\n"
        "           0       160  PPPPPPPPPGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG\n"
        "           1       224  PPPPPPPPPGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGaaaaaaaaaaaaaaaaaa\n"
        "           2        32  PPPPPPPPP\n"
        "\n"
        "first: a rank holds up to 224 B; --cap BYTES makes a check of it\n");
}

TEST_CASE("a cap is a check", "[tools][memory]") {
  const Ran fits = memory_of_program({"--format", "text", "--cap", "224"});
  CHECK(fits.exit_code == 0);
  CHECK(fits.out.ends_with("\nok: a rank holds up to 224 B of 224 B\n"));
  const Ran over = memory_of_program({"--format", "text", "--cap", "0.2kB"});
  CHECK(over.exit_code == 1);
  CHECK(over.err.empty());
  CHECK(
      over.out.ends_with("\nfirst: 224 B > 200 B; 57 % gathered parameters: gather a layer at a "
                         "time, free it after\n"));
  const Ran json = memory_of_program({"--cap", "223B", "--format", "json"});
  CHECK(json.exit_code == 1);
  const Json answer = value_or_throw(parse_json(json.out, "memory"));
  CHECK(answer.find("cap_bytes")->to_string() == "223");
  CHECK(answer.find("fits")->to_string() == "false");
  const Json& stage = (*answer.find("stages")->if_array())[0];
  CHECK(stage.find("stage")->to_string() == "null");
  CHECK(*stage.find("peak_bytes")->if_integer() == 224);
  CHECK(*stage.find("at_peak")->find("gathered")->if_integer() == 128);
  CHECK(stage.find("peak")->to_string() ==
        R"({"step":1,"path":"/steps/1","rounds":[],"module":"layers.0","site":"model.py:3",)"
        R"("phase":"forward"})");
  CHECK((*stage.find("holders")->if_array())[0].to_string() ==
        R"({"name":"w.r","module":"layers.0","kind":"gathered","count":1,"bytes":128})");
  CHECK((*stage.find("timeline")->if_array())[0].to_string() ==
        R"({"step":0,"bytes":160,"by_kind":[32,0,0,0,0,128,0]})");
}

TEST_CASE("a parameter that every rank holds whole is to be cut", "[tools][memory]") {
  std::string whole = kMemoryProgram;
  whole.replace(whole.find("S(0)"), 4, "R");
  whole.replace(whole.find("[8,4]"), 5, "[800,4]");
  const Ran ran = memory_of_program({"--format", "text", "--cap", "1KiB"}, whole);
  CHECK(ran.exit_code == 1);
  CHECK(ran.out.ends_with("; 99 % parameters: cut over tp, 4 ranks hold the same\n"));
}

TEST_CASE("wrong caps and programs are refused", "[tools][memory]") {
  for (const char* const cap : {"", "80 apples", "-1", "0", "1e3", "GiB", "9000000TiB", "nan"}) {
    CAPTURE(cap);
    const Ran ran = memory_of_program({"--cap", cap});
    CHECK(ran.exit_code == 2);
    CHECK(ran.out.empty());
    CHECK(testing::count_of(ran.err, "\n") == 1);
  }
  CHECK(memory_of_program({}, R"({"version":2})").exit_code == 3);
  CHECK(run_program("placement-audit", {"memory"}, "").exit_code == 2);
  CHECK(run_program("placement-audit", {"memory", "/no/such.json"}, "").exit_code == 4);
  CHECK(memory_of_program({"--format", "svg"}).exit_code == 2);
}

TEST_CASE("memory of recorded programs fits a terminal and is said alike twice",
          "[tools][memory]") {
  for (const char* const name : {"llama", "llama_stages", "deepseek"}) {
    CAPTURE(name);
    const std::string file = testing::test_data(absl::StrFormat("/programs/torch_%s.json", name));
    for (const char* const cap : {"1MiB", "1GiB"}) {
      const std::vector<std::string> arguments = {"memory", file, "--format", "text", "--cap", cap};
      const Ran ran = run_program("placement-audit", arguments, "");
      CHECK(ran.exit_code == (std::string(cap) == "1MiB" ? 1 : 0));
      std::istringstream lines(ran.out);
      std::string line;
      std::size_t widest = 0;
      while (std::getline(lines, line)) widest = std::max(widest, line.size());
      CHECK(widest <= 100);
      CHECK(run_program("placement-audit", arguments, "").out == ran.out);
    }
  }
}

}  // namespace
}  // namespace tessera
