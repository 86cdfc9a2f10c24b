// Where others give wrong values without a word: what is not monotone or not linear under a
// Partial, ties, random values, identities of empty shards.
#include <limits>

#include "tests/dtensor/rules.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

using Strings = std::vector<std::string>;
const std::vector<Placement> kExtremes = {Partial{ReduceOp::kMax}, Partial{ReduceOp::kMin}};
const std::vector<Placement> kPartials = {Partial{ReduceOp::kSum}, Partial{ReduceOp::kAvg},
                                          Partial{ReduceOp::kMax}, Partial{ReduceOp::kMin}};
const std::vector<Placement> kCuts = {R, S(0), S(1)};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Array f64(Shape shape, std::vector<double> values) {
  return Array::from_values(shape, DType::kF64, values);
}
template <class F>
std::vector<double> each_of(const Array& x, F f) {
  std::vector<double> values = x.to_vector();
  for (double& value : values) value = f(value);
  return values;
}
const Array kValues = f64({2, 3}, {3, -2, 1, 0.5, -4, 2});

}  // namespace

TEST_CASE("what is not monotone reduces P(max) and P(min) first", "[dtensor][rules][4]") {
  CHECK(wrong_results({"linalg_vector_norm", {kValues}, {{"ord", kInf}}, {{4}}}, kPartials) ==
        Strings{});
  CHECK(wrong_results({"linalg_vector_norm", {f64({1}, {3})}, {{"ord", kInf}}, {{3}}}, kPartials) ==
        Strings{});
  const double t = 0.75, v = 2.5;  // v > t: not monotone
  CHECK(wrong_results({"threshold",
                       {kValues},
                       {{"threshold", t}, {"value", v}},
                       {each_of(kValues, [&](double x) { return x > t ? x : v; })}},
                      kPartials) == Strings{});
  CHECK(wrong_results(
            {"relu", {kValues}, {}, {each_of(kValues, [](double x) { return x > 0 ? x : 0; })}},
            kPartials) == Strings{});
  CHECK(wrong_results(
            {"abs", {kValues}, {}, {each_of(kValues, [](double x) { return std::abs(x); })}},
            kPartials) == Strings{});
  CHECK(
      wrong_results({"clamp",
                     {kValues},
                     {{"min", -1.0}, {"max", 1.5}},
                     {each_of(kValues, [](double x) { return std::min(std::max(x, -1.0), 1.5); })}},
                    kPartials) == Strings{});
}

TEST_CASE("nan_to_num and relu under P(max) and P(min) with NaN and custom limits",
          "[dtensor][rules][4]") {
  const Array x = f64({5}, {kNaN, kInf, -kInf, 1.5, -2});
  CHECK(wrong_results({"nan_to_num",
                       {x},
                       {{"nan", -7.0}, {"posinf", 1.0}, {"neginf", 2.0}},
                       {{-7, 1, 2, 1.5, -2}}},
                      {R, S(0), kExtremes[0], kExtremes[1]}) == Strings{});
  const Array y = f64({4}, {kNaN, 1.5, -2, 0});
  CHECK(wrong_results({"relu", {y}, {}, {{kNaN, 1.5, 0, 0}}},
                      {R, S(0), kExtremes[0], kExtremes[1]}) == Strings{});
}

TEST_CASE("what is not linear reduces P(sum) first: powers, nansum, casts", "[dtensor][rules][4]") {
  const Array x = f64({2, 2}, {10, 14, 2, 6.32455532033676});  // 100 + 196 + 4 + 40
  CHECK(wrong_results({"sum_of_squares", {x}, {}, {{340}}}, kPartials) == Strings{});
  CHECK(wrong_results({"pow", {f64({2}, {3, -2})}, {{"exponent", 2.0}}, {{9, 4}}}, kPartials) ==
        Strings{});
  CHECK(wrong_results({"nansum", {f64({2, 3}, {1, kNaN, 2, 3, 4, kNaN})}, {}, {{10}}},
                      {R, S(0), S(1), kPartials[0]}) == Strings{});
  CHECK(wrong_results(
            {"nansum", {f64({2, 3}, {1, kNaN, 2, 3, 4, kNaN})}, {{"dim", Shape{0}}}, {{4, 4, 2}}},
            {R, S(0), S(1), kPartials[0]}) == Strings{});
  // Halves on each rank: a cast of the summands would lose them.
  const Array thirds = f64({3}, {3.5, -2.25, 7.75});
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    CHECK(wrong_results({"to", {thirds}, {{"dtype", dtype}}, {{3, -2, 7}}}, kPartials) ==
          Strings{});
  }
}

TEST_CASE("copy_ of a float P(sum) into an integer tensor rounds the sum, not the summands",
          "[dtensor][rules][4]") {
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const auto axes = static_cast<std::size_t>(rank.mesh.ndim());
      const double share =
          3.0 / static_cast<double>(rank.mesh.num_ranks());  // 0.75 on each of four
      const DTensor sum = from_local(here(rank.runtime, f64({2}, {share, 2 * share})), rank.mesh,
                                     Placements(axes, Partial{}), {2});
      DTensor whole = rank.distribute(Array::zeros({2}, DType::kI64), Placements(axes, R));
      copy_(whole, sum);
      DTensor counts = rank.distribute(Array::zeros({2}, DType::kI64), Placements(axes, Partial{}));
      const std::string refused = error_of([&] { copy_(counts, sum); });
      return std::tuple{full_tensor(whole).to_vector(), full_tensor(counts).to_vector(), refused};
    });
    for (const auto& [whole, counts, refused] : ranks) {
      CHECK(whole == std::vector<double>{3, 6});
      const bool right = refused.empty() ? counts == std::vector<double>{3, 6}
                                         : counts == std::vector<double>{0, 0};
      CHECK(right);  // never the sum of rounded summands
    }
  }
}

TEST_CASE("ties: the first index wins over S(1), S(0) and both", "[dtensor][rules][8]") {
  const Array x =
      f64({4, 6}, {1, 7, 7, 0, 7, 2, 3, 3, 1, 3, 3, 3, 9, 0, 9, 0, 0, 9, 9, 7, 9, 3, 7, 9});
  const std::vector<Placement> places = {R, S(0), S(1), Partial{ReduceOp::kMax}};
  CHECK(wrong_results({"argmax", {x}, {{"dim", 1}}, {{1, 0, 0, 0}}}, places) == Strings{});
  CHECK(wrong_results({"argmax", {x}, {{"dim", 0}}, {{2, 0, 2, 1, 0, 2}}}, places) == Strings{});
  CHECK(wrong_results({"argmin", {x}, {{"dim", 1}}, {{3, 2, 1, 3}}}, kCuts) == Strings{});
  CHECK(wrong_results({"argmin", {x}, {{"dim", 0}}, {{0, 2, 1, 0, 2, 0}}}, kCuts) == Strings{});
}

TEST_CASE("random values do not depend on the placement, and shards do not repeat",
          "[dtensor][rules][9]") {
  std::vector<double> first;
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& at : kCuts) {
      CAPTURE(to_string(sizes), to_string(at));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        DTensor x = placed(rank, Array::zeros({8, 8}, DType::kF64), at);
        uniform_(x, 0.0, 1.0, {.seed = 11, .stream = "x"});
        return full_tensor(x).to_vector();
      });
      if (first.empty()) first = ranks[0];
      for (const auto& values : ranks) CHECK(values == first);
    }
  }
  std::vector<double> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

TEST_CASE("max.dim and min.dim over a cut dim give global indices; ties keep the first",
          "[dtensor][rules][10]") {
  const Array x = f64({5, 3}, {1, 9, 2, 8, 9, 2, 8, 0, 7, 3, 9, 7, 8, 1, 0});
  CHECK(wrong_results({"max_dim", {x}, {{"dim", 0}}, {{8, 9, 7}, {1, 0, 2}}}, kCuts) == Strings{});
  CHECK(wrong_results({"max_dim", {x}, {{"dim", 1}}, {{9, 9, 8, 9, 8}, {1, 1, 0, 1, 0}}}, kCuts) ==
        Strings{});
  CHECK(wrong_results({"min_dim", {x}, {{"dim", 0}}, {{1, 0, 0}, {0, 2, 4}}}, kCuts) == Strings{});
}

TEST_CASE("clamp_ on a Partial: refused, or right", "[dtensor][rules][10]") {
  const Array two = f64({2}, {2, 5});
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& at : kPartials) {
      CAPTURE(to_string(sizes), to_string(at));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        const DTensor x = placed(rank, two, at);
        const std::string error = error_of([&] {
          call(rank.runtime, "clamp_", {&x, 1}, {{"min", 0.0}, {"max", 3.0}});
        });
        return std::pair{error, full_tensor(x).to_vector()};
      });
      for (const auto& [error, values] : ranks) {
        const bool carried = at == kPartials[2] || at == kPartials[3] || num_elements(sizes) == 1;
        CHECK(error.empty() == carried);
        if (!carried) CHECK(error.starts_with("clamp_: self is (P("));
        CHECK(close(values, carried ? std::vector<double>{2, 3} : std::vector<double>{2, 5}));
      }
    }
  }
}

TEST_CASE("five rows over four ranks: sizes, scatter into a replica, static reductions",
          "[dtensor][rules][11]") {
  const auto sizes = run_ranks(mesh_of_shape({4}), [&](Rank& rank) {
    return rank.distribute(Array::zeros({5, 3}, DType::kF64), {S(0)}).local().size(0);
  });
  CHECK(sizes == std::vector<std::int64_t>{2, 2, 1, 0});
  // The target stays whole: nothing is counted once per rank.
  const Array target = f64({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array index = Array::from_values({2, 2}, DType::kI64, std::vector<double>{0, 2, 0, 1});
  const Array src = f64({2, 2}, {10, 20, 30, 40});
  const std::vector<double> added = {41, 2, 3, 44, 5, 26}, set = {30, 2, 3, 40, 5, 20};
  for (const Placement& from : kCuts) {
    CHECK(wrong_results({"scatter_add", {target, index, src}, {{"dim", 0}}, {added}}, kCuts,
                        from) == Strings{});
    CHECK(wrong_results({"scatter", {target, index, src}, {{"dim", 0}}, {set}}, kCuts, from) ==
          Strings{});
  }
  const Array x = f64({5, 2}, {2, 0.5, 3, 4, 0.5, 2, 1, 0.25, 2, 1});
  CHECK(wrong_results({"amax", {x}, {{"dim", Shape{0}}}, {{3, 4}}}, kCuts) == Strings{});
  CHECK(wrong_results({"amin", {x}, {{"dim", Shape{0}}}, {{0.5, 0.25}}}, kCuts) == Strings{});
  CHECK(wrong_results({"prod", {x}, {{"dim", Shape{0}}}, {{6, 1}}}, kCuts) == Strings{});
  const Array flags =
      Array::from_values({5, 2}, DType::kBool, std::vector<double>{0, 1, 0, 1, 0, 1, 0, 1, 1, 1});
  CHECK(wrong_results({"any", {flags}, {{"dim", Shape{0}}}, {{1, 1}}}, kCuts) == Strings{});
  CHECK(wrong_results({"all", {flags}, {{"dim", Shape{0}}}, {{0, 1}}}, kCuts) == Strings{});
}

}  // namespace tessera::testing
