// DTensors of stated sizes and with one owner: an MLP and its gradients, borders, views.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// (8, 6), (6, 5) and (5, 3).
struct Data {
  Array x = random_values({8, 6}, DType::kF64, 1);
  Array w1 = random_values({6, 5}, DType::kF64, 2);
  Array w2 = random_values({5, 3}, DType::kF64, 3);
};
struct At {
  Placements x, w1, w2;
  Placements used_w1 = {}, used_w2 = {};  ///< what the products use; empty: as stored
};

DTensor used(const DTensor& w, const Placements& placements) {
  return placements.empty() ? w : redistribute(w, placements);
}
Outcome run(Rank& rank, const Data& data, const At& at) {
  DTensor x = rank.parameter(data.x, at.x);
  DTensor w1 = rank.parameter(data.w1, at.w1);
  DTensor w2 = rank.parameter(data.w2, at.w2);
  const DTensor hidden = silu(matmul(x, used(w1, at.used_w1)));
  const DTensor y = matmul(hidden, used(w2, at.used_w2));
  backward(mean(square(softmax(transpose(y, 0, 1), 1))));
  return outcome_of({{"y", y}}, {{"x", x}, {"w1", w1}, {"w2", w2}});
}

Ragged ragged(int dim, std::initializer_list<std::int64_t> sizes) { return {dim, sizes}; }

}  // namespace

TEST_CASE("an MLP and its gradients equal one rank's on ragged and owned placements",
          "[dtensor][ragged]") {
  const Data data;
  const Outcome expected = run_ranks(MeshAxes{{"a", 1}}, [&](Rank& rank) {
    return run(rank, data, {{R}, {R}, {R}});
  })[0];
  struct Case {
    Shape mesh;
    At at;
  };
  const std::vector<Case> cases = {
      {{3}, {{ragged(0, {1, 0, 7})}, {R}, {R}}},
      {{3}, {{R}, {ragged(1, {1, 4, 0})}, {ragged(0, {1, 4, 0})}}},
      {{3}, {{R}, {ragged(1, {1, 4, 0})}, {ragged(0, {2, 2, 1})}}},
      {{3}, {{ragged(0, {1, 0, 7})}, {ragged(0, {5, 0, 1})}, {Owned{1}}, {R}, {R}}},
      {{4}, {{Owned{3}}, {Owned{0}}, {S(0)}}},
      {{2}, {{Owned{1}}, {R}, {R}}},
      {{2, 2}, {{ragged(0, {3, 5}), S(0)}, {R, ragged(1, {4, 1})}, {Owned{1}, S(0)}}},
      {{2, 2}, {{S(0), Owned{1}}, {ragged(1, {1, 4}), Owned{0}}, {R, R}}},
      {{2, 2}, {{StridedShard{0, 2}, ragged(0, {2, 6})}, {R, R}, {ragged(0, {0, 5}), P}}}};
  for (const Case& each : cases) {
    if (!runs_here(num_elements(each.mesh))) continue;
    CAPTURE(to_string(each.mesh), to_string(each.at.x), to_string(each.at.w1),
            to_string(each.at.w2));
    const auto body = [&](Rank& rank) { return run(rank, data, each.at); };
    const auto ranks = run_ranks(mesh_of_shape(each.mesh), body);
    CHECK(worst_difference(ranks, expected) < 1e-12);
  }
}

TEST_CASE("borders take a rank's part of a ragged or owned tensor", "[dtensor][ragged]") {
  struct Seen {
    Shape ragged, owned;
    double worst = 0.0;
    std::string refused;
  };
  const Array values = random_values({8, 6}, DType::kF64, 1);
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}}, [&](Rank& rank) {
    Seen seen;
    for (const Placement& placement : {Placement(ragged(0, {1, 7})), Placement(Owned{1})}) {
      const DTensor x = rank.distribute(values, {placement});
      const DTensor mine = to_local(x);
      (std::holds_alternative<Owned>(placement) ? seen.owned : seen.ragged) = mine.global_shape();
      const DTensor back = from_local(mul(mine, 2.0), rank.mesh, Placements{placement}, {8, 6});
      seen.worst =
          std::max(seen.worst, max_difference(full_tensor(back), full_tensor(mul(x, 2.0))));
    }
    try {
      from_local(to_local(rank.distribute(values, {S(0)})), rank.mesh,
                 Placements{ragged(0, {1, 7})}, {8, 6});
    } catch (const Error& error) {
      seen.refused = error.what();
    }
    return seen;
  });
  CHECK(ranks[0].ragged == Shape{1, 6});
  CHECK(ranks[1].ragged == Shape{7, 6});
  CHECK(ranks[0].owned == Shape{0, 6});
  CHECK(ranks[1].owned == Shape{8, 6});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(ranks[rank].worst == 0.0);
    CHECK_THAT(ranks[rank].refused, Catch::Contains("from_local: rank") &&
                                        Catch::Contains("but its part of F64[8, 6] (S(0;1,7))"));
  }
}

TEST_CASE("an owner's tensor is sent, reduced and handed out by redistribute",
          "[dtensor][ragged]") {
  const Array values = random_values({8, 6}, DType::kF64, 1);
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}}, [&](Rank& rank) {
    const DTensor summand = rank.distribute(values, {P});
    const DTensor first = redistribute(summand, {Owned{0}});
    const DTensor second = redistribute(first, {Owned{1}});
    const std::int64_t before = rank.bytes_received();
    const DTensor whole = redistribute(second, {R});
    return std::pair{max_difference(whole.local(), values), rank.bytes_received() - before};
  });
  for (const auto& [worst, bytes] : ranks) CHECK(worst < 1e-15);
  CHECK(ranks[0].second == 8 * 6 * 8);
  CHECK(ranks[1].second == 0);
}

}  // namespace tessera::testing
