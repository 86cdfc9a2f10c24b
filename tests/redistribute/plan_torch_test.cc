// Pairs on which torch 2.15's DTensor gives wrong values or raises, by name.
#include "tests/redistribute/judge.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

std::string judged(const Mesh& mesh, const Shape& shape, const char* from, const char* to) {
  judge::HeldCache cache;
  return judge::judge(spec_of(mesh, shape, from), spec_of(mesh, shape, to), cache);
}

}  // namespace

TEST_CASE("nested strided shards that torch gets wrong", "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  CHECK(judged(mesh, {8, 8}, "R, S(0)", "S(0), SS(0,2)") == "");
  CHECK(judged(mesh, {8, 8}, "R, S(1)", "SS(0,2), SS(0,2)") == "");
  CHECK(judged(mesh, {8, 8}, "S(0), R", "S(1), SS(0,2)") == "");
}

TEST_CASE("distributing (SS(0,2), SS(0,2)) and gathering back keeps the rows in order",
          "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  CHECK(judged(mesh, {8, 8}, "R, R", "SS(0,2), SS(0,2)") == "");
  CHECK(judged(mesh, {8, 8}, "SS(0,2), SS(0,2)", "R, R") == "");
}

TEST_CASE("all pairs over {R, S(0), S(1), SS(0,2)} on 2x2, of which torch gets 330 cases wrong",
          "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2});
  const Placements choices{Replicate{}, Shard{0}, Shard{1}, StridedShard{0, 2}};
  judge::HeldCache cache;
  int pairs = 0;
  for (const Shape& shape : {Shape{8, 8}, Shape{5, 3}, Shape{7, 4}}) {
    judge::SpecSet set(mesh, shape);
    for (const Placements& list : judge::products_of(choices, 2)) set.add(list);
    const std::vector<Spec> specs = set.take();
    for (const Spec& src : specs) {
      for (const Spec& dst : specs) {
        ++pairs;
        REQUIRE(judge::judge(src, dst, cache) == "");
      }
    }
  }
  CHECK(pairs > 500);
}

TEST_CASE("(5, 3) as (S(0), S(0)) gathers with row 4, also over a flattened mesh",
          "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Mesh flat = value_or_throw(mesh.flatten(0, 2, "all"));
  CHECK(judged(mesh, {5, 3}, "S(0), S(0)", "R, R") == "");
  CHECK(judged(flat, {5, 3}, "S(0)", "R") == "");
}

TEST_CASE("what torch refuses: other kinds of Partial, products, mixed kinds",
          "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  CHECK(judged(mesh, {5, 3}, "P, R", "P(max), R") == "");
  CHECK(judged(mesh, {5, 3}, "P(max), S(0)", "P(avg), S(0)") == "");
  CHECK(judged(mesh, {5, 3}, "R, R", "P(prod), R") == "");
  CHECK(judged(mesh, {5, 3}, "P, P(max)", "R, R") == "");
  CHECK(judged(mesh, {5, 3}, "P(max), P", "S(0), S(1)") == "");
}

TEST_CASE("what torch does through Replicate although the target is sharded",
          "[redistribute][torch]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const auto share = [&](const char* from, const char* to) {
    const Shape shape{64, 64};
    CAPTURE(from, to);
    CHECK(judged(mesh, shape, from, to) == "");
    const Plan made = value_or_throw(plan(spec_of(mesh, shape, from), spec_of(mesh, shape, to)));
    std::int64_t most = 0;
    for (std::int64_t rank = 0; rank < 4; ++rank) most = std::max(most, bytes_received(made, rank));
    return static_cast<double>(most) / static_cast<double>(made.src.global_bytes());
  };
  CHECK(share("P, R", "SS(0,2), R") == .5);            // half of the tensor from the other summand
  CHECK(share("SS(0,2), S(0)", "S(0), S(0)") == .25);  // FSDP over TP to plain: two ranks swap
  CHECK(share("SS(0,4), R", "S(0), R") == .25);
  CHECK(share("S(0), S(1)", "S(1), S(0)") == .25);  // the other order of axes
}

TEST_CASE("a redistribution between meshes, which torch refuses", "[redistribute][torch][mesh]") {
  judge::HeldCache cache;
  const Spec on_2x2 = spec_of(mesh_of({2, 2}, {"dp", "tp"}), {5, 3}, "S(0), S(1)");
  const Spec on_4 = spec_of(mesh_of({4}, {"tp"}), {5, 3}, "S(0)");
  CHECK(judge::judge(on_2x2, on_4, cache) == "");
  CHECK(judge::judge(on_4, on_2x2, cache) == "");
}
