// placement-audit run: programs of ops on cut tensors, executed and compared with closed forms.
#include <cmath>
#include <filesystem>

#include "io/json.h"
#include "io/safetensors.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;
using testing::ScratchFolder;

Ran audit_run(const std::string& document, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "run");
  return run_program("placement-audit", arguments, document);
}

Json answer_of(const Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.err.empty());
  return *parse_json(ran.out, "stdout");
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  REQUIRE(value != nullptr);
  return value->to_string();
}

constexpr char kTp[] = R"j("mesh":{"shape":[2],"axes":["tp"]})j";

/// A document from an input `a` of four F64 elements over two ranks, and these steps.
std::string on_a(const std::string& program, const std::string& rest = "") {
  return std::string("{") + kTp +
         R"j(,"inputs":{"a":{"shape":[4],"dtype":"F64","placements":["S(0)"],"values":[1,2,3,4]}},)j"
         R"j("program":[)j" +
         program + "]" + rest + "}";
}

TEST_CASE("a program runs forward and backward on the summands that it is given", "[tools][run]") {
  const std::string document = std::string("{") + kTp + R"j(,"inputs":{
      "a":{"shape":[2,2],"dtype":"F64","placements":["P(sum)"],"local":[[1,2,3,4],[10,20,30,40]]},
      "b":{"shape":[2,3],"dtype":"F64","placements":["S(0)"],"values":[1,0,2,0,1,3]},
      "g":{"shape":[2,3],"dtype":"F64","placements":["S(1)"],"values":[1,1,1,1,1,2]}},
    "program":[
      {"op":"matmul","args":["a","b"],"out":["y"]},
      {"redistribute":"y","to":["R"],"out":"z"},
      {"backward":"z","cotangent":"g","grads":["a","b"]}],
    "expect":{
      "y":{"shape":[2,3],"dtype":"F64","values":[11,22,88,33,44,198],"placements":["P(sum)"]},
      "z":{"values":[11,22,88,33,44,198],"placements":["R"]},
      "grad.a":{"values":[3,4,5,7]},
      "grad.b":{"values":[44,44,77,66,66,110],"placements":["S(0)"]}}})j";
  const Json answer = answer_of(audit_run(document));
  CHECK(text_of(answer, "failures") == "[]");
  CHECK(text_of(*answer.find("results"), "y") ==
        R"j({"shape":[2,3],"dtype":"F64","placements":["P(sum)"]})j");
}

TEST_CASE("a step runs by the row that it asks for", "[tools][run]") {
  const auto document = [](const std::string& force) {
    return std::string("{") + kTp + R"j(,"inputs":{
      "a":{"shape":[2,2],"dtype":"F64","placements":["S(0)"],"values":[1,2,3,4]},
      "b":{"shape":[2,2],"dtype":"F64","placements":["R"],"values":[1,0,2,1]}},
    "program":[{"op":"matmul","args":["a","b"],"out":["y"])j" +
           force + R"j(},{"op":"matmul","args":["a","b"],"out":["z"]}],
    "expect":{"y":{"values":[5,2,11,4]},"z":{"values":[5,2,11,4],"placements":["S(0)"]}}})j";
  };
  CHECK_THAT(text_of(*answer_of(audit_run(document(""))).find("results"), "y"),
             Catch::Contains("S(0)"));
  const Json answer = answer_of(audit_run(document(R"j(,"force":[{"row":"k:sum"}])j")));
  CHECK_THAT(text_of(*answer.find("results"), "y"), Catch::Contains("P(sum)"));
  CHECK_THAT(text_of(answer, "events"), Catch::Contains("k:sum as the caller asks"));
  const Ran none = audit_run(document(R"j(,"force":[{"row":"k:max"}])j"));
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.err, Catch::Contains("/program/0: matmul: with these operands it has no row"));
}

TEST_CASE("results do not depend on how the inputs are cut", "[tools][run]") {
  // [5, 3] over 2x2 ranks: short and empty shards. Closed form: row sums, and twice x.
  const std::string placements =
      GENERATE(as<std::string>{}, R"j(["R","R"])j", R"j(["S(0)","S(0)"])j", R"j(["S(0)","S(1)"])j",
               R"j(["SS(0,2)","S(0)"])j", R"j(["P(sum)","S(0)"])j", R"j(["S(1)","P(sum)"])j");
  CAPTURE(placements);
  const std::string document =
      R"j({"mesh":{"shape":[2,2],"axes":["dp","tp"]},"inputs":{"x":{"shape":[5,3],"dtype":"F32",)j"
      R"j("placements":)j" +
      placements + R"j(,"values":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}},
      "program":[{"op":"mul","args":["x",2],"out":["d"]},
                 {"op":"sum","args":["d"],"attrs":{"dim":[1]},"out":["s"]},
                 {"op":"topk","args":["s"],"attrs":{"k":2,"dim":0},"out":["v","i"]},
                 {"op":"mul","args":["s","s"],"out":"q"},
                 {"backward":"q","grads":["x"]}],
      "expect":{"s":{"shape":[5],"dtype":"F32","values":[12,30,48,66,84]},
                "v":{"values":[84,66]},"i":{"shape":[2],"dtype":"I64","values":[4,3]},
                "grad.x":{"values":[48,48,48,120,120,120,192,192,192,264,264,264,336,336,336]}}})j";
  CHECK(text_of(answer_of(audit_run(document)), "failures") == "[]");
}

TEST_CASE("the gradient of an average is that of what each rank holds", "[tools][run]") {
  const std::string document = std::string("{") + kTp + R"j(,"inputs":{
      "x":{"shape":[2],"dtype":"F64","placements":["P(avg)"],"local":[[1,2],[3,6]]}},
    "program":[{"op":"mul","args":["x",3],"out":["y"]},{"backward":"y","grads":["x"]}],
    "expect":{"y":{"values":[6,12]},"grad.x":{"values":[1.5,1.5],"placements":["R"]}}})j";
  CHECK(text_of(answer_of(audit_run(document)), "failures") == "[]");
}

TEST_CASE("tensors come from a file and go to one", "[tools][run]") {
  const ScratchFolder scratch;
  const std::string in = scratch / "in.safetensors", out = scratch / "out.safetensors";
  const std::vector<float> x = {1, -2, 3, -4, 5, 6};
  const std::vector<std::int64_t> index = {2, 0};
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  REQUIRE(write_safetensors(
              in, std::vector<TensorBytes>{{"x", DType::kF32, Shape{3, 2}, bytes(x)},
                                           {"index", DType::kI64, Shape{2}, bytes(index)}})
              .ok());
  const std::string document = std::string("{") + kTp + R"j(,"inputs":{
      "x":{"placements":["S(0)"]},"index":{"placements":["R"]}},
    "program":[{"op":"index_select","args":["x","index"],"attrs":{"dim":0},"out":["y"]},
               {"backward":"y","grads":["x"]}]})j";
  answer_of(audit_run(document, {"--tensors", in, "--save", out}));
  const SafetensorsFile saved = *SafetensorsFile::open(out);
  const auto floats_of = [&](const char* name) {
    const std::vector<std::byte> raw = *saved.read(name);
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  };
  CHECK(saved.tensors().size() == 2);
  CHECK((saved.find("y")->shape == Shape{2, 2}));
  CHECK(floats_of("y") == std::vector<float>{5, 6, 1, -2});
  CHECK((saved.find("grad.x")->shape == Shape{3, 2}));
  CHECK(floats_of("grad.x") == std::vector<float>{1, 1, 0, 0, 1, 1});

  // Equal input gives equal bytes, whatever the environment says of colours.
  const std::string first = testing::read_whole_file(out);
  const Ran again = run_program("placement-audit", {"run", "--tensors", in, "--save", out},
                                document, {{"NO_COLOR", "1"}});
  CHECK(again.exit_code == 0);
  CHECK(again.out == audit_run(document, {"--tensors", in}).out);
  CHECK((testing::read_whole_file(out) == first));
}

TEST_CASE("ops in place write what their operand's names stand for", "[tools][run]") {
  answer_of(audit_run(on_a(
      R"j({"op":"clone","args":["a"],"out":["c"]},{"op":"add_","args":["c",1]},)j"
      R"j({"op":"add_","args":["c","a"],"out":["c"]},{"op":"mul","args":["a",3],"out":["t"]},)j"
      R"j({"op":"add_","args":["t",1],"out":["u"]},{"op":"sum","args":["u"],"out":["s"]},)j"
      R"j({"backward":"s","grads":["a"]})j",
      R"j(,"expect":{"c":{"values":[3,5,7,9]},"t":{"values":[4,7,10,13]},)j"
      R"j("u":{"values":[4,7,10,13]},"s":{"shape":[],"values":[34]},)j"
      R"j("grad.a":{"values":[3,3,3,3]}})j")));
  // Without a name of its own the operand that was written is no result.
  const Json answer = answer_of(audit_run(on_a(R"j({"op":"add_","args":["a",1]})j")));
  CHECK(text_of(answer, "results") == "{}");
}

TEST_CASE("results may be written into tensors that are there", "[tools][run]") {
  const std::string made = R"j({"op":"mul","args":["a",0],"out":["o"]},)j";
  answer_of(audit_run(on_a(made + R"j({"op":"add","args":["a","a"],"into":["o"]})j",
                           R"j(,"expect":{"o":{"values":[2,4,6,8],"placements":["S(0)"]}})j")));
  const std::pair<std::string, std::string> cases[] = {
      {R"j({"op":"add","args":["a","a"],"into":["o"],"out":["p"]})j",
       "/program/1: give one of \"out\" and \"into\""},
      {R"j({"op":"add","args":["a","a"],"into":["p"]})j", "/program/1/into/0: no tensor \"p\""},
      {R"j({"op":"sum","args":["a"],"into":["o"]})j", "/program/1: sum"}};
  for (const auto& [step, start] : cases) {
    CAPTURE(step);
    const Ran ran = audit_run(on_a(made + step));
    CHECK(ran.exit_code == 3);
    CHECK_THAT(ran.err, Catch::Contains(start));
  }
}

TEST_CASE("values that JSON has no numbers for are words", "[tools][run]") {
  const std::string document = R"j({"mesh":{"shape":[]},"inputs":{
      "x":{"shape":[4],"dtype":"BF16","placements":[],"values":["nan","inf","-inf",0.5]},
      "m":{"shape":[4],"dtype":"BOOL","placements":[],"values":[true,0,1,false]}},
    "program":[{"op":"neg","args":["x"],"out":["y"]},
               {"op":"where","args":["m","x","y"],"out":["z"]},
               {"op":"masked_fill","args":["x","m"],"attrs":{"value":"-inf"},"out":["f"]}],
    "expect":{"f":{"values":["-inf","inf","-inf",0.5]},"y":{"dtype":"BF16","values":["nan","-inf","inf",-0.5]},
              "z":{"values":["nan","-inf","-inf",-0.5]}}})j";
  CHECK(text_of(answer_of(audit_run(document)), "failures") == "[]");
}

TEST_CASE("a result that is not as expected is exit code 1, and nothing is saved", "[tools][run]") {
  const ScratchFolder scratch;
  const std::string double_a = R"j({"op":"mul","args":["a",2],"out":["y"]})j";
  const std::tuple<std::string, std::string> cases[] = {
      {R"j({"values":[2,4,6,9]})j",
       R"j({"tensor":"y","index":[3],"got":8.0,"expected":9.0,"text":"y: element [3] is 8.0, expected 9.0"})j"},
      {R"j({"values":[2,4,"nan",8]})j",
       R"j({"tensor":"y","index":[2],"got":6.0,"expected":"nan","text":"y: element [2] is 6.0, expected nan"})j"},
      {R"j({"shape":[2,2],"values":[2,4,6,8]})j",
       R"j({"tensor":"y","got":"[4]","expected":"[2, 2]","text":"y: shape is [4], expected [2, 2]"})j"},
      {R"j({"dtype":"F32","values":[2,4,6,8]})j",
       R"j({"tensor":"y","got":"F64","expected":"F32","text":"y: dtype is F64, expected F32"})j"},
      {R"j({"placements":["R"],"values":[2,4,6,8]})j",
       R"j({"tensor":"y","got":"(S(0))","expected":"(R)","text":"y: placements is (S(0)), expected (R)"})j"},
      {R"j({"values":[2,4,6,8.000002]})j",
       R"j({"tensor":"y","index":[3],"got":8.0,"expected":8.000002,"text":"y: element [3] is 8.0, expected 8.000002"})j"}};
  for (const auto& [expected, failure] : cases) {
    CAPTURE(expected);
    const std::string saved = scratch / "out.safetensors";
    const Ran ran =
        audit_run(on_a(double_a, R"j(,"expect":{"y":)j" + expected + "}"), {"--save", saved});
    CHECK(ran.exit_code == 1);
    CHECK(ran.err.empty());
    CHECK_FALSE(std::filesystem::exists(saved));
    const StatusOr<Json> answer = parse_json(ran.out, "stdout");
    REQUIRE(answer.ok());
    CHECK(text_of(*answer, "failures") == "[" + failure + "]");
  }
  CHECK(audit_run(on_a(double_a, R"j(,"expect":{"y":{"values":[2,4,6,8.1],"atol":0.2}})j"))
            .exit_code == 0);
  CHECK_THAT(
      audit_run(on_a(double_a, R"j(,"expect":{"y":{"values":[2,4,6,9]}})j"), {"--format", "text"})
          .out,
      Catch::Contains("FAILED y: element [3] is 8.0, expected 9.0\n0 as expected, 1 not\n"));
}

TEST_CASE("events say what moved, for whom and why", "[tools][run]") {
  const Json answer = answer_of(
      audit_run(on_a(R"j({"redistribute":"a","to":["R"],"out":"b"},)j"
                     R"j({"op":"softmax","args":["a"],"attrs":{"dim":0},"out":["c"]})j")));
  const Json::Array& events = *answer.find("events")->if_array();
  REQUIRE(events.size() >= 2);
  // Each of 2 ranks receives the other's 2 elements of 8 bytes.
  CHECK(events[0].to_string() ==
        R"j({"step":0,"kind":"collective","op":"all_gather","tensor":"a","axes":["tp"],)j"
        R"j("bytes":{"max":16,"total":32},"ranks":2,"origin":"explicit"})j");
  CHECK(text_of(events.back(), "step") == "1");
}

TEST_CASE("tensors may lie on meshes of their own", "[tools][run]") {
  const std::string document = std::string("{") + kTp + R"j(,"inputs":{
      "a":{"shape":[5],"dtype":"F64","placements":["S(0)"],"values":[1,2,3,4,5]},
      "b":{"mesh":{"shape":[3],"first_rank":1},"shape":[5],"dtype":"F64","placements":["S(0)"],
           "values":[10,20,30,40,50]}},
    "program":[{"redistribute":"a","mesh":{"shape":[3],"first_rank":1},"to":["S(0)"],"out":"c"},
               {"op":"mul","args":["b","c"],"out":["y"]},
               {"redistribute":"y","mesh":{"shape":[2],"axes":["tp"]},"to":["R"],"out":"z"},
               {"backward":"z","grads":["a"]}],
    "expect":{"z":{"values":[10,40,90,160,250]},"grad.a":{"values":[10,20,30,40,50]}}})j";
  CHECK(text_of(answer_of(audit_run(document)), "failures") == "[]");
}

TEST_CASE("an error on one rank ends all of them at once", "[tools][run]") {
  // Rank 3 alone holds the index that is out of range; the others wait in an all-reduce.
  const std::string document = R"j({"mesh":{"shape":[4]},"inputs":{
      "x":{"shape":[8,2],"dtype":"F32","placements":["S(0)"],"values":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]},
      "i":{"shape":[8,2],"dtype":"I64","placements":["S(0)"],"values":[0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,9]}},
    "program":[{"op":"gather","args":["x","i"],"attrs":{"dim":1},"out":["y"]},
               {"op":"sum","args":["y"],"out":["s"]},
               {"redistribute":"s","to":["R"],"out":"t"}]})j";
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = audit_run(document);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(ran.exit_code == 3);
  CHECK(ran.out.empty());
  CHECK_THAT(ran.err, Catch::StartsWith("placement-audit: standard input: /program/0: rank 3: ") &&
                          Catch::Contains("9"));
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
}

TEST_CASE("a program that cannot run is refused with its place, before anything runs",
          "[tools][run]") {
  const std::string exp = R"j({"op":"exp","args":["a"],"out":["y"]},)j";
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "/: key \"mesh\" is missing"},
      {R"j({"mesh":{"shape":[65]},"inputs":{},"program":[]})j", "/mesh: 65 ranks"},
      {R"j({"mesh":{"shape":[2],"first_rank":63},"inputs":{},"program":[]})j", "/mesh: 2 ranks"},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"placements":["R"]}},"program":[]})j",
       "/inputs/a: neither \"values\" nor \"local\""},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"shape":[3],"placements":["S(0)"],"local":[[1,2],[3,4]]}},"program":[]})j",
       "/inputs/a/local/1: 2 values for 1 elements"},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"shape":[3],"placements":["S(0)"],"values":[1,2]}},"program":[]})j",
       "/inputs/a/values: 2 values for 3 elements"},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"shape":[1],"dtype":"I32","placements":["R"],"values":[4294967296]}},"program":[]})j",
       "/inputs/a/values/0: expected an integer from"},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"shape":[1],"placements":["R"],"values":["Inf"]}},"program":[]})j",
       "/inputs/a/values/0: expected a number, \"nan\""},
      {R"j({"mesh":{"shape":[2]},"inputs":{"a":{"shape":[4294967296,1024],"placements":["R"],"values":[]}},"program":[]})j",
       "/inputs/a: with "},
      {R"j({"mesh":{"shape":[2]},"inputs":{"grad.a":{"shape":[0],"placements":["R"],"values":[]}},"program":[]})j",
       "/inputs/grad.a: \"grad.a\" is no name"},
      {on_a(R"j({"op":"expp","args":["a"],"out":["y"]})j"),
       "/program/0/op: unknown op 'expp'; the nearest names are exp"},
      {on_a(R"j({"op":"exp","args":["b"],"out":["y"]})j"),
       "/program/0/args/0: no tensor \"b\" so far; the nearest names are \"a\""},
      {on_a(R"j({"op":"exp","args":["y"],"out":["y"]})j"), "/program/0/args/0: no tensor \"y\""},
      {on_a(exp + R"j({"op":"exp","args":["a"],"out":["y"]})j"),
       "/program/1/out/0: \"y\" is a tensor already"},
      {on_a(R"j({"op":"add","args":["a"],"out":["y"]})j"), "/program/0/args: 1 operands for add"},
      {on_a(R"j({"op":"exp","args":["a"]})j"), "/program/0: missing key \"out\""},
      {on_a(R"j({"op":"exp","args":["a"],"out":["y","z"]})j"),
       "/program/0/out: 2 names for the 1 results"},
      {on_a(R"j({"op":"exp","args":[["a"]],"out":["y"]})j"), "/program/0/args/0: expected"},
      {on_a(R"j({"op":"cat","args":["a"],"attrs":{"dim":0},"out":["y"]})j"),
       "/program/0/args/0: expected"},
      {on_a(R"j({"op":"topk","args":["a"],"attrs":{"kk":2},"out":["y","i"]})j"),
       "/program/0/attrs: topk has no attribute \"kk\"; allowed: k"},
      {on_a(R"j({"op":"topk","args":["a"],"attrs":{"k":5},"out":["y","i"]})j"), "/program/0: topk"},
      {on_a(R"j({"op":"exp","arg":["a"],"out":["y"]})j"), "/program/0: unknown key \"arg\""},
      {on_a("7"), "/program/0: a step is an object"},
      {on_a(R"j({"redistribute":"a","to":["S(1)"],"out":"b"})j"), "/program/0/to: "},
      {on_a(R"j({"backward":"a","grads":["b"]})j"), "/program/0/grads/0: no tensor \"b\""},
      {on_a(exp + R"j({"backward":"y","grads":["y"]})j"), "/program/1/grads/0: the result of"},
      {on_a(exp + R"j({"backward":"y","grads":["a"]},{"backward":"y","grads":["a"]})j"),
       "/program/2/backward: the history of exp (/program/0) was freed"},
      {on_a(
           R"j({"op":"argmax","args":["a"],"attrs":{"dim":0},"out":["i"]},{"backward":"i","grads":["a"]})j"),
       "/program/1/backward: I64[] (R) on {tp: 2}: only floating"},
      {on_a(
           R"j({"op":"sum","args":["a"],"out":["s"]},{"backward":"s","cotangent":"a","grads":["a"]})j"),
       "/program/1/cotangent: F64[4] (S(0)) on {tp: 2} is no cotangent of F64[]"},
      {on_a(exp, "").substr(0, 30), "standard input:1:31: syntax error"},
      {on_a(R"j({"op":"exp","args":["a"],"out":["y"]})j", R"j(,"expect":{"yy":{"values":[]}})j"),
       "/expect/yy: the program has no result \"yy\"; the nearest names are \"y\""},
  };
  for (const auto& [document, start] : cases) {
    CAPTURE(document);
    const Ran ran = audit_run(document);
    CHECK(ran.exit_code == 3);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err,
               Catch::StartsWith("placement-audit: standard input") && Catch::Contains(start));
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
}

TEST_CASE("files that are not there are exit code 4, and wrong ones 3", "[tools][run]") {
  const ScratchFolder scratch;
  const std::string exp = on_a(R"j({"op":"exp","args":["a"],"out":["y"]})j");
  CHECK(audit_run(exp, {"--tensors", scratch / "none"}).exit_code == 4);
  CHECK(audit_run(exp, {"--save", scratch / "no/folder"}).exit_code == 4);
  CHECK(audit_run(exp, {"--tensors", scratch.file("bad", "not safetensors")}).exit_code == 3);
  const Ran ran = audit_run(exp, {"--save", scratch / "no/folder"});
  CHECK(ran.out.empty());
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(audit_run(exp, {"--load", "x"}).exit_code == 2);

  const std::vector<float> x = {1, 2};
  const std::string in = scratch / "in.safetensors";
  REQUIRE(write_safetensors(in, std::vector<TensorBytes>{{"x", DType::kF32, Shape{2},
                                                          std::as_bytes(std::span(x))}})
              .ok());
  const auto with = [&](const std::string& input) {
    return audit_run(std::string("{") + kTp + R"j(,"inputs":{)j" + input + R"j(},"program":[]})j",
                     {"--tensors", in});
  };
  CHECK(with(R"j("x":{"placements":["S(0)"]})j").exit_code == 0);
  for (const auto& [input, text] : std::vector<std::pair<std::string, std::string>>{
           {R"j("y":{"placements":["R"]})j", "no tensor \"y\""},
           {R"j("x":{"placements":["R"],"shape":[3]})j",
            "/inputs/x/shape: [3], but \"x\" of the file has shape [2]"},
           {R"j("x":{"placements":["R"],"dtype":"F64"})j",
            "/inputs/x/dtype: F64, but \"x\" of the file is F32"}}) {
    const Ran refused = with(input);
    CHECK(refused.exit_code == 3);
    CHECK_THAT(refused.err, Catch::Contains(text));
  }
}

}  // namespace
}  // namespace tessera
