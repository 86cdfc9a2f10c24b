#include <chrono>
#include <map>
#include <sstream>

#include "io/json.h"
#include "io/placement_json.h"
#include "tests/support/patience.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::count_of;
using testing::Ran;
using testing::run_program;

Ran plan(const std::string& input, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "plan");
  return run_program("placement-audit", arguments, input);
}

Json json_of(const Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  return *parse_json(ran.out, "stdout");
}

std::int64_t integer(const Json& json) { return *json.if_integer(); }
const Json::Array& array(const Json& json) { return *json.if_array(); }

const std::string kMesh = R"j("mesh":{"shape":[2,2],"axes":["dp","tp"]})j";
// FSDP over TP of 8 rows: ranks 0, 1, 2, 3 hold rows 0-1, 4-5, 2-3, 6-7. Of their quarters of 4 x
// 3, ranks 0 and 3 lack one part of 2 x 3, ranks 1 and 2 both parts: 24 bytes each.
const std::string kStrided =
    "{" + kMesh + R"j(,"tensor":{"shape":[8,6]},"src":["SS(0,2)","S(0)"],"dst":["S(0)","S(1)"]})j";

TEST_CASE("plan prints the design's JSON", "[tools][plan]") {
  const Ran ran = plan(kStrided);
  CHECK(ran.err.empty());
  CHECK(ran.exit_code == 0);
  const std::string start =
      R"j({"steps":[{"collective":"exchange","axes":["dp","tp"],"bytes_received":{"max":48,"total":144},)j"
      R"j("messages":6,"messages_max":2,"estimated_us":null,"in_place":false,"placements":["S(0)","S(1)"]}],)j"
      R"j("bytes_received":{"max":48,"total":144},"lower_bound":{"max":48,"total":144},"ratio":1.0,)j"
      R"j("peak_local_bytes":)j";
  CHECK_THAT(ran.out, Catch::StartsWith(start));
  CHECK_THAT(ran.out, Catch::EndsWith(R"j(,"messages":6,"messages_max":2,"estimated_us":null})j"
                                      "\n"));
  // Source and target are 48 bytes each; the target is the only other array.
  CHECK(integer(*json_of(ran).find("peak_local_bytes")) >= 96);
}

TEST_CASE("plan prices by a preset or by links of one's own", "[tools][plan]") {
  const auto request = [](const std::string& topology) {
    return "{" + kMesh +
           R"j(,"tensor":{"shape":[1024,1024]},"src":["S(0)","R"],"dst":["S(1)","R"],"topology":)j" +
           topology + "}";
  };
  // One message of 1 MiB: half of a rank's 2 MiB.
  const Json own = json_of(plan(request(R"j({"links":[{"latency_us":7,"gb_per_s":0.5}]})j")));
  CHECK(*own.find("estimated_us")->if_number() == Approx(7 + 1048576 / 0.5e3));
  const Json stepped =
      json_of(plan(request(R"j({"step_us":30,"links":[{"latency_us":7,"gb_per_s":0.5}]})j")));
  CHECK(*stepped.find("estimated_us")->if_number() == Approx(37 + 1048576 / 0.5e3));
  const Json slower = json_of(plan(request(
      R"j({"links":[{"name":"near","ranks":2,"latency_us":1,"gb_per_s":100},{"name":"far","latency_us":9,"gb_per_s":0.25}]})j")));
  CHECK(*slower.find("estimated_us")->if_number() == Approx(9 + 1048576 / 0.25e3));
  for (const char* preset : {R"("host")", R"("node8")", R"("cluster")"}) {
    CHECK(*json_of(plan(request(preset))).find("estimated_us")->if_number() > 0);
  }
}

TEST_CASE("a plan that moves nothing says so", "[tools][plan]") {
  const std::string same =
      "{" + kMesh + R"j(,"tensor":{"shape":[8,6]},"src":["S(0)","R"],"dst":["S(0)","R"]})j";
  const Json json = json_of(plan(same));
  CHECK(array(*json.find("steps")).empty());
  CHECK(json.find("bytes_received")->to_string() == R"j({"max":0,"total":0})j");
  CHECK(json.find("ratio")->to_string() == "1.0");
  CHECK_THAT(plan(same, {"--format", "text"}).out, Catch::Contains("no bytes move"));
  CHECK_THAT(plan(same, {"--format", "svg"}).out, Catch::Contains("nothing to do"));
  // The same ranks seen as another mesh: index sets agree.
  const Json seen = json_of(plan(
      "{" + kMesh +
      R"j(,"tensor":{"shape":[8,6]},"src":["S(0)","S(0)"],"dst":["S(0)"],"dst_mesh":{"shape":[4]}})j"));
  CHECK(seen.find("bytes_received")->to_string() == R"j({"max":0,"total":0})j");
}

TEST_CASE("--per-rank lists who reads what from whom", "[tools][plan]") {
  const Ran ran = plan(
      R"j({"mesh":{"shape":[2]},"tensor":{"shape":[2,3],"dtype":"F64"},"src":["S(0)"],"dst":["R"]})j",
      {"--per-rank"});
  const Json json = json_of(ran);
  const Json::Array& ranks = array(*json.find("ranks"));
  REQUIRE(ranks.size() == 2);
  CHECK_THAT(
      ranks[0].to_string(),
      Catch::StartsWith(
          R"j({"rank":0,"bytes_received":24,"bytes_sent":24,"messages":1,"peak_local_bytes":)j"));
  CHECK(
      ranks[0].find("reads")->to_string() ==
      R"j([{"step":0,"from":0,"bytes":24,"global":[[[0,1]],[[0,3]]],"source":[[[0,1]],[[0,3]]],"target":[[[0,1]],[[0,3]]]},)j"
      R"j({"step":0,"from":1,"bytes":24,"global":[[[1,2]],[[0,3]]],"source":[[[0,1]],[[0,3]]],"target":[[[1,2]],[[0,3]]]}])j");
}

// ---- the lists of --per-rank, carried out

using Index = std::vector<std::int64_t>;

// All indices of a box: per dim a list of [start, stop).
std::vector<Index> indices_of(const Json& box) {
  std::vector<Index> indices = {{}};
  for (const Json& dim : array(box)) {
    std::vector<Index> longer;
    for (const Index& index : indices) {
      for (const Json& interval : array(dim)) {
        for (std::int64_t i = integer(array(interval)[0]); i < integer(array(interval)[1]); ++i) {
          longer.push_back(index);
          longer.back().push_back(i);
        }
      }
    }
    indices = std::move(longer);
  }
  return indices;
}

/// A rank's local array: elements by local index; the value says which global element it is, and of
/// how many contributors it is the sum.
struct Element {
  Index global;
  int summands = 1;
  bool operator==(const Element&) const = default;
};
using LocalArray = std::map<Index, Element>;

LocalArray array_of(const Spec& spec, std::int64_t rank) {
  LocalArray local;
  const std::optional<Coord> coord = spec.mesh().coord_of(rank);
  if (!coord) return local;
  Json::Array box;
  for (const std::int64_t size : spec.local_shape(*coord)) {
    box.push_back(Json::array({Json::array({0, size})}));
  }
  for (const Index& index : indices_of(Json(std::move(box)))) {
    Element element;
    for (std::size_t d = 0; d < index.size(); ++d) {
      element.global.push_back(local_to_global(spec.mesh(), spec.global_shape()[d],
                                               spec.layout().dims[d], *coord, index[d]));
    }
    local[index] = element;
  }
  return local;
}

// Every rank's array after the steps, by nothing but the lists.
std::map<std::int64_t, LocalArray> carry_out(const Json& plan, const Spec& src) {
  std::map<std::int64_t, LocalArray> arrays;
  for (const Json& rank : array(*plan.find("ranks"))) {
    arrays[integer(*rank.find("rank"))] = array_of(src, integer(*rank.find("rank")));
  }
  const Json::Array& steps = array(*plan.find("steps"));
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const bool in_place = *steps[step].find("in_place")->if_bool();
    std::map<std::int64_t, LocalArray> next;
    if (in_place) next = arrays;
    for (const Json& rank : array(*plan.find("ranks"))) {
      LocalArray& target = next[integer(*rank.find("rank"))];
      for (const Json& read : array(*rank.find("reads"))) {
        if (integer(*read.find("step")) != static_cast<std::int64_t>(step)) continue;
        const LocalArray& source = arrays.at(integer(*read.find("from")));
        const auto from = indices_of(*read.find("source")), to = indices_of(*read.find("target")),
                   global = indices_of(*read.find("global"));
        const Json* contributor = read.find("contributor");
        for (std::size_t i = 0; i < from.size(); ++i) {
          const Element& element = source.at(from[i]);
          if (element.global != global[i]) throw std::runtime_error("another element than told");
          if (contributor != nullptr && integer(*contributor) > 0) {
            target.at(to[i]).summands += element.summands;
          } else if (!target.emplace(to[i], element).second) {
            throw std::runtime_error("an element is written twice");
          }
        }
      }
    }
    arrays = std::move(next);
  }
  return arrays;
}

TEST_CASE("the lists of --per-rank carry out the plan", "[tools][plan]") {
  struct Case {
    std::string mesh, dst_mesh, shape, src, dst;
    int summands = 1;
  };
  const std::string three = R"j({"shape":[3]})j",
                    two_two = R"j({"shape":[2,2],"axes":["dp","tp"]})j";
  const Case cases[] = {
      {two_two, two_two, "[7,5]", R"j(["SS(0,2)","S(0)"])j", R"j(["S(1)","S(0)"])j"},
      {two_two, two_two, "[8,6]", R"j(["R","SS(0,2)"])j", R"j(["S(0)","R"])j"},
      {three, three, "[12]", R"j({"dims":[["0%3"]]})j", R"j({"dims":[["/2",0]]})j"},
      {three, three, "[10]", R"j(["P(sum)"])j", R"j(["R"])j", 3},
      {two_two, two_two, "[6,4]", R"j(["P(sum)","R"])j", R"j(["R","R"])j", 2},
      {two_two, two_two, "[9,4]", R"j(["P(sum)","P(sum)"])j", R"j(["S(0)","R"])j", 4},
      {three, R"j({"shape":[2,2],"first_rank":1})j", "[5,4]", R"j(["S(0)"])j", R"j(["S(1)","R"])j"},
      {two_two, R"j({"shape":[3],"first_rank":4})j", "[7]", R"j(["P(sum)","S(0)"])j", R"j(["R"])j",
       2},
  };
  for (const Case& each : cases) {
    const std::string input = R"j({"mesh":)j" + each.mesh + R"j(,"dst_mesh":)j" + each.dst_mesh +
                              R"j(,"tensor":{"shape":)j" + each.shape + R"j(},"src":)j" + each.src +
                              R"j(,"dst":)j" + each.dst + "}";
    CAPTURE(input);
    const Json json = json_of(plan(input, {"--per-rank"}));
    const JsonDocument document = *JsonDocument::parse(input, "request");
    const JsonView request = document.root();
    const auto spec_of = [&](std::string_view mesh_key, std::string_view layout_key) {
      const Mesh mesh = *read_mesh(*request.find(mesh_key));
      const auto tensor = *read_tensor_type(*request.find("tensor"));
      return *Spec::make(mesh, tensor.global_shape, tensor.dtype,
                         *read_placements_or_layout(*request.find(layout_key), mesh,
                                                    view_of(tensor.global_shape)));
    };
    const Spec dst = spec_of("dst_mesh", "dst");
    std::int64_t received = 0;
    for (const auto& [rank, local] : carry_out(json, spec_of("mesh", "src"))) {
      LocalArray expected = array_of(dst, rank);
      for (auto& [index, element] : expected) element.summands = each.summands;
      CAPTURE(rank);
      CHECK(local == expected);
    }
    for (const Json& rank : array(*json.find("ranks"))) {
      std::int64_t read = 0;
      for (const Json& box : array(*rank.find("reads"))) {
        if (*box.find("from") != *rank.find("rank")) read += integer(*box.find("bytes"));
      }
      CHECK(read == integer(*rank.find("bytes_received")));
      received += read;
    }
    CHECK(received == integer(*json.find("bytes_received")->find("total")));
  }
}

// ---- for people

TEST_CASE("plan prints a table for a terminal", "[tools][plan]") {
  const Ran ran = plan(kStrided, {"--format", "text"});
  CHECK(ran.err.empty());
  CHECK_THAT(ran.out, Catch::StartsWith(
                          R"(F32[8, 6] on {dp: 2, tp: 2}: (SS(0,2), S(0)) → (S(0), S(1))
priced by bytes received, then messages

 step  collective  axes   bytes per rank  in all  of bound  messages per rank  leads to
    1  exchange    dp,tp            48 B   144 B     1.000                  2  (S(0), S(1))
  all                               48 B   144 B     1.000                  2
bound                               48 B   144 B

48 B received by the busiest rank, 144 B by all: 1.000 times the fewest possible; a rank holds up to )"));
  CHECK(ran.out.find('\x1b') == std::string::npos);  // colours are for terminals only
  const Ran ranks = plan(kStrided, {"--format", "text", "--per-rank"});
  CHECK_THAT(ranks.out, Catch::Contains("\n   1      48 B  48 B         2 "));
  CHECK_THAT(ranks.out, Catch::Contains("  0,2\n"));
}

// The names of all elements in order, ends as "/name"; empty where the text is no well-formed XML.
std::vector<std::string> elements_of(const std::string& xml) {
  std::vector<std::string> names, open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const std::string entity = xml.substr(at, xml.find(';', at) + 1 - at);
      if (entity != "&lt;" && entity != "&gt;" && entity != "&amp;" && entity != "&quot;" &&
          entity != "&#39;") {
        return {};
      }
    }
    if (xml[at] == '>') return {};  // those of tags are passed over below
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return {};
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.find('<') != std::string::npos || tag.starts_with('?')) {
      if (tag.starts_with('?')) continue;
      return {};
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return {};
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    names.push_back(name);
    if (name.starts_with('/')) {
      if (open.empty() || '/' + open.back() != name) return {};
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty() ? names : std::vector<std::string>{};
}

TEST_CASE("the picture shows who sends which block to whom", "[tools][plan]") {
  const Ran ran = plan(kStrided, {"--format", "svg"});
  REQUIRE(ran.exit_code == 0);
  const std::vector<std::string> elements = elements_of(ran.out);
  REQUIRE_FALSE(elements.empty());
  CHECK(elements.front() == "svg");
  // What was worked out by hand above, message by message.
  for (const char* message :
       {"rank 2 to rank 0: 24 B", "rank 0 to rank 1: 24 B", "rank 2 to rank 1: 24 B",
        "rank 1 to rank 2: 24 B", "rank 3 to rank 2: 24 B", "rank 1 to rank 3: 24 B"}) {
    // Rank 1 takes rows 0-3 of the right half, rank 2 rows 4-7 of the left one.
    CAPTURE(message);
    CHECK(count_of(ran.out, std::string("<title>") + message + "</title>") == 1);
  }
  CHECK(count_of(ran.out, " to rank ") == 6);
  CHECK(count_of(ran.out, "<title>[2-3, 0-2] of rank 0: from 2</title>") == 1);
  CHECK(count_of(ran.out, "<title>[0-1, 0-2] of rank 0: its own</title>") == 1);
  CHECK(count_of(ran.out, "<title>[4-5, 0-5]: held by 1</title>") == 1);
}

TEST_CASE("pictures of more ranks show the matrix, at last of blocks of ranks", "[tools][plan]") {
  const auto picture = [](int ranks) {
    const Ran ran =
        plan(R"j({"mesh":{"shape":[)j" + std::to_string(ranks) +
                 R"j(]},"tensor":{"shape":[4096,4096]},"src":["S(0)"],"dst":["S(1)"]})j",
             {"--format", "svg"});
    REQUIRE(ran.exit_code == 0);
    REQUIRE_FALSE(elements_of(ran.out).empty());
    return ran.out;
  };
  CHECK(count_of(picture(16), "held by") == 16);
  CHECK(count_of(picture(64), "held by") == 0);
  CHECK(count_of(picture(64), "rank 63 to rank 5: 16.00 KiB") == 1);
  const std::string many = picture(512);
  CHECK(count_of(many, "a cell is 8 x 8 ranks") == 1);
  // Of 8 x 8 pairs of ranks, 8 x 8 elements each.
  CHECK(count_of(many, "<title>ranks 504-511 to ranks 0-7: 16.00 KiB</title>") == 1);
  CHECK(count_of(many, "<title>ranks 0-7 to ranks 0-7: 14.00 KiB</title>") == 1);
}

TEST_CASE("what has no blocks to draw still has a picture", "[tools][plan]") {
  for (const char* tensor_and_route :
       {R"j("tensor":{"shape":[4,4,4]},"src":["S(0)","R"],"dst":["S(2)","S(1)"])j",
        R"j("tensor":{"shape":[]},"src":["P(sum)","P(sum)"],"dst":["R","R"])j",
        R"j("tensor":{"shape":[0,4]},"src":["P(sum)","S(0)"],"dst":["R","R"])j",
        R"j("tensor":{"shape":[4,1024]},"src":["SS(1,2)","S(1)"],"dst":["R","R"])j",
        R"j("tensor":{"shape":[4096]},"src":{"dims":[["/1","tp"]]},"dst":["S(0)","R"])j"}) {
    CAPTURE(tensor_and_route);
    for (const char* format : {"svg", "text", "json", "html"}) {
      const Ran ran = plan("{" + kMesh + "," + tensor_and_route + "}", {"--format", format});
      CHECK(ran.exit_code == 0);
      CHECK(ran.err.empty());
    }
    const Ran svg = plan("{" + kMesh + "," + tensor_and_route + "}", {"--format", "svg"});
    CHECK_FALSE(elements_of(svg.out).empty());
  }
  const Ran plain = plan(R"j({"mesh":{"shape":[]},"tensor":{"shape":[4]},"src":[],"dst":[]})j",
                         {"--format", "text", "--per-rank"});
  CHECK(plain.exit_code == 0);
}

TEST_CASE("the page holds tables and picture, and needs nothing else", "[tools][plan]") {
  const Ran ran = plan(kStrided, {"--format", "html", "--per-rank"});
  REQUIRE(ran.exit_code == 0);
  CHECK_THAT(ran.out, Catch::StartsWith("<!DOCTYPE html>"));
  CHECK(count_of(ran.out, "<table>") == 2);
  CHECK(count_of(ran.out, "<svg ") == 1);
  CHECK(count_of(ran.out, "<td>0,2</td>") == 1);
  CHECK(count_of(ran.out, "<script") == 0);
  CHECK(count_of(ran.out, "http") == 1);  // the name of SVG's namespace
  CHECK(count_of(ran.out, "<h1>") == 1);
}

TEST_CASE("a page of 1,200 pixels shows the whole picture of up to 64 ranks", "[tools][plan]") {
  const std::string tensor = R"j("tensor":{"shape":[64,64]},"src":["S(0)"],"dst":["S(1)"]})j";
  for (const int ranks : {2, 8, 9, 16, 17, 64}) {
    INFO(ranks);
    const std::string mesh = R"j({"mesh":{"shape":[)j" + std::to_string(ranks) + "]},";
    const Ran ran = plan(mesh + tensor, {"--format", "html"});
    REQUIRE(ran.exit_code == 0);
    const std::string opening = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"";
    const std::size_t at = ran.out.find(opening);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(ran.out.substr(at + opening.size())) <= 1200 - 2 * 32);  // the page's margins
  }
}

// ---- refusals

TEST_CASE("plans that cannot be are one line on stderr and exit code 3", "[tools][plan]") {
  const std::string start = "{" + kMesh + R"j(,"tensor":{"shape":[8,6]},)j";
  const std::string route = R"j("src":["R","S(0)"],"dst":["S(0)","R"])j";
  const std::pair<std::string, std::string> cases[] = {
      {start + R"j("src":["R","R"]})j",
       "/: key \"dst\" is missing; allowed: mesh, tensor, src, dst, dst_mesh, topology, "
       "pack_bytes"},
      {start + route + R"j(,"from":1})j", "/: unknown key \"from\"; allowed: mesh, tensor, src, "},
      {start + R"j("src":["R"],"dst":["R","R"]})j",
       "/src: placements (R): 1 given, but the mesh has 2 axes"},
      {start + R"j("src":["R","R"],"dst":["S(2)","R"]})j", "/dst: placements (S(2), R): dim 2 is"},
      {start + R"j("src":["SS(0,3)","S(0)"],"dst":["R","R"]})j",
       "/src: placements (SS(0,3), S(0)): SS(0,3) on axis dp does not decode"},
      {start + R"j("src":"R","dst":["R","R"]})j", "/src: expected placements such as"},
      {start + R"j("src":["R","R"],"dst":["R","R"],"dst_mesh":{"shape":[3]}})j",
       "/dst: placements (R, R): 2 given, but the mesh has 1 axes"},
      {start + route + R"j(,"dst_mesh":{"shape":[2,2],"first_rank":9223372036854775804}})j",
       "/dst_mesh: mesh: ranks from 9223372036854775804 on exceed 2^63 - 1"},
      {start + route + R"j(,"pack_bytes":100})j",
       "/: redistribute: the cap of 100 bytes for packed messages is too small; among 4 ranks 6144 "
       "bytes are the least that would do"},
      {start + route + R"j(,"pack_bytes":-1})j",
       "/pack_bytes: expected an integer of at least 0, not -1"},
      {start + route + R"j(,"topology":"mars"})j",
       "/topology: topology \"mars\" is unknown; there are host, node8 and cluster"},
      {start + route + R"j(,"topology":7})j", "/topology: expected a preset such as \"node8\", or"},
      {start + route + R"j(,"topology":{"links":[]}})j", "/topology: topology: no link class"},
      {start + route + R"j(,"topology":{"links":[{"latency_us":1}]}})j",
       "/topology/links/0: key \"gb_per_s\" is missing"},
      {start + route + R"j(,"topology":{"links":[{"latency_us":1,"gb_per_s":0}]}})j",
       "/topology: topology: link class 0 (): gb_per_s is 0, which must be above 0"},
      {start + route +
           R"j(,"topology":{"links":[{"name":"a\u001b[31m","latency_us":-1,"gb_per_s":1}]}})j",
       "/topology: topology: link class 0 (a\\x1b[31m): latency_us is -1"},
      {R"j({"mesh":{"shape":[1024]},"tensor":{"shape":[1152921504606846975]},"src":["S(0)"],"dst":["R"]})j",
       "/: redistribute: 1024 ranks together would receive more than 2^63 - 1 bytes"},
      {R"j({"mesh":{"shape":[2]},"tensor":{"shape":[1152921504606846976,16],"dtype":"F64"},"src":["R"],"dst":["R"]})j",
       "/tensor/shape: "},
      {R"j({"mesh":{"shape":[2097152]},"tensor":{"shape":[4]},"src":["R"],"dst":["R"]})j",
       "/src: mesh {2097152} has 2097152 ranks; plans are shown for up to 1048576"},
      {R"j({"mesh":{"shape":[2]},"tensor":{"shape":[1099511627776]},"src":{"dims":[["/1",0]]},"dst":["R"]})j",
       "/src: dim 0 of F32[1099511627776]"},
  };
  for (const auto& [input, error] : cases) {
    for (const char* format : {"json", "svg"}) {
      const Ran ran = plan(input, {"--format", format});
      CAPTURE(input);
      CHECK(ran.exit_code == 3);
      CHECK(ran.out.empty());
      CHECK_THAT(ran.err, Catch::StartsWith("placement-audit: standard input: " + error));
      CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
    }
  }
  const Ran many =
      plan(R"j({"mesh":{"shape":[8192]},"tensor":{"shape":[8192]},"src":["S(0)"],"dst":["S(0)"]})j",
           {"--format", "svg"});
  CHECK(many.exit_code == 3);
  CHECK(many.err ==
        "placement-audit: standard input: /: 8192 ranks; a picture shows up to 4096: use --format "
        "json or text\n");
  const Ran lists = plan(
      R"j({"mesh":{"shape":[2048]},"tensor":{"shape":[2048,2048]},"src":["S(0)"],"dst":["S(1)"]})j",
      {"--per-rank"});
  CHECK(lists.exit_code == 3);
  CHECK(lists.out.empty());
  CHECK_THAT(lists.err, Catch::EndsWith("leave out --per-rank\n"));
  CHECK(plan("", {"--input", "/no/such/file.json"}).exit_code == 4);
  CHECK(plan(kStrided, {"--format", "pdf"}).exit_code == 2);
  CHECK(run_program("placement-audit", {"layout", "--format", "svg"}, kStrided).err ==
        "placement-audit: --format svg: not built for this command; allowed: json, text\n");
}

TEST_CASE("2,048 ranks are planned at once, the same bytes each time", "[tools][plan]") {
  // Each of 64 x 32 ranks turns its rows into columns: 2047 messages of 32 x 32 elements.
  const std::string input =
      R"j({"mesh":{"shape":[2048],"axes":["dp"]},"tensor":{"shape":[65536,65536]},"src":["S(0)"],"dst":["S(1)"],"topology":"cluster"})j";
  const auto begin = std::chrono::steady_clock::now();
  const Ran first = plan(input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds < testing::kSoonSeconds);  // 0.8 s here
  const Json json = json_of(first);
  CHECK(integer(*json.find("bytes_received")->find("max")) == 2047 * 32 * 32 * 4);
  CHECK(integer(*json.find("messages")) == 2048 * 2047);
  CHECK(*json.find("bytes_received") == *json.find("lower_bound"));
  CHECK(plan(input).out == first.out);
}

}  // namespace
}  // namespace tessera
