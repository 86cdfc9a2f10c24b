#include "dtensor/factories.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

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

namespace {

/// The places of a triangle, found one by one.
std::vector<double> places(const TriangleSize& size, bool lower) {
  std::vector<double> rows, columns;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; ++column) {
      const std::int64_t beyond = column - row - size.offset;
      if (lower ? beyond > 0 : beyond < 0) continue;
      rows.push_back(static_cast<double>(row));
      columns.push_back(static_cast<double>(column));
    }
  }
  rows.insert(rows.end(), columns.begin(), columns.end());
  return rows;
}

std::string thrown_by(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("triangles of any size and offset hold the places that they should",
          "[dtensor][factories]") {
  const auto differences = run_ranks(mesh_of_shape({1}), [&](Rank& rank) {
    const NewTensor as = {rank.mesh, {R}, DType::kI64};
    std::vector<std::string> wrong;
    const auto judge = [&](const TriangleSize& size, const TriangleSize& same) {
      const bool lower =
          full_tensor(tril_indices(rank.runtime, size, as)).to_vector() == places(same, true);
      const bool upper =
          full_tensor(triu_indices(rank.runtime, size, as)).to_vector() == places(same, false);
      if (!lower || !upper) wrong.push_back(to_string(Shape{size.rows, size.columns, size.offset}));
    };
    for (std::int64_t rows = 0; rows < 4; ++rows) {
      for (std::int64_t columns = 0; columns < 4; ++columns) {
        for (std::int64_t offset = -4; offset <= 4; ++offset) {
          judge({rows, columns, offset}, {rows, columns, offset});
        }
      }
    }
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    judge({3, 3, kLeast}, {3, 3, -9});
    judge({3, 3, -(kLeast + 1)}, {3, 3, 9});
    return wrong;
  });
  CHECK(differences[0].empty());
}

TEST_CASE("factories refuse what no tensor could hold", "[dtensor][factories]") {
  const auto texts = run_ranks(mesh_of_shape({1}), [&](Rank& rank) {
    Runtime& runtime = rank.runtime;
    const NewTensor whole = {rank.mesh, {R}, DType::kI64};
    const NewTensor bytes = {rank.mesh, {R}, DType::kU8};
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    return std::vector<std::string>{thrown_by([&] {
                                      arange(runtime, {0, 1e300, 1}, whole);
                                    }),
                                    thrown_by([&] {
                                      arange(runtime, {0, 2, 0.5}, whole);
                                    }),
                                    thrown_by([&] { full(runtime, {2}, 300, bytes); }),
                                    thrown_by([&] { full(runtime, {2}, std::nan(""), whole); }),
                                    thrown_by([&] {
                                      tril_indices(runtime, {kHuge, kHuge, 0}, whole);
                                    }),
                                    thrown_by([&] { eye(runtime, kHuge, 4, whole); })};
  })[0];
  CHECK(texts[0] == "arange: from 0 to 1e+300 by 1 are more than 2^62");
  CHECK(texts[1] == "arange_: step is 0.5, but must be whole where self is I64. [self I64[4]]");
  CHECK(texts[2] ==
        "fill_: value is 300, but must be from 0 to 255 where self is U8. [self U8[2]]");
  CHECK(texts[3] == "fill_: value is nan, but must be whole where self is I64. [self I64[2]]");
  CHECK(texts[4] == "shape [2, 4611686018427387904] has more than 2^63 - 1 elements");
  CHECK(texts[5] == "shape [4611686018427387904, 4] has more than 2^63 - 1 elements");
}

}  // namespace tessera::testing
