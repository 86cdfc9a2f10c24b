// placement-audit run: regions of plain local tensors between declared borders.
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

Ran audit_run(const std::string& document) {
  return run_program("placement-audit", {"run"}, document);
}

void check_fine(const std::string& document) {
  const Ran ran = audit_run(document);
  INFO(ran.err << ran.out);
  REQUIRE(ran.exit_code == 0);
  CHECK_THAT(ran.out, Catch::Contains(R"("failures":[])"));
}

/// x of 3 rows, which two ranks cannot share alike, times a w that is cut along what is summed.
std::string product(const std::string& region, const std::string& rest) {
  return R"j({"mesh":{"shape":[2,2],"axes":["dp","tp"]},"inputs":{
      "x":{"shape":[3,4],"dtype":"F64","placements":["S(0)","S(1)"],
           "values":[1,2,3,4,5,6,7,8,9,10,11,12]},
      "w":{"shape":[4,2],"dtype":"F64","placements":["R","S(0)"],"values":[1,0,0,1,1,0,0,1]}},
    "program":[)j" +
         region + rest + "}";
}
constexpr char kX[] = R"j("x":{"placements":["S(0)","S(1)"]})j";
constexpr char kW[] = R"j("w":{"placements":["R","S(0)"],"grad":["P(sum)",null]})j";
constexpr char kHalf[] = R"j({"op":"matmul","args":["x","w"],"out":"p"},
                             {"op":"mul","args":["p",0.5],"out":["half"]})j";
constexpr char kSum[] = R"j(,{"all_reduce":"half","axes":["tp"],"grad":"R","out":"y"})j";
constexpr char kRows[] = R"j("y":{"placements":["S(0)","R"],"shape":[3,2]})j";

std::string region(const std::string& args, const std::string& body, const std::string& out) {
  return R"j({"local_map":"half product","args":{)j" + args + R"j(},"body":[)j" + body +
         R"j(],"out":{)j" + out + "}}";
}

TEST_CASE("a region of local tensors runs between its borders, forward and back",
          "[tools][run][local_map]") {
  const std::string step = region(std::string(kX) + "," + kW, std::string(kHalf) + kSum, kRows);
  check_fine(product(step, R"j(,{"backward":"y","grads":["x","w"]}],"expect":{
      "y":{"shape":[3,2],"values":[2,3,6,7,10,11],"placements":["S(0)","R"]},
      "grad.x":{"values":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]},
      "grad.w":{"values":[7.5,7.5,9,9,10.5,10.5,12,12]}})j"));
}

TEST_CASE("summands leave a region as such", "[tools][run][local_map]") {
  const std::string half = R"j("half":{"placements":["S(0)","P(sum)"],"shape":[3,2]})j";
  const std::string step = region(std::string(kX) + "," + kW, kHalf, half);
  check_fine(product(step, R"j(,{"redistribute":"half","to":["R","R"],"out":"y"},
      {"backward":"y","grads":["w"]}],"expect":{
      "y":{"values":[2,3,6,7,10,11]},"grad.w":{"values":[7.5,7.5,9,9,10.5,10.5,12,12]}})j"));
}

TEST_CASE("an argument that lies otherwise moves where the border says so",
          "[tools][run][local_map]") {
  const auto step = [](const std::string& on_mismatch) {
    return region(R"j("x":{"placements":["R","R"],"grad":["R","R"])j" + on_mismatch + "}",
                  R"j({"op":"neg","args":["x"],"out":"y"})j",
                  R"j("y":{"placements":["R","R"],"shape":[3,4]})j");
  };
  check_fine(product(step(R"j(,"on_mismatch":"redistribute")j"), R"j(],"expect":{"y":{"values":
      [-1,-2,-3,-4,-5,-6,-7,-8,-9,-10,-11,-12]}})j"));
  const Ran refused = audit_run(product(step(""), "]"));
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             Catch::Contains("/program/0: rank 0: local_map half product: argument x: got "
                             "(S(0), S(1)), expected (R, R); redistribute it"));
}

TEST_CASE("a number in a region takes after the first tensor, wherever it stands",
          "[tools][run][local_map]") {
  const std::string step = region(R"j("x":{"placements":["S(0)","S(1)"]})j",
                                  R"j({"op":"mul","args":[0.1,"x"],"out":"y"})j",
                                  R"j("y":{"placements":["S(0)","S(1)"],"shape":[3,4]})j");
  // A tenth in F32 would show.
  check_fine(product(step, R"j(],"expect":{"y":{"dtype":"F64","rtol":1e-14,"atol":0,"values":
      [0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0,1.1,1.2]}})j"));
}

TEST_CASE("what a region gives shares nothing with what it got", "[tools][run][local_map]") {
  const std::string step = region(R"j("x":{"placements":["S(0)","S(1)"]})j",
                                  R"j({"op":"view","args":["x"],"attrs":{"size":[-1]},"out":"flat"},
                                      {"op":"neg","args":["flat"],"out":"minus"},
                                      {"op":"transpose","args":["x"],"attrs":{"dim0":0,"dim1":1},"out":"t"})j",
                                  R"j("t":{"placements":["S(1)","S(0)"],"shape":[4,3]})j");
  check_fine(product(step, R"j(,{"op":"zero_","args":["x"]}],"expect":{
      "t":{"values":[1,5,9,2,6,10,3,7,11,4,8,12]}})j"));
}

TEST_CASE("a region that cannot run is refused with its place, for every rank",
          "[tools][run][local_map][errors]") {
  struct Wrong {
    std::string args, body, out, text;
  };
  const std::string both = std::string(kX) + "," + kW;
  const std::string neg = R"j({"op":"neg","args":["x"],"out":"y"})j";
  const Wrong wrongs[] = {
      {both, kHalf, R"j("half":{"placements":["S(1)","P(sum)"],"shape":[3,2]})j",
       "/program/0/out/half: rank 0 makes \"half\" of shape [2, 2], and F64[3, 2]"},
      {both, R"j({"op":"matmul","args":["w","x"],"out":"p"})j", kRows,
       "/program/0/body/0: rank 2: matmul: self [2, 2] and other [1, 2]: "},
      {kX, R"j({"op":"neg","args":["z"],"out":"y"})j", kRows,
       "/program/0/body/0/args/0: the region has no local tensor \"z\" so far, but x"},
      {kX, R"j({"op":"zero_","args":["x"],"out":"y"})j", kRows,
       "/program/0/body/0: zero_ writes its operand, which a region may not"},
      {kX, R"j({"op":"neg","args":["x"],"out":"x"})j", kRows,
       "/program/0/body/0/out: \"x\" is a local tensor already; a name is given once"},
      {kX, R"j({"op":"neg","args":[null],"out":"y"})j", kRows,
       "/program/0/body/0/args/0: expected a local tensor's name, a number, null for an optional"},
      {kX, R"j({"op":"cat","args":[[]],"attrs":{"dim":0},"out":"y"})j", kRows,
       "/program/0/body/0/args/0: a list operand has at least one item"},
      {kX, neg, R"j("x":{"placements":["R","R"],"shape":[3,4]})j",
       "/program/0/out/x: \"x\" is an argument; results are made"},
      {kX, neg, R"j("y":{"placements":["S(0)","R"],"shape":[3,4]})j",
       "/program/0/out/y: rank 0 makes \"y\" of shape [2, 2], and F64[3, 4] (S(0), R) on "},
      {kX, R"j({"all_reduce":"x","axes":["pp"],"out":"y"})j", kRows, "/program/0/body/0/axes: "},
      {kX, R"j({"all_reduce":"x","axes":["dp"],"out":"y"})j", kRows,
       "/program/0/body/0: rank 0 has a summand of shape [2, 2], rank 2 one of [1, 2]"},
      {kX, R"j({"all_reduce":"x","axes":["tp"],"grad":"S(0)","out":"y"})j", kRows,
       "/program/0/body/0/grad: \"S(0)\"; allowed: R, where every rank goes on alike, P(sum)"},
      {R"j("x":{"placements":["S(0)"]})j", neg, kRows, "/program/0/args/x/placements: "},
      {R"j("v":{"placements":["S(0)","R"]})j", neg, kRows,
       "/program/0/args/v: no tensor \"v\" so far"},
      {R"j("x":{"placements":["S(0)","S(1)"],"on_mismatch":"move"})j", neg, kRows,
       "/program/0/args/x/on_mismatch: \"move\"; allowed: error, redistribute"},
      {"", neg, kRows, "/program/0/args: a region has an argument at least"},
      {kX, R"j({"neg":"x"})j", kRows,
       "/program/0/body/0: a region's step is an object with \"op\" or \"all_reduce\""},
  };
  for (const Wrong& wrong : wrongs) {
    const Ran ran = audit_run(product(region(wrong.args, wrong.body, wrong.out), "]"));
    INFO(wrong.text << "\n" << ran.err << ran.out);
    CHECK(ran.exit_code == 3);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(wrong.text) != std::string::npos);
  }
  // What came in replicated needs to know how its gradient comes back.
  const std::string unsaid = region(std::string(kX) + R"j(,"w":{"placements":["R","S(0)"]})j",
                                    std::string(kHalf) + kSum, kRows);
  const Ran ran = audit_run(product(unsaid, R"j(,{"backward":"y","grads":["w"]}])j"));
  INFO(ran.err);
  CHECK(ran.exit_code == 3);
  CHECK_THAT(ran.err, Catch::Contains("/program/0: rank 0: local_map half product: argument w: "));
}

}  // namespace
}  // namespace tessera
