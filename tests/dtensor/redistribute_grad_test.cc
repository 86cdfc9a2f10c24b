#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

const std::vector<Placement> kSources = {Replicate{},
                                         Shard{0},
                                         Shard{1},
                                         Partial{ReduceOp::kSum},
                                         Partial{ReduceOp::kAvg},
                                         Partial{ReduceOp::kMax},
                                         Partial{ReduceOp::kMin}};
const std::vector<Placement> kTargets = {Replicate{}, Shard{0}, Shard{1}, Partial{ReduceOp::kSum},
                                         Partial{ReduceOp::kMax}};

bool is_partial(const Placement& placement, ReduceOp op) {
  const Partial* partial = std::get_if<Partial>(&placement);
  return partial != nullptr && partial->op == op;
}

std::vector<Placements> all_lists(const std::vector<Placement>& choices, int axes) {
  std::vector<Placements> lists = {{}};
  for (int axis = 0; axis < axes; ++axis) {
    std::vector<Placements> longer;
    for (const Placements& list : lists) {
      for (const Placement& each : choices) {
        longer.push_back(list);
        longer.back().push_back(each);
      }
    }
    lists = std::move(longer);
  }
  return lists;
}

/// What is wrong with the gradient of one pair on this rank; empty where nothing is.
std::string check_pair(Rank& rank, const Array& full, const Array& weight, const Placements& from,
                       const Placements& to) {
  DTensor x = rank.parameter(full, from);
  const DTensor y = redistribute(x, to);
  const std::string label = to_string(from) + " -> " + to_string(to) + ": ";
  if (max_difference(full_tensor(y), full) > 1e-15) return label + "forward differs";
  const DTensor w = rank.distribute(weight, Placements(from.size(), Replicate{}));
  backward(sum(mul(y, w)));
  double parts = 1;
  Placements home;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const bool extreme =
        is_partial(from[axis], ReduceOp::kMax) || is_partial(from[axis], ReduceOp::kMin);
    if (is_partial(from[axis], ReduceOp::kAvg))
      parts *= static_cast<double>(rank.mesh.size(static_cast<int>(axis)));
    home.push_back(extreme ? Placement(Partial{ReduceOp::kSum})
                   : std::holds_alternative<Partial>(from[axis]) ? Placement(Replicate{})
                                                                 : from[axis]);
  }
  const Spec expected = value_or_throw(Spec::make(rank.mesh, full.shape(), full.dtype(), home));
  if (!(x.grad().spec() == expected))
    return label + "gradient is placed " + x.grad().spec().to_string();
  std::vector<double> want = weight.to_vector();
  for (double& each : want) each /= parts;
  const Array grad = full_tensor(x.grad());
  if (max_difference(grad, Array::from_values(full.shape(), DType::kF64, want)) > 1e-14) {
    return label + "gradient differs";
  }
  return {};
}

}  // namespace

TEST_CASE("the gradient of every redistribution is the cotangent at the source's dual",
          "[dtensor][redistribute]") {
  for (const Shape& sizes : {Shape{2}, Shape{3}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Shape& shape : {Shape{4, 6}, Shape{5, 3}}) {
      const Array full = random_values(shape, DType::kF64, 1);
      const Array weight = random_values(shape, DType::kF64, 2);
      const Mesh mesh = mesh_of_shape(sizes);
      const auto ranks = run_ranks(mesh, [&](Rank& rank) {
        std::vector<std::string> wrong;
        for (const Placements& from : all_lists(kSources, mesh.ndim())) {
          for (const Placements& to : all_lists(kTargets, mesh.ndim())) {
            const std::string text = check_pair(rank, full, weight, from, to);
            if (!text.empty()) wrong.push_back(text);
          }
        }
        return wrong;
      });
      for (const auto& wrong : ranks) CHECK(wrong == std::vector<std::string>());
    }
  }
}

TEST_CASE("a P(max) source shares its gradient among the ranks that hold the maximum",
          "[dtensor][redistribute]") {
  // Columns: the maximum on rank 0, on rank 1, on both.
  const auto ranks = run_ranks(MeshAxes{{"tp", 2}}, [](Rank& rank) {
    const double mine[2][3] = {{5, 1, 7}, {2, 4, 7}};
    DTensor local = here(rank.runtime, Array::from_values({3}, DType::kF64, mine[rank.index()]));
    DTensor x = from_local(local, rank.mesh, Placements{Partial{ReduceOp::kMax}}, {3});
    x.set_requires_grad(true);
    backward(sum(mul(redistribute(x, {Replicate{}}), 6.0)));
    return copy_of(x.grad().local()).to_vector();
  });
  CHECK(ranks[0] == std::vector<double>{6, 0, 3});
  CHECK(ranks[1] == std::vector<double>{0, 6, 3});
}

TEST_CASE("an infinite cotangent of a moved P(max) stays with the maximum, a NaN's with the NaN",
          "[dtensor][redistribute]") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto ranks = run_ranks(MeshAxes{{"tp", 2}}, [&](Rank& rank) {
    const double mine[2][2] = {{5, nan}, {2, 4}};
    DTensor local = here(rank.runtime, Array::from_values({2}, DType::kF64, mine[rank.index()]));
    DTensor x = from_local(local, rank.mesh, Placements{Partial{ReduceOp::kMax}}, {2});
    x.set_requires_grad(true);
    const DTensor y = redistribute(x, {Replicate{}});
    backward(y, rank.distribute(Array::from_values({2}, DType::kF64, std::vector{inf, 3.0}),
                                {Replicate{}}));
    return copy_of(x.grad().local()).to_vector();
  });
  CHECK(ranks[0] == std::vector<double>{inf, 3});
  CHECK(ranks[1] == std::vector<double>{0, 0});
}

TEST_CASE("a product of all ranks' elements has a gradient after it moved",
          "[dtensor][redistribute]") {
  // y = hypot(2 * 3, 8) = 10: dy/dx = 6 / 10 * (3, 2).
  const auto ranks = run_ranks(MeshAxes{{"tp", 2}}, [](Rank& rank) {
    DTensor x =
        rank.parameter(Array::from_values({2}, DType::kF64, std::vector{2.0, 3.0}), {Shard{0}});
    const DTensor product = call(rank.runtime, "prod", {&x, 1}, {})[0];
    const bool is_partial = product.spec().layout().partial[0] == ReduceOp::kProd;
    const DTensor operands[] = {
        product,
        rank.distribute(Array::from_values({}, DType::kF64, std::vector{8.0}), {Replicate{}})};
    backward(call(rank.runtime, "hypot", operands, {})[0]);
    return std::pair{is_partial, full_tensor(x.grad()).to_vector()};
  });
  for (const auto& [is_partial, gradient] : ranks) {
    CHECK(is_partial);
    CHECK(gradient[0] == Approx(1.8));
    CHECK(gradient[1] == Approx(1.2));
  }
}

TEST_CASE("on a replicated axis the cotangent stays as it comes", "[dtensor][redistribute]") {
  // x is R on tp and S(0) on dp; the work after it leaves the cotangent P(sum) on tp, which is
  // reduced once, at the leaf.
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}, {"tp", 2}}, [](Rank& rank) {
    DTensor x = rank.parameter(random_values({4, 4}, DType::kF64), {Shard{0}, Replicate{}});
    const DTensor w =
        rank.distribute(random_values({8, 4}, DType::kF64, 2), {Replicate{}, Shard{0}});
    const DTensor y = linear(redistribute(x, {Replicate{}, Replicate{}}), w);
    rank.runtime.events().clear();
    backward(sum(y));
    std::vector<std::string> moves;
    for (const Event& event : rank.runtime.events().events()) {
      if (event.kind == Event::Kind::kCollective) moves.push_back(event.name + "@" + event.axes);
    }
    return moves;
  });
  // dp: R to S(0) is a slice; tp: one reduction of the leaf's gradient.
  for (const auto& moves : ranks) CHECK(moves.size() == 1);
}

TEST_CASE("a redistribution that changes nothing aliases", "[dtensor][redistribute]") {
  run_ranks(MeshAxes{{"dp", 2}, {"one", 1}}, [](Rank& rank) {
    const DTensor x = rank.distribute(random_values({4, 4}, DType::kF32), {Shard{0}, Replicate{}});
    const DTensor same = redistribute(x, {Shard{0}, Replicate{}});
    const DTensor unit = redistribute(x, {Shard{0}, Shard{1}});  // an axis of size 1 means nothing
    const DTensor local = to_local(x);
    if (same.local().storage() != x.local().storage() ||
        unit.local().storage() != x.local().storage() ||
        local.local().storage() != x.local().storage()) {
      throw Error(internal_error("copied"));
    }
    if (rank.bytes_received() != 0) throw Error(internal_error("moved bytes"));
  });
  SUCCEED();
}

}  // namespace tessera::testing
