#include <cmath>

#include "dtensor/dispatch.h"
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const std::vector<Shape> kMeshes = {{2}, {3}, {4}, {2, 2}};

DTensor call(Rank& rank, std::string_view op, std::vector<const DTensor*> operands,
             const Attrs& attrs, std::size_t result = 0) {
  const Op& found = find_op(rank.runtime, op);
  const Attrs complete = value_or_throw(complete_attrs(found, attrs));
  return dispatch(rank.runtime, found, operands, complete, Site::current())[result];
}

/// `body` on every mesh with `placement` on all axes, against one rank.
template <class F>
void check_everywhere(const Placement& placement, F body) {
  const Outcome expected =
      run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return body(rank, Placements{R}); })[0];
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      return body(rank, Placements(sizes.size(), placement));
    });
    CHECK(worst_difference(ranks, expected) < 1e-12);
  }
}

}  // namespace

TEST_CASE("variance over uneven and empty shards, with its gradient", "[dtensor][reduction]") {
  const Array full =
      random_values({5, 3}, DType::kF64, 1);  // 5 rows over 4: the last rank has none
  check_everywhere(S(0), [&](Rank& rank, const Placements& placements) {
    DTensor x = rank.parameter(full, placements);
    const DTensor spread = call(rank, "std", {&x}, {{"dim", Shape{0}}});
    backward(sum(spread));
    return outcome_of({{"std", spread}}, {{"x", x}});
  });
}

TEST_CASE("running sums and extremes go on from rank to rank", "[dtensor][reduction]") {
  const Array full = random_values({9, 2}, DType::kF64, 2);
  check_everywhere(S(0), [&](Rank& rank, const Placements& placements) {
    DTensor x = rank.parameter(full, placements);
    const Attrs rows = {{"dim", 0}};
    const DTensor sums = call(rank, "cumsum", {&x}, rows);
    const DTensor tops = call(rank, "cummax", {&x}, rows);
    const DTensor places = call(rank, "cummax", {&x}, rows, 1);
    backward(sum(add(sums, tops)));
    return outcome_of({{"sums", sums}, {"tops", tops}, {"places", places}}, {{"x", x}});
  });
}

TEST_CASE("batch norm over a cut batch has the statistics of the whole", "[dtensor][reduction]") {
  const Array images = random_values({5, 3, 2}, DType::kF64, 3);
  const Array scale = random_values({3}, DType::kF64, 4),
              shift = random_values({3}, DType::kF64, 5);
  check_everywhere(S(0), [&](Rank& rank, const Placements& placements) {
    const Placements whole(placements.size(), R);
    DTensor x = rank.parameter(images, placements);
    DTensor weight = rank.parameter(scale, whole), bias = rank.parameter(shift, whole);
    const DTensor y = call(rank, "batch_norm", {&x, &weight, &bias}, {});
    backward(sum(mul(y, y)));
    return outcome_of({{"y", y}}, {{"x", x}, {"weight", weight}, {"bias", bias}});
  });
}

TEST_CASE("argmax of the flattened tensor: the first of equals on any rank",
          "[dtensor][argmax][rules][8]") {
  const Array full = Array::from_values({3, 4}, DType::kF64,
                                        std::vector<double>{0, 1, 7, 2, 5, 7, 7, 0, 1, 1, 7, 3});
  for (const int dim : {0, 1}) {
    for (const Shape& sizes : kMeshes) {
      if (!runs_here(num_elements(sizes))) continue;
      CAPTURE(dim, to_string(sizes));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const DTensor x = rank.distribute(full, Placements(sizes.size(), S(dim)));
        return full_tensor(call(rank, "argmax", {&x}, {})).to_vector();
      });
      for (const std::vector<double>& place : ranks) CHECK(place == std::vector<double>{2});
    }
  }
}

}  // namespace tessera::testing
