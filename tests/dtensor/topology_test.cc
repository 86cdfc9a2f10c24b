// A Runtime plans all moves by its topology, which all ranks have to share.

#include "dtensor/redistribute.h"
#include "testing/ranks.h"

namespace tessera::testing {
namespace {

/// Two ranks a block; between blocks a message takes long, so that chains pay.
Topology pairs() {
  return {"pairs",
          1.0,
          {{.name = "near", .ranks = 2, .latency_us = 0.5, .gb_per_s = 100},
           {.name = "far", .ranks = 0, .latency_us = 10, .gb_per_s = 1}}};
}

/// What each rank says, on threads: topology.of(rank) is the one that it gives.
std::vector<std::string> said_by_ranks(
    int num_ranks, const std::function<std::optional<Topology>(std::int64_t)>& topology_of,
    const std::function<std::string(Runtime&)>& say) {
  std::vector<std::string> said(static_cast<std::size_t>(num_ranks));
  const Status status = tessera::run_ranks(num_ranks, {.threads_per_rank = 1}, [&](World& world) {
    said[static_cast<std::size_t>(world.rank())] = error_of([&] {
      Runtime runtime(world, topology_of(world.rank()));
      said[static_cast<std::size_t>(world.rank())] = say(runtime);
    });
  });
  CHECK(status.ok());
  return said;
}

std::string steps_of(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(step.kind)) + " over " +
            step.src.mesh().axis_labels(step.axes);
  }
  return text;
}

Spec spec_of(const Mesh& mesh, const Placements& placements) {
  return value_or_throw(Spec::make(mesh, {8, 6}, DType::kF32, placements));
}

}  // namespace

TEST_CASE("a Runtime without a topology plans as on one host", "[dtensor][topology]") {
  const std::unique_ptr<World> world = make_single_world();
  Runtime runtime(*world);
  CHECK(runtime.topology() == value_or_throw(topology_preset("host")));
}

TEST_CASE("redistributions follow the Runtime's topology, and give the same values",
          "[dtensor][topology]") {
  const Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  const Spec from = spec_of(mesh, {Shard{0}, Shard{1}}),
             to = spec_of(mesh, {Replicate{}, Replicate{}});
  const Topology topology = pairs();
  const std::string planned = steps_of(value_or_throw(plan(from, to, {.topology = &topology})));
  const Topology host = value_or_throw(topology_preset("host"));
  REQUIRE(planned != steps_of(value_or_throw(plan(from, to, {.topology = &host}))));
  const Array full = random_values({8, 6}, DType::kF32);
  std::vector<std::vector<double>> values(4);
  std::vector<std::string> events(4), plans(4);
  const Status status = tessera::run_ranks(4, {.threads_per_rank = 1}, [&](World& world) {
    Runtime runtime(world, topology);
    const auto rank = static_cast<std::size_t>(world.rank());
    Rank here{world, runtime, mesh};
    const DTensor x = here.distribute(full, {Shard{0}, Shard{1}});
    runtime.events().clear();
    values[rank] = redistribute(x, {Replicate{}, Replicate{}}).local().to_vector();
    for (const Event& event : runtime.events().events()) {
      if (event.kind != Event::Kind::kCollective) continue;
      events[rank] += (events[rank].empty() ? "" : ", ") + event.name + " over " + event.axes;
    }
  });
  CHECK(status.ok());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(values[rank] == full.to_vector());
    CHECK(events[rank] == planned);
  }
}

TEST_CASE("ranks that give unlike topologies are named on every rank", "[dtensor][topology]") {
  const auto said = said_by_ranks(
      4,
      [](std::int64_t rank) {
        Topology topology = pairs();
        if (rank == 1 || rank == 3) topology.links[0].latency_us = 0.25;
        topology.name = "of rank " + std::to_string(rank);  // names tell nothing of plans
        return topology;
      },
      [](Runtime&) { return std::string("no error"); });
  for (const std::string& text : said) {
    CHECK(text ==
          "topology: ranks 1 and 3 have another one than rank 0, and plans would differ; give all "
          "ranks the same. [rank 0: of rank 0: step 1 us; near of 2 ranks 0.5 us, 100 GB/s; far 10 "
          "us, 1 GB/s. rank 1: of rank 1: step 1 us; near of 2 ranks 0.25 us, 100 GB/s; far 10 us, "
          "1 GB/s]");
  }
}

TEST_CASE("a topology that is none is refused by a Runtime", "[dtensor][topology]") {
  const std::unique_ptr<World> world = make_single_world();
  CHECK(error_of([&] {
          Runtime runtime(*world, Topology{});
        }).starts_with("topology: no link class"));
}

}  // namespace tessera::testing
