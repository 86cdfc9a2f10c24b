#include <limits>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const std::vector<Shape> kMeshes = {{2}, {3}, {4}, {2, 2}};

Placements repeated(const Shape& sizes, const Placement& each) {
  return Placements(sizes.size(), each);
}

/// `body` on one rank.
template <class F>
Outcome on_one_rank(F body) {
  return run_ranks(mesh_of_shape({1}), body)[0];
}
std::int64_t largest_message(Rank& rank) {
  std::int64_t most = 0;
  for (const Event& event : rank.runtime.events().events()) {
    if (event.kind == Event::Kind::kCollective) most = std::max(most, event.bytes_received);
  }
  return most;
}

}  // namespace

TEST_CASE("cross-entropy over a cut vocabulary equals one rank's and moves rows only",
          "[dtensor][cross_entropy]") {
  const std::int64_t rows = 12, vocabulary = 50;  // 50 over 3 and 4: the last shard is short
  const Array logits = random_values({3, 4, vocabulary}, DType::kF64, 1);
  const Array targets = random_integers({3, 4}, vocabulary, 2);
  const auto body = [&](Rank& rank, const Placements& placements, std::int64_t* most) {
    DTensor x = rank.parameter(logits, placements);
    const DTensor t = rank.distribute(targets, Placements(placements.size(), R));
    rank.runtime.events().clear();
    const DTensor rows_loss = cross_entropy(x, t);
    const DTensor loss = mean(rows_loss);
    backward(loss);
    if (most != nullptr) *most = largest_message(rank);
    return outcome_of({{"rows", rows_loss}, {"loss", loss}}, {{"x", x}});
  };
  const Outcome expected = on_one_rank([&](Rank& rank) { return body(rank, {R}, nullptr); });
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      std::int64_t most = 0;
      Outcome outcome = body(rank, repeated(sizes, S(2)), &most);
      return std::pair{std::move(outcome), most};
    });
    for (const auto& [outcome, most] : ranks) {
      CHECK(worst_difference({outcome}, expected) < 1e-13);
      CHECK(most > 0);
      // A message holds some rows' numbers from each rank of the group, never their logits.
      CHECK(most <= rows * size_of(DType::kF64) * num_elements(sizes));
      CHECK(most < rows * vocabulary * size_of(DType::kF64) / num_elements(sizes) / 2);
    }
  }
}

TEST_CASE("argmax across shards: the first index wins ties", "[dtensor][argmax][rules][8]") {
  const std::vector<double> values = {1, 7, 7, 0, 7, 2, 3, 3, 1, 3, 3, 3, 9, 0, 9, 0, 0, 9};
  const Array full = Array::from_values({3, 6}, DType::kF32, values);
  const std::vector<double> along_rows = {1, 0, 0}, along_columns = {2, 0, 2, 1, 0, 2};
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& placement : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(placement));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const DTensor x = rank.distribute(full, repeated(sizes, placement));
        return std::pair{full_tensor(argmax(x, 1)).to_vector(),
                         full_tensor(argmax(x, 0)).to_vector()};
      });
      for (const auto& [rows, columns] : ranks) {
        CHECK(rows == along_rows);
        CHECK(columns == along_columns);
      }
    }
  }
}

TEST_CASE("topk across shards equals one rank's, gradients too", "[dtensor][topk]") {
  std::vector<double> values = random_integers({4, 10}, 6, 3).to_vector();  // many ties
  const Array full = Array::from_values({4, 10}, DType::kF64, values);
  const auto body = [&](Rank& rank, const Placements& placements) {
    DTensor x = rank.parameter(full, placements);
    const auto [best, index] = topk(x, 3, 1);
    backward(sum(square(best)));
    return outcome_of({{"best", best}, {"index", index}}, {{"x", x}});
  };
  const Outcome expected = on_one_rank([&](Rank& rank) { return body(rank, {R}); });
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& placement : {Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(placement));
      const auto ranks = run_ranks(
          mesh_of_shape(sizes), [&](Rank& rank) { return body(rank, repeated(sizes, placement)); });
      CHECK(worst_difference(ranks, expected) == 0.0);
    }
  }
}

TEST_CASE(
    "a vocabulary-sharded embedding gives P(sum), may be used twice, with other ids in flight",
    "[dtensor][embedding][rules][13]") {
  const Array weight = random_values({7, 3}, DType::kF64, 1);
  const Array ids = random_integers({2, 5}, 7, 2), other_ids = random_integers({2, 5}, 7, 3);
  const auto body = [&](Rank& rank, const Placements& placements) {
    DTensor w = rank.parameter(weight, placements);
    const Placements whole(placements.size(), R);
    const DTensor a = embedding(w, rank.distribute(ids, whole));
    const DTensor b = embedding(w, rank.distribute(other_ids, whole));
    const DTensor y = add(a, b);
    backward(sum(mul(mul(redistribute(y, whole), redistribute(a, whole)), redistribute(y, whole))));
    Outcome outcome = outcome_of({{"y", y}}, {{"w", w}});
    const bool partial = value_or_throw(a.spec().placements()) == Placements(placements.size(), P);
    outcome["placed"] =
        Array::from_values({}, DType::kF64, std::vector<double>{partial ? 1.0 : 0.0});
    return outcome;
  };
  const Outcome expected = on_one_rank([&](Rank& rank) {
    Outcome outcome = body(rank, {R});
    outcome["placed"] = Array::from_values({}, DType::kF64, std::vector<double>{1.0});
    return outcome;
  });
  for (const Shape& sizes :
       kMeshes) {  // 7 rows over 4: the last shard is short; over 2x2: (S(0), S(0))
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes),
                                 [&](Rank& rank) { return body(rank, repeated(sizes, S(0))); });
    CHECK(worst_difference(ranks, expected) < 1e-14);
  }
  // An empty shard: 3 rows over 4 ranks.
  const Array small = random_values({3, 2}, DType::kF64, 4), few = random_integers({5}, 3, 5);
  const auto run_small = [&](Rank& rank, const Placement& placement) {
    DTensor w = rank.parameter(small, {placement});
    const DTensor y = redistribute(embedding(w, rank.distribute(few, {R})), {R});
    backward(sum(square(y)));
    return outcome_of({{"y", y}}, {{"w", w}});
  };
  const Outcome one = on_one_rank([&](Rank& rank) { return run_small(rank, R); });
  const auto four =
      run_ranks(mesh_of_shape({4}), [&](Rank& rank) { return run_small(rank, S(0)); });
  CHECK(worst_difference(four, one) < 1e-14);
}

TEST_CASE("gather with an index smaller than the input on a sharded dim",
          "[dtensor][gather][rules][1]") {
  const Array x = random_values({8, 4}, DType::kF64, 1), index = random_integers({4, 3}, 4, 2);
  const auto body = [&](Rank& rank, const Placements& of_x, const Placements& of_index) {
    DTensor input = rank.parameter(x, of_x);
    const DTensor y = gather(input, 1, rank.distribute(index, of_index));
    backward(sum(square(y)));
    return outcome_of({{"y", y}}, {{"x", input}});
  };
  const Outcome expected = on_one_rank([&](Rank& rank) { return body(rank, {R}, {R}); });
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& of_x : {Placement(S(0)), Placement(S(1))}) {
      for (const Placement& of_index : {Placement(R), Placement(S(0)), Placement(S(1))}) {
        CAPTURE(to_string(sizes), to_string(of_x), to_string(of_index));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          return body(rank, repeated(sizes, of_x), repeated(sizes, of_index));
        });
        CHECK(worst_difference(ranks, expected) < 1e-14);
      }
    }
  }
}

TEST_CASE("scatter_add with src larger than index on a sharded dim",
          "[dtensor][scatter_add][rules][2]") {
  const Array self = random_values({4, 4}, DType::kF64, 1), index = random_integers({4, 3}, 4, 2),
              src = random_values({8, 3}, DType::kF64, 3);
  const auto body = [&](Rank& rank, const Placements& placements) {
    DTensor x = rank.parameter(self, placements);
    DTensor from = rank.parameter(src, placements);
    const DTensor y = scatter_add(x, 1, rank.distribute(index, placements), from);
    backward(sum(square(y)));
    return outcome_of({{"y", y}}, {{"x", x}, {"src", from}});
  };
  const Outcome expected = on_one_rank([&](Rank& rank) { return body(rank, {R}); });
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes),
                                 [&](Rank& rank) { return body(rank, repeated(sizes, S(0))); });
    CHECK(worst_difference(ranks, expected) < 1e-14);
  }
}

TEST_CASE("an integer P(sum) plus a replicated tensor or scalar keeps its type and its bits",
          "[dtensor][add][rules][3]") {
  constexpr double kBig = 67108869;  // not an F32
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const DTensor counts = rank.distribute(
          Array::from_values({1}, DType::kI64, std::vector<double>{kBig}), repeated(sizes, P));
      const DTensor one = rank.distribute(
          Array::from_values({1}, DType::kI64, std::vector<double>{1}), repeated(sizes, R));
      const DTensor scalar =
          here(rank.runtime, Array::from_values({}, DType::kI64, std::vector<double>{2}));
      const DTensor a = add(counts, one), b = add(counts, scalar);
      return std::tuple{a.dtype(), full_tensor(a).to_vector()[0], b.dtype(),
                        full_tensor(b).to_vector()[0]};
    });
    for (const auto& [type_a, a, type_b, b] : ranks) {
      CHECK(type_a == DType::kI64);
      CHECK(a == kBig + 1);
      CHECK(type_b == DType::kI64);
      CHECK(b == kBig + 2);
    }
  }
}

TEST_CASE("(5,3) as (S(0), S(0)) on 2x2 comes back with every row", "[dtensor][rules][6][7]") {
  const Array full = random_values({5, 3}, DType::kF64);
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}, {"tp", 2}}, [&](Rank& rank) {
    const DTensor x = rank.distribute(full, {S(0), S(0)});
    const std::int64_t rows[] = {2, 1, 1, 1};
    throw_if_error(x.local().size(0) == rows[rank.index()] ? Status() : internal_error("rows"));
    const Mesh flat = value_or_throw(rank.mesh.flatten(0, 2, "all"));
    const DTensor y = from_local(to_local(x), rank.mesh, Placements{S(0), S(0)}, {5, 3});
    const std::string other =
        error_of([&] {  // on the flattened axis the cut is 2, 2, 1, 0: other sets
          reinterpret(x, value_or_throw(Spec::make(flat, {5, 3}, DType::kF64, Placements{S(0)})));
        });
    return std::pair{copy_of(full_tensor(y)), other};
  });
  for (const auto& [y, other] : ranks) {
    CHECK(same_bits(y, full));
    CHECK(other.starts_with("reinterpret: rank 1 holds other indices of dim 0"));
  }
}

TEST_CASE("reductions over empty shards use the identity of their kind",
          "[dtensor][reduce][rules][12]") {
  const Array full = random_values({5, 3}, DType::kF64, 1);  // 5 rows over 4 ranks: rank 3 has none
  const auto body = [&](Rank& rank, const Placement& placement) {
    DTensor x = rank.parameter(full, {placement});
    const DTensor most = amax(x, {0});
    backward(sum(square(most)));
    return outcome_of({{"amax", most},
                       {"argmax", argmax(x.detach(), 0)},
                       {"sum", sum(x.detach(), {0})},
                       {"mean", mean(x.detach(), {0})}},
                      {{"x", x}});
  };
  const Outcome expected = on_one_rank([&](Rank& rank) { return body(rank, R); });
  const auto ranks = run_ranks(mesh_of_shape({4}), [&](Rank& rank) { return body(rank, S(0)); });
  CHECK(worst_difference(ranks, expected) < 1e-15);
}

}  // namespace tessera::testing
