// Lists of tensors on several meshes: norms, clipping and optimizer steps as on one rank.
#include "dtensor/foreach.h"

#include <cmath>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// Two tensors on one mesh, one on the same ranks as a 2x2 mesh, one sharded unevenly.
struct Case {
  Shape shape;
  Placements placements;
  bool square = false;
};
const std::vector<Case> kCases = {
    {{8, 6}, {S(0)}}, {{5, 3}, {R}}, {{7, 2}, {R, S(0)}, true}, {{5, 3}, {S(0)}}};

Array values_of(std::size_t i, unsigned seed) {
  return random_values(kCases[i].shape, DType::kF64, seed + static_cast<unsigned>(i));
}
std::vector<DTensor> lists_on(Rank& rank, unsigned seed) {
  const Mesh line = mesh_of_shape({4});
  const Mesh square = mesh_of_shape({2, 2});
  std::vector<DTensor> tensors;
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    tensors.push_back(distribute(rank.runtime, values_of(i, seed), kCases[i].square ? square : line,
                                 kCases[i].placements));
  }
  return tensors;
}

double expected_norm(unsigned seed, double p) {
  double sum = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    for (const double value : values_of(i, seed).to_vector()) {
      sum += std::pow(std::abs(value), p);
      largest = std::max(largest, std::abs(value));
    }
  }
  return std::isinf(p) ? largest : std::pow(sum, 1.0 / p);
}

}  // namespace

TEST_CASE("The norm of tensors on several meshes counts every element once", "[dtensor][foreach]") {
  if (!runs_here(4)) return;
  const double p = GENERATE(1.0, 2.0, 3.0, HUGE_VAL);
  CAPTURE(p);
  const auto norms =
      run_ranks(mesh_of_shape({4}), [&](Rank& rank) { return total_norm(lists_on(rank, 1), p); });
  for (const double norm : norms) CHECK(norm == Approx(expected_norm(1, p)).epsilon(1e-12));
}

TEST_CASE("Clipping scales every tensor to the norm allowed, or leaves all alone",
          "[dtensor][foreach]") {
  if (!runs_here(4)) return;
  const double norm = expected_norm(1, 2.0);
  const auto clipped = run_ranks(mesh_of_shape({4}), [&](Rank& rank) {
    const std::vector<DTensor> tensors = lists_on(rank, 1);
    const double before = clip_total_norm_(tensors, norm / 2);
    const double after = total_norm(tensors);
    const double untouched = clip_total_norm_(tensors, norm);
    std::string error;
    fill_(const_cast<DTensor&>(tensors[1]), HUGE_VAL);
    try {
      clip_total_norm_(tensors, 1.0);
    } catch (const Error& refused) {
      error = refused.what();
    }
    return std::tuple(before, after, untouched, total_norm(std::span(tensors).first(1)), error);
  });
  for (const auto& [before, after, untouched, first, error] : clipped) {
    CHECK(before == Approx(norm).epsilon(1e-12));
    CHECK(after == Approx(norm / 2).epsilon(1e-6));
    CHECK(untouched == Approx(after).epsilon(1e-12));
    CHECK(first > 0.0);
    CHECK_THAT(error, Catch::Contains("the norm is inf; nothing was scaled"));
  }
}

TEST_CASE("Steps over lists on several meshes are those of one rank", "[dtensor][foreach]") {
  if (!runs_here(4)) return;
  const auto ranks = run_ranks(mesh_of_shape({4}), [&](Rank& rank) {
    const std::vector<DTensor> params = lists_on(rank, 1), grads = lists_on(rank, 11);
    std::vector<DTensor> buffers;
    for (const DTensor& param : params) buffers.push_back(zeros_like(param));
    const Attrs attrs = {{"lr", 0.1}, {"momentum", 0.5}, {"step", 1}};
    sgd_step({params, grads}, buffers, attrs);
    foreach_add_(params, grads, -2.0);
    Outcome outcome;
    for (std::size_t i = 0; i < params.size(); ++i) {
      outcome[std::to_string(i)] = copy_of(full_tensor(params[i]));
    }
    return outcome;
  });
  Outcome expected;
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    std::vector<double> param = values_of(i, 1).to_vector();
    const std::vector<double> grad = values_of(i, 11).to_vector();
    for (std::size_t e = 0; e < param.size(); ++e) param[e] -= (0.1 + 2.0) * grad[e];
    expected[std::to_string(i)] = Array::from_values(kCases[i].shape, DType::kF64, param);
  }
  CHECK(worst_difference(ranks, expected) < 1e-14);
}

TEST_CASE("Lists of different lengths are refused before anything runs", "[dtensor][foreach]") {
  const auto errors = run_ranks(mesh_of_shape({1}), [&](Rank& rank) {
    const std::vector<DTensor> three(3, rank.distribute(random_values({2}, DType::kF64, 1), {R}));
    try {
      foreach_add_(three, std::span(three).first(2));
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string();
  });
  CHECK_THAT(errors[0], Catch::Contains("lists of 3 and 2 tensors must be of one length"));
}

}  // namespace tessera::testing
