// Placed programs in the words of other systems: PyTorch code, Shardy's text, a table.
#include <catch2/catch.hpp>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "io/file.h"
#include "program/export/markdown_table.h"
#include "program/export/shardy_text.h"
#include "program/export/torch_module.h"
#include "program/export/value_groups.h"
#include "program/program_json.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "program/unfold.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

using testing::builtin_ops;

std::string value_text(const std::string& name, const std::string& shape,
                       const std::string& placements, const std::string& others = "") {
  return R"j({"name":")j" + name + R"j(","shape":)j" + shape +
         R"j(,"dtype":"F32","mesh":"m","placements":)j" + placements + others + "}";
}

/// Two layers of Megatron's MLP, rows cut between them.
std::string mlp_text() {
  std::string values = value_text("x", "[16,8]", R"j(["S(0)"])j", R"j(,"role":"input")j"), steps;
  std::string from = "x";
  for (const std::string layer : {"0", "1"}) {
    const std::string module = "layers." + layer, y = "y." + layer;
    const auto weight = [&](const std::string& name, const std::string& shape,
                            const std::string& placements) {
      return ",\n" + value_text(module + name + ".weight", shape, placements,
                                R"j(,"role":"parameter","module":")j" + module + name + '"');
    };
    values += weight(".w1", "[32,8]", R"j(["S(0)"])j") + weight(".w2", "[8,32]", R"j(["S(1)"])j");
    const auto step = [&](const std::string& op, const std::string& args, const std::string& out,
                          const std::string& inside) {
      steps += (steps.empty() ? "" : ",\n") + std::string(R"j({"op":")j") + op + R"j(","args":[)j" +
               args + R"j(],"out":[)j" + out + R"j(],"module":")j" + module + inside +
               R"j(","phase":"forward"})j";
    };
    const auto move = [&](const std::string& value, const std::string& to, const std::string& out) {
      steps += (steps.empty() ? "" : ",\n") + std::string(R"j({"redistribute":")j") + value +
               R"j(","to":[")j" + to + R"j("],"out":")j" + out +
               R"j(","implicit":true,"module":")j" + module + R"j(","phase":"forward"})j";
    };
    move(from, "R", "in." + layer);
    step("linear", "\"in." + layer + "\",\"" + module + ".w1.weight\"",
         value_text("h." + layer, "[16,32]", R"j(["S(1)"])j"), ".w1");
    step("relu", "\"h." + layer + '"', value_text("r." + layer, "[16,32]", R"j(["S(1)"])j"), "");
    step("linear", "\"r." + layer + "\",\"" + module + ".w2.weight\"",
         value_text(y, "[16,8]", R"j(["P(sum)"])j"), ".w2");
    move(y, "S(0)", "out." + layer);
    step("exp", "\"out." + layer + '"', value_text("z." + layer, "[16,8]", R"j(["S(0)"])j"), "");
    from = "z." + layer;
  }
  steps += R"j(,
{"op":"sum","args":["z.1"],"attrs":{"dim":[0,1]},"out":[)j" +
           value_text("loss", "[]", R"j(["P(sum)"])j") + R"j(],"phase":"forward"
})j";
  return R"j({"version":1,"name":"mlp","source":{"kind":"program"},"ranks":4,
"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
)j" + values +
         "],\n\"steps\":[\n" + steps + "]}";
}

Program program_of(const std::string& text) {
  return value_or_throw(read_program(text, "test", builtin_ops()));
}

std::string recorded(const std::string& name) {
  return value_or_throw(read_file(testing::test_data("/" + name), kMaxStablehloBytes));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("equal layers are one group, with what moves for all", "[program][export]") {
  const auto groups = value_or_throw(value_groups(program_of(mlp_text())));
  std::vector<std::string> lines;
  for (const ValueGroup& group : groups) {
    std::string line = absl::StrFormat("%s x%d %s, %s, %d B", group.name, group.count,
                                       group.made_by, group.why, group.held_bytes);
    for (const ProgramMove& move : group.in) {
      line += absl::StrFormat(" < %s %d", move.collective, move.bytes.max);
    }
    for (const ProgramMove& move : group.out) {
      line += absl::StrFormat(" > %s %d", move.collective, move.bytes.max);
    }
    lines.push_back(line);
  }
  CHECK(lines == std::vector<std::string>{
                     "x x1 input, read by linear, 128 B > all_gather 384",
                     "layers.*.w1.weight x2 parameter, read by linear, 256 B",
                     "layers.*.w2.weight x2 parameter, read by linear, 256 B",
                     "h.* x2 linear, read by relu, 512 B < all_gather 768",
                     "r.* x2 relu, read by linear, 512 B",
                     "y.* x2 linear, read by exp, 512 B > reduce_scatter 768",
                     "z.* x2 exp, read by linear, 128 B < reduce_scatter 768 > all_gather 384",
                     "loss x1 sum, , 4 B"});
}

TEST_CASE("the table has a line for equal layers and a column for each axis", "[program][export]") {
  const std::string text = value_or_throw(markdown_of(program_of(mlp_text())));
  CHECK(text.starts_with("# mlp: placements\n\n4 ranks; mesh m {tp: 4}. "));
  CHECK(has(text, "| value | module | of | shape | tp | bytes a rank | moves in | moves out |\n"));
  CHECK(
      has(text, "| layers.\\*.w1.weight (x2) |  | parameter | F32 32x8 | S(0) | 256 B |  |  |\n"));
  CHECK(has(text,
            "| y.\\* (x2) | layers.\\*.w2 | linear | F32 16x8 | P(sum) | 512 B |  | "
            "reduce\\_scatter tp 768 B |\n"));
  CHECK(!has(text, "h.0"));
}

TEST_CASE("a plan of tensor parallelism has the styles that fit", "[program][export]") {
  const std::string text = value_or_throw(torch_module_of(program_of(mlp_text())));
  CHECK(has(text, "MESH = {\"tp\": 4}\n"));
  CHECK(has(text,
            "    \"layers.*.w1.weight\": [Shard(0)],\n"
            "    \"layers.*.w2.weight\": [Shard(1)],\n"));
  CHECK(has(text, "INPUTS = {\n    \"x\": [Shard(0)],\n}\n"));
  CHECK(has(text,
            "PLAN = {\n"
            "    \"layers.*.w1\": ColwiseParallel(input_layouts=Shard(0), "
            "output_layouts=Shard(1), use_local_output=False),\n"
            "    \"layers.*.w2\": RowwiseParallel(input_layouts=Shard(1), "
            "output_layouts=Shard(0), use_local_output=False),\n"
            "}\nMOVES = {}\n"));
  CHECK(!has(text, "Inside of modules"));
}

TEST_CASE("on two axes what moves is at borders, and parameters are used as they are gathered",
          "[program][export]") {
  // The first layer's w1 is kept cut over dp as well, and gathered before its use.
  std::string text = absl::StrReplaceAll(
      mlp_text(), {{R"j({"shape":[4],"axes":["tp"]})j", R"j({"shape":[2,2],"axes":["dp","tp"]})j"},
                   {R"j(["S(0)"])j", R"j(["R","S(0)"])j"},
                   {R"j(["S(1)"])j", R"j(["R","S(1)"])j"},
                   {R"j(["R"])j", R"j(["R","R"])j"},
                   {R"j(["P(sum)"])j", R"j(["R","P(sum)"])j"}});
  const std::string kept = R"j("layers.0.w1.weight","shape":[32,8],"dtype":"F32","mesh":"m",)j";
  text = absl::StrReplaceAll(
      text,
      {{kept + R"j("placements":["R","S(0)"])j", kept + R"j("placements":["SS(0,2)","S(0)"])j"},
       {R"j("steps":[)j", R"j("steps":[
{"redistribute":"layers.0.w1.weight","to":["R","S(0)"],"out":"gathered","phase":"forward"},)j"},
       {R"j("in.0","layers.0.w1.weight")j", R"j("in.0","gathered")j"}});
  const std::string code = value_or_throw(torch_module_of(program_of(text)));
  CHECK(has(code, "MESH = {\"dp\": 2, \"tp\": 2}\n"));
  CHECK(has(code, "from torch.distributed.tensor.placement_types import _StridedShard\n"));
  CHECK(has(code, "    \"layers.0.w1.weight\": [_StridedShard(0, split_factor=2), Shard(0)],\n"));
  CHECK(has(code, "    \"layers.1.w1.weight\": [Replicate(), Shard(0)],\n"));
  CHECK(has(code, "USED = {\n    \"layers.0.w1.weight\": [Replicate(), Shard(0)],\n}\n"));
  CHECK(has(code,
            "PLAN = {}\nMOVES = {\n"
            "    \"layers.*.w1\": dict(inputs=[Replicate(), Replicate()]),\n"
            "    \"layers.*.w2\": dict(outputs=[Replicate(), Shard(0)]),\n}\n"));
}

TEST_CASE("what moves inside of a module is left, and said", "[program][export]") {
  const std::string text = absl::StrReplaceAll(
      mlp_text(),
      {{R"j({"op":"relu","args":["h.0"])j", R"j({"op":"exp","args":["h.0"],"out":[)j" +
                                                value_text("e", "[16,32]", R"j(["S(1)"])j") +
                                                R"j(],"module":"layers.0","phase":"forward"},
{"redistribute":"e","to":["S(0)"],"out":"e.0","module":"layers.0","phase":"forward"},
{"op":"exp","args":["e.0"],"out":[)j" + value_text("f", "[16,32]", R"j(["S(0)"])j") +
                                                R"j(],"module":"layers.0","phase":"forward"},
{"op":"relu","args":["h.0"])j"}});
  const std::string code = value_or_throw(torch_module_of(program_of(text)));
  CHECK(has(code, "\n#   \"e\" S(1) becomes S(0) for \"exp\" in \"layers.0\"\n"));
}

TEST_CASE("names are quoted as each language asks", "[program][export]") {
  const std::string text = absl::StrReplaceAll(
      mlp_text(),
      {{"layers.0.w1.weight", R"j(layers.0.w\"1\n.wei\u00e4)j"}, {"\"mlp\"", R"j("a\nb")j"}});
  const Program program = program_of(text);
  const std::string code = value_or_throw(torch_module_of(program));
  CHECK(code.starts_with("# Placements of \"a\\x0ab\" on 4 ranks"));
  CHECK(has(code, "    \"layers.0.w\\\"1\\x0a.wei\\u00e4\": [Shard(0)],\n"));
  const std::string shardy = value_or_throw(shardy_of(program)).text;
  CHECK(shardy.starts_with("module @a_b {\n"));
  CHECK(has(shardy, "%layers.0.w_1_.wei__: tensor<32x8xf32>"));
  CHECK(has(shardy, R"j(loc("layers.0.w\"1\0A.wei\C3\A4"))j"));
}

TEST_CASE("what no module of PyTorch says is an error", "[program][export]") {
  const auto error = [](const std::string& text) {
    return std::string(message_of(torch_module_of(program_of(text)).status()));
  };
  CHECK(error(absl::StrReplaceAll(mlp_text(), {{R"j("placements":["S(0)"],"role":"input")j",
                                                R"j("placements":null,"role":"input")j"}})) ==
        "value \"x\" has no placements yet; placement-audit solve finds them");
  CHECK(
      error(absl::StrReplaceAll(
          mlp_text(), {{R"j("x","shape":[16,8],"dtype":"F32","mesh":"m")j",
                        R"j("x","shape":[16,8],"dtype":"F32","mesh":"n")j"},
                       {R"j("meshes":{)j", R"j("meshes":{"n":{"shape":[4],"axes":["ep"]},)j"}})) ==
      "values are on the meshes \"n\" and \"m\"; PyTorch code is written for programs of one "
      "mesh");
  CHECK(error(absl::StrReplaceAll(mlp_text(),
                                  {{R"j("placements":["S(0)"],"role":"input")j",
                                    R"j("layout":{"dims":[["tp%8"],[]]},"role":"input")j"}})) ==
        "input \"x\": [tp%8] []: PyTorch needs a list of placements");
}

// ---- Shardy ----

TEST_CASE("Shardy's text has meshes, shardings, constraints and unreduced axes",
          "[program][export]") {
  const ShardyText shardy = value_or_throw(shardy_of(program_of(mlp_text())));
  CHECK(shardy.unsaid.empty());
  CHECK(
      shardy.text.starts_with("module @mlp {\n  sdy.mesh @m = <[\"tp\"=4]>\n"
                              "  func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = "
                              "#sdy.sharding<@m, [{\"tp\"}, {}]>} loc(\"x\"),\n"));
  CHECK(has(shardy.text,
            "    %in.0 = sdy.sharding_constraint %x <@m, [{}, {}]> : "
            "tensor<16x8xf32> loc(\"jvp(layers)/0/redistribute\")\n"));
  CHECK(has(shardy.text,
            "    %y.0 = stablehlo.custom_call @linear(%r.0, %layers.0.w2.weight) "
            "{backend_config "
            "= \"{\\\"args\\\":[\\\"r.0\\\",\\\"layers.0.w2.weight\\\"],\\\"attrs\\\":{}}\", "
            "has_side_effect = false, sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}], "
            "unreduced={\"tp\"}>]>} : (tensor<16x32xf32>, tensor<8x32xf32>) -> "
            "tensor<16x8xf32> "
            "loc(\"jvp(layers)/0/w2/linear\")\n"));
  CHECK(shardy.text.ends_with("    return %loss : tensor<f32>\n  }\n}\n"));
}

/// By name, where each value that is on a mesh lies.
std::map<std::string, std::string> placements_of(const Program& program) {
  std::map<std::string, std::string> found;
  const auto add = [&](const ProgramValue& value) {
    std::string name = value.name;
    if (name.starts_with("%")) name = name.substr(1);
    if (!value.mesh || !value.layout) return;
    std::string text;
    for (const Levels& levels : value.layout->dims) {
      text += to_string(program.meshes[static_cast<std::size_t>(*value.mesh)].mesh, levels);
    }
    for (const std::optional<ReduceOp>& op : value.layout->partial) {
      text += op ? " " + std::string(name_of(*op)) : " -";
    }
    found[name] = text;
  };
  for (const ProgramValue& value : program.values) add(value);
  for (const AnyStep& step : program.steps) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      for (const ProgramValue& value : call->out) add(value);
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      for (const ProgramValue& value : region->out) add(value);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      add(move->out);
    }
  }
  return found;
}

Program read_back(const Program& program) {
  const ShardyText shardy = value_or_throw(shardy_of(program));
  CHECK(shardy.unsaid.empty());
  return value_or_throw(program_of_stablehlo(shardy.text, "back", builtin_ops()));
}

TEST_CASE("the same placements are read back", "[program][export]") {
  const Program mlp = program_of(mlp_text());
  CHECK(placements_of(read_back(mlp)) == placements_of(mlp));
  for (const char* const name : {"mlp_step", "attention_step", "moe_step", "stack_step"}) {
    CAPTURE(name);
    const Program program = value_or_throw(unfold(value_or_throw(program_of_stablehlo(
        recorded(absl::StrFormat("stablehlo/%s.propagated.mlir", name)), name, builtin_ops()))));
    const Program back = read_back(program);
    const auto expected = placements_of(program), seen = placements_of(back);
    CHECK(expected.size() > 30);
    CHECK(seen.size() == expected.size());
    // Names differ in characters that MLIR does not take; their order does not.
    std::vector<std::string> all_expected, all_seen;
    const auto collect = [](const Program& of, std::vector<std::string>& all) {
      Program one = of;
      std::int64_t number = 0;
      const auto rename = [&](ProgramValue& value) {
        value.name = absl::StrFormat("%08d", number++);
      };
      for (ProgramValue& value : one.values) rename(value);
      for (AnyStep& step : one.steps) {
        if (auto* call = std::get_if<CallStep>(&step.what)) {
          for (ProgramValue& value : call->out) rename(value);
        } else if (auto* region = std::get_if<RegionStep>(&step.what)) {
          for (ProgramValue& value : region->out) rename(value);
        } else if (auto* move = std::get_if<MoveStep>(&step.what)) {
          rename(move->out);
        }
      }
      for (const auto& [key, text] : placements_of(one)) all.push_back(key + text);
    };
    collect(program, all_expected);
    collect(back, all_seen);
    CHECK(all_seen == all_expected);
  }
}

TEST_CASE("what Shardy has no words for is left out, and said", "[program][export]") {
  const std::string text = absl::StrReplaceAll(
      mlp_text(), {{R"j("loss","shape":[],"dtype":"F32","mesh":"m","placements":["P(sum)"])j",
                    R"j("loss","shape":[],"dtype":"F32","mesh":"m","placements":["P(max)"])j"},
                   {R"j("placements":["S(0)"],"role":"input")j",
                    R"j("layout":{"dims":[["2*","tp"],[]]},"role":"input")j"}});
  const ShardyText shardy = value_or_throw(shardy_of(program_of(text)));
  CHECK(shardy.unsaid == std::vector<std::string>{"\"x\": SS(0,2): no list of axes cuts a dim so",
                                                  "\"loss\": P(max): unreduced axes are of sums"});
  CHECK(has(shardy.text, "%x: tensor<16x8xf32> loc(\"x\")"));
  CHECK(program_of_stablehlo(shardy.text, "back", builtin_ops()).ok());
}

TEST_CASE("recorded programs leave, too", "[program][export]") {
  for (const char* const name : {"torch_llama", "torch_deepseek", "torch_llama_stages"}) {
    CAPTURE(name);
    const Program program = program_of(recorded(absl::StrFormat("programs/%s.json", name)));
    const ShardyText shardy = value_or_throw(shardy_of(program));
    CHECK(!shardy.unsaid.empty());  // what is on slices of the mesh
    CHECK(program_of_stablehlo(shardy.text, "back", builtin_ops()).ok());
    CHECK(value_or_throw(markdown_of(program)).size() > 1000);
    CHECK(!torch_module_of(program).ok());
  }
}

}  // namespace
}  // namespace tessera
