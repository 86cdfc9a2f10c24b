// Reductions, scans and norms at values worked out by hand, and what they refuse.
#include <cmath>
#include <limits>

#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using testing::call_op;
using testing::call_values;
using testing::ints;
using testing::reals;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The text of the Error that a call throws, or "".
std::string refusal(std::string_view op, const std::vector<Array>& operands, const Attrs& attrs) {
  try {
    call_op(op, operands, attrs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an empty list of dims, and none, mean all of them", "[strategies][ops][rules-14]") {
  const Array x = reals({2, 2}, {1, 2, 3, 6});
  for (const char* op : {"sum", "mean", "var", "norm", "amax", "count_nonzero", "any"}) {
    CAPTURE(op);
    const auto all = call_op(op, {x}, {{"dim", Shape{0, 1}}})[0];
    CHECK(all.shape() == Shape{});
    CHECK(call_values(op, {x}, {{"dim", Shape{}}}) == all.to_vector());
    CHECK(call_op(op, {x}, {{"dim", Shape{}}, {"keepdim", true}})[0].shape() == Shape{1, 1});
  }
  CHECK(call_values("argmax", {x}, {}) == Values{3});
  CHECK(call_op("argmin", {x}, {{"keepdim", true}})[0].shape() == Shape{1, 1});
}

TEST_CASE("variance divides by n - correction, never below 0", "[strategies][ops]") {
  const Array x = reals({4}, {1, 2, 3, 6});
  CHECK(call_values("var", {x}, {{"correction", 0.0}}) == Values{3.5});
  CHECK(call_values("var", {x}, {{"correction", 2.0}}) == Values{7});
  CHECK(call_values("std", {x}, {{"correction", 5.0}}) == Values{kInf});
  CHECK(std::isnan(call_values("var", {reals({1}, {4})}, {})[0]));
  CHECK(call_op("var_mean", {x}, {})[1].to_vector() == Values{3});
}

TEST_CASE("norms of every order", "[strategies][ops]") {
  const Array x = reals({4}, {3, 0, -4, 0});
  CHECK(call_values("norm", {x}, {}) == Values{5});
  CHECK(call_values("norm", {x}, {{"p", 1.0}}) == Values{7});
  CHECK(call_values("norm", {x}, {{"p", 0.0}}) == Values{2});
  CHECK(call_values("norm", {x}, {{"p", kInf}}) == Values{4});
  CHECK(call_values("norm", {x}, {{"p", -kInf}}) == Values{0});
  CHECK(call_values("linalg_vector_norm", {x}, {{"ord", 3.0}})[0] == Approx(std::cbrt(91.0)));
}

TEST_CASE("logsumexp of infinities, and of large numbers", "[strategies][ops]") {
  CHECK(call_values("logsumexp", {reals({2}, {-kInf, -kInf})}, {}) == Values{-kInf});
  CHECK(call_values("logsumexp", {reals({2}, {kInf, 1})}, {}) == Values{kInf});
  CHECK(call_values("logsumexp", {reals({2}, {1000, 1000})}, {})[0] ==
        Approx(1000 + std::log(2.0)));
}

TEST_CASE("sums and means without NaN", "[strategies][ops]") {
  const Array x = reals({2, 3}, {1, NAN, 3, NAN, NAN, NAN});
  const Attrs rows = {{"dim", Shape{1}}};
  CHECK(call_values("nansum", {x}, rows) == Values{4, 0});
  const Values means = call_values("nanmean", {x}, rows);
  CHECK(means[0] == 2);
  CHECK(std::isnan(means[1]));
  CHECK(call_values("nanmedian_dim", {x}, {{"dim", 1}})[0] == 1);
}

TEST_CASE("the first index of equals, the last of running ones", "[strategies][ops]") {
  const Array x = reals({4}, {7, 2, 7, 2});
  CHECK(call_op("max_dim", {x}, {{"dim", 0}})[1].to_vector() == Values{0});
  CHECK(call_op("min_dim", {x}, {{"dim", 0}})[1].to_vector() == Values{1});
  CHECK(call_op("cummax", {x}, {{"dim", 0}})[1].to_vector() == Values{0, 0, 2, 2});
  CHECK(call_op("cummin", {x}, {{"dim", 0}})[1].to_vector() == Values{0, 1, 1, 3});
  CHECK(call_op("median_dim", {x}, {{"dim", 0}})[1].to_vector() == Values{3});
  CHECK(call_values("argsort", {x}, {{"dim", 0}}) == Values{1, 3, 0, 2});
}

TEST_CASE("an extreme or a selection of nothing is refused", "[strategies][ops]") {
  const Array none = reals({0, 2}, {});
  CHECK(contains(refusal("max", {none}, {}), "all dims of [0, 2] hold no element"));
  CHECK(contains(refusal("argmax", {none}, {{"dim", 0}}), "dim [0] of [0, 2] hold no element"));
  CHECK(contains(refusal("kthvalue", {none}, {{"k", 1}, {"dim", 0}}), "hold no element"));
  CHECK(call_op("max_dim", {none}, {{"dim", 1}})[0].shape() == Shape{0});
}

TEST_CASE("attributes out of range are named", "[strategies][ops]") {
  const Array x = reals({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(contains(refusal("kthvalue", {x}, {{"k", 5}}), "allows 1 to 4"));
  CHECK(contains(refusal("histc", {x}, {{"min", 3.0}, {"max", 1.0}}), "finite and ascending"));
  CHECK(contains(refusal("group_norm", {x, Array(), Array()}, {{"num_groups", 3}}),
                 "must divide the 4 channels"));
  CHECK(contains(refusal("var", {ints({2}, {1, 2})}, {}), "a floating type is needed"));
  CHECK(contains(refusal("cumsum", {x}, {{"dim", 2}}), "2"));
  CHECK(
      contains(refusal("nll_loss", {x, ints({2}, {0, 4}), Array()}, {}), "target 4 at position 1"));
}

TEST_CASE("a row of nll_loss that does not count weighs nothing", "[strategies][ops]") {
  const Array x = reals({2, 2}, {-0.5, -1.5, -2, -3});
  const auto rows = call_op("nll_loss", {x, ints({2}, {1, -100}), reals({2}, {10, 2})}, {});
  CHECK(rows[0].to_vector() == Values{3, 0});
  CHECK(rows[1].to_vector() == Values{2, 0});
}

}  // namespace tessera
