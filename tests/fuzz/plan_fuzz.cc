// Two specs from bytes, on one mesh or two, and a plan between them: it is right element by
// element by the judge of tests/redistribute, states what it moves, and keeps within the bound.
#include "placement/plan_cost.h"
#include "tests/fuzz/fuzz.h"
#include "tests/redistribute/judge.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostPlanRanks = 12;
constexpr std::int64_t kMostElements = 200;

Mesh mesh_from(testing::Bytes& in) {
  Shape sizes;
  std::int64_t ranks = 1;
  for (int left = in.next_below(4); left > 0; --left) {
    const std::int64_t size = 1 + in.next_below(4);
    if (ranks * size > kMostPlanRanks) break;
    sizes.push_back(size);
    ranks *= size;
  }
  return value_or_throw(Mesh::make(view_of(sizes), {}, in.next_below(5)));
}

Shape shape_from(testing::Bytes& in) {
  Shape shape;
  std::int64_t elements = 1;
  for (int left = in.next_below(4); left > 0; --left) {
    const std::int64_t size = in.next_below(12);
    if (elements * size > kMostElements) break;
    shape.push_back(size);
    elements *= size;
  }
  return shape;
}

/// Levels of every kind in front of each axis, axes in the order of the bytes.
Layout layout_from(testing::Bytes& in, const Mesh& mesh, int ndim) {
  Layout layout{std::vector<Levels>(static_cast<std::size_t>(ndim)),
                std::vector<std::optional<ReduceOp>>(static_cast<std::size_t>(mesh.ndim()))};
  std::vector<int> axes(static_cast<std::size_t>(mesh.ndim()));
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = static_cast<int>(a);
  for (std::size_t left = axes.size(); left > 1; --left) {
    std::swap(axes[left - 1],
              axes[static_cast<std::size_t>(in.next_below(static_cast<int>(left)))]);
  }
  for (const int axis : axes) {
    const int choice = in.next_below(8);
    if (choice == 0 || (ndim == 0 && choice > 2)) continue;
    if (choice <= 2) {
      layout.partial[static_cast<std::size_t>(axis)] = static_cast<ReduceOp>(in.next_below(5));
      continue;
    }
    Levels& levels = layout.dims[static_cast<std::size_t>(in.next_below(ndim))];
    if (choice == 3) levels.push_back(Level::of_run(1 + in.next_below(5)));
    if (choice == 4) levels.push_back(Level::of_block(1 + in.next_below(5), 1 + in.next_below(3)));
    levels.push_back(Level::of_axis(axis, choice == 5 ? 1 + in.next_below(4) : 1));
  }
  return layout;
}

/// Total and per-rank figures of a plan are those of the simulated ranks.
void check_costs(const Plan& plan, const judge::Simulation& simulation, const std::string& pair) {
  const std::int64_t element = size_of(plan.dst.dtype());
  const PlanCost cost = cost_of(plan);
  std::int64_t most = 0, total = 0;
  for (const auto& [rank, moved] : simulation.moved()) {
    const RankCost one = cost_on(plan, rank);
    TSR_CHECK(one.bytes_received == moved.received * element, pair);
    TSR_CHECK(one.messages == moved.messages, pair);
    most = std::max(most, moved.received * element);
    total += moved.received * element;
  }
  TSR_CHECK(cost.bytes_received.total == total, pair);
  TSR_CHECK(cost.bytes_received.max >= most, pair);
  // A target that is Partial may take its summands in more ways than the bound knows.
  TSR_CHECK(total >= cost.lower_bound.total, pair);
}

void try_plan(testing::Bytes in) {
  const Topology cluster = value_or_throw(topology_preset("cluster"));
  const PlanOptions options{.topology = in.next_below(3) == 0 ? &cluster : nullptr};
  const Mesh from = mesh_from(in);
  const Mesh to = in.next_below(2) == 0 ? from : mesh_from(in);
  const Shape shape = shape_from(in);
  const int ndim = static_cast<int>(shape.size());
  const StatusOr<Spec> src = Spec::make(from, shape, DType::kF64, layout_from(in, from, ndim));
  const StatusOr<Spec> dst = Spec::make(to, shape, DType::kF64, layout_from(in, to, ndim));
  if (!src.ok() || !dst.ok()) return;
  const std::string pair = src->to_string() + " to " + dst->to_string();
  judge::HeldCache cache;
  const std::string flaw = judge::judge(*src, *dst, cache, options);
  TSR_CHECK(flaw.empty(), flaw);
  const Plan made = value_or_throw(plan(*src, *dst, options));
  judge::Simulation simulation(made, cache, judge::Repeats::kAllowed);
  TSR_CHECK(simulation.run(in.next()).empty(), pair);
  check_costs(made, simulation, pair);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_plan(tessera::testing::Bytes({data, size}));
  return 0;
}
