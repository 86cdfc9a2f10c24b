// What planning refuses, and what it says.
#include "placement/plan_cost.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

template <class T>
std::string text_of(const StatusOr<T>& made) {
  return std::string(message_of(made.status()));
}

}  // namespace

TEST_CASE("a plan changes neither shape nor dtype", "[redistribute][refused]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const auto shapes = plan(spec_of(mesh, {4, 6}, "R, S(0)"), spec_of(mesh, {6, 4}, "R, S(0)"));
  CHECK(absl::IsInvalidArgument(shapes.status()));
  CHECK(text_of(shapes) ==
        "redistribute: shapes differ; a redistribution changes placements only [from F64[4, 6] "
        "(R, S(0)) on {dp: 2, tp: 2}, to F64[6, 4] (R, S(0)) on {dp: 2, tp: 2}]");
  const auto dtypes =
      plan(spec_of(mesh, {4}, "R, R"), spec_of(mesh_of({4}), {4}, "S(0)", DType::kBF16));
  CHECK(absl::IsInvalidArgument(dtypes.status()));
  CHECK(text_of(dtypes) ==
        "redistribute: dtypes differ; a redistribution changes placements only [from F64[4] (R, R) "
        "on {dp: 2, tp: 2}, to BF16[4] (S(0)) on {4}]");
}

TEST_CASE("placements that do not fit their mesh or shape have no spec to plan for",
          "[redistribute][refused]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const auto text = [&](const Shape& shape, const char* placements) {
    return text_of(
        Spec::make(mesh, shape, DType::kF32, value_or_throw(parse_placements(placements))));
  };
  CHECK(text({8}, "S(0)") ==
        "placements (S(0)): 1 given, but the mesh has 2 axes; give one per axis [mesh {dp: 2, tp: "
        "2}, shape [8]]");
  CHECK(text({8}, "S(1), R") ==
        "placements (S(1), R): dim 1 is out of range for a tensor of 1 dims; allowed are -1 to 0 "
        "[mesh {dp: 2, tp: 2}, shape [8]]");
}

TEST_CASE("a split factor that does not decode is refused by name", "[redistribute][refused]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const auto made =
      Spec::make(mesh, {12, 4}, DType::kF32, value_or_throw(parse_placements("SS(0,5), SS(0,3)")));
  CHECK(absl::IsInvalidArgument(made.status()));
  CHECK(text_of(made) ==
        "placements (SS(0,5), SS(0,3)): SS(0,5) on axis dp does not decode: the axes to its right "
        "cut dim 0 as [3*, tp], and no position in that list has the split factor 5 [mesh {dp: 2, "
        "tp: 3}, shape [12, 4]]");
}

TEST_CASE("a cap below what any plan needs names the least that would do",
          "[redistribute][refused]") {
  const Spec src = spec_of(mesh_of({4}, {"dp"}), {8}, "S(0)");
  const Spec dst = spec_of(mesh_of({4}, {"dp"}), {8}, "R");
  const std::int64_t least = least_pack_bytes(4);
  const auto made = plan(src, dst, {.pack_bytes = least - 1});
  CHECK(absl::IsInvalidArgument(made.status()));
  CHECK(text_of(made) ==
        "redistribute: the cap of 6143 bytes for packed messages is too small; among 4 ranks 6144 "
        "bytes are the least that would do [from F64[8] (S(0)) on {dp: 4}, to F64[8] (R) on {dp: "
        "4}]");
  CHECK(plan(src, dst, {.pack_bytes = least}).ok());
  CHECK(!plan(src, dst, {.pack_bytes = 0}).ok());
  CHECK(!plan(src, dst, {.pack_bytes = -1}).ok());
  // Between meshes the group is every rank of either.
  const Spec apart =
      value_or_throw(Spec::make(value_or_throw(Mesh::make(std::vector<std::int64_t>{4}, {}, 4)),
                                {8}, DType::kF64, Placements{Replicate{}}));
  CHECK(!plan(src, apart, {.pack_bytes = least}).ok());
  CHECK(plan(src, apart, {.pack_bytes = least_pack_bytes(8)}).ok());
}

TEST_CASE("a topology that makes no sense is refused", "[redistribute][refused]") {
  const Spec src = spec_of(mesh_of({4}), {8}, "S(0)");
  const Spec dst = spec_of(mesh_of({4}), {8}, "R");
  const Topology none{.name = "none"};
  CHECK(text_of(plan(src, dst, {.topology = &none})) ==
        "topology: no link class; state one at least, the last with ranks 0");
}

TEST_CASE("sizes beyond 2^63 - 1 are refused before anything is planned",
          "[redistribute][refused]") {
  const Mesh mesh = mesh_of({16}, {"dp"});
  const std::int64_t big = std::int64_t{1} << 31;
  const auto bytes = Spec::make(mesh, {big, big, 2}, DType::kBool, Placements{Shard{0}});
  CHECK(absl::IsOutOfRange(bytes.status()));
  CHECK(text_of(bytes) == "shape [2147483648, 2147483648, 2] has more than 2^63 - 1 elements");
  CHECK(text_of(Spec::make(mesh, {big, big}, DType::kF64, Placements{Shard{0}})) ==
        "a tensor of shape [2147483648, 2147483648] and dtype F64 exceeds 2^62 bytes");
  // One tensor fits; what 16 ranks receive together does not.
  const Spec src = spec_of(mesh, {big, big}, "S(0)", DType::kBool);
  const auto sum = plan(src, spec_of(mesh, {big, big}, "R", DType::kBool));
  CHECK(absl::IsOutOfRange(sum.status()));
  CHECK(text_of(sum) ==
        "redistribute: 16 ranks together would receive more than 2^63 - 1 bytes [from "
        "BOOL[2147483648, 2147483648] (S(0)) on {dp: 16}, to BOOL[2147483648, 2147483648] (R) on "
        "{dp: 16}]");
  CHECK(plan(src, spec_of(mesh, {big, big}, "S(1)", DType::kBool)).ok());
}
