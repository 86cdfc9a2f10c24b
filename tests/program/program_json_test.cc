// Programs as JSON: what is read is what was written, and what is refused names its place.
#include "program/program_json.h"

#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_replace.h"
#include "program/unfold.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/changed_text.h"

namespace tessera {
namespace {

/// A program as its writer has it: every kind of step, every key.
const std::string& sample() {
  static const std::string text = R"json({"version":1,
"name":"two layers",
"source":{"kind":"torch","by":"tessera_trace 1","command":"train.py:build"},
"scenario":{"routing":"balanced"},
"ranks":8,
"meshes":{"world":{"shape":[2,4],"axes":["dp","tp"]},"last":{"shape":[2,2],"axes":["dp","tp"],"first_rank":4,"stage":1},"rows":{"shape":[2],"axes":["dp"],"first_rank":1,"of":"world"}},
"warnings":["cuts differ"],
"values":[
 {"name":"x","shape":[8,16],"dtype":"F32","mesh":"world","placements":["S(0)","S(1)"],"role":"input"},
 {"name":"layers.*.w","shape":[16,16],"dtype":"F32","mesh":"world","placements":["R","S(0)"],"role":"parameter","module":"layers.*","count":2},
 {"name":"free","shape":[16],"dtype":"BF16","mesh":"last","placements":null,"role":"state"},
 {"name":"scale","shape":[],"dtype":"F32","mesh":null,"placements":null,"varies":["dp","tp"],"role":"buffer"},
 {"name":"gate","shape":[8],"dtype":"F32","mesh":"rows","placements":["S(0)"],"varies":["tp"],"role":"buffer"}],
"steps":[
 {"repeat":2,"as":"layers","steps":[
  {"op":"matmul","args":["x","layers.*.w"],"out":[{"name":"y","shape":[8,16],"dtype":"F32","mesh":"world","placements":["S(0)","P(sum)"]}],"row":"tp: lin A*B","module":"layers.*","site":"model/mlp.py:12","phase":"forward","stage":0,"micro_batch":0,"from":"aten.mm.default","time_us":1.5},
  {"redistribute":"y","to":["S(0)","S(1)"],"mesh":"world","out":"y.1","implicit":true,"for":"relu.self","moves":[{"collective":"reduce_scatter","axes":["tp"],"ranks":4,"bytes":{"max":192,"total":1536}}],"phase":"forward"},
  {"free":["x"]}],"carry":{"x":"y.1"}},
 {"op":"sum","args":["x"],"attrs":{"dim":[0,1],"keepdim":false},"out":[{"name":"loss","shape":[],"dtype":"F32","mesh":"world","placements":["P(sum)","P(sum)"]}],"moves":[{"collective":"all_reduce","axes":["tp"],"ranks":4,"bytes":{"max":6,"total":48}}]},
 {"redistribute":"gate","to":["R"],"mesh":"rows","out":"gate.1"},
 {"region":"flash_attention","args":["x",[1,null,2.5]],"out":[{"name":"out","shape":[8,16],"dtype":"F32","mesh":"world","placements":["S(0)","R"],"role":"state"}],"flops":1024,"bytes":2048,"moves":[{"collective":"all_gather","axes":["tp"],"ranks":4,"bytes":{"max":96,"total":768}}],"warning":"foreign"},
 {"host_read":"loss","bytes":4,"why":"the step's loss","phase":"optimizer"}]}
)json";
  return text;
}

std::string error_of(std::string_view text) {
  return std::string(message_of(read_program(text, "run.json", testing::builtin_ops()).status()));
}
/// The error of the sample with one text in another's place.
std::string error_with(std::string_view from, std::string_view to) {
  const std::string changed = absl::StrReplaceAll(sample(), {{to_absl(from), to_absl(to)}});
  REQUIRE(changed != sample());
  return error_of(changed);
}

TEST_CASE("a program is read and written with the same bytes", "[program]") {
  const Program program =
      value_or_throw(read_program(sample(), "run.json", testing::builtin_ops()));
  CHECK(write_program(program) == sample());
  CHECK(value_or_throw(read_program(write_program(program), "again", testing::builtin_ops())) ==
        program);
  REQUIRE(program.steps.size() == 5);
  const RepeatStep& repeat = std::get<RepeatStep>(program.steps[0].what);
  CHECK(repeat.count == 2);
  CHECK(repeat.steps[0].origin.phase == StepPhase::kForward);
  CHECK(std::get<MoveStep>(repeat.steps[1].what).out.global_shape == Shape{8, 16});
  CHECK(program.meshes[1].stage == 1);
  CHECK(program.warnings == std::vector<std::string>{"cuts differ"});
}

TEST_CASE("a slice of a mesh has its ranks, and its moves are those of all slices alike",
          "[program]") {
  const Program program =
      value_or_throw(read_program(sample(), "run.json", testing::builtin_ops()));
  const ProgramMesh& rows = program.meshes[2];
  CHECK(rows.mesh.ranks() == std::vector<std::int64_t>{1, 5});
  CHECK(slices_alike(program, rows) == 4);
  CHECK(slices_alike(program, program.meshes[1]) == 1);
  const MoveStep& move = std::get<MoveStep>(program.steps[2].what);
  CHECK(move.out.varies == std::vector<std::string>{"tp"});
  // Each of the 2 ranks lacks 4 of 8 elements, in each of the 4 slices.
  CHECK(value_or_throw(moves_of(program, program.values[4], move.out)) ==
        std::vector<ProgramMove>{{.collective = "all_gather",
                                  .axes = {"dp"},
                                  .ranks = 2,
                                  .bytes = {.max = 16, .total = 128}}});
  // A slice of one stage is not one of others.
  const std::string staged = absl::StrReplaceAll(
      sample(), {{"\"first_rank\":1,\"of\":\"world\"}", "\"of\":\"world\",\"stage\":1}"}});
  const Program stages = value_or_throw(read_program(staged, "run.json", testing::builtin_ops()));
  CHECK(slices_alike(stages, stages.meshes[2]) == 2);
}

TEST_CASE("a redistribution without moves has the planner's", "[program]") {
  const Program program =
      value_or_throw(read_program(sample(), "run.json", testing::builtin_ops()));
  const RepeatStep& repeat = std::get<RepeatStep>(program.steps[0].what);
  const ProgramValue& partial = std::get<CallStep>(repeat.steps[0].what).out[0];
  const MoveStep& move = std::get<MoveStep>(repeat.steps[1].what);
  // F32[4, 16] a rank, a quarter of it from each of three others.
  CHECK(value_or_throw(moves_of(program, partial, move.out)) == *move.moves);
  CHECK(value_or_throw(moves_of(program, move.out, move.out)).empty());
  CHECK(moves_of(program, program.values[2], program.values[2]).status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a repeat unfolds into its rounds, each with its own names", "[program]") {
  const Program program =
      value_or_throw(read_program(sample(), "run.json", testing::builtin_ops()));
  const Program whole = value_or_throw(unfold(program));
  REQUIRE(whole.values.size() == 6);
  CHECK(whole.values[2].name == "layers.1.w");
  REQUIRE(whole.steps.size() == 10);
  const CallStep& second = std::get<CallStep>(whole.steps[3].what);
  CHECK(second.args == Json::Array{"y.1#0", "layers.1.w"});
  CHECK(second.out[0].name == "y#1");
  CHECK(whole.steps[3].origin.module == "layers.1");
  CHECK(std::get<FreeStep>(whole.steps[5].what).values == std::vector<std::string>{"y.1#0"});
  // After the repeat x is what the last round made of it.
  CHECK(std::get<CallStep>(whole.steps[6].what).args == Json::Array{"y.1#1"});
  const std::string written = write_program(whole);
  CHECK(value_or_throw(read_program(written, "whole", testing::builtin_ops())) == whole);
  CHECK(value_or_throw(unfold(whole)) == whole);
}

TEST_CASE("what does not unfold says why", "[program]") {
  const auto refusal = [](std::string_view from, std::string_view to) {
    const std::string text = absl::StrReplaceAll(sample(), {{to_absl(from), to_absl(to)}});
    const Program program = value_or_throw(read_program(text, "run.json", testing::builtin_ops()));
    return std::string(message_of(unfold(program, 100).status()));
  };
  CHECK(refusal("\"repeat\":2", "\"repeat\":1000000") ==
        "unfold: \"layers.*.w\" has a count of 2, but is used outside of a repeat of that count");
  CHECK(refusal("\"count\":2", "\"count\":1000000") ==
        "unfold: more than 100 steps, rounds and values of rounds");
  CHECK(refusal("\"name\":\"scale\"", "\"name\":\"y#1\"") ==
        "unfold: two values would be called \"y#1\"; give one of them another name");
}

TEST_CASE("a program's errors name the place, what was seen and what is allowed", "[program]") {
  CHECK(error_with("\"op\":\"sum\"", "\"op\":\"sun\"").starts_with("run.json: /steps/1/op: "));
  CHECK(error_with("\"args\":[\"x\",\"layers.*.w\"]", "\"args\":[\"x\",\"y.1\"]") ==
        "run.json: /steps/0/steps/0/args/1: \"y.1\": no such value here; values are declared, or "
        "made by a step before");
  CHECK(error_with("\"host_read\":\"loss\"", "\"host_read\":\"y\"") == "");
  CHECK(error_with("{\"free\":[\"x\"]}", "{\"free\":[\"x\",\"x\"]}") ==
        "run.json: /steps/0/steps/2/free/1: \"x\": the value was freed by a step before");
  CHECK(error_with("{\"free\":[\"x\"]}", "{\"free\":[\"scale\"]}") ==
        "run.json: /steps/0/steps: \"scale\": each round frees this value, which was made before "
        "the repeat; carry another into it");
  CHECK(
      error_with("{\"x\":\"y.1\"}", "{\"x\":\"y\"}") ==
      "run.json: /steps/0/carry/x: \"y\": is to be the next round's \"x\", but differs from it in "
      "shape, dtype, mesh or placements");
  CHECK(error_with("\"name\":\"loss\"", "\"name\":\"y\"") ==
        "run.json: /steps/1/out/0: \"y\": a value has this name already; each is made once");
  CHECK(error_with("\"mesh\":null,\"placements\":null", "\"mesh\":null,\"placements\":[\"R\"]") ==
        "run.json: /values/3/placements: placements of a value without a mesh; name its mesh, or "
        "give null");
  CHECK(error_with("\"mesh\":\"last\"", "\"mesh\":\"lost\"") ==
        "run.json: /values/2/mesh: \"lost\": no such mesh; there are: \"world\", \"last\", "
        "\"rows\"");
  CHECK(error_with("[\"R\",\"S(0)\"]", "[\"R\"]").starts_with("run.json: /values/1/placements: "));
  CHECK(error_with("[\"R\",\"S(0)\"]", "[\"R\",\"S(2)\"]")
            .starts_with("run.json: /values/1/placements: "));
  CHECK(error_with("[\"R\",\"S(0)\"]", "{\"dims\":[[],[]]}") ==
        "run.json: /values/1/placements: expected an array, not an object");
  CHECK(error_with("\"ranks\":8,", "\"ranks\":7,") ==
        "run.json: /meshes/world: 8 ranks from rank 0 on, but the program has 7");
  CHECK(error_with("\"phase\":\"optimizer\"", "\"phase\":\"last\"") ==
        "run.json: /steps/4/phase: \"last\": allowed are forward, recompute, backward, optimizer");
  CHECK(error_with("\"role\":\"buffer\"", "\"role\":\"temporary\"") ==
        "run.json: /values/3/role: \"temporary\": what is there before the first step is an input, "
        "parameter, state or buffer");
  CHECK(error_with("\"collective\":\"all_gather\"", "\"collective\":\"gossip\"") ==
        "run.json: /steps/3/moves/0/collective: \"gossip\": allowed are all_gather, "
        "reduce_scatter, all_reduce, all_to_all, broadcast, send, receive, scatter, gather, "
        "exchange");
  CHECK(error_with("\"keepdim\":false", "\"keepdims\":false")
            .starts_with("run.json: /steps/1/attrs/keepdims: sum has no such attribute; it has: "));
  CHECK(error_with("\"time_us\":1.5", "\"time_us\":-1.5") ==
        "run.json: /steps/0/steps/0/time_us: -1.5: a time is at least 0");
  CHECK(error_with("\"why\":", "\"because\":").starts_with("run.json: /steps/4: "));
  CHECK(error_with("\"version\":1", "\"version\":2").starts_with("run.json: /version: "));
}

TEST_CASE("a slice of a mesh that does not fit, and what cannot vary, are refused", "[program]") {
  const std::string rows = R"("rows":{"shape":[2],"axes":["dp"],"first_rank":1,"of":"world"})";
  const auto with_rows = [&](std::string_view mesh) { return error_with(rows, mesh); };
  CHECK(with_rows(R"("rows":{"shape":[2],"axes":["ep"],"of":"world"})") ==
        "run.json: /meshes/rows: a slice of \"world\" needs names of its axes; \"world\" has {dp: "
        "2, tp: 4}");
  CHECK(with_rows(R"("rows":{"shape":[2],"axes":["tp"],"of":"world"})") ==
        "run.json: /meshes/rows: axis \"tp\" has 2 ranks, but 4 in \"world\"");
  CHECK(with_rows(R"("rows":{"shape":[2],"axes":["dp"],"first_rank":5,"of":"world"})") ==
        "run.json: /meshes/rows: first rank 5 is not the first of its slice of \"world\", which is "
        "1");
  CHECK(with_rows(R"("rows":{"shape":[2],"axes":["dp"],"of":"rows"})") ==
        "run.json: /meshes/rows/of: \"rows\" is a slice itself; name the mesh that it is cut from");
  CHECK(with_rows(R"("rows":{"shape":[2],"axes":["dp"],"of":"row"})") ==
        "run.json: /meshes/rows/of: \"row\": no such mesh; there are: \"world\", \"last\", "
        "\"rows\"");
  CHECK(error_with("\"varies\":[\"tp\"]", "\"varies\":[\"ep\"]") ==
        "run.json: /values/4/varies: \"ep\": no mesh of the program has such an axis");
  CHECK(error_with("\"varies\":[\"tp\"]", "\"varies\":[\"tp\",\"tp\"]") ==
        "run.json: /values/4/varies: \"tp\" stands there twice");
  CHECK(
      error_with("\"varies\":[\"tp\"]", "\"varies\":[\"dp\"]") ==
      "run.json: /values/4/varies: along \"dp\", an axis of its own mesh, its placements say what "
      "varies");
}

TEST_CASE("a program's limits are told", "[program]") {
  std::string deep = "{\"free\":[]}";
  for (int depth = 0; depth <= kMaxRepeatDepth; ++depth) {
    deep = "{\"repeat\":1,\"steps\":[" + deep + "]}";
  }
  CHECK(error_with("{\"free\":[\"x\"]}],\"carry\":{\"x\":\"y.1\"}}",
                   "{\"free\":[]}],\"carry\":{\"x\":\"y.1\"}}," + deep) ==
        "run.json: /steps/1/steps/0/steps/0/steps/0/steps/0: repeats in more than 3 others");
  CHECK(error_with("[1,null,2.5]", "[[[[[1]]]]]") ==
        "run.json: /steps/3/args/1/0/0/0: lists in more than 3 others");
  CHECK(
      error_with("\"repeat\":2", "\"repeat\":1000001").starts_with("run.json: /steps/0/repeat: "));
  CHECK(error_with("\"args\":[\"x\"]", "\"args\":[true]") ==
        "run.json: /steps/1/args/0: expected a value's name, a number, null or a list of them, not "
        "a boolean");
}

TEST_CASE("10,000 changed programs are read alike twice, or refused with their place",
          "[program]") {
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    const std::string text = testing::changed_text(sample(), random);
    const StatusOr<Program> program = read_program(text, "run.json", testing::builtin_ops());
    if (!program.ok()) {
      REQUIRE(message_of(program.status()).starts_with("run.json:"));
      continue;
    }
    ++accepted;
    const std::string written = write_program(*program);
    REQUIRE(value_or_throw(read_program(written, "again", testing::builtin_ops())) == *program);
  }
  CHECK(accepted > 100);
}

}  // namespace
}  // namespace tessera
