// Moves between meshes, and many tensors in one exchange.
#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

std::int64_t num_collectives(Rank& rank) {
  std::int64_t count = 0;
  for (const Event& event : rank.runtime.events().events()) {
    count += event.kind == Event::Kind::kCollective ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a tensor moves to another mesh and its gradient comes back", "[dtensor][redistribute]") {
  if (!runs_here(4)) return;
  const Array full = random_values({6, 4}, DType::kF64, 1);
  const Array weight = random_values({6, 4}, DType::kF64, 2);
  const Mesh dense = make_mesh({{"dp", 2}, {"tp", 2}});
  const Mesh pair = value_or_throw(dense.sub_mesh(std::vector<int>{1}, 2));  // ranks 2 and 3
  const auto ranks = run_ranks(dense, [&](Rank& rank) {
    DTensor x = rank.parameter(full, {Shard{0}, Shard{1}});
    const DTensor y = redistribute(x, pair, Placements{Shard{1}});
    const DTensor w = distribute(rank.runtime, weight, pair, Placements{Shard{1}});
    const DTensor z = mul(y, w);
    backward(sum(redistribute(z, dense, Placements{Replicate{}, Replicate{}})));
    const bool inside = rank.index() >= 2;
    const bool local_fits = y.local().is_null() != inside;
    return std::tuple(local_fits, x.grad().spec() == x.spec(), copy_of(full_tensor(x.grad())));
  });
  for (const auto& [local_fits, grad_fits, grad] : ranks) {
    CHECK(local_fits);
    CHECK(grad_fits);
    CHECK(max_difference(grad, weight) < 1e-15);
  }
}

TEST_CASE("a bucket of tensors moves in one exchange", "[dtensor][redistribute]") {
  if (!runs_here(4)) return;
  const Mesh mesh = make_mesh({{"fsdp", 4}});
  const std::vector<Shape> shapes = {{8, 3}, {5}, {2, 2, 7}, {1}, {64, 64}};
  const auto ranks = run_ranks(mesh, [&](Rank& rank) {
    std::vector<DTensor> shards;
    std::vector<Spec> whole;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      shards.push_back(rank.parameter(random_values(shapes[i], DType::kF64, i), {Shard{0}}));
      whole.push_back(
          value_or_throw(Spec::make(mesh, shapes[i], DType::kF64, Placements{Replicate{}})));
    }
    rank.runtime.events().clear();
    const std::vector<DTensor> gathered = redistribute_all(shards, whole);
    const std::int64_t collectives = num_collectives(rank);
    std::vector<Array> values, grads;
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      values.push_back(copy_of(full_tensor(gathered[i])));
      backward(sum(gathered[i]));
      grads.push_back(copy_of(full_tensor(shards[i].grad())));
    }
    return std::tuple(collectives, values, grads);
  });
  for (const auto& [collectives, values, grads] : ranks) {
    CHECK(collectives == 1);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      CHECK(same_bits(values[i], random_values(shapes[i], DType::kF64, i)));
      const std::vector<double> ones(static_cast<std::size_t>(num_elements(shapes[i])), 1.0);
      CHECK(max_difference(grads[i], Array::from_values(shapes[i], DType::kF64, ones)) == 0);
    }
  }
}

TEST_CASE("a bucket says which list is short", "[dtensor][redistribute]") {
  const Mesh mesh = make_mesh({{"dp", 1}});
  const auto texts = run_ranks(mesh, [&](Rank& rank) {
    const std::vector<DTensor> xs = {
        rank.distribute(random_values({2}, DType::kF64, 1), {Shard{0}})};
    return error_of([&] { redistribute_all(xs, {}); });
  });
  for (const std::string& text : texts) {
    CHECK(text == "redistribute_all: 1 tensors, but 0 specs to bring them to");
  }
}

}  // namespace tessera::testing
