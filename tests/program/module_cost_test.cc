// What modules move and hold: sums over rounds and copies, and what a planner says of moves that a
// program leaves open.
#include "program/module_cost.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_format.h"
#include "program/program_json.h"

namespace tessera {
namespace {

Program read(const std::string& values, const std::string& steps) {
  static const OpTable* const table = [] {
    auto* made = new OpTable;
    add_builtin_ops(*made);
    return made;
  }();
  const std::string text = R"({"version":1,"name":"t","source":{"kind":"program"},"ranks":4,)"
                           R"("meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[)" +
                           values + R"(],"steps":[)" + steps + "]}";
  return value_or_throw(read_program(text, "t.json", *table));
}
std::string value(const std::string& name, const std::string& placements,
                  const std::string& more = R"("role":"input")") {
  return absl::StrFormat(
      R"({"name":"%s","shape":[8,4],"dtype":"F32","mesh":"m","placements":%s,%s})", name,
      placements, more);
}
/// relu of a value that is moved to R before: 4 ranks get 3 parts of 32 bytes each.
std::string gathered_relu(const std::string& x, const std::string& out, const std::string& module) {
  return absl::StrFormat(
      R"({"redistribute":"%s","to":["R"],"out":"%s.r","implicit":true,"module":"%s"},)"
      R"({"op":"relu","args":["%s.r"],"out":[%s],"module":"%s"})",
      x, out, module, out,
      absl::StrFormat(R"({"name":"%s","shape":[8,4],"dtype":"F32","mesh":"m","placements":["R"]})",
                      out),
      module);
}

TEST_CASE("a module costs what its steps and the modules in it do", "[program][cost]") {
  const Program program =
      read(value("x", R"j(["S(0)"])j") + "," +
               value("w", R"j(["S(0)"])j", R"("role":"parameter","module":"model.mlp")"),
           gathered_relu("x", "y", "model.mlp") + "," + gathered_relu("w", "z", "model.mlp.up") +
               R"(,{"host_read":"z","bytes":4,"why":"loss"})");
  const ModuleCost all = value_or_throw(module_cost(program));
  CHECK(all.steps == 5);
  CHECK(all.host_reads == 1);
  CHECK(all.calls == 2);
  CHECK(all.bytes == Volume{192, 768});
  CHECK(all.implicit_bytes == all.bytes);
  CHECK(all.held_bytes == 64);
  REQUIRE(all.moves.size() == 1);
  CHECK(all.moves[0] == MoveTotal{"all_gather", "tp", true, 2, {192, 768}});
  const ModuleCost& mlp = *value_or_throw(find_module(all, "model.mlp"));
  CHECK(mlp.steps == 4);
  CHECK(mlp.held_bytes == 32);
  CHECK(mlp.values == std::vector<int>{1});
  CHECK(value_or_throw(find_module(all, "model.mlp.up"))->bytes.max == 96);
  const std::vector<ModuleMoves> own = value_or_throw(moves_by_module(program));
  REQUIRE(own.size() == 2);
  for (const int i : {0, 1}) {
    CHECK(own[i].module == (i == 0 ? "model.mlp" : "model.mlp.up"));
    CHECK(own[i].moves == std::vector<MoveTotal>{{"all_gather", "tp", true, 1, {96, 384}}});
  }
  CHECK(value_or_throw(find_module(all, ""))->steps == 5);
  CHECK(message_of(find_module(all, "model.attn").status()) ==
        "no module \"attn\" in \"model\"; there are: mlp");
}

TEST_CASE("rounds and equal neighbours count as often as they run", "[program][cost]") {
  const Program rounds =
      read(value("x", R"j(["S(0)"])j"),
           R"({"repeat":3,"as":"layers","steps":[)" + gathered_relu("x", "y", "layers.*") + "]}");
  const ModuleCost repeated = value_or_throw(module_cost(rounds));
  CHECK(repeated.steps == 6);
  CHECK(repeated.bytes == Volume{288, 1152});
  CHECK(value_or_throw(find_module(repeated, "layers.*"))->calls == 3);

  std::string steps;
  for (int layer = 0; layer < 4; ++layer) {
    if (layer > 0) steps += ",";
    steps += gathered_relu("x", absl::StrFormat("y%d", layer), absl::StrFormat("layers.%d", layer));
  }
  // The last one differs: it reads its result.
  steps += R"(,{"host_read":"y3","bytes":4,"why":"loss","module":"layers.3"})";
  const ModuleCost all = value_or_throw(module_cost(read(value("x", R"j(["S(0)"])j"), steps)));
  const ModuleCost& layers = all.inside.at(0);
  REQUIRE(layers.inside.size() == 2);
  CHECK(layers.inside[0].name == "0-2");
  CHECK(layers.inside[0].copies == 3);
  CHECK(layers.inside[0].bytes == Volume{288, 1152});
  CHECK(layers.inside[1].name == "3");
  CHECK(layers.bytes == Volume{384, 1536});
  CHECK(value_or_throw(find_module(all, "layers.1")) == &layers.inside[0]);
  CHECK(find_module(all, "layers.4").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("no rank holds more of a value than is said", "[program][cost]") {
  Program program = read(value("x", "null"), "");
  ProgramValue& x = program.values[0];
  program.meshes[0].mesh = value_or_throw(Mesh::make(Shape{2, 3}, {"dp", "tp"}, 5));
  const Mesh& mesh = program.meshes[0].mesh;
  const std::vector<Placements> placed = {{Shard{0}, Shard{0}},
                                          {Shard{0}, Shard{1}},
                                          {StridedShard{0, 3}, Shard{0}},
                                          {Replicate{}, Shard{1}},
                                          {Shard{1}, Replicate{}}};
  for (const Placements& placements : placed) {
    for (std::int64_t rows = 0; rows < 14; ++rows) {
      x.global_shape = {rows, 5};
      const Spec spec = value_or_throw(Spec::make(mesh, x.global_shape, x.dtype, placements));
      x.layout = spec.layout();
      std::int64_t most = 0;
      for (std::int64_t rank = 5; rank < 11; ++rank) {
        most = std::max(most, num_elements(spec.local_shape(*mesh.coord_of(rank))) * 4);
      }
      CHECK(value_or_throw(held_bytes(program, x)) == most);
    }
  }
}

TEST_CASE("what has no placements yet is counted apart", "[program][cost]") {
  const Program program =
      read(value("x", "null"),
           R"({"redistribute":"x","to":["R"],"out":"y"},{"redistribute":"y","to":null,"out":"z"})");
  const ModuleCost all = value_or_throw(module_cost(program));
  CHECK(all.unplaced_moves == 2);
  CHECK(all.calls == 0);
  CHECK(value_or_throw(held_bytes(program, program.values[0])) == 128);
}

TEST_CASE("a program of too many modules is refused before they take memory", "[program][cost]") {
  std::string steps;
  for (int i = 0; i < 5000; ++i) {
    const std::string under = absl::StrFormat(".a%d", i);
    std::string path = absl::StrFormat("m%d", i);
    for (int depth = 1; depth < 32; ++depth) path += under;
    steps += absl::StrFormat(R"(%s{"host_read":"x","bytes":4,"why":"","module":"%s"})",
                             i > 0 ? "," : "", path);
  }
  CHECK(message_of(module_cost(read(value("x", "null"), steps)).status()) ==
        "the program has more than 100000 modules");
}

TEST_CASE("sums that pass 2^63 are an error", "[program][cost]") {
  const std::string huge =
      R"({"region":"r","args":[],"out":[],"moves":[{"collective":"all_gather","axes":["tp"],)"
      R"("ranks":4,"bytes":{"max":9000000000000000000,"total":9000000000000000000}}]})";
  const Program program = read("", R"({"repeat":2,"as":"l","steps":[)" + huge + "]}");
  CHECK(message_of(module_cost(program).status()) ==
        "the program's bytes received come to more than 2^63");
}

}  // namespace
}  // namespace tessera
