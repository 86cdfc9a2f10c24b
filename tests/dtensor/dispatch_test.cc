#include <cmath>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

Placements placements_of(const DTensor& x) { return value_or_throw(x.spec().placements()); }
Array one_rank_scatter(const Shape& shape, const Array& index, double value) {
  Array result = Array::zeros(shape, DType::kF32);
  const std::vector<double> at = index.to_vector();
  const std::int64_t width = index.shape()[1];
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / width;
    result.data<float>()[row * shape[1] + static_cast<std::int64_t>(at[i])] =
        static_cast<float>(value);
  }
  return result;
}

struct Scattered {
  Placements placements;
  std::int64_t bytes_sent = 0;
  Array full;
};

}  // namespace

TEST_CASE("scatter_ on a token-sharded mask stays in place", "[dtensor][scatter][C1]") {
  const auto tp = GENERATE(1, 2, 3, 4);  // 8 tokens over 3 ranks: the last shard is short
  CAPTURE(tp);
  const Array top_TK = unique_rows({8, 2}, /*below=*/6);
  const auto ranks = run_ranks({{"tp", tp}}, [&](Rank& rank) {
    DTensor mask_TG = rank.distribute(Array::zeros({8, 6}, DType::kF32), {S(0)});
    const DTensor top = rank.distribute(top_TK, {S(0)});
    const Storage* before = mask_TG.local().storage().get();
    scatter_(mask_TG, /*dim=*/1, top, 1.0);
    throw_if_error(mask_TG.local().storage().get() == before ? Status() : internal_error("moved"));
    const std::int64_t bytes = rank.bytes_sent();
    return Scattered{placements_of(mask_TG), bytes, copy_of(full_tensor(mask_TG))};
  });
  for (const Scattered& out : ranks) {
    if (tp > 1) CHECK(out.placements == Placements{S(0)});  // on one rank all are the same
    CHECK(out.bytes_sent == 0);
    CHECK(same_bits(out.full, one_rank_scatter({8, 6}, top_TK, 1.0)));
  }
}

TEST_CASE("scatter of a token-sharded mask stays token-sharded", "[dtensor][scatter][C2]") {
  const Array top_TK = unique_rows({8, 2}, 6);
  const auto ranks = run_ranks({{"dp", 2}, {"tp", 2}}, [&](Rank& rank) {
    const DTensor mask = rank.distribute(Array::zeros({8, 6}, DType::kF32), {S(0), S(0)});
    const DTensor out = scatter(mask, 1, rank.distribute(top_TK, {S(0), S(0)}), 1.0);
    const std::int64_t bytes = rank.bytes_sent();
    return Scattered{placements_of(out), bytes, copy_of(full_tensor(out))};
  });
  for (const Scattered& out : ranks) {
    CHECK(out.placements == Placements{S(0), S(0)});
    CHECK(out.bytes_sent == 0);
    CHECK(same_bits(out.full, one_rank_scatter({8, 6}, top_TK, 1.0)));
  }
}

TEST_CASE("sums go along the axes of more than one rank that hold summands, and no others",
          "[dtensor][mesh][C57]") {
  if (!runs_here(4)) return;
  struct Seen {
    std::vector<double> both, over_dp, over_tp;
    std::vector<std::string> calls;
    bool groups_same = false, meshes_meet = false;
    std::string refused;
  };
  const MeshAxes axes = {{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 2}};
  const auto ranks = run_ranks(axes, [](Rank& rank) {
    // Rank r's summand is 10^r: each sum says which ranks are in it.
    const double own = std::pow(10.0, static_cast<double>(rank.index()));
    const DTensor local =
        here(rank.runtime, Array::from_values({1}, DType::kF64, std::vector<double>{own}));
    const auto summed = [&](const Placements& held) {
      return redistribute(from_local(local, rank.mesh, held, {1}), Placements{R, R, R, R})
          .local()
          .to_vector();
    };
    rank.runtime.events().clear();
    Seen seen{.both = summed({P, P, P, P}),
              .over_dp = summed({P, P, P, R}),
              .over_tp = summed({P, R, P, P})};
    for (const Event& event : rank.runtime.events().events()) {
      if (event.kind == Event::Kind::kCollective)
        seen.calls.push_back(event.name + " " + event.axes);
    }
    const int both[] = {1, 3};
    Communicator* const group = value_or_throw(rank.world.group_along(rank.mesh, both));
    seen.groups_same =
        group == value_or_throw(rank.world.group_along(rank.mesh, both)) &&
        rank.mesh.sub_mesh(both, rank.index()) == rank.mesh.sub_mesh(both, rank.index());
    // The same ranks by another mesh of the same axes, made anew, and without those of one rank.
    const Array full = random_values({4}, DType::kF64);
    const DTensor x = rank.distribute(full, {R, S(0), R, R});
    rank.runtime.events().clear();
    for (const MeshAxes& same :
         {MeshAxes{{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 2}}, MeshAxes{{"dp", 2}, {"tp", 2}}}) {
      const Mesh mesh = make_mesh(same);
      const Placements placed = same.size() == 2 ? Placements{S(0), R} : Placements{R, S(0), R, R};
      add(x, distribute(rank.runtime, full, mesh, placed));
    }
    seen.meshes_meet = rank.bytes_sent() == 0;
    const Mesh turned = make_mesh({{"tp", 2}, {"dp", 2}});
    seen.refused = error_of([&] {
      add(x, distribute(rank.runtime, full, turned, Placements{R, S(0)}));
    });
    return seen;
  });
  for (std::size_t r = 0; r < 4; ++r) {
    const Seen& seen = ranks[r];
    CHECK(seen.both == std::vector<double>{1111});
    CHECK(seen.over_dp == std::vector<double>{r % 2 == 0 ? 101.0 : 1010.0});
    CHECK(seen.over_tp == std::vector<double>{r < 2 ? 11.0 : 1100.0});
    CHECK(seen.calls ==
          std::vector<std::string>{"all_reduce dp,tp", "all_reduce dp", "all_reduce tp"});
    CHECK(seen.groups_same);
    CHECK(seen.meshes_meet);
    CHECK_THAT(seen.refused, Catch::Contains("{tp: 2, dp: 2}"));
  }
}

TEST_CASE("counts over a token-sharded map are P(sum) on every token axis", "[dtensor][C3]") {
  const Array top_TK = unique_rows({7, 2}, 6);
  const auto ranks = run_ranks({{"dp", 2}, {"tp", 2}}, [&](Rank& rank) {
    DTensor map = rank.distribute(Array::zeros({7, 6}, DType::kBool), {S(0), S(0)});
    scatter_(map, 1, rank.distribute(top_TK, {S(0), S(0)}), 1.0);
    const DTensor counts = sum(map, {0});
    const std::int64_t bytes = rank.bytes_sent();
    return std::tuple{placements_of(counts), counts.dtype(), bytes,
                      full_tensor(counts).to_vector()};
  });
  std::vector<double> expected(6, 0.0);
  for (const double each : top_TK.to_vector()) expected[static_cast<std::size_t>(each)] += 1;
  for (const auto& [placements, dtype, bytes, counts] : ranks) {
    CHECK(placements == Placements{P, P});
    CHECK(dtype == DType::kI64);
    CHECK(bytes == 0);
    CHECK(counts == expected);
  }
}

TEST_CASE(
    "scatter_ with the scattered dim sharded, or index placed otherwise, is never silently local",
    "[dtensor][scatter][C5]") {
  const Array top_TK = unique_rows({8, 2}, 6);
  for (const Shape& sizes : {Shape{2}, Shape{3}, Shape{4}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& of_mask : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      for (const Placement& of_index : {Placement(R), Placement(S(0)), Placement(S(1))}) {
        CAPTURE(to_string(sizes), to_string(of_mask), to_string(of_index));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          const Placements mask_at(sizes.size(), of_mask), index_at(sizes.size(), of_index);
          DTensor mask = rank.distribute(Array::zeros({8, 6}, DType::kF32), mask_at);
          scatter_(mask, 1, rank.distribute(top_TK, index_at), 1.0);
          return Scattered{placements_of(mask), 0, copy_of(full_tensor(mask))};
        });
        for (const Scattered& out : ranks) {
          CHECK(out.placements == Placements(sizes.size(), of_mask));
          CHECK(same_bits(out.full, one_rank_scatter({8, 6}, top_TK, 1.0)));
        }
      }
    }
  }
}

TEST_CASE("the forbid policy names op, operand, got, needed and bytes", "[dtensor][policy]") {
  const auto texts = run_ranks({{"tp", 2}}, [](Rank& rank) {
    const DTensor a = rank.distribute(random_values({4, 4}, DType::kF32, 1), {S(0)});
    const DTensor b = rank.distribute(random_values({4, 4}, DType::kF32, 2), {S(0)});
    const DTensor p = rank.distribute(random_values({4, 4}, DType::kF32, 3), {P});
    const PolicyScope forbid(rank.runtime, ImplicitPolicy::kForbid);
    const std::int64_t before = rank.bytes_received();
    std::vector<std::string> errors = {error_of([&] { relu(p); }), error_of([&] { add(a, b); })};
    errors.push_back(rank.bytes_received() == before ? "" : "moved");
    return errors;
  });
  for (const auto& errors : texts) {
    CHECK(errors[0].starts_with(
        "relu: operand self is (P(sum)) and would be redistributed implicitly to "));
    CHECK(
        errors[0].ends_with(" bytes; redistribute it before the call, or allow implicit "
                            "redistribution in this region. [F32[4, 4] (P(sum)) on "
                            "{tp: 2}]"));
    CHECK(errors[1] == "");
    CHECK(errors[2] == "");
  }
}

TEST_CASE("the force policy has every redistribution written, and says the line",
          "[dtensor][policy]") {
  const auto texts = run_ranks({{"dp", 2}, {"tp", 2}}, [](Rank& rank) {
    const DTensor p = rank.distribute(random_values({4, 4}, DType::kF32, 1), {S(0), P});
    const DTensor a = rank.distribute(random_values({4, 4}, DType::kF32, 2), {R, R});
    const DTensor b = rank.distribute(random_values({4, 4}, DType::kF32, 3), {R, S(1)});
    const PolicyScope force(rank.runtime, ImplicitPolicy::kForce);
    std::vector<std::string> errors = {error_of([&] { relu(p); }), error_of([&] { add(a, b); })};
    // The lines that were asked for.
    errors.push_back(error_of([&] { relu(redistribute(p, {Shard{0}, Shard{1}})); }));
    errors.push_back(error_of([&] { add(redistribute(a, {Replicate{}, Shard{1}}), b); }));
    return errors;
  });
  for (const auto& errors : texts) {
    CAPTURE(errors);
    CHECK_THAT(errors[0], Catch::StartsWith("relu: operand self is (S(0), P(sum)) and would be"));
    CHECK_THAT(errors[0],
               Catch::Contains("add before the call: self = redistribute(self, {Shard{0}, "));
    CHECK_THAT(errors[1], Catch::StartsWith("add: operand self is (R, R) and would be"));
    CHECK_THAT(errors[1], Catch::Contains("moves 0 bytes; add before the call: self = "
                                          "redistribute(self, {Replicate{}, Shard{1}});"));
    CHECK(errors[2] == "");
    CHECK(errors[3] == "");
  }
}

TEST_CASE("an implicit redistribution is an event that says why", "[dtensor][policy][events]") {
  const auto ranks = run_ranks({{"tp", 2}}, [](Rank& rank) {
    const DTensor p = rank.distribute(random_values({4, 4}, DType::kF32, 3), {P});
    relu(p);
    std::vector<Event> moves;
    for (const Event& event : rank.runtime.events().events()) {
      if (event.kind == Event::Kind::kRedistribute) moves.push_back(event);
    }
    return moves;
  });
  for (const auto& moves : ranks) {
    REQUIRE(moves.size() == 1);
    CHECK(moves[0].origin == Origin::kImplicit);
    CHECK(moves[0].tensor == "self");
    CHECK(moves[0].why.starts_with("relu: operand self is (P(sum)), the op runs as "));
  }
}

TEST_CASE("random values do not depend on the placement", "[dtensor][random]") {
  const auto draw = [](Rank& rank, const Placements& placements) {
    const Spec spec = value_or_throw(Spec::make(rank.mesh, {5, 7}, DType::kF32, placements));
    DTensor x = zeros(rank.runtime, spec), y = zeros(rank.runtime, spec),
            z = zeros(rank.runtime, spec);
    uniform_(x, -1, 1, {.seed = 3, .stream = "x"});
    normal_(y, 0, 2, {.seed = 3, .stream = "y"});
    truncated_normal_(z, {.mean = 0, .std = 1, .low = -1, .high = 1}, {.seed = 3, .stream = "z"});
    return outcome_of({{"x", x}, {"y", y}, {"z", z}}, {});
  };
  const Outcome expected =
      run_ranks(MeshAxes{{"a", 1}}, [&](Rank& rank) { return draw(rank, {R}); })[0];
  CHECK_FALSE(same_bits(expected.at("x"), expected.at("y")));
  for (const Placements& placements :
       {Placements{S(0), S(1)}, Placements{S(0), S(0)}, Placements{StridedShard{1, 2}, S(1)}}) {
    const auto ranks =
        run_ranks({{"a", 2}, {"b", 2}}, [&](Rank& rank) { return draw(rank, placements); });
    CHECK(worst_difference(ranks, expected) == 0.0);
  }
}

TEST_CASE("attributes are told apart by their bits", "[dtensor][dispatch]") {
  const auto ranks = run_ranks({{"a", 1}}, [&](Rank& rank) {
    DTensor x = rank.distribute(Array::zeros({3}, DType::kF64), {R});
    std::vector<double> held;
    for (const double value : {std::nan(""), 0.0, -0.0, std::nan("")}) {
      fill_(x, value);
      held.push_back(x.local().to_vector()[0]);
    }
    return held;
  });
  const std::vector<double>& held = ranks[0];
  CHECK(std::isnan(held[0]));
  CHECK_FALSE(std::signbit(held[1]));
  CHECK(std::signbit(held[2]));
  CHECK(std::isnan(held[3]));
}

}  // namespace tessera::testing
