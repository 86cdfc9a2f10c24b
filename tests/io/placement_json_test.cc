#include "io/placement_json.h"

namespace tessera {
namespace {

JsonDocument placements_document(std::string_view text) {
  return value_or_throw(JsonDocument::parse(text, "in.json"));
}

Mesh mesh_of(std::string_view text) {
  const JsonDocument json = placements_document(text);
  const StatusOr<Mesh> mesh = read_mesh(json.root());
  INFO(mesh.status());
  REQUIRE(mesh.ok());
  return *mesh;
}

// What is read from `text` and written again, or the refusal.
std::string layout_round_trip(const Mesh& mesh, ShapeView shape, std::string_view text) {
  const JsonDocument json = placements_document(text);
  const auto layout = read_placements_or_layout(json.root(), mesh, shape);
  if (!layout.ok()) return std::string(message_of(layout.status()));
  return to_json(mesh, *layout).to_string();
}

TEST_CASE("a mesh is read and written alike, named or not", "[io][placement_json]") {
  for (const char* text : {R"j({"shape":[2,2],"axes":["dp","tp"]})j", R"j({"shape":[8]})j",
                           R"j({"shape":[]})j", R"j({"shape":[2,4],"first_rank":8})j"}) {
    CHECK(to_json(mesh_of(text)).to_string() == text);
  }
  CHECK(mesh_of(R"j({"axes":["dp","tp"],"shape":[2,3]})j").num_ranks() == 6);
}

TEST_CASE("a mesh that is none is refused with its place", "[io][placement_json]") {
  const auto refusal = [](std::string_view text) {
    const JsonDocument json = placements_document(text);
    const StatusOr<Mesh> mesh = read_mesh(json.root());
    REQUIRE_FALSE(mesh.ok());
    return std::string(message_of(mesh.status()));
  };
  CHECK(refusal(R"j({"shape":[2],"axis":["tp"]})j") ==
        "in.json: /: unknown key \"axis\"; allowed: shape, axes, first_rank");
  CHECK(refusal(R"j({"shape":[2,2],"axes":["tp"]})j") ==
        "in.json: /axes: 1 names for a mesh of 2 axes; name each, or none");
  CHECK(refusal(R"j({"shape":[2,"2"]})j") ==
        "in.json: /shape/1: expected an integer, not the string \"2\"");
  CHECK_THAT(refusal(R"j({"shape":[0]})j"), Catch::StartsWith("in.json: /: "));
  CHECK_THAT(refusal(R"j({"shape":[4294967296,4294967296]})j"), Catch::StartsWith("in.json: /: "));
  CHECK(refusal(R"j({"shape":[2],"first_rank":-1})j") ==
        "in.json: /first_rank: expected an integer of at least 0, not -1");
  CHECK_THAT(refusal(R"j({"shape":[2],"first_rank":9223372036854775807})j"),
             Catch::StartsWith("in.json: /: "));
  CHECK_THAT(refusal(R"j({"shape":[2,2],"axes":["tp","tp"]})j"), Catch::StartsWith("in.json: /: "));
  CHECK_THAT(refusal(R"j({"shape":[2],"axes":["t p"]})j"), Catch::StartsWith("in.json: /: "));
}

TEST_CASE("a tensor's dtype may be left out", "[io][placement_json]") {
  const JsonDocument json = placements_document(R"j({"shape":[8,6]})j");
  const auto tensor = read_tensor_type(json.root());
  REQUIRE(tensor.ok());
  CHECK(*tensor == TensorType{{8, 6}, DType::kF32});
  CHECK(to_json(*tensor).to_string() == R"j({"shape":[8,6],"dtype":"F32"})j");
  const JsonDocument bad = placements_document(R"j({"shape":[8,6],"dtype":"F33"})j");
  CHECK_THAT(std::string(message_of(read_tensor_type(bad.root()).status())),
             Catch::StartsWith("in.json: /dtype: "));
  const JsonDocument huge = placements_document(R"j({"shape":[4294967296,4294967296]})j");
  CHECK_THAT(std::string(message_of(read_tensor_type(huge.root()).status())),
             Catch::StartsWith("in.json: /shape: "));
}

TEST_CASE("placements and layouts of the design's table are read", "[io][placement_json]") {
  const Mesh mesh = mesh_of(R"j({"shape":[2,2],"axes":["dp","tp"]})j");
  const Shape five = {5}, twelve = {12};
  CHECK(layout_round_trip(mesh, view_of(five), R"j(["S(0)","S(0)"])j") ==
        R"j({"dims":[["dp","tp"]]})j");
  CHECK(layout_round_trip(mesh, view_of(five), R"j(["SS(0,2)","S(0)"])j") ==
        R"j({"dims":[["tp","dp"]]})j");
  CHECK(layout_round_trip(mesh, view_of(five), R"j(["_S(0, 2)","S(-1)"])j") ==
        R"j({"dims":[["tp","dp"]]})j");
  CHECK(layout_round_trip(mesh, view_of(twelve), R"j(["R","SS(0,3)"])j") ==
        R"j({"dims":[["3*","tp"]]})j");
  CHECK(layout_round_trip(mesh, view_of(five), R"j(["P(sum)","P(max)"])j") ==
        R"j({"dims":[[]],"partial":{"dp":"sum","tp":"max"}})j");
  for (const char* text : {R"j({"dims":[["tp","dp"]]})j",
                           R"j({"dims":[["tp"]],"partial":{"dp":"avg"}})j", R"j({"dims":[[]]})j"}) {
    CHECK(layout_round_trip(mesh, view_of(five), text) == text);
  }
}

TEST_CASE("axes without a name are integers, with a grain text", "[io][placement_json]") {
  const Mesh mesh = mesh_of(R"j({"shape":[3,2]})j");
  const Shape twelve = {12, 4};
  for (const char* text :
       {R"j({"dims":[["0%3"],[1]]})j", R"j({"dims":[[1],[]],"partial":{"0":"sum"}})j"}) {
    CHECK(layout_round_trip(mesh, view_of(twelve), text) == text);
  }
}

TEST_CASE("a spec without a placement list is written as a layout", "[io][placement_json]") {
  const Mesh mesh = mesh_of(R"j({"shape":[3],"axes":["tp"]})j");
  Layout layout{.dims = {{Level::of_axis(0, 3)}}, .partial = {std::nullopt}};
  Json grained{Json::Object()};
  add_placements(grained, *Spec::make(mesh, {12}, DType::kF32, layout));
  CHECK(grained.to_string() == R"j({"layout":{"dims":[["tp%3"]]}})j");
  Json plain{Json::Object()};
  add_placements(plain, *Spec::make(mesh, {12}, DType::kF32, Placements{Shard{0}}));
  CHECK(plain.to_string() == R"j({"placements":["S(0)"]})j");
}

TEST_CASE("what does not decode is refused at its place", "[io][placement_json]") {
  const Mesh mesh = mesh_of(R"j({"shape":[2,2],"axes":["dp","tp"]})j");
  const Shape shape = {8, 6};
  const std::pair<const char*, const char*> cases[] = {
      {R"j(["S(0)"])j", "in.json: /: "},
      {R"j(["S(0)","S(2)"])j", "in.json: /: "},
      {R"j(["S(0)","Q"])j", "in.json: /1: "},
      {R"j(["S(0)",1])j", "in.json: /1: expected a string, not 1"},
      {R"j(["S(0)","P(median)"])j", "in.json: /1: "},
      {"\"R\"", "in.json: /: expected placements such as [\"S(0)\",\"R\"], or a layout"},
      {R"j({"dims":[["dp"],["dp"]]})j", "in.json: /: "},
      {R"j({"dims":[["dp"]]})j", "in.json: /: "},
      {R"j({"dims":[["cp"],[]]})j", "in.json: /dims/0/0: "},
      {R"j({"dims":[[2],[]]})j", "in.json: /dims/0/0: "},
      {R"j({"dims":[[1.5],[]]})j", "in.json: /dims/0/0: expected a level such as"},
      {R"j({"dims":[["0*"],[]]})j", "in.json: /dims/0/0: "},
      {R"j({"dims":[[],[]],"partial":{"cp":"sum"}})j", "in.json: /partial: "},
      {R"j({"dims":[[],[]],"partial":{"dp":"median"}})j", "in.json: /partial/dp: "},
      {R"j({"dims":[[],[]],"partial":{"dp":"sum","0":"sum"}})j",
       "in.json: /partial/0: the axis is Partial already"},
      {R"j({"dims":[["dp"],[]],"partial":{"dp":"sum"}})j", "in.json: /: "},
      {R"j({"dims":[[],[]],"levels":[]})j",
       "in.json: /: unknown key \"levels\"; allowed: dims, partial"},
  };
  for (const auto& [text, start] : cases) {
    CAPTURE(text);
    CHECK_THAT(layout_round_trip(mesh, view_of(shape), text), Catch::StartsWith(start));
  }
}

TEST_CASE("a name from a file cannot steer the terminal that shows the error",
          "[io][placement_json]") {
  const Mesh mesh = mesh_of(R"j({"shape":[2],"axes":["tp"]})j");
  const std::vector<std::int64_t> shape = {4};
  for (const char* text : {R"j(["\u001b[31mR\u007f"])j", R"j({"dims":[["\u001b]0;x\u0007"]]})j",
                           R"j({"dims":[[]],"partial":{"t\u001bp\u007f":"sum"}})j",
                           R"j({"dims":[[]],"partial":{"tp":"\r"}})j"}) {
    const std::string refusal = layout_round_trip(mesh, shape, text);
    CAPTURE(text, refusal);
    CHECK_THAT(refusal, Catch::StartsWith("in.json: /") && Catch::Contains("\\"));
    CHECK(std::all_of(refusal.begin(), refusal.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7F; }));
  }
}

}  // namespace
}  // namespace tessera
