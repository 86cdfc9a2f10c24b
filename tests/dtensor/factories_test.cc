#include "dtensor/factories.h"

#include <algorithm>
#include <set>

#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

const Replicate R{};
Shard S(int dim) { return Shard{dim}; }
const std::vector<Shape> kMeshes = {{1}, {2}, {3}, {4}, {2, 2}};

using Made = std::map<std::string, std::vector<double>>;

/// What every factory gives under one placement, whole.
Made make_all(Rank& rank, const Placements& of_lines, const Placements& of_planes) {
  const auto line = [&](DType dtype) { return NewTensor{rank.mesh, of_lines, dtype}; };
  const NewTensor plane = {rank.mesh, of_planes, DType::kF64};
  Runtime& runtime = rank.runtime;
  const RandomArgs source{.seed = 5, .stream = "weights"};
  const auto whole = [](const DTensor& x) { return full_tensor(x).to_vector(); };
  return {{"arange", whole(arange(runtime, {-1, 6, 1.5}, line(DType::kF64)))},
          {"arange_int", whole(arange(runtime, {9, 0, -2}, line(DType::kI64)))},
          {"linspace", whole(linspace(runtime, {-1, 1, 9}, line(DType::kF64)))},
          {"logspace", whole(logspace(runtime, {0, 3, 4}, 2, line(DType::kF64)))},
          {"eye", whole(eye(runtime, 5, 3, plane))},
          {"full", whole(full(runtime, {5, 3}, 2.5, plane))},
          {"ones", whole(ones(runtime, {5, 3}, plane))},
          {"zeros", whole(zeros(runtime, {5, 3}, plane))},
          {"tril", whole(tril_indices(runtime, {3, 3, 0}, {rank.mesh, of_planes, DType::kI64}))},
          {"triu", whole(triu_indices(runtime, {3, 3, 1}, {rank.mesh, of_planes, DType::kI64}))},
          {"rand", whole(rand(runtime, {5, 3}, source, plane))},
          {"randn", whole(randn(runtime, {5, 3}, source, plane))},
          {"randint", whole(randint(runtime, {-2, 4}, {5, 3}, source, plane))},
          {"randperm", whole(randperm(runtime, 11, source, line(DType::kI64)))}};
}

}  // namespace

TEST_CASE("factories give the same numbers under every placement, and send nothing",
          "[dtensor][factories][rules][9]") {
  const Made expected =
      run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return make_all(rank, {R}, {R}); })[0];
  CHECK(expected.at("arange") == std::vector<double>{-1, 0.5, 2, 3.5, 5});
  CHECK(expected.at("arange_int") == std::vector<double>{9, 7, 5, 3, 1});
  CHECK(expected.at("linspace") ==
        std::vector<double>{-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1});
  CHECK(expected.at("logspace") == std::vector<double>{1, 2, 4, 8});
  CHECK(expected.at("eye") == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  CHECK(expected.at("tril") == std::vector<double>{0, 1, 1, 2, 2, 2, 0, 0, 1, 0, 1, 2});
  CHECK(expected.at("triu") == std::vector<double>{0, 0, 1, 1, 2, 2});
  const std::vector<double>& permutation = expected.at("randperm");
  CHECK(std::set<double>(permutation.begin(), permutation.end()).size() == 11);
  CHECK(*std::max_element(permutation.begin(), permutation.end()) == 10);
  CHECK_FALSE(std::is_sorted(permutation.begin(), permutation.end()));
  for (const double value : expected.at("randint")) {
    CHECK((value >= -2 && value < 4 && value == std::floor(value)));
  }
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& plane : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(plane));
      const Placement line = plane == Placement(R) ? plane : Placement(S(0));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        return make_all(rank, Placements(sizes.size(), line), Placements(sizes.size(), plane));
      });
      for (const Made& made : ranks) CHECK(made == expected);
      const auto sent = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const NewTensor as = {rank.mesh, Placements(sizes.size(), line), DType::kI64};
        randperm(rank.runtime, 7, {.seed = 1}, as);
        arange(rank.runtime, {0, 7, 1}, as);
        return rank.bytes_received();
      });
      for (const std::int64_t bytes : sent) CHECK(bytes == 0);
    }
  }
}

TEST_CASE("dropout drops the same elements under every placement, backward too",
          "[dtensor][random][rules][9]") {
  const Array full = random_values({7, 4}, DType::kF64, 3);
  const auto body = [&](Rank& rank, const Placements& placements) {
    DTensor x = rank.parameter(full, placements);
    const DTensor operands[] = {x};
    const DTensor y = call(rank.runtime, "dropout", operands,
                           {{"p", 0.4}, {"train", true}, {"seed", 3}, {"stream", 8}})[0];
    backward(sum(square(y)));
    return outcome_of({{"y", y}}, {{"x", x}});
  };
  const Outcome expected =
      run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return body(rank, {R}); })[0];
  std::int64_t dropped = 0;
  const std::vector<double> kept = expected.at("y").to_vector(), values = full.to_vector();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    dropped += kept[i] == 0 ? 1 : 0;
    if (kept[i] != 0) CHECK(std::abs(kept[i] - values[i] / 0.6) < 1e-15);
  }
  CHECK(dropped > 3);
  CHECK(dropped < 25);
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& placement : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(placement));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        return body(rank, Placements(sizes.size(), placement));
      });
      CHECK(worst_difference(ranks, expected) < 1e-15);
    }
  }
}

}  // namespace tessera::testing
