#include "dtensor/data_dependent.h"

#include <map>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const std::vector<Shape> kMeshes = {{1}, {2}, {3}, {4}, {2, 2}};

Placements repeated(const Shape& sizes, const Placement& each) {
  return Placements(sizes.size(), each);
}

/// Operands of several shapes: uneven rows, fewer rows than ranks, one dim, none true.
struct Case {
  Shape shape;
  std::int64_t below;  ///< of the integers drawn
};
const std::vector<Case> kCases = {{{7, 3}, 2}, {{2, 5}, 3}, {{11}, 4}, {{5, 3}, 1}, {{1, 4, 3}, 2}};

/// Row-major coordinates of the elements that are not 0.
std::vector<double> nonzero_by_loop(const Array& x) {
  std::vector<double> rows;
  const std::vector<double> values = x.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    std::vector<double> coord;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t d = x.shape().size(); d-- > 0;) {
      coord.insert(coord.begin(), static_cast<double>(rest % x.shape()[d]));
      rest /= x.shape()[d];
    }
    rows.insert(rows.end(), coord.begin(), coord.end());
  }
  return rows;
}

/// All placements of one kind on every axis, for a tensor of this many dims.
std::vector<Placement> placements_of(int ndim) {
  std::vector<Placement> all = {R};
  for (int d = 0; d < ndim; ++d) all.push_back(S(d));
  return all;
}

bool cut_by_rows(const DTensor& x) {
  for (const Placement& each : value_or_throw(x.spec().placements())) {
    if (each != Placement(S(0))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("nonzero lists the global places in row-major order, cut by rows",
          "[dtensor][data_dependent][host]") {
  for (const Case& each : kCases) {
    const Array full = random_integers(each.shape, each.below, 7);
    const std::vector<double> expected = nonzero_by_loop(full);
    const auto rows =
        static_cast<std::int64_t>(expected.size() / std::max<std::size_t>(each.shape.size(), 1));
    for (const Shape& sizes : kMeshes) {
      if (!runs_here(num_elements(sizes))) continue;
      for (const Placement& placement : placements_of(static_cast<int>(each.shape.size()))) {
        CAPTURE(to_string(each.shape), to_string(sizes), to_string(placement));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          const DTensor x = rank.distribute(full, repeated(sizes, placement));
          rank.runtime.events().clear();
          const DTensor found = nonzero(x);
          std::int64_t reads = 0;
          for (const Event& event : rank.runtime.events().events()) {
            reads += event.kind == Event::Kind::kHostRead ? 1 : 0;
          }
          return std::tuple{found.global_shape(), full_tensor(found).to_vector(),
                            num_elements(sizes) == 1 || cut_by_rows(found), reads};
        });
        for (const auto& [shape, values, cut, reads] : ranks) {
          CHECK(shape == Shape{rows, static_cast<std::int64_t>(each.shape.size())});
          CHECK(values == expected);
          CHECK(cut);
          CHECK(reads >= 1);
        }
      }
    }
  }
}

TEST_CASE("unique merges what ranks have: values, places and counts",
          "[dtensor][data_dependent][host]") {
  for (const Case& each : kCases) {
    const Array full = random_integers(each.shape, each.below + 2, 5);
    std::map<double, double> tally;
    for (const double value : full.to_vector()) tally[value] += 1;
    std::vector<double> values, counts, inverse;
    for (const auto& [value, count] : tally) {
      values.push_back(value);
      counts.push_back(count);
    }
    for (const double value : full.to_vector()) {
      inverse.push_back(static_cast<double>(std::distance(tally.begin(), tally.find(value))));
    }
    for (const Shape& sizes : kMeshes) {
      if (!runs_here(num_elements(sizes))) continue;
      for (const Placement& placement : placements_of(static_cast<int>(each.shape.size()))) {
        CAPTURE(to_string(each.shape), to_string(sizes), to_string(placement));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          const UniqueValues found = unique(rank.distribute(full, repeated(sizes, placement)));
          return std::tuple{full_tensor(found.values).to_vector(),
                            full_tensor(found.inverse).to_vector(),
                            full_tensor(found.counts).to_vector(), found.inverse.global_shape()};
        });
        for (const auto& [got_values, got_inverse, got_counts, shape] : ranks) {
          CHECK(got_values == values);
          CHECK(got_inverse == inverse);
          CHECK(got_counts == counts);
          CHECK(shape == each.shape);
        }
      }
    }
  }
}

TEST_CASE("unique of floats takes NaN as one value, the last", "[dtensor][data_dependent][host]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {nan, 2.5, -1, nan, 2.5, 7};
  const Array full = Array::from_values({6}, DType::kF64, values);
  const auto ranks = run_ranks(mesh_of_shape({runs_here(3) ? 3 : 1}), [&](Rank& rank) {
    const UniqueValues found = unique(rank.distribute(full, {S(0)}));
    return std::pair{full_tensor(found.values).to_vector(), full_tensor(found.counts).to_vector()};
  });
  for (const auto& [got, counts] : ranks) {
    REQUIRE(got.size() == 4);
    CHECK(std::vector<double>(got.begin(), got.begin() + 3) == std::vector<double>{-1, 2.5, 7});
    CHECK(std::isnan(got[3]));
    CHECK(counts == std::vector<double>{1, 2, 1, 2});
  }
}

TEST_CASE("masked_select and its gradient equal a loop over the whole tensor",
          "[dtensor][data_dependent]") {
  for (const Case& each : kCases) {
    const Array full = random_values(each.shape, DType::kF64, 3);
    Array mask = Array::empty(each.shape, DType::kBool);
    const std::vector<double> drawn = random_integers(each.shape, each.below, 9).to_vector();
    std::vector<double> expected, gradient;
    const std::vector<double> values = full.to_vector();
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      mask.data<bool>()[i] = drawn[i] != 0;
      if (drawn[i] != 0) expected.push_back(values[i]);
      gradient.push_back(drawn[i] != 0 ? 2 * values[i] : 0.0);
    }
    for (const Shape& sizes : kMeshes) {
      if (!runs_here(num_elements(sizes))) continue;
      for (const Placement& placement : placements_of(static_cast<int>(each.shape.size()))) {
        CAPTURE(to_string(each.shape), to_string(sizes), to_string(placement));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          DTensor x = rank.parameter(full, repeated(sizes, placement));
          const DTensor found = masked_select(x, rank.distribute(mask, repeated(sizes, placement)));
          backward(sum(square(found)));
          return std::tuple{found.global_shape(), full_tensor(found).to_vector(),
                            full_tensor(x.grad()).to_vector()};
        });
        for (const auto& [shape, got, grad] : ranks) {
          CHECK(shape == Shape{static_cast<std::int64_t>(expected.size())});
          CHECK(got == expected);
          CHECK(grad == gradient);
        }
      }
    }
  }
}

TEST_CASE("x[mask] takes slices, and index_put_ by a mask writes them",
          "[dtensor][data_dependent][index][host]") {
  const Array full = random_values({6, 3}, DType::kF64, 3);
  const std::vector<double> rows = {1, 0, 0, 1, 1, 0};
  const Array mask = Array::from_values({6}, DType::kBool, rows);
  const Array row = random_values({3}, DType::kF64, 4);
  std::vector<double> taken, written, added;
  const std::vector<double> values = full.to_vector(), update = row.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool chosen = rows[i / 3] != 0;
    if (chosen) taken.push_back(values[i]);
    written.push_back(chosen ? update[i % 3] : values[i]);
    added.push_back(chosen ? values[i] + update[i % 3] : values[i]);
  }
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& placement : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(placement));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const Placements whole = repeated(sizes, R);
        const DTensor chosen = rank.distribute(mask, whole);
        const DTensor put = rank.distribute(row, whole);
        DTensor a = rank.distribute(full, repeated(sizes, placement));
        DTensor b = rank.distribute(full, repeated(sizes, placement));
        const std::vector<double> slices = full_tensor(index(a, chosen)).to_vector();
        index_put_(a, chosen, put);
        index_put_(b, chosen, put, PutMode::kAccumulate);
        return std::tuple{slices, full_tensor(a).to_vector(), full_tensor(b).to_vector(),
                          a.spec() == b.spec()};
      });
      for (const auto& [slices, a, b, same] : ranks) {
        CHECK(slices == taken);
        CHECK(a == written);
        CHECK(b == added);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("repeat_interleave by a tensor and bincount read their sizes from the values",
          "[dtensor][data_dependent][host]") {
  const Array full = random_values({5, 2}, DType::kF64, 3);
  const std::vector<double> times = {2, 0, 1, 3, 0};
  const Array repeats = Array::from_values({5}, DType::kI64, times);
  const Array ids = random_integers({9}, 6, 2);
  std::vector<double> repeated_rows, counts;
  const std::vector<double> values = full.to_vector();
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (double left = times[i]; left > 0; --left) {
      repeated_rows.push_back(values[2 * i]);
      repeated_rows.push_back(values[2 * i + 1]);
    }
  }
  for (const double id : ids.to_vector()) {
    if (counts.size() <= static_cast<std::size_t>(id))
      counts.resize(static_cast<std::size_t>(id) + 1);
    counts[static_cast<std::size_t>(id)] += 1;
  }
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& placement : {Placement(R), Placement(S(0))}) {
      CAPTURE(to_string(sizes), to_string(placement));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const DTensor x = rank.distribute(full, repeated(sizes, placement));
        const DTensor n = rank.distribute(repeats, repeated(sizes, placement));
        const DTensor found = bincount(rank.distribute(ids, repeated(sizes, placement)), {}, 0);
        return std::pair{full_tensor(repeat_interleave(x, n, 0)).to_vector(),
                         full_tensor(found).to_vector()};
      });
      for (const auto& [rows, found] : ranks) {
        CHECK(rows == repeated_rows);
        CHECK(found == counts);
      }
    }
  }
}

TEST_CASE("a mask that is none is refused", "[dtensor][data_dependent]") {
  const auto ranks = run_ranks(mesh_of_shape({1}), [&](Rank& rank) {
    const DTensor x = rank.distribute(random_values({4, 3}, DType::kF64), {S(0)});
    const DTensor wrong = rank.distribute(random_values({3}, DType::kF64), {R});
    const DTensor mask =
        rank.distribute(Array::from_values({3}, DType::kBool, std::vector<double>{1, 0, 1}), {R});
    return std::pair{error_of([&] { masked_select(x, wrong); }), error_of([&] { index(x, mask); })};
  });
  CHECK(ranks[0].first.starts_with("masked_select: mask is F64, but must be BOOL"));
  CHECK(ranks[0].second == "index: mask [3] must have the sizes of the first dims of x [4, 3]");
}

}  // namespace tessera::testing
