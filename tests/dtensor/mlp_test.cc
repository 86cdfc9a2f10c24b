#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

// silu(x·w1ᵀ)·w2ᵀ against a target, mean squared error: x (rows, 6), w1 (hidden, 6), w2 (5,
// hidden).
struct MlpData {
  Array x, w1, w2, target;
};
MlpData mlp_data(std::int64_t rows, std::int64_t hidden) {
  return {random_values({rows, 6}, DType::kF64, 1), random_values({hidden, 6}, DType::kF64, 2),
          random_values({5, hidden}, DType::kF64, 3), random_values({rows, 5}, DType::kF64, 4)};
}

struct MlpPlacements {
  Placements x, w1, w2;
  Placements used_w1 = {}, used_w2 = {};  ///< FSDP: what the product uses; empty: as stored
  Placements out = {};                    ///< where the result is brought; empty: as it comes
};

DTensor used(const DTensor& w, const Placements& placements) {
  return placements.empty() ? w : redistribute(w, placements);
}

Outcome run_mlp(Rank& rank, const MlpData& data, const MlpPlacements& at) {
  DTensor x = rank.parameter(data.x, at.x);
  DTensor w1 = rank.parameter(data.w1, at.w1);
  DTensor w2 = rank.parameter(data.w2, at.w2);
  const DTensor hidden = silu(linear(x, used(w1, at.used_w1)));
  const DTensor y = used(linear(hidden, used(w2, at.used_w2)), at.out);
  const DTensor target = rank.distribute(data.target, Placements(at.x.size(), Replicate{}));
  const DTensor loss = mean(square(sub(y, target)));
  backward(loss);
  return outcome_of({{"y", y}, {"loss", loss}}, {{"x", x}, {"w1", w1}, {"w2", w2}});
}

struct MlpCase {
  const char* name;
  Shape mesh;
  MlpPlacements at;
};
std::vector<MlpCase> mlp_cases() {
  std::vector<MlpCase> cases;
  for (const std::int64_t n : {2, 3, 4}) {
    cases.push_back({"replicated", {n}, {{R}, {R}, {R}}});
    cases.push_back({"Megatron column/row", {n}, {{R}, {S(0)}, {S(1)}, {}, {}, {R}}});
    cases.push_back({"column/row, result left partial", {n}, {{R}, {S(0)}, {S(1)}}});
    cases.push_back({"data parallel", {n}, {{S(0)}, {R}, {R}}});
    cases.push_back({"FSDP", {n}, {{S(0)}, {S(0)}, {S(0)}, {R}, {R}}});
    cases.push_back({"FSDP on dim 1", {n}, {{S(0)}, {S(1)}, {S(1)}, {R}, {R}}});
    cases.push_back({"weights row/column", {n}, {{S(1)}, {S(1)}, {S(0)}}});
  }
  for (const Shape& mesh : {Shape{2, 2}, Shape{2, 3}, Shape{3, 2}}) {
    cases.push_back({"dp x tp", mesh, {{S(0), R}, {R, S(0)}, {R, S(1)}, {}, {}, {S(0), R}}});
    cases.push_back({"FSDP over TP",
                     mesh,
                     {{S(0), R},
                      {StridedShard{0, mesh[1]}, S(0)},
                      {S(0), S(1)},
                      {R, S(0)},
                      {R, S(1)},
                      {S(0), R}}});
    cases.push_back({"rows over both axes", mesh, {{S(0), S(0)}, {R, R}, {R, R}}});
    cases.push_back(
        {"sequence parallel", mesh, {{S(0), S(0)}, {R, S(0)}, {R, S(1)}, {}, {}, {S(0), S(0)}}});
  }
  return cases;
}

}  // namespace

TEST_CASE("an MLP and its gradients equal one rank's under any placement", "[dtensor][mlp]") {
  for (const std::int64_t rows : {8, 5}) {
    const MlpData data = mlp_data(rows, rows == 8 ? 12 : 7);
    const Outcome expected = run_ranks(MeshAxes{{"a", 1}}, [&](Rank& rank) {
      return run_mlp(rank, data, {{R}, {R}, {R}});
    })[0];
    for (const MlpCase& each : mlp_cases()) {
      if (!runs_here(num_elements(each.mesh))) continue;
      CAPTURE(rows, each.name, to_string(each.mesh));
      const auto run = [&](Rank& rank) { return run_mlp(rank, data, each.at); };
      const auto ranks = run_ranks(mesh_of_shape(each.mesh), run);
      CHECK(worst_difference(ranks, expected) < 1e-12);
    }
  }
}

TEST_CASE("the MLP's arithmetic repeats bit for bit", "[dtensor][mlp]") {
  const MlpData data = mlp_data(5, 7);
  const MlpPlacements at = {{S(0), R}, {R, S(0)}, {R, S(1)}, {}, {}, {S(0), R}};
  const auto run = [&](Rank& rank) { return run_mlp(rank, data, at); };
  const auto first = run_ranks(MeshAxes{{"dp", 2}, {"tp", 3}}, run);
  const auto second = run_ranks(MeshAxes{{"dp", 2}, {"tp", 3}}, run);
  CHECK(same_bits(first, second));
}

TEST_CASE("one rank's MLP gradients agree with finite differences", "[dtensor][mlp]") {
  const MlpData data = mlp_data(3, 4);
  const MlpPlacements at = {{R}, {R}, {R}};
  const auto loss_at = [&](const MlpData& point) {
    return run_ranks(MeshAxes{{"a", 1}}, [&](Rank& rank) { return run_mlp(rank, point, at); })[0]
        .at("loss")
        .to_vector()[0];
  };
  const Outcome exact =
      run_ranks(MeshAxes{{"a", 1}}, [&](Rank& rank) { return run_mlp(rank, data, at); })[0];
  const double step = 1e-6;
  for (const int i : {0, 5, 11}) {
    MlpData up = data, down = data;
    up.w1 = copy_of(data.w1);
    down.w1 = copy_of(data.w1);
    up.w1.data<double>()[i] += step;
    down.w1.data<double>()[i] -= step;
    const double slope = (loss_at(up) - loss_at(down)) / (2 * step);
    CHECK(exact.at("grad.w1").to_vector()[static_cast<std::size_t>(i)] ==
          Approx(slope).epsilon(1e-6));
  }
}

}  // namespace tessera::testing
