// In place: what is written stays where it is and holds what one rank computes, or the call is
// refused on every rank before anything has changed.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const Partial kMax{ReduceOp::kMax};

Placements repeated(const Shape& sizes, const Placement& each) {
  return Placements(sizes.size(), each);
}
const std::vector<Shape> kMeshes = {{1}, {2}, {3}, {4}, {2, 2}};

enum class Write : std::uint8_t { kSet, kAdd };

/// self[index[i][j]][j] (dim 0) or self[i][index[i][j]] (dim 1) takes src[i][j], in the order of
/// the operands: of equal indices the last wins, or all add up.
std::vector<double> scattered(const Array& self, std::int64_t dim, const Array& index,
                              const Array& src, Write write) {
  std::vector<double> out = self.to_vector();
  const std::vector<double> at = index.to_vector(), from = src.to_vector();
  const std::int64_t rows = index.size(0), columns = index.size(1), width = self.size(1);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto to = static_cast<std::int64_t>(at[static_cast<std::size_t>(i * columns + j)]);
      double& target = out[static_cast<std::size_t>(dim == 0 ? to * width + j : i * width + to)];
      const double value = from[static_cast<std::size_t>(i * src.size(1) + j)];
      target = write == Write::kSet ? value : target + value;
    }
  }
  return out;
}

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = a.size() == b.size() ? 0.0 : 1e300;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference;
}

}  // namespace

TEST_CASE("scatter_ and scatter_add_ keep the target's placement, duplicates in operand order",
          "[dtensor][in_place][scatter][rules][15]") {
  // Every index occurs several times along the scattered dim.
  const Array self = random_values({6, 5}, DType::kF64, 1),
              src = random_values({6, 5}, DType::kF64, 2);
  const std::vector<Placement> targets = {R, S(0), S(1), P, kMax}, sources = {R, S(0), S(1)};
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const std::int64_t dim : {0, 1}) {
      const Array index = random_integers({6, 5}, dim == 0 ? 3 : 2, 3);
      for (const Placement& target : targets) {
        for (const Placement& source : sources) {
          CAPTURE(to_string(sizes), dim, to_string(target), to_string(source));
          const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
            const auto run = [&](const char* op) {
              const DTensor x = rank.distribute(self, repeated(sizes, target));
              const Spec before = x.spec();
              const Storage* held = x.local().storage().get();
              const DTensor operands[] = {x, rank.distribute(index, repeated(sizes, source)),
                                          rank.distribute(src, repeated(sizes, source))};
              std::string error;
              try {
                call(rank.runtime, op, operands, {{"dim", dim}});
              } catch (const Error& e) {
                error = std::string(message_of(e.status()));
              }
              const bool kept = x.spec() == before && x.local().storage().get() == held;
              return std::tuple{kept, error, full_tensor(x).to_vector()};
            };
            return std::pair{run("scatter_"), run("scatter_add_")};
          });
          for (const auto& [set, added] : ranks) {
            CHECK(std::get<0>(set));
            CHECK(std::get<1>(set) == "");
            CHECK(worst(std::get<2>(set), scattered(self, dim, index, src, Write::kSet)) == 0.0);
            CHECK(std::get<0>(added));
            if (target == Placement(kMax) && num_elements(sizes) > 1) {
              // Sums of an infinity and of the identity of a maximum are NaN: refused, unchanged.
              CHECK(std::get<1>(added).starts_with("scatter_add_: self is (P(max)"));
              CHECK(worst(std::get<2>(added), self.to_vector()) == 0.0);
              continue;
            }
            CHECK(std::get<1>(added) == "");
            CHECK(worst(std::get<2>(added), scattered(self, dim, index, src, Write::kAdd)) < 1e-14);
          }
        }
      }
    }
  }
}

TEST_CASE("scatter_ on a mesh of two axes cuts tokens and experts at once, and moves nothing",
          "[dtensor][in_place][scatter][rules][15]") {
  const Array map = Array::zeros({8, 6}, DType::kF64), index = random_integers({8, 2}, 6, 5);
  const Array ones = Array::from_values({8, 2}, DType::kF64, std::vector<double>(16, 1.0));
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}, {"ep", 2}}, [&](Rank& rank) {
    DTensor x = rank.distribute(map, {S(0), S(1)});
    scatter_(x, 1, rank.distribute(index, {S(0), R}), 1.0);
    const std::int64_t bytes = rank.bytes_received() + rank.bytes_sent();
    return std::tuple{to_string(value_or_throw(x.spec().placements())), bytes,
                      full_tensor(x).to_vector()};
  });
  for (const auto& [placed, bytes, values] : ranks) {
    CHECK(placed == "(S(0), S(1))");
    CHECK(bytes == 0);
    CHECK(values == scattered(map, 1, index, ones, Write::kSet));
  }
}

TEST_CASE("a write through a view of a sharded tensor changes its base",
          "[dtensor][in_place][view]") {
  const Array full_x = random_values({4, 6}, DType::kF64, 1);
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& at : {Placement(R), Placement(S(0))}) {
      CAPTURE(to_string(sizes), to_string(at));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const DTensor x = rank.distribute(full_x, repeated(sizes, at));
        DTensor turned = transpose(x, 0, 1);
        DTensor part = slice(turned, 0, 1, 3);  // columns 1 and 2 of x
        const std::uint32_t version = x.local().storage()->version();
        fill_(part, 5.0);
        const bool told = x.local().storage()->version() == version + 1;
        return std::pair{told, full_tensor(x).to_vector()};
      });
      std::vector<double> expected = full_x.to_vector();
      for (std::size_t i = 0; i < 4; ++i) expected[i * 6 + 1] = expected[i * 6 + 2] = 5.0;
      for (const auto& [told, values] : ranks) {
        CHECK(told);
        CHECK(values == expected);
      }
    }
  }
}

TEST_CASE("backward notices a write through a view, on every rank", "[dtensor][in_place][view]") {
  const auto errors = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    const DTensor w = rank.parameter(random_values({4, 4}, DType::kF64, 1), {S(0)});
    DTensor x = rank.distribute(random_values({4, 4}, DType::kF64, 2), {S(0)});
    const DTensor loss = sum(mul(w, x));
    DTensor view = slice(x, 1, 0, 1);
    fill_(view, 0.0);
    return error_of([&] { backward(loss); });
  });
  for (const std::string& error : errors) {
    CHECK(
        error.starts_with("backward: mul needs its operand other as it was in the forward pass, "
                          "but it was written in place since (version 1, saved at 0)"));
  }
}

TEST_CASE("operands that overlap what is written are read first", "[dtensor][in_place][overlap]") {
  const Array square = random_values({4, 4}, DType::kF64, 3);
  const Array index = random_integers({4, 4}, 4, 4);
  const std::vector<double> v = square.to_vector();
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& at : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      CAPTURE(to_string(sizes), to_string(at));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        DTensor x = rank.distribute(square, repeated(sizes, at));
        add_(x, transpose(x, 0, 1));
        DTensor twice = rank.distribute(square, repeated(sizes, at));
        add_(twice, twice);
        DTensor row = rank.distribute(square, repeated(sizes, at));
        add_(row, slice(row, 0, 0, 1));  // broadcasts what the first row was
        DTensor moved = rank.distribute(square, repeated(sizes, at));
        DTensor to = slice(moved, 0, 1, 4);
        if (at != Placement(S(0))) copy_(to, slice(moved, 0, 0, 3));
        DTensor target = rank.distribute(square, repeated(sizes, at));
        scatter_(target, 1, rank.distribute(index, repeated(sizes, R)), target);
        return std::vector{full_tensor(x).to_vector(), full_tensor(twice).to_vector(),
                           full_tensor(row).to_vector(), full_tensor(moved).to_vector(),
                           full_tensor(target).to_vector()};
      });
      const bool shifted = at != Placement(S(0));
      for (const auto& got : ranks) {
        for (std::size_t i = 0; i < 4; ++i) {
          for (std::size_t j = 0; j < 4; ++j) {
            CHECK(got[0][i * 4 + j] == v[i * 4 + j] + v[j * 4 + i]);
            CHECK(got[1][i * 4 + j] == 2 * v[i * 4 + j]);
            CHECK(got[2][i * 4 + j] == v[i * 4 + j] + v[j]);
            CHECK(got[3][i * 4 + j] == (shifted && i > 0 ? v[(i - 1) * 4 + j] : v[i * 4 + j]));
          }
        }
        CHECK(got[4] == scattered(square, 1, index, square, Write::kSet));
      }
    }
  }
}

TEST_CASE("what cannot be written is refused alike on every rank, and nothing has changed",
          "[dtensor][in_place]") {
  for (const Shape& sizes : {Shape{2}, Shape{4}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const Array values = random_values({3, 4}, DType::kF64, 1);
      DTensor product = rank.distribute(values, repeated(sizes, Partial{ReduceOp::kProd}));
      const DTensor whole = rank.distribute(values, repeated(sizes, R));
      const DTensor sums = rank.distribute(values, repeated(sizes, P));
      DTensor repeats =
          expand(rank.distribute(Array::zeros({1, 4}, DType::kF64), repeated(sizes, R)), {3, 4});
      // No cut of five rows is one of three: the view is of a gathered copy.
      DTensor other_rows = view(
          rank.distribute(random_values({5, 3}, DType::kF64, 2), repeated(sizes, S(0))), {3, 5});
      DTensor cut = rank.distribute(values, repeated(sizes, S(0)));
      DTensor leaf = rank.parameter(values, repeated(sizes, S(0)));
      const std::vector<double> before = product.local().to_vector();
      rank.runtime.events().clear();
      std::vector<std::string> errors;
      errors.push_back(error_of([&] { add_(product, sums); }));
      errors.push_back(error_of([&] { fill_(repeats, 1.0); }));
      errors.push_back(error_of([&] { fill_(other_rows, 1.0); }));
      errors.push_back(error_of([&] { add_(leaf, cut); }));
      errors.push_back(error_of([&] {
        add_(cut, rank.distribute(Array::zeros({5, 3, 4}, DType::kF64), repeated(sizes, R)));
      }));
      const bool unchanged = product.local().to_vector() == before &&
                             product.local().storage()->version() == 0 &&
                             rank.runtime.events().events().empty();
      errors.push_back(unchanged ? "" : "changed");
      item(sum(whole));
      errors.push_back(item(sum(sums)) == item(sum(whole)) ? "" : "ranks differ");
      return errors;
    });
    for (const auto& errors : ranks) {
      CHECK(errors == ranks[0]);
      CHECK(errors[0].starts_with("add_: self is (P(prod)"));
      CHECK(errors[1].starts_with("fill_: the operand cannot be written in place: it repeats "));
      CHECK(errors[2].starts_with(
          "fill_: the operand cannot be written in place: it is a view of "
          "a dim that is cut, or of a tensor that had to move, for which ranks made a copy"));
      CHECK(errors[3].starts_with("add_: the operand: a leaf that needs a gradient"));
      CHECK(errors[4] ==
            "add_: in place on [3, 4], but the operand [5, 3, 4] would broadcast it to [5, 3, 4]. "
            "[self F64[3, 4], other F64[5, 3, 4]]");
      CHECK(errors[5] == "");
      CHECK(errors[6] == "");
    }
  }
}

}  // namespace tessera::testing
