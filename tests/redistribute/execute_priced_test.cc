// Plans priced by a topology, carried out by ranks: chains of native collectives among them.
#include "tests/redistribute/executed.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::Pair;
using Texts = std::vector<std::string>;

TEST_CASE("plans priced by a topology end as the judge computed", "[redistribute][execute]") {
  std::mt19937 random(judge::seed_of("executed priced pairs"));
  judge::HeldCache cache;
  for (const std::string_view preset : topology_presets()) {
    const Topology topology = value_or_throw(topology_preset(preset));
    const std::vector<Mesh> meshes = {mesh_of({4}), mesh_of({2, 2})};
    std::vector<judge::Expected> pairs;
    for (int i = 0; i < 200; ++i) {
      const Mesh& mesh = meshes[random() % 2];
      const Shape shape = judge::random_shape(2, 40, random);
      const Pair pair{judge::random_spec(mesh, shape, random),
                      judge::random_spec(mesh, shape, random)};
      pairs.push_back(judge::expected_of(pair, cache, {.topology = &topology}));
    }
    CHECK(judge::flaws_of(4, pairs) == Texts{});
  }
}
