// placement-audit show: the modules of a program, what they move, and what is said of a wrong one.
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

const std::string kProgram =
    R"j({"version":1,"name":"two layers","source":{"kind":"program"},
"scenario":{"routing":"balanced"},"ranks":4,"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
 {"name":"x","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"},
 {"name":"w","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(1)"],"role":"parameter",
  "module":"layers.0.mlp"}],
"steps":[
 {"redistribute":"x","to":["R"],"out":"a","implicit":true,"module":"layers.0"},
 {"redistribute":"x","to":["R"],"out":"b","implicit":true,"module":"layers.1"},
 {"redistribute":"w","to":["R"],"out":"w.r","module":"layers.0.mlp"},
 {"host_read":"b","bytes":4,"why":"loss"}]}
)j";

Ran show(std::vector<std::string> arguments, const std::string& input = kProgram) {
  arguments.insert(arguments.begin(), {"show", "-"});
  return run_program("placement-audit", arguments, input);
}

TEST_CASE("show draws a program's modules as a tree", "[tools][show]") {
  const Ran all = show({"--format", "text"});
  CHECK(all.exit_code == 0);
  CHECK(all.err.empty());
  CHECK(all.out ==
        "two layers: program, 4 ranks, routing balanced\n\n"
        "module                                        steps    calls     received     implicit    "
        "     held\n"
        "(all)                                             4        3        288 B        192 B    "
        "     64 B\n"
        "  layers                                          3        3        288 B        192 B    "
        "     32 B\n"
        "    0                                             2        2        192 B         96 B    "
        "     32 B\n"
        "      mlp                                         1        1         96 B            -    "
        "     32 B\n"
        "    1                                             1        1         96 B         96 B    "
        "        -\n\n"
        "what moves                                             calls     received       by all\n"
        "all_gather over tp, implicit                               2        192 B        768 B\n"
        "all_gather over tp                                         1         96 B        384 B\n");
  const Ran one = show({"layers.0.mlp", "--format", "text"});
  CHECK(one.out.find("w, parameter: F32[8, 4] (S(1)) on {tp: 4}, 32 B a rank\n") !=
        std::string::npos);
}

TEST_CASE("show answers in JSON", "[tools][show]") {
  const Ran ran = show({"layers.0"});
  CHECK(ran.exit_code == 0);
  const Json answer = value_or_throw(parse_json(ran.out, "show"));
  CHECK(*answer.find("ranks")->if_integer() == 4);
  const Json& cost = *answer.find("cost");
  CHECK(cost.find("bytes")->to_string() == R"({"max":192,"total":768})");
  CHECK(cost.find("implicit_bytes")->to_string() == R"({"max":96,"total":384})");
  CHECK(cost.find("modules")->if_array()->size() == 1);
}

TEST_CASE("show refuses what is no program or no module", "[tools][show]") {
  const Ran other = show({"layers.2"});
  CHECK(other.exit_code == 3);
  CHECK(other.out.empty());
  CHECK(other.err == "placement-audit: no module \"2\" in \"layers\"; there are: 0, 1\n");
  const Ran wrong = show({}, R"({"version":2})");
  CHECK(wrong.exit_code == 3);
  CHECK(wrong.err.find("standard input") != std::string::npos);
  CHECK(run_program("placement-audit", {"show"}, "").exit_code == 2);
  CHECK(run_program("placement-audit", {"show", "/no/such.json"}, "").exit_code == 4);
}

}  // namespace
}  // namespace tessera
