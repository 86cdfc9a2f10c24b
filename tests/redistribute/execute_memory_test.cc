// What ranks allocate while they carry out a plan, beside the peak that the plan states.

#include "placement/plan_cost.h"
#include "tests/redistribute/executed.h"
#include "tests/support/counted_world.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::Pair;
using judge::spec_of;
using tessera::testing::CountedWorld;

namespace {

using Texts = std::vector<std::string>;

/// Buffers of the communicator come from the world's pool, whose figures include what rounding up
/// to its classes adds: a quarter of a block, or 64 bytes.
std::int64_t unrounded(std::int64_t pooled_bytes) {
  constexpr std::int64_t kSmallBlocks = 16 * 64;
  return std::max<std::int64_t>(0, pooled_bytes - pooled_bytes / 5 - kSmallBlocks);
}

std::int64_t largest_local_bytes(const Spec& spec) {
  std::int64_t most = 0;
  for (const Coord& coord : brute::coords_of(spec.mesh())) {
    most = std::max(most, num_elements(spec.local_shape(coord)) * size_of(spec.dtype()));
  }
  return most;
}

/// Every rank's measured peak (source and all that was allocated) beside the stated one.
struct Peak {
  std::int64_t measured = 0;
  std::int64_t stated = 0;
};
std::vector<Peak> peaks_of(int num_ranks, const Plan& plan) {
  return testing::results_of(
             num_ranks, {},
             [&](World& world) {
               CountedWorld counted(world);
               const std::int64_t before = memory_use_of(*world.allocator()).used_bytes;
               const auto coord = plan.src.mesh().coord_of(world.rank());
               Array local;
               std::int64_t source_bytes = 0;
               if (coord) {
                 local = Array::zeros(plan.src.local_shape(*coord), plan.src.dtype());
                 source_bytes = local.num_bytes();
               }
               const Array result = execute(counted, plan, local);
               Peak peak;
               peak.measured = source_bytes + memory_use_of(*counted.allocator()).peak_bytes +
                               unrounded(memory_use_of(*world.allocator()).peak_bytes - before);
               Plan stated = plan;
               if (testing::backend() == testing::Backend::kThreads)
                 stated.pack_bytes = 0;  // unused
               peak.stated = cost_on(stated, world.rank()).peak_local_bytes;
               return peak;
             })
      .value();
}

}  // namespace

TEST_CASE("ranks stay within the peak that the plan states", "[redistribute][memory]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Mesh flat = mesh_of({4}, {"tp"});
  const Mesh half = mesh_of({2}, {"tp"});
  const Shape shape{256, 192};
  const char* lists[] = {"R, R",      "S(0), S(1)", "S(1), S(0)",   "SS(0,2), S(0)",
                         "P, S(0)",   "P, R",       "P, P",         "S(0), R",
                         "P(max), P", "R, P",       "S(0), P(avg)", "SS(0,3), SS(0,3)"};
  std::vector<Pair> pairs;
  for (const char* from : lists) {
    const Spec src = spec_of(mesh, shape, from, DType::kF32);
    for (const char* to : lists) pairs.push_back({src, spec_of(mesh, shape, to, DType::kF32)});
    for (const char* to : {"R", "S(1)", "P"}) {
      for (const Mesh& other : {flat, half}) {
        pairs.push_back({src, spec_of(other, shape, to, DType::kF32)});
        pairs.push_back({spec_of(other, shape, to, DType::kF32), src});
      }
    }
  }
  Texts above;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (testing::backend() == testing::Backend::kProcesses && i % 5 != 0) continue;
    // Every other pair under a cap that its messages do not fit into.
    const std::int64_t cap = i % 2 == 0 ? PlanOptions().pack_bytes : std::int64_t{1} << 15;
    const Plan made = value_or_throw(plan(pairs[i].src, pairs[i].dst, {.pack_bytes = cap}));
    for (const Peak& peak : peaks_of(4, made)) {
      if (peak.measured <= peak.stated) continue;
      above.push_back(pairs[i].src.to_string() + " to " + pairs[i].dst.to_string() + ": " +
                      std::to_string(peak.measured) + " measured, " + std::to_string(peak.stated) +
                      " stated");
    }
  }
  CHECK(above == Texts{});
}

TEST_CASE("of a view that repeats elements only the part that stays is copied",
          "[redistribute][memory]") {
  const Mesh mesh = mesh_of({4}, {"tp"});
  const Shape shape{256, 192};
  for (const char* to : {"S(0)", "S(1)", "SS(0,3)"}) {
    CAPTURE(to);
    const Spec dst = spec_of(mesh, shape, to, DType::kF32);
    const Plan made = value_or_throw(plan(spec_of(mesh, shape, "R", DType::kF32), dst));
    const auto run = [&](World& world) {
      CountedWorld counted(world);
      const Array row = testing::random_values({192}, DType::kF32);
      const Array result = execute(counted, made, row.as_strided(shape, {0, 1}, 0));
      KernelContext ctx;
      const Array whole = kernels::contiguous(ctx, row.as_strided(shape, {0, 1}, 0));
      const Array wanted = execute(world, made, whole);
      return std::pair(memory_use_of(*counted.allocator()).peak_bytes,
                       result.to_vector() == wanted.to_vector());
    };
    const std::int64_t all = num_elements(shape) * size_of(DType::kF32);
    for (const auto& [peak, is_same] : testing::results_of(4, {}, run).value()) {
      CHECK(is_same);
      if (std::string(to) != "SS(0,3)") CHECK(peak == all / 4);
    }
  }
}

TEST_CASE("the stated peak is source, target, one intermediate and the cap at most",
          "[redistribute][memory]") {
  std::mt19937 random(judge::seed_of("stated peaks"));
  const std::vector<Mesh> meshes = {mesh_of({4}), mesh_of({2, 2}), mesh_of({2, 3}),
                                    mesh_of({2, 2, 2}), mesh_of({4, 4})};
  for (int round = 0; round < 4000; ++round) {
    const Mesh& from = meshes[random() % meshes.size()];
    const Mesh& to = random() % 2 == 0 ? from : meshes[random() % meshes.size()];
    const Shape shape = judge::random_shape(2, 64, random);
    const Spec src = judge::random_spec(from, shape, random);
    const Spec dst = judge::random_spec(to, shape, random);
    const Plan made = value_or_throw(plan(src, dst, {.pack_bytes = 1 << 16}));
    const PlanCost cost = cost_of(made);
    const std::int64_t before = largest_local_bytes(src);
    const std::int64_t after = largest_local_bytes(dst);
    CAPTURE(src.to_string(), dst.to_string());
    REQUIRE(cost.peak_local_bytes <= before + after + std::max(before, after) + made.pack_bytes);
    std::int64_t most = 0;
    for (const std::int64_t rank : ranks_of(made)) {
      most = std::max(most, cost_on(made, rank).peak_local_bytes);
    }
    REQUIRE(most <= cost.peak_local_bytes);
  }
}
