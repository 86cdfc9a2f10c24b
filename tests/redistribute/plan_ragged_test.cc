// Plans from and to cuts of stated sizes and owners: every pair of a family, against brute force;
// random pairs among all other layouts; and what the moves that users ask for cost.
#include "placement/plan_cost.h"
#include "tests/redistribute/judge.h"
#include "tests/redistribute/ragged_layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

std::string flaw_of_pairs(const std::vector<Spec>& specs, std::int64_t& pairs) {
  judge::HeldCache cache;
  for (const Spec& src : specs) {
    for (const Spec& dst : specs) {
      ++pairs;
      const std::string flaw = judge::judge(src, dst, cache);
      if (!flaw.empty()) return flaw;
    }
  }
  return "";
}

struct Moved {
  std::string kinds;
  Volume bytes, bound;
  bool operator==(const Moved&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Moved& moved) {
  return out << moved.kinds << " " << moved.bytes.max << "/" << moved.bytes.total << " bound "
             << moved.bound.max << "/" << moved.bound.total;
}
/// Of F64[8, 6] on one axis of 4 ranks.
Moved moved(std::string_view from, std::string_view to) {
  const Mesh mesh = mesh_of({4}, {"dp"});
  const Plan made = value_or_throw(plan(spec_of(mesh, {8, 6}, from), spec_of(mesh, {8, 6}, to)));
  Moved moved;
  for (const PlanStep& step : made.steps) {
    moved.kinds += (moved.kinds.empty() ? "" : ", ") + std::string(name_of(step.kind));
  }
  const PlanCost cost = cost_of(made);
  moved.bytes = cost.bytes_received;
  moved.bound = cost.lower_bound;
  return moved;
}

}  // namespace

TEST_CASE("every pair of ragged, owned and plain layouts of one dim reaches the exact target",
          "[redistribute][pairs][ragged]") {
  std::int64_t pairs = 0;
  for (const Mesh& mesh : {mesh_of({2}), mesh_of({3}), mesh_of({4}), mesh_of({2, 2}),
                           mesh_of({2, 3}), mesh_of({3, 2})}) {
    for (const std::int64_t size : {0, 1, 2, 3, 5, 8}) {
      REQUIRE(flaw_of_pairs(judge::ragged_layouts(mesh, {size}), pairs) == "");
    }
  }
  std::printf("ragged pairs of one dim: %lld\n", static_cast<long long>(pairs));
  CHECK(pairs > 30'000);
}

TEST_CASE("every pair of ragged, owned and plain layouts of two dims reaches the exact target",
          "[redistribute][pairs][ragged]") {
  std::int64_t pairs = 0;
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const std::int64_t rows : {1, 2, 3, 5}) {
      for (const std::int64_t columns : {0, 1, 2, 7}) {
        const auto specs = judge::ragged_layouts(mesh_of({ranks}), {rows, columns});
        REQUIRE(flaw_of_pairs(specs, pairs) == "");
      }
    }
  }
  std::printf("ragged pairs of two dims: %lld\n", static_cast<long long>(pairs));
  CHECK(pairs > 5'000);
}

TEST_CASE("10000 random pairs, one of them ragged or owned, reach the exact target",
          "[redistribute][pairs][ragged]") {
  std::mt19937 random(judge::seed_of("random ragged pairs"));
  const std::vector<Mesh> meshes = {mesh_of({4}), mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({3, 2}),
                                    mesh_of({2, 2, 2})};
  judge::HeldCache cache;
  for (int round = 0; round < 10'000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const Shape shape = judge::random_shape(1 + static_cast<int>(random() % 2), 9, random);
    const Spec ragged = judge::random_ragged_spec(mesh, shape, random);
    const Spec other = random() % 3 == 0 ? judge::random_ragged_spec(mesh, shape, random)
                                         : judge::random_spec(mesh, shape, random);
    REQUIRE(judge::judge(ragged, other, cache) == "");
    REQUIRE(judge::judge(other, ragged, cache) == "");
  }
}

TEST_CASE("ragged and owned moves receive the fewest bytes", "[redistribute][ragged]") {
  constexpr std::int64_t kRow = 6 * 8, kAll = 8 * kRow;
  CHECK(moved("S(0;3,0,4,1)", "S(0)") ==
        Moved{"exchange", {2 * kRow, 3 * kRow}, {2 * kRow, 3 * kRow}});
  CHECK(moved("S(0;3,0,4,1)", "R") == Moved{"all_gather", {kAll, 3 * kAll}, {kAll, 3 * kAll}});
  CHECK(moved("P(sum)", "S(0;3,0,4,1)") ==
        Moved{"reduce_scatter", {3 * 4 * kRow, 3 * kAll}, {3 * kAll / 4, 3 * kAll}});
  CHECK(moved("P(sum)", "O(1)") ==
        Moved{"reduce_scatter", {3 * kAll, 3 * kAll}, {3 * kAll / 4, 3 * kAll}});
  CHECK(moved("O(0)", "O(1)") == Moved{"exchange", {kAll, kAll}, {kAll, kAll}});
  CHECK(moved("O(1)", "S(0)") ==
        Moved{"exchange", {kAll / 4, 3 * kAll / 4}, {kAll / 4, 3 * kAll / 4}});
  CHECK(moved("R", "O(2)") == Moved{"local", {0, 0}, {0, 0}});
  CHECK(moved("R", "S(0;3,0,4,1)") == Moved{"local", {0, 0}, {0, 0}});
  CHECK(moved("O(2)", "S(1;0,0,6,0)").bytes == Volume{0, 0});
  // A broadcast: the owner hands out shares, ranks gather them, so that nobody sends all to all.
  CHECK(moved("O(2)", "R").bytes == Volume{kAll, 3 * kAll});
}
