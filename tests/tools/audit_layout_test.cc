#include <chrono>

#include "io/json.h"
#include "tests/support/patience.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;
using testing::ScratchFolder;

Ran layout(const std::string& input, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "layout");
  return run_program("placement-audit", arguments, input);
}

const std::string kFiveByThree =
    R"j({"mesh":{"shape":[2,2],"axes":["dp","tp"]},"tensor":{"shape":[5,3]},"placements":["S(0)","S(0)"]})j";

TEST_CASE("layout prints who holds what, as the design's JSON", "[tools][layout]") {
  const Ran ran = layout(kFiveByThree);
  CHECK(ran.err.empty());
  CHECK(ran.exit_code == 0);
  CHECK(ran.out ==
        R"j({"layout":{"dims":[["dp","tp"],[]]},"ranks":[)j"
        R"j({"rank":0,"coord":[0,0],"local_shape":[2,3],"intervals":[[[0,2]],[[0,3]]]},)j"
        R"j({"rank":1,"coord":[0,1],"local_shape":[1,3],"intervals":[[[2,3]],[[0,3]]]},)j"
        R"j({"rank":2,"coord":[1,0],"local_shape":[1,3],"intervals":[[[3,4]],[[0,3]]]},)j"
        R"j({"rank":3,"coord":[1,1],"local_shape":[1,3],"intervals":[[[4,5]],[[0,3]]]}]})j"
        "\n");
}

TEST_CASE("layout reads strided shards, levels and axes without names", "[tools][layout]") {
  // FSDP over TP of 5 rows: (0,0)=[0,1] (0,1)=[3] (1,0)=[2] (1,1)=[4].
  const std::string expected =
      R"j({"rank":0,"coord":[0,0],"local_shape":[2],"intervals":[[[0,2]]]},)j"
      R"j({"rank":1,"coord":[0,1],"local_shape":[1],"intervals":[[[3,4]]]},)j"
      R"j({"rank":2,"coord":[1,0],"local_shape":[1],"intervals":[[[2,3]]]},)j"
      R"j({"rank":3,"coord":[1,1],"local_shape":[1],"intervals":[[[4,5]]]}]})j"
      "\n";
  for (const std::string how :
       {R"j("placements":["SS(0,2)","S(0)"])j", R"j("layout":{"dims":[[1,0]]})j",
        R"j("placements":{"dims":[["1","0"]]})j"}) {
    const Ran ran = layout(R"j({"mesh":{"shape":[2,2]},"tensor":{"shape":[5]},)j" + how + "}");
    CHECK(ran.out == R"j({"layout":{"dims":[[1,0]]},"ranks":[)j" + expected);
  }
  // Three rows of four over 3 ranks, flattened: units of 3, the last rank without any.
  const Ran grained = layout(
      R"j({"mesh":{"shape":[3],"axes":["tp"]},"tensor":{"shape":[12]},"layout":{"dims":[["tp%3"]]}})j");
  CHECK(grained.out == R"j({"layout":{"dims":[["tp%3"]]},"ranks":[)j"
                       R"j({"rank":0,"coord":[0],"local_shape":[6],"intervals":[[[0,6]]]},)j"
                       R"j({"rank":1,"coord":[1],"local_shape":[6],"intervals":[[[6,12]]]},)j"
                       R"j({"rank":2,"coord":[2],"local_shape":[0],"intervals":[[]]}]})j"
                       "\n");
}

TEST_CASE("layout reads stated sizes and owners, and draws them", "[tools][layout][ragged]") {
  const std::string input = R"j({"mesh":{"shape":[3],"axes":["dp"]},"tensor":{"shape":[4,2]},)j";
  const std::string expected =
      R"j({"layout":{"dims":[["dp(1,0,3)"],[]]},"ranks":[)j"
      R"j({"rank":0,"coord":[0],"local_shape":[1,2],"intervals":[[[0,1]],[[0,2]]]},)j"
      R"j({"rank":1,"coord":[1],"local_shape":[0,2],"intervals":[[],[[0,2]]]},)j"
      R"j({"rank":2,"coord":[2],"local_shape":[3,2],"intervals":[[[1,4]],[[0,2]]]}]})j"
      "\n";
  for (const std::string how :
       {R"j("placements":["S(0;1,0,3)"]})j", R"j("layout":{"dims":[["dp(1,0,3)"],[]]}})j"}) {
    CHECK(layout(input + how).out == expected);
  }
  CHECK(layout(input + R"j("placements":["O(2)"]})j", {"--format", "text"}).out ==
        "F32[4, 2] (O(2)) on {dp: 3}\n"
        "dim 0: [dp(0,0,4)]\n"
        "dim 1: []\n"
        "\n"
        "    0   1\n"
        "  +---+---+\n"
        "0 | 2   2 |\n"
        "1 | 2   2 |\n"
        "2 | 2   2 |\n"
        "3 | 2   2 |\n"
        "  +---+---+\n"
        "\n"
        "a cell names the ranks that hold it\n"
        "rank 0 at dp=0: local shape [0, 2]\n"
        "rank 1 at dp=1: local shape [0, 2]\n"
        "rank 2 at dp=2: local shape [4, 2]\n");
  CHECK_THAT(layout(input + R"j("placements":["S(0;1,3)"]})j").err,
             Catch::Contains("S(0;1,3) states 2 sizes, but axis dp has 3 ranks"));
}

TEST_CASE("layout counts ranks from the mesh's first", "[tools][layout]") {
  const std::string input =
      R"j({"mesh":{"shape":[2],"first_rank":6},"tensor":{"shape":[4]},"placements":["S(0)"]})j";
  CHECK(layout(input).out == R"j({"layout":{"dims":[[0]]},"ranks":[)j"
                             R"j({"rank":6,"coord":[0],"local_shape":[2],"intervals":[[[0,2]]]},)j"
                             R"j({"rank":7,"coord":[1],"local_shape":[2],"intervals":[[[2,4]]]}]})j"
                             "\n");
  const Ran text = layout(input, {"--format", "text"});
  CHECK_THAT(text.out, Catch::Contains("| 6   6 | 7   7 |"));
  CHECK_THAT(text.out, Catch::Contains("rank 7 at (1): local shape [2]\n"));
}

TEST_CASE("layout draws one and two dims", "[tools][layout]") {
  const Ran ran = layout(kFiveByThree, {"--format", "text"});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out == R"(F32[5, 3] (S(0), S(0)) on {dp: 2, tp: 2}
dim 0: [dp, tp]
dim 1: []

    0   1   2
  +---+---+---+
0 | 0   0   0 |
1 | 0   0   0 |
  +---+---+---+
2 | 1   1   1 |
  +---+---+---+
3 | 2   2   2 |
  +---+---+---+
4 | 3   3   3 |
  +---+---+---+

a cell names the ranks that hold it
rank 0 at dp=0 tp=0: local shape [2, 3]
rank 1 at dp=0 tp=1: local shape [1, 3]
rank 2 at dp=1 tp=0: local shape [1, 3]
rank 3 at dp=1 tp=1: local shape [1, 3]
)");
  const Ran partial = layout(
      R"j({"mesh":{"shape":[2,2]},"tensor":{"shape":[40],"dtype":"BF16"},"placements":["P(sum)","S(0)"]})j",
      {"--format", "text"});
  CHECK(partial.out == R"(BF16[40] (P(sum), S(0)) on {2, 2}
dim 0: [1]

  0-19   20-39
+------+-------+
| 0,2  |  1,3  |
+------+-------+

a cell names the ranks that hold it; along 0 each holds a summand: P(sum)
rank 0 at (0, 0): local shape [20]
rank 1 at (0, 1): local shape [20]
rank 2 at (1, 0): local shape [20]
rank 3 at (1, 1): local shape [20]
)");
}

TEST_CASE("a picture of what has no picture is refused in one line", "[tools][layout]") {
  const Ran cube =
      layout(R"j({"mesh":{"shape":[2]},"tensor":{"shape":[2,2,2]},"placements":["R"]})j",
             {"--format", "text"});
  CHECK(cube.exit_code == 3);
  CHECK(cube.out.empty());
  CHECK(cube.err ==
        "placement-audit: standard input: /: a tensor of 3 dims; --format text draws 1 and 2: use "
        "--format json\n");
  const Ran html = layout(kFiveByThree, {"--format", "html"});
  CHECK(html.exit_code == 2);
  CHECK(html.out.empty());
  CHECK(html.err ==
        "placement-audit: --format html: not built for this command; allowed: json, text\n");
}

TEST_CASE("bad input is one line on stderr, nothing on stdout, and exit code 3",
          "[tools][layout]") {
  const std::string mesh = R"j("mesh":{"shape":[2,2],"axes":["dp","tp"]})j";
  const std::string tensor = R"j("tensor":{"shape":[5,3]})j";
  const std::pair<std::string, std::string> cases[] = {
      {"", "standard input:1:1: "},
      {"{\"mesh\":\n  NaN}", "standard input:2:3: "},
      {"[]", "standard input: /: expected an object, not an array"},
      {"{}",
       "standard input: /: key \"mesh\" is missing; allowed: mesh, tensor, placements, layout"},
      {"{" + mesh + "," + tensor + "}",
       "standard input: /: give one of \"placements\" and \"layout\""},
      {"{" + mesh + "," + tensor + R"j(,"placements":["S(0)","S(2)"]})j",
       "standard input: /placements: "},
      {"{" + mesh + "," + tensor + R"j(,"placements":["S(0)","Q(1)"]})j",
       "standard input: /placements/1: "},
      {"{" + mesh + "," + tensor + R"j(,"placements":["S(0)"]})j", "standard input: /placements: "},
      {"{" + mesh + "," + tensor + R"j(,"placement":["S(0)","R"]})j",
       "standard input: /: unknown key \"placement\"; allowed: mesh, tensor, placements, layout"},
      {"{" + mesh + R"j(,"tensor":{"shape":[5,3],"dtype":"F33"},"placements":["R","R"]})j",
       "standard input: /tensor/dtype: "},
      {"{" + mesh + R"j(,"tensor":{"shape":[5,-3]},"placements":["R","R"]})j",
       "standard input: /tensor/shape: "},
      {"{" + mesh + R"j(,"tensor":{"shape":[5,3.5]},"placements":["R","R"]})j",
       "standard input: /tensor/shape/1: expected an integer, not 3.5"},
      {R"j({"mesh":{"shape":[0]},"tensor":{"shape":[5]},"placements":["R"]})j",
       "standard input: /mesh: "},
      {R"j({"mesh":{"shape":[2]},"mesh":{"shape":[2]}})j",
       "standard input: /: key \"mesh\" stands twice; an object names each key once"},
      {R"j({"mesh":{"shape":[1048577]},"tensor":{"shape":[5]},"placements":["R"]})j",
       "standard input: /: mesh {1048577} has 1048577 ranks; at most 1048576 are listed"},
      {R"j({"mesh":{"shape":[2]},"tensor":{"shape":[1099511627776]},"layout":{"dims":[["/1",0]]}})j",
       "standard input: /: "},
      {std::string(100000, '['), "standard input: "},
  };
  for (const auto& [input, start] : cases) {
    const Ran ran = layout(input);
    CAPTURE(input.substr(0, 200));
    CHECK(ran.exit_code == 3);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::StartsWith("placement-audit: " + start));
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
}

TEST_CASE("a wrong command line is exit code 2", "[tools]") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"nonsense"},
                                             {"layout", "--nonsense"},
                                             {"layout", "--format", "yaml"},
                                             {"layout", "--input"},
                                             {"layout", "extra"}}) {
    const Ran ran = run_program("placement-audit", arguments, kFiveByThree);
    CAPTURE(arguments);
    CHECK(ran.exit_code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::StartsWith("placement-audit: "));
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
  const Ran help = run_program("placement-audit", {"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  CHECK_THAT(help.out, Catch::Contains("layout"));
}

TEST_CASE("files go in and out, whole or not at all", "[tools][layout]") {
  const ScratchFolder folder;
  const std::string in = folder.file("in.json", kFiveByThree);
  const std::string out = folder / "out.json";
  const Ran ran = layout("", {"--input", in, "--output", out});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.empty());
  CHECK(testing::read_whole_file(out) == layout(kFiveByThree).out);

  const Ran missing = layout("", {"--input", folder / "no.json", "--output", out});
  CHECK(missing.exit_code == 4);
  CHECK(missing.err ==
        "placement-audit: " + folder / "no.json" + ": cannot open: No such file or directory\n");
  CHECK(testing::read_whole_file(out) == layout(kFiveByThree).out);
  CHECK(layout(kFiveByThree, {"--output", folder / "no/out.json"}).exit_code == 4);
  CHECK(layout(kFiveByThree, {"--output", "/dev/null"}).exit_code == 4);
}

TEST_CASE("colours are for terminals only", "[tools][layout]") {
  const Ran ran = run_program("placement-audit", {"layout", "--format", "text"}, kFiveByThree,
                              {{"TERM", "xterm-256color"}});
  CHECK(ran.out.find('\x1b') == std::string::npos);
}

TEST_CASE("2^14 ranks are listed at once, the same bytes each time", "[tools][layout]") {
  const std::string input =
      R"j({"mesh":{"shape":[16,32,32],"axes":["dp","ep","tp"]},"tensor":{"shape":[1099511627776,96]},)j"
      R"j("placements":["SS(0,32)","S(1)","S(0)"]})j";
  const auto begin = std::chrono::steady_clock::now();
  const Ran first = layout(input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(first.exit_code == 0);
  CHECK(
      seconds <
      testing::kSoonSeconds);  // 0.1 s here; a loop over elements or rank pairs would take for ever
  CHECK(layout(input).out == first.out);
  const auto json = parse_json(first.out, "stdout");
  REQUIRE(json.ok());
  const Json::Array& ranks = *json->find("ranks")->if_array();
  REQUIRE(ranks.size() == 1 << 14);
  // Dim 0 is cut 32 ways by tp, each piece 16 ways by dp; dim 1 into 32 of 3.
  CHECK(ranks[(3 * 32 + 5) * 32 + 7].to_string() ==
        R"j({"rank":3239,"coord":[3,5,7],"local_shape":[2147483648,3],)j"
        R"j("intervals":[[[246960619520,249108103168]],[[15,18]]]})j");
}

}  // namespace
}  // namespace tessera
