// Plans between different meshes, over the same, overlapping or disjoint ranks.
#include "tests/redistribute/judge.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

Mesh mesh_from(std::int64_t first_rank, std::initializer_list<std::int64_t> sizes) {
  const std::vector<std::int64_t> shape(sizes);
  return value_or_throw(Mesh::make(shape, {}, first_rank));
}

std::string judged(const Spec& src, const Spec& dst) {
  judge::HeldCache cache;
  return judge::judge(src, dst, cache);
}

/// Bytes received by all ranks, and the most that one of them sends.
struct Traffic {
  std::int64_t received = 0;
  std::int64_t most_received = 0;
  std::int64_t most_sent = 0;
};
Traffic traffic_of(const Spec& src, const Spec& dst) {
  judge::HeldCache cache;
  const Plan made = value_or_throw(plan(src, dst));
  judge::Simulation simulation(made, cache);
  const std::string flaw = simulation.run();
  if (!flaw.empty()) throw Error(internal_error(flaw));
  Traffic traffic;
  const std::int64_t bytes = size_of(src.dtype());
  for (const auto& [rank, moved] : simulation.moved()) {
    traffic.received += moved.received * bytes;
    traffic.most_received = std::max(traffic.most_received, moved.received * bytes);
    traffic.most_sent = std::max(traffic.most_sent, moved.sent * bytes);
  }
  return traffic;
}

}  // namespace

TEST_CASE("random pairs between meshes over the same, overlapping and disjoint ranks",
          "[redistribute][mesh]") {
  std::mt19937 random(judge::seed_of("pairs between meshes"));
  const Mesh world = mesh_of({2, 2, 3}, {"pp", "dp", "tp"});
  const int tp_dp[] = {2, 1};
  const int pp_tp[] = {0, 2};
  const std::vector<Mesh> meshes = {Mesh(),
                                    mesh_from(3, {}),
                                    mesh_from(0, {4}),
                                    mesh_from(0, {2, 2}),
                                    mesh_from(0, {2, 3}),
                                    mesh_from(0, {3, 2}),
                                    mesh_from(2, {4}),
                                    mesh_from(1, {2, 3}),
                                    mesh_from(4, {2, 2}),
                                    mesh_from(6, {3}),
                                    mesh_from(0, {2, 2, 2}),
                                    value_or_throw(world.sub_mesh(tp_dp, 0)),
                                    value_or_throw(world.sub_mesh(tp_dp, 7)),
                                    value_or_throw(world.sub_mesh(pp_tp, 4))};
  judge::HeldCache cache;
  for (int round = 0; round < 15'000; ++round) {
    const Mesh& from = meshes[random() % meshes.size()];
    const Mesh& to = meshes[random() % meshes.size()];
    const int ndim = 1 + static_cast<int>(random() % 2);
    const Shape shape = judge::random_shape(ndim, ndim == 1 ? 14 : 7, random);
    const Spec src = judge::random_spec(from, shape, random);
    const Spec dst = judge::random_spec(to, shape, random);
    REQUIRE(judge::judge(src, dst, cache) == "");
  }
}

TEST_CASE("one rank to sixteen does not send sixteen times from one", "[redistribute][mesh]") {
  const Spec one = Spec::plain({64, 6}, DType::kF64);
  const Mesh mesh = mesh_of({16});
  const Spec whole = spec_of(mesh, {64, 6}, "R");
  const Spec rows = spec_of(mesh, {64, 6}, "S(0)");
  CHECK(judged(one, whole) == "");
  CHECK(judged(one, rows) == "");
  CHECK(judged(whole, one) == "");
  CHECK(judged(rows, one) == "");
  const std::int64_t bytes = one.global_bytes();
  const Traffic spread = traffic_of(one, whole);
  CHECK(spread.received == 15 * bytes);
  CHECK(spread.most_sent <= 2 * bytes);
  const Traffic cut = traffic_of(one, rows);
  CHECK(cut.received == 15 * bytes / 16);
  CHECK(cut.most_sent == 15 * bytes / 16);
}

TEST_CASE("training's layout becomes that of inference", "[redistribute][mesh]") {
  const Mesh train = mesh_of({2, 2, 2}, {"dp", "cp", "tp"});
  const Mesh serve = mesh_of({4}, {"tp"});
  const Mesh apart = value_or_throw(Mesh::make(std::vector<std::int64_t>{4}, {"tp"}, 8));
  for (const char* from : {"SS(0,2), SS(0,2), S(0)", "S(0), S(0), S(1)", "S(0), R, S(1)"}) {
    for (const char* to : {"S(0)", "S(1)", "R"}) {
      for (const Mesh& mesh : {serve, apart}) {
        const Spec src = spec_of(train, {24, 10}, from);
        CAPTURE(from, to, mesh.first_rank());
        CHECK(judged(src, spec_of(mesh, {24, 10}, to)) == "");
        CHECK(judged(spec_of(mesh, {24, 10}, to), src) == "");
      }
    }
  }
}

TEST_CASE("dense and sparse views of the same ranks move nothing where the sets are equal",
          "[redistribute][mesh]") {
  const Mesh dense = mesh_of({2, 2, 2}, {"dp", "cp", "tp"});
  const Mesh sparse = mesh_of({2, 4}, {"efsdp", "ep"});
  const auto received = [&](const char* from, const char* to, const Shape& shape) {
    const Spec src = spec_of(dense, shape, from);
    const Spec dst = spec_of(sparse, shape, to);
    CHECK(judged(src, dst) == "");
    CHECK(judged(dst, src) == "");
    return traffic_of(src, dst).received + traffic_of(dst, src).received;
  };
  CHECK(received("S(0), S(0), S(0)", "S(0), S(0)", {16, 3}) == 0);
  CHECK(received("R, S(0), S(0)", "R, S(0)", {8, 3}) == 0);
  CHECK(received("S(1), S(0), S(0)", "S(1), S(0)", {8, 2}) == 0);
  CHECK(received("S(0), R, R", "S(0), R", {5}) == 0);
  CHECK(received("P, R, R", "P, R", {5}) == 0);
  // (S(0), S(0), S(0)) of 5 rows cuts 3 and 2, then 2 1 1 1, ...; [efsdp, ep] cuts 3 and 2, then
  // 1 1 1 0 1 1 0 0: other sets, though both are shards of 8.
  CHECK(received("S(0), S(0), S(0)", "S(0), S(0)", {5}) > 0);
}

TEST_CASE("a refined mesh of the same ranks needs no step", "[redistribute][mesh]") {
  const Spec flat = spec_of(mesh_of({4}, {"dp"}), {8, 3}, "S(0)");
  const Spec nested = spec_of(mesh_of({2, 2}, {"a", "b"}), {8, 3}, "S(0), S(0)");
  const Plan made = value_or_throw(plan(flat, nested));
  CHECK(made.steps.empty());
}
