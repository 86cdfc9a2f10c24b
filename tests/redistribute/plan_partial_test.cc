// Partial tensors: every kind to every kind, mixed kinds, and what a rank holds where a whole or
// sharded tensor becomes a Partial one.
#include "tests/redistribute/judge.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

std::vector<Spec> specs_of(const Mesh& mesh, const Shape& shape, const Placements& choices) {
  judge::SpecSet specs(mesh, shape);
  for (const Placements& list : judge::products_of(choices, mesh.ndim())) specs.add(list);
  return specs.take();
}

const Placements kEveryKind{Replicate{},
                            Shard{0},
                            Partial{ReduceOp::kSum},
                            Partial{ReduceOp::kAvg},
                            Partial{ReduceOp::kMax},
                            Partial{ReduceOp::kMin},
                            Partial{ReduceOp::kProd}};

/// The arrays of all ranks after a plan; throws where the judge finds a flaw.
std::map<std::int64_t, judge::Local> arrays_after(const Spec& src, const Spec& dst) {
  judge::HeldCache cache;
  const Plan made = value_or_throw(plan(src, dst));
  judge::Simulation simulation(made, cache);
  const std::string flaw = simulation.run();
  if (!flaw.empty()) throw Error(internal_error(flaw));
  return simulation.arrays();
}

std::int64_t total_received(const Spec& src, const Spec& dst) {
  const Plan made = value_or_throw(plan(src, dst));
  std::int64_t bytes = 0;
  for (std::int64_t rank = 0; rank < 64; ++rank) bytes += bytes_received(made, rank);
  return bytes;
}

}  // namespace

TEST_CASE("every kind of Partial moves to every placement and kind", "[redistribute][partial]") {
  const std::vector<Mesh> meshes = {mesh_of({2}), mesh_of({3}), mesh_of({5}), mesh_of({2, 2}),
                                    mesh_of({2, 3})};
  for (const Mesh& mesh : meshes) {
    judge::HeldCache cache;
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{5}, Shape{8}, Shape{3, 4}, Shape{}}) {
      const std::vector<Spec> specs = specs_of(mesh, shape, kEveryKind);
      for (const Spec& src : specs) {
        for (const Spec& dst : specs) REQUIRE(judge::judge(src, dst, cache) == "");
      }
    }
  }
}

TEST_CASE("mixed kinds on three axes reduce from the last to the first",
          "[redistribute][partial]") {
  std::mt19937 random(judge::seed_of("mixed kinds"));
  judge::HeldCache cache;
  const std::vector<Spec> specs = specs_of(mesh_of({2, 2, 2}), {7}, kEveryKind);
  for (int round = 0; round < 10'000; ++round) {
    const Spec& src = specs[random() % specs.size()];
    const Spec& dst = specs[random() % specs.size()];
    REQUIRE(judge::judge(src, dst, cache) == "");
  }
}

TEST_CASE("R to P keeps the value on coord 0 and holds identities elsewhere, without a message",
          "[redistribute][partial]") {
  const Mesh mesh = mesh_of({3});
  const auto held = [&](const char* to) {
    return arrays_after(spec_of(mesh, {2}, "R"), spec_of(mesh, {2}, to));
  };
  const double inf = std::numeric_limits<double>::infinity();
  const judge::Local value{-0.0, 2};
  const auto sum = held("P(sum)");
  CHECK(sum.at(0) == value);
  CHECK(sum.at(1) == judge::Local{0, 0});
  CHECK(std::signbit(sum.at(1)[0]));
  CHECK(std::signbit(sum.at(2)[1]));
  CHECK(held("P(max)").at(2) == judge::Local{-inf, -inf});
  CHECK(held("P(min)").at(1) == judge::Local{inf, inf});
  CHECK(held("P(prod)").at(1) == judge::Local{1, 1});
  CHECK(held("P(avg)").at(2) == value);
  for (const char* to : {"P(sum)", "P(avg)", "P(max)", "P(min)", "P(prod)"}) {
    CHECK(total_received(spec_of(mesh, {2}, "R"), spec_of(mesh, {2}, to)) == 0);
  }
}

TEST_CASE("S to P keeps every shard where it is and moves nothing", "[redistribute][partial]") {
  const Mesh mesh = mesh_of({3});
  const double inf = std::numeric_limits<double>::infinity();
  for (const char* to : {"P(sum)", "P(max)", "P(min)", "P(prod)"}) {
    const Spec src = spec_of(mesh, {5}, "S(0)");
    const Spec dst = spec_of(mesh, {5}, to);
    CAPTURE(to);
    CHECK(total_received(src, dst) == 0);
  }
  const auto max = arrays_after(spec_of(mesh, {5}, "S(0)"), spec_of(mesh, {5}, "P(max)"));
  CHECK(max.at(0) == judge::Local{-0.0, 2, -inf, -inf, -inf});
  CHECK(max.at(1) == judge::Local{-inf, -inf, 3, 4, -inf});
  CHECK(max.at(2) == judge::Local{-inf, -inf, -inf, -inf, 5});
  const auto sum = arrays_after(spec_of(mesh, {5}, "SS(0,2)"), spec_of(mesh, {5}, "P"));
  CHECK(sum.at(0) == judge::Local{-0.0, 0, 0, 4, 0});  // of chunks of 3 and 2, one element each
  CHECK(std::signbit(sum.at(0)[1]));
}
