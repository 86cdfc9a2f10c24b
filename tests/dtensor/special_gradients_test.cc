// Gradients at ties, zeros and infinite cotangents are the same on every mesh and cut as on one
// rank: selections stay selections where ranks hold parts of a row.
#include <limits>

#include "tests/dtensor/rules.h"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const std::vector<Placement> kCuts = {Replicate{}, Shard{0}, Shard{1}};

Array f64(const Shape& shape, const Values& values) {
  return Array::from_values(shape, DType::kF64, values);
}
const Array kRows = f64({3, 4}, {1, 3, 2, 3, -1, 0, -4, 2, 5, 5, kNaN, 1});

/// One call of one operand, a cotangent of its result and what reaches the operand.
struct Backward {
  std::string op;
  Array operand;
  Attrs attrs;
  Array cotangent;
  Values expected;
};

/// A text for each mesh and placement of operand and cotangent that went wrong.
std::vector<std::string> wrong_gradients(const Backward& each) {
  std::vector<std::string> wrong;
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      std::vector<std::string> mine;
      for (const Placement& at : kCuts) {
        for (const Placement& back : kCuts) {
          const Shard* cut = std::get_if<Shard>(&back);
          if (cut != nullptr && cut->dim >= each.cotangent.ndim()) continue;
          const auto axes = static_cast<std::size_t>(rank.mesh.ndim());
          const DTensor x = rank.parameter(each.operand, Placements(axes, at));
          const DTensor operands[] = {x};
          const DTensor y = call(rank.runtime, each.op, operands, each.attrs)[0];
          backward(y, rank.distribute(each.cotangent, Placements(axes, back)));
          const Values got = full_tensor(x.grad()).to_vector();
          if (close(got, each.expected)) continue;
          std::string text = each.op + " of " + to_string(at) + " from " + to_string(back) +
                             " on " + to_string(sizes) + ":";
          for (const double value : got) text += " " + std::to_string(value);
          mine.push_back(std::move(text));
        }
      }
      return mine;
    });
    for (const auto& texts : ranks) wrong.insert(wrong.end(), texts.begin(), texts.end());
  }
  return wrong;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("an infinite cotangent of an extreme reaches its elements on every cut",
          "[dtensor][special][4]") {
  const Array back = f64({3}, {kInf, 1, 3});
  const Values of_max = {0, kInf, 0, kInf, 0, 0, 0, 1, kNaN, kNaN, kNaN, kNaN};
  CHECK(wrong_gradients({"amax", kRows, {{"dim", Shape{1}}}, back, of_max}) == Strings{});
  const Values of_min = {kInf, 0, 0, 0, 0, 0, 1, 0, kNaN, kNaN, kNaN, kNaN};
  CHECK(wrong_gradients({"amin", kRows, {{"dim", Shape{1}}}, back, of_min}) == Strings{});
  const Array wide = f64({2, 3}, {1, 3, 3, 2, -4, 0});
  CHECK(wrong_gradients({"max", wide, {}, f64({}, {kInf}), {0, kInf, kInf, 0, 0, 0}}) == Strings{});
  CHECK(wrong_gradients({"median", wide, {}, f64({}, {kNaN}), {kNaN, 0, 0, 0, 0, 0}}) == Strings{});
  CHECK(wrong_gradients({"linalg_vector_norm",
                         wide,
                         {{"ord", kInf}, {"dim", Shape{1}}},
                         f64({2}, {1, kInf}),
                         {0, 0.5, 0.5, 0, -kInf, 0}}) == Strings{});
}

TEST_CASE("running sums and products pass an infinite cotangent on to what came before",
          "[dtensor][special][4]") {
  const Array x = f64({2, 3}, {1, 2, 3, 4, 5, 6}), back = f64({2, 3}, {kInf, 1, 1, 1, kNaN, 1});
  const Attrs along = {{"dim", 1}};
  CHECK(wrong_gradients({"cumsum", x, along, back, {kInf, 2, 1, kNaN, kNaN, 1}}) == Strings{});
  CHECK(wrong_gradients({"cumsum", x, {{"dim", 0}}, back, {kInf, kNaN, 2, 1, kNaN, 1}}) ==
        Strings{});
  CHECK(wrong_gradients({"cumprod", x, along, back, {kInf, 4, 2, kNaN, kNaN, 20}}) == Strings{});
}

TEST_CASE("the gradient of a product is that of the others on every cut", "[dtensor][special][4]") {
  const Array x = f64({3, 4}, {2, 3, 5, 7, 2, 0, 5, 7, kInf, 2, -1, 1});
  const Array back = f64({3}, {1, 2, 1});
  CHECK(wrong_gradients({"prod",
                         x,
                         {{"dim", Shape{1}}},
                         back,
                         {105, 70, 42, 30, 0, 140, 0, 0, -2, -kInf, kInf, -kInf}}) == Strings{});
  const Array both = f64({2, 2}, {2, 3, 0, 5});
  CHECK(wrong_gradients({"prod", both, {}, f64({}, {1}), {0, 0, 30, 0}}) == Strings{});
}

TEST_CASE("constant rows have no slope of their deviation on any cut", "[dtensor][special][4]") {
  const Array x = f64({2, 4}, {3, 3, 3, 3, 1, 1, 3, 3});
  const double slope = 1.0 / std::sqrt(12.0);
  CHECK(wrong_gradients({"std",
                         x,
                         {{"dim", Shape{1}}},
                         f64({2}, {kInf, 1}),
                         {0, 0, 0, 0, -slope, -slope, slope, slope}}) == Strings{});
}

TEST_CASE("what is replaced or cut off takes no part of an infinite cotangent",
          "[dtensor][special][4]") {
  const Array x = f64({2, 3}, {-1, 4, 7, 1, -8, 3}),
              back = f64({2, 3}, {kInf, 1, kNaN, 1, kInf, 1});
  CHECK(wrong_gradients({"relu6", x, {}, back, {0, 1, 0, 1, 0, 1}}) == Strings{});
  CHECK(wrong_gradients({"clamp", x, {{"min", 1.0}, {"max", 5.0}}, back, {0, 1, 0, 0, 0, 1}}) ==
        Strings{});
  CHECK(wrong_gradients(
            {"threshold", x, {{"threshold", 0.0}, {"value", 0.0}}, back, {0, 1, kNaN, 1, 0, 1}}) ==
        Strings{});
  CHECK(wrong_gradients({"triu", x, {}, back, {kInf, 1, kNaN, 0, kInf, 1}}) == Strings{});
}

}  // namespace tessera::testing
