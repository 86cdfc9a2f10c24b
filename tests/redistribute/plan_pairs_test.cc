// Every ordered pair of layouts of a family, and sampled ones of larger families.
#include "tests/redistribute/judge.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;

namespace {

/// Every ordered pair of these specs; the first flaw, or "".
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

}  // namespace

TEST_CASE("every pair of layouts of one dim reaches the exact target", "[redistribute][pairs]") {
  const std::vector<Mesh> meshes = {mesh_of({1}),    mesh_of({2}),    mesh_of({3}),
                                    mesh_of({4}),    mesh_of({5}),    mesh_of({6}),
                                    mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({3, 2})};
  std::int64_t pairs = 0;
  for (const Mesh& mesh : meshes) {
    for (const std::int64_t size : {0, 1, 2, 3, 5, 7, 8}) {
      REQUIRE(flaw_of_pairs(judge::every_layout(mesh, {size}), pairs) == "");
    }
  }
  std::printf("pairs of one dim: %lld\n", static_cast<long long>(pairs));
  CHECK(pairs > 90'000);
}

TEST_CASE("every pair of layouts of two dims on one axis reaches the exact target",
          "[redistribute][pairs]") {
  std::int64_t pairs = 0;
  for (const std::int64_t ranks : {2, 3}) {
    for (const std::int64_t rows : {0, 1, 2, 3, 5, 7, 8}) {
      for (const std::int64_t columns : {0, 1, 2, 3, 5, 7, 8}) {
        REQUIRE(flaw_of_pairs(judge::every_layout(mesh_of({ranks}), {rows, columns}), pairs) == "");
      }
    }
  }
  std::printf("pairs of two dims: %lld\n", static_cast<long long>(pairs));
  CHECK(pairs > 10'000);
}

TEST_CASE("20000 random pairs of two and three dims reach the exact target",
          "[redistribute][pairs][C69]") {
  std::mt19937 random(judge::seed_of("random pairs"));
  const std::vector<Mesh> meshes = {mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({3, 2}),
                                    mesh_of({2, 2, 2})};
  judge::HeldCache cache;
  for (int round = 0; round < 20'000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const int ndim = 2 + static_cast<int>(random() % 2);
    const Shape shape = judge::random_shape(ndim, ndim == 2 ? 9 : 6, random);
    const Spec src = judge::random_spec(mesh, shape, random);
    const Spec dst = judge::random_spec(mesh, shape, random);
    REQUIRE(judge::judge(src, dst, cache) == "");
  }
}
