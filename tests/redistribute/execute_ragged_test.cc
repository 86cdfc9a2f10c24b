// Moves from and to cuts of stated sizes and owners, carried out by ranks.
#include "tests/redistribute/executed.h"
#include "tests/redistribute/ragged_layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;

TEST_CASE("ragged and owned pairs are executed as planned", "[redistribute][execute][ragged]") {
  std::mt19937 random(judge::seed_of("ragged executed"));
  judge::HeldCache cache;
  for (const Mesh& mesh : {mesh_of({4}), mesh_of({2, 2})}) {
    std::vector<judge::Expected> all;
    const auto specs = judge::ragged_layouts(mesh, {5, 3});
    for (int i = 0; i < 300; ++i) {
      const Spec& src = specs[random() % specs.size()];
      const Spec& dst = specs[random() % specs.size()];
      all.push_back(judge::expected_of({src, dst}, cache));
    }
    CHECK(judge::flaws_of(4, all) == std::vector<std::string>());
  }
}
