// The costs that plans state, beside what the simulated ranks did.
#include "placement/plan_cost.h"

#include "tests/redistribute/layouts.h"
#include "tests/redistribute/simulate.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

std::string differ(const char* what, const Volume& stated, const Volume& counted) {
  return std::string(what) + ": max " + std::to_string(stated.max) + ", total " +
         std::to_string(stated.total) + " stated; " + std::to_string(counted.max) + ", " +
         std::to_string(counted.total) + " counted";
}

std::string flaw_of(const Spec& src, const Spec& dst, judge::HeldCache& cache) {
  const Plan made = value_or_throw(plan(src, dst));
  judge::Simulation simulation(made, cache);
  const std::string flaw = simulation.run();
  if (!flaw.empty()) return flaw;
  const std::int64_t bytes = size_of(src.dtype());
  Volume received, messages, bound;
  const auto add = [](Volume& volume, std::int64_t amount) {
    volume.max = std::max(volume.max, amount);
    volume.total += amount;
  };
  std::vector<std::int64_t> ranks;
  for (const auto& [rank, moved] : simulation.moved()) {
    ranks.push_back(rank);
    add(received, moved.received * bytes);
    add(messages, moved.messages);
    add(bound, judge::lacks(cache.of(src)->on(rank), cache.of(dst)->on(rank)) * bytes);
    const RankCost one = cost_on(made, rank);
    if (one.rank != rank || one.bytes_received != moved.received * bytes ||
        one.bytes_sent != moved.sent * bytes || one.messages != moved.messages) {
      return "cost_on() of rank " + std::to_string(rank);
    }
  }
  const PlanCost cost = cost_of(made);
  if (ranks_of(made) != ranks) return "ranks_of()";
  if (cost.bytes_received != received)
    return differ("bytes_received", cost.bytes_received, received);
  if (cost.messages != messages) return differ("messages", cost.messages, messages);
  if (cost.steps.size() != made.steps.size()) return "steps";
  if (cost.lower_bound != lower_bound(src, dst)) return "another lower bound";
  if (!src.has_partial() && !dst.has_partial() && cost.lower_bound != bound) {
    return differ("lower_bound", cost.lower_bound, bound);
  }
  return "";
}

}  // namespace

TEST_CASE("stated bytes and messages are those of the simulated ranks", "[redistribute][cost]") {
  std::mt19937 random(judge::seed_of("costs"));
  const std::vector<Mesh> meshes = {mesh_of({4}), mesh_of({2, 3}), mesh_of({2, 2, 2}), Mesh(),
                                    mesh_of({6})};
  judge::HeldCache cache;
  for (int round = 0; round < 8000; ++round) {
    const Mesh& from = meshes[random() % meshes.size()];
    const Mesh& to = random() % 3 != 0 ? from : meshes[random() % meshes.size()];
    const Shape shape = judge::random_shape(1 + static_cast<int>(random() % 2), 12, random);
    const Spec src = judge::random_spec(from, shape, random);
    const Spec dst = judge::random_spec(to, shape, random);
    CAPTURE(src.to_string(), dst.to_string());
    REQUIRE(flaw_of(src, dst, cache) == "");
  }
}
