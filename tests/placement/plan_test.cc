// Which steps a plan takes, and what it refuses. tests/redistribute runs plans and compares them
// with the exact target.
#include "placement/plan.h"

#include <cmath>
#include <limits>
#include <set>

#include "placement/plan_chain.h"
#include "placement/plan_cost.h"
#include "placement/plan_refine.h"
#include "placement/plan_step.h"
#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::mesh_of;

namespace {

Spec spec_of(const Mesh& mesh, Shape shape, std::string_view placements,
             DType dtype = DType::kF64) {
  return value_or_throw(
      Spec::make(mesh, std::move(shape), dtype, value_or_throw(parse_placements(placements))));
}

std::string steps_of(const Spec& src, const Spec& dst, const PlanOptions& options = {}) {
  std::string text;
  for (const PlanStep& step : value_or_throw(plan(src, dst, options)).steps) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(step.kind));
    for (const int axis : step.axes) text += " " + step.src.mesh().axis_label(axis);
  }
  return text;
}

}  // namespace

TEST_CASE("large Partial tensors are reduced in shares and gathered", "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Shape shape{100, 61};  // 48,800 bytes of F64
  const auto steps = [&](const char* from, const char* to) {
    return steps_of(spec_of(mesh, shape, from), spec_of(mesh, shape, to));
  };
  CHECK(steps("P, R", "R, R") == "all_reduce dp");
  CHECK(steps("P, P", "R, R") == "all_reduce dp tp");
  CHECK(steps("P, S(0)", "R, S(0)") == "all_reduce dp");
  CHECK(steps("P, S(0)", "R, R") == "reduce_scatter dp, all_gather dp tp");
  // A ring of 2 receives half of the tensor twice.
  const Plan ring =
      value_or_throw(plan(spec_of(mesh, shape, "P, R"), spec_of(mesh, shape, "R, R")));
  CHECK(bytes_received(ring, 0) == 100 * 61 * 8);
}

TEST_CASE("steps carry the names of the collectives that they equal", "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const auto steps = [&](const char* from, const char* to) {
    return steps_of(spec_of(mesh, {12, 6}, from), spec_of(mesh, {12, 6}, to));
  };
  CHECK(steps("S(0), R", "S(0), R") == "");
  CHECK(steps("R, R", "S(0), S(1)") == "local");
  CHECK(steps("S(0), R", "S(0), S(0)") == "local");
  CHECK(steps("S(0), S(1)", "R, S(1)") == "all_gather dp");
  CHECK(steps("S(0), S(0)", "R, R") == "all_gather dp tp");
  CHECK(steps("S(0), S(1)", "S(0), R") == "all_gather tp");
  CHECK(steps("S(0), S(0)", "S(0), S(1)") == "all_to_all tp");
  CHECK(steps("R, S(1)", "R, S(0)") == "all_to_all tp");
  CHECK(steps("S(0), S(0)", "SS(0,3), S(0)") == "exchange dp tp");
  CHECK(steps("S(0), S(1)", "S(1), S(0)") == "exchange dp tp");
  CHECK(steps("P, S(1)", "S(0), S(1)") == "reduce_scatter dp");
  CHECK(steps("P, S(1)", "R, S(1)") == "all_reduce dp");
  CHECK(steps("R, R", "P, R") == "local");
  CHECK(steps("S(0), R", "P, R") == "local");  // shards stay in place
  CHECK(steps("S(0), S(0)", "P, R") == "all_gather tp");
  CHECK(steps("S(0), R", "P(avg), R") == "all_gather dp");
  CHECK(steps("P, S(0)", "P, R") == "all_gather tp");
  CHECK(steps("P, R", "P(max), R") == "reduce_scatter dp, local");
}

TEST_CASE("by bytes small reductions take turns, by time they take one round",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const Topology host = value_or_throw(topology_preset("host"));
  const auto steps = [&](const char* from, const char* to, const Topology* topology) {
    return steps_of(spec_of(mesh, {12, 6}, from), spec_of(mesh, {12, 6}, to),
                    {.topology = topology});
  };
  CHECK(steps("P, P(avg)", "R, R", nullptr) == "reduce_scatter dp tp, all_gather dp tp");
  CHECK(steps("P, P(avg)", "R, R", &host) == "all_reduce dp tp");
  CHECK(steps("P, P(max)", "R, R", nullptr) ==
        "reduce_scatter tp, reduce_scatter dp, all_gather dp tp");
  CHECK(steps("P, P(max)", "R, R", &host) == "all_reduce tp, all_reduce dp");
  CHECK(steps("P, P(max)", "P, R", &host) == "all_reduce tp");
  CHECK(steps("P, P(max)", "R, P(max)", nullptr) == "reduce_scatter tp, exchange dp");
}

TEST_CASE("R to P keeps the value on coord 0 and fills the identity elsewhere",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 2});
  const auto fill = [&](const char* to, std::int64_t rank) {
    const Plan made = value_or_throw(plan(spec_of(mesh, {4}, "R, R"), spec_of(mesh, {4}, to)));
    return fill_of(made.steps.at(0), rank);
  };
  CHECK(fill("P, R", 0) == std::nullopt);
  CHECK(fill("P, R", 1) == std::nullopt);
  CHECK(fill("P, R", 2) == ReduceOp::kSum);
  CHECK(fill("P(avg), P(min)", 2) == std::nullopt);  // every coord of an average keeps the value
  CHECK(fill("P(avg), P(min)", 3) == ReduceOp::kMin);
  CHECK(fill("P, P(prod)", 3) == ReduceOp::kProd);  // reduced first, so that the product is -0.0
}

TEST_CASE("a permutation over 4x4 meets the lower bound", "[placement][plan]") {
  const Mesh mesh = mesh_of({4, 4});
  const Shape shape{64, 64, 64};
  const auto fraction = [&](const char* from, const char* to) {
    const Plan made = value_or_throw(plan(spec_of(mesh, shape, from), spec_of(mesh, shape, to)));
    std::int64_t most = 0;
    for (std::int64_t rank = 0; rank < 16; ++rank) {
      most = std::max(most, bytes_received(made, rank));
    }
    return static_cast<double>(most) / (64.0 * 64 * 64 * 8);
  };
  CHECK(fraction("S(0), S(1)", "S(1), S(0)") == .0625);
  CHECK(fraction("S(0), S(0)", "R, S(0)") == .25);
  CHECK(fraction("S(0), S(0)", "S(1), S(0)") == .0625);
  CHECK(fraction("SS(0,4), S(0)", "S(0), S(0)") == .0625);
}

TEST_CASE("transfers name world ranks of a mesh that is part of the world", "[placement][plan]") {
  const Mesh world = mesh_of({2, 4}, {"dp", "tp"});
  const int axes[] = {1};
  const Mesh tp = value_or_throw(world.sub_mesh(axes, 6));  // ranks 4 to 7
  const Plan made = value_or_throw(plan(spec_of(tp, {8}, "S(0)"), spec_of(tp, {8}, "R")));
  std::set<std::int64_t> peers;
  for (const Transfer& transfer : transfers_into(made.steps.at(0), 5)) peers.insert(transfer.peer);
  CHECK(peers == std::set<std::int64_t>{4, 5, 6, 7});
  CHECK(transfers_into(made.steps.at(0), 1).empty());
  CHECK(bytes_received(made, 5) == 6 * 8);
}

TEST_CASE("of a reduction's fewest bytes a rank has its share, rounded up", "[placement][plan]") {
  // One element of 4 bytes over p summands and p copies takes 2 (p − 1) messages.
  const auto bound = [](std::int64_t ranks) {
    const Mesh mesh = mesh_of({ranks}, {"dp"});
    return lower_bound(spec_of(mesh, {1}, "P(sum)", DType::kF32),
                       spec_of(mesh, {1}, "R", DType::kF32));
  };
  CHECK((bound(2) == Volume{.max = 4, .total = 8}));
  CHECK((bound(3) == Volume{.max = 6, .total = 16}));
  CHECK((bound(8) == Volume{.max = 7, .total = 56}));
}

TEST_CASE("an axis that stays Partial moves as it lies, and need not be reduced",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Spec src = spec_of(mesh, {8, 8}, "P, S(0)"), dst = spec_of(mesh, {8, 8}, "P, S(1)");
  // Each of four ranks lacks a quarter of the tensor.
  CHECK(lower_bound(src, dst) == Volume{16 * 8, 4 * 16 * 8});
  CHECK(cost_of(value_or_throw(plan(src, dst))).bytes_received == Volume{16 * 8, 4 * 16 * 8});
}

TEST_CASE("plans refuse specs of different tensors", "[placement][plan]") {
  const Mesh mesh = mesh_of({2}, {"dp"});
  const auto text = [](const StatusOr<Plan>& made) {
    return std::string(message_of(made.status()));
  };
  CHECK(text(plan(spec_of(mesh, {4}, "R"), spec_of(mesh, {5}, "R"))) ==
        "redistribute: shapes differ; a redistribution changes placements only [from F64[4] (R) on "
        "{dp: 2}, to F64[5] (R) on {dp: 2}]");
  CHECK(text(plan(spec_of(mesh, {4}, "R"), spec_of(mesh, {4}, "R", DType::kF32))) ==
        "redistribute: dtypes differ; a redistribution changes placements only [from F64[4] (R) on "
        "{dp: 2}, to F32[4] (R) on {dp: 2}]");
}

TEST_CASE("of two meshes seen as one, axes that stay whole keep their names", "[placement][plan]") {
  const auto axes_of = [](const Mesh& a, const Mesh& b) {
    const auto pair = on_common_mesh(spec_of(a, {8}, std::string(a.ndim() == 1 ? "R" : "R, R")),
                                     spec_of(b, {8}, std::string(b.ndim() == 1 ? "R" : "R, R")));
    std::string text = "none";
    if (pair) text = pair->first.mesh().to_string() + " and " + pair->second.mesh().to_string();
    return text;
  };
  const Mesh eight = mesh_of({8}, {"dp"}), cut = mesh_of({2, 4}, {"dp", "tp"});
  CHECK(axes_of(cut, cut) == "{dp: 2, tp: 4} and {dp: 2, tp: 4}");
  CHECK(axes_of(cut, eight) == "{dp_0: 2, dp_1: 4} and {dp_0: 2, dp_1: 4}");
  CHECK(axes_of(eight, cut) == "{dp: 2, tp: 4} and {dp: 2, tp: 4}");
}

TEST_CASE("specs under which every rank holds the same need no step", "[placement][plan]") {
  const Mesh mesh = mesh_of({1, 2}, {"dp", "tp"});
  const auto steps = [&](const char* from, const char* to) {
    return steps_of(spec_of(mesh, {6, 4}, from), spec_of(mesh, {6, 4}, to));
  };
  CHECK(steps("S(0), S(1)", "R, S(1)") == "");
  CHECK(steps("R, S(0)", "S(1), S(0)") == "");
  CHECK(steps("P, S(0)", "R, S(0)") == "");  // the sum of one
}

TEST_CASE("a chain of native collectives begins and ends with whole axes", "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Topology host = value_or_throw(topology_preset("host"));
  const ChainLimits any{.budget_us = INFINITY,
                        .budget_bytes = std::numeric_limits<std::int64_t>::max()};
  const auto length = [&](const char* from, const char* to) {
    const auto chain =
        cheapest_chain(spec_of(mesh, {16, 16}, from), spec_of(mesh, {16, 16}, to), host, any);
    return chain ? std::ssize(chain->steps) : -1;
  };
  CHECK(length("S(0), S(0)", "S(1), S(0)") > 0);
  CHECK(length("SS(0,4), S(0)", "R, S(0)") == -1);
  CHECK(length("R, S(0)", "SS(0,4), S(0)") == -1);
  CHECK(length("R, R", "P, R") == -1);  // nothing native fills
  CHECK(length("P, S(0)", "P, R") == 1);
}

TEST_CASE("of many steps on many ranks the busiest rank receives the sum of its own",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({4, 4, 3, 4}, {"a", "b", "c", "d"});  // more than are asked one by one
  const std::vector<const char*> cuts = {"S(0), S(1), S(2), S(3)", "R, S(1), S(2), S(3)",
                                         "R, R, S(2), S(3)", "R, R, R, S(3)", "R, R, R, R"};
  Plan gathers{.src = spec_of(mesh, {4, 8, 3, 8}, cuts.front()),
               .dst = spec_of(mesh, {4, 8, 3, 8}, cuts.back()),
               .steps = {}};
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    gathers.steps.push_back(direct_step(spec_of(mesh, {4, 8, 3, 8}, cuts[i - 1]),
                                        spec_of(mesh, {4, 8, 3, 8}, cuts[i])));
  }
  Volume bytes, messages;
  for (const std::int64_t rank : ranks_of(gathers)) {
    const RankCost own = cost_on(gathers, rank);
    bytes.max = std::max(bytes.max, own.bytes_received);
    bytes.total += own.bytes_received;
    messages.max = std::max(messages.max, own.messages);
    messages.total += own.messages;
  }
  const PlanCost cost = cost_of(gathers);
  CHECK(cost.bytes_received == bytes);
  CHECK(cost.messages == messages);
}
