// Exact values of the ops that are easiest to get wrong, against numbers worked out by hand.
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

}  // namespace

TEST_CASE("argmax takes the first of equals, and NaN over all", "[strategies][ops]") {
  CHECK(call_values("argmax", {reals({4}, {1, 3, 3, 2})}, {{"dim", 0}}) == Values{1});
  CHECK(call_values("argmin", {reals({2, 3}, {2, 1, 1, 0, 5, 0})}, {{"dim", 1}}) == Values{1, 0});
  CHECK(call_values("argmax", {reals({3}, {1, NAN, 9})}, {{"dim", -1}}) == Values{1});
}

TEST_CASE("topk prefers the lower index among equals and returns global positions",
          "[strategies][ops]") {
  const auto top = call_op("topk", {reals({5}, {2, 7, 7, 1, 7})}, {{"k", 3}});
  CHECK(top[0].to_vector() == Values{7, 7, 7});
  CHECK(top[1].to_vector() == Values{1, 2, 4});
  const auto least = call_op("topk", {reals({4}, {2, 1, 1, 3})}, {{"k", 2}, {"largest", false}});
  CHECK(least[1].to_vector() == Values{1, 2});
}

TEST_CASE("reductions over no elements give the identity of their kind", "[strategies][ops]") {
  const Array none = reals({0, 2}, {});
  const Attrs first = {{"dim", Shape{0}}};
  CHECK(call_values("amax", {none}, first) == Values{-kInf, -kInf});
  CHECK(call_values("amin", {none}, first) == Values{kInf, kInf});
  CHECK(call_values("sum", {none}, first) == Values{0, 0});
  CHECK(call_values("prod", {none}, first) == Values{1, 1});
}

TEST_CASE("monotone functions keep NaN, as the maximum over ranks does", "[strategies][ops]") {
  const Array x = reals({1}, {NAN});
  const char* names[] = {"relu", "sigmoid", "tanh", "exp", "floor", "ceil", "clone", "log", "sqrt"};
  for (const char* name : names) {
    INFO(name);
    CHECK(std::isnan(call_values(name, {x})[0]));
  }
  CHECK(std::isnan(call_values("clamp", {x}, {{"min", 0.0}, {"max", 1.0}})[0]));
  CHECK(std::isnan(call_values("maximum", {x, reals({1}, {1})})[0]));
  CHECK(std::isnan(call_values("minimum", {reals({1}, {1}), x})[0]));
  CHECK(std::isnan(call_values("amax", {reals({2}, {NAN, 1})})[0]));
}

TEST_CASE("an empty list of dims reduces over all", "[strategies][ops]") {
  const Array x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  Shape none = {0};
  none.pop_back();
  const auto sum = call_op("sum", {x}, {{"dim", none}});
  CHECK(sum[0].shape().empty());
  CHECK(sum[0].to_vector() == Values{21});
  CHECK(call_op("mean", {x}, {{"keepdim", true}})[0].shape() == Shape{1, 1});
  CHECK(call_values("mean", {x}) == Values{3.5});
}

TEST_CASE("sums of integers and BOOL are I64 and keep every bit", "[strategies][ops]") {
  const auto sum = call_op("sum", {ints({2}, {67108868, 1})});
  CHECK(sum[0].dtype() == DType::kI64);
  CHECK(sum[0].to_vector() == Values{67108869});
  const Array flags = Array::from_values({4}, DType::kBool, Values{1, 0, 1, 1});
  const auto count = call_op("sum", {flags});
  CHECK(count[0].dtype() == DType::kI64);
  CHECK(count[0].to_vector() == Values{3});
  const auto plus = call_op("add", {ints({1}, {67108868}), ints({}, {1})});
  CHECK(plus[0].dtype() == DType::kI64);
  CHECK(plus[0].to_vector() == Values{67108869});
}

TEST_CASE("gather and scatter take an index that is smaller than self", "[strategies][ops]") {
  const Array x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(call_values("gather", {x, ints({2, 2}, {1, 0, 1, 1})}, {{"dim", 1}}) == Values{2, 1, 4, 4});
  const Array src = reals({3, 1}, {10, 20, 30});
  const Array index = ints({2, 1}, {1, 0});
  CHECK(call_values("scatter_add", {x, index, src}, {{"dim", 1}}) == Values{1, 12, 23, 4, 5, 6});
  CHECK(x.to_vector() == Values{1, 2, 3, 4, 5, 6});
  call_op("scatter_", {x, index, src}, {{"dim", 1}});
  CHECK(x.to_vector() == Values{1, 10, 20, 4, 5, 6});
}

TEST_CASE("scatter_value_ writes a BOOL mask in place", "[strategies][ops]") {
  const Array mask = Array::zeros({2, 3}, DType::kBool);
  const auto out =
      call_op("scatter_value_", {mask, ints({2, 1}, {2, 0})}, {{"dim", -1}, {"value", 1.0}});
  CHECK(out[0].storage() == mask.storage());
  CHECK(mask.to_vector() == Values{0, 0, 1, 1, 0, 0});
}

TEST_CASE("grouped_mm multiplies each group by its own weight, and zeroes rows beyond the groups",
          "[strategies][ops]") {
  const Array rows = reals({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Array weights = reals({3, 1, 2}, {1, 1, 100, 100, 10, 0});
  const Array counts = ints({3}, {1, 0, 2});
  CHECK(call_values("grouped_mm", {rows, weights, counts}) == Values{3, 30, 50, 0});
}

TEST_CASE("cross_entropy is minus the log-probability of the target", "[strategies][ops]") {
  const auto out = call_op("cross_entropy", {reals({1, 3}, {1000, 1000, -kInf}), ints({1}, {1})});
  CHECK(out[0].to_vector()[0] == Approx(std::log(2.0)));
  CHECK(out[1].to_vector()[0] == Approx(1000 + std::log(2.0)));
}

TEST_CASE("rope turns adjacent pairs, and its inverse turns back", "[strategies][ops]") {
  const Array x = reals({1, 1, 2}, {1, 2});
  const Array cos = reals({1, 1}, {0});
  const Array sin = reals({1, 1}, {1});
  const Array turned = call_op("rope", {x, cos, sin})[0];
  CHECK(turned.to_vector() == Values{-2, 1});
  CHECK(call_values("rope", {turned, cos, sin}, {{"inverse", true}}) == Values{1, 2});
}

TEST_CASE("views alias the operand's storage", "[strategies][ops]") {
  const Array x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  const struct {
    const char* op;
    Attrs attrs;
    Shape shape;
    Values values;
  } views[] = {
      {"view", {{"size", Shape{3, -1}}}, {3, 2}, {1, 2, 3, 4, 5, 6}},
      {"transpose", {{"dim0", 0}, {"dim1", 1}}, {3, 2}, {1, 4, 2, 5, 3, 6}},
      {"select", {{"dim", 0}, {"index", -1}}, {3}, {4, 5, 6}},
      {"slice", {{"dim", 1}, {"start", 1}, {"end", 99}}, {2, 2}, {2, 3, 5, 6}},
      {"unsqueeze", {{"dim", -1}}, {2, 3, 1}, {1, 2, 3, 4, 5, 6}},
      {"expand", {{"size", Shape{2, -1, 3}}}, {2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},
  };
  for (const auto& view : views) {
    const Array result = call_op(view.op, {x}, view.attrs)[0];
    INFO(view.op);
    CHECK(result.storage() == x.storage());
    CHECK(result.shape() == view.shape);
    CHECK(result.to_vector() == view.values);
  }
}

TEST_CASE("view refuses what only a copy can give, reshape copies", "[strategies][ops]") {
  const Array turned = reals({2, 3}, {1, 2, 3, 4, 5, 6}).transpose(0, 1);
  CHECK_THROWS_WITH(call_op("view", {turned}, {{"size", Shape{6}}}),
                    Catch::Contains("use reshape, which copies"));
  CHECK(call_values("reshape", {turned}, {{"shape", Shape{6}}}) == Values{1, 4, 2, 5, 3, 6});
}

TEST_CASE("an op in place keeps dtype and shape, or says why it cannot", "[strategies][ops]") {
  CHECK_THROWS_WITH(call_op("add_", {reals({3}, {1, 2, 3}), reals({2, 3}, {1, 2, 3, 4, 5, 6})}),
                    Catch::Contains("would broadcast it to [2, 3]"));
  CHECK_THROWS_WITH(call_op("add_", {ints({1}, {1}), reals({1}, {0.5})}),
                    Catch::Contains("in place on I64, which cannot hold a result of F64"));
  const Array count = ints({2}, {0, 0});
  call_op("copy_", {count, reals({}, {2.75})});
  CHECK(count.to_vector() == Values{2, 2});
}

TEST_CASE("random values repeat by seed and stream, and differ between streams",
          "[strategies][ops]") {
  const Attrs attrs = {{"seed", 3}, {"stream", 9}};
  const Values first = call_values("normal_", {Array::zeros({64}, DType::kF64)}, attrs);
  CHECK(call_values("normal_", {Array::zeros({64}, DType::kF64)}, attrs) == first);
  const Attrs other = {{"seed", 3}, {"stream", 10}};
  CHECK(call_values("normal_", {Array::zeros({64}, DType::kF64)}, other) != first);
}

TEST_CASE("sort_by_key is stable and counts each key", "[strategies][ops]") {
  const auto sorted = call_op("sort_by_key", {ints({5}, {2, 0, 2, 0, 3})}, {{"num_keys", 5}});
  CHECK(sorted[0].to_vector() == Values{1, 3, 0, 2, 4});
  CHECK(sorted[1].to_vector() == Values{2, 0, 2, 1, 0});
}

TEST_CASE("one AdamW step moves by lr against the gradient's sign", "[strategies][ops]") {
  const Array param = reals({2}, {1, -1});
  const Array m = Array::zeros({2}, DType::kF64);
  const Array v = Array::zeros({2}, DType::kF64);
  call_op("adamw_", {param, reals({2}, {4, -0.5}), m, v},
          {{"lr", 0.1}, {"weight_decay", 0.5}, {"eps", 0.0}, {"step", 1}});
  CHECK(param.to_vector()[0] == Approx(1 * (1 - 0.05) - 0.1));
  CHECK(param.to_vector()[1] == Approx(-1 * (1 - 0.05) + 0.1));
  CHECK(m.to_vector()[0] == Approx(0.4));
}

}  // namespace tessera
