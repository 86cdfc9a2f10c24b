// Products, convolutions, pools, pads and attention against sums written out, and what their rows
// move.
#include <cmath>
#include <map>

#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using testing::call_op;
using testing::call_values;
using testing::has_row;
using testing::ints;
using testing::reals;
using testing::resolve_call;
using testing::rows_text;
using testing::total_moved;
using Values = std::vector<double>;

Array numbers(const Shape& shape, std::uint64_t seed) {
  VerifyRandom random(seed);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  Values values;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) values.push_back(draw(random));
  return reals(shape, values);
}

/// The largest difference; infinite where the counts differ.
double distance(const Values& a, const Values& b) {
  double most = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

TensorMeta f64(Shape shape) { return {std::move(shape), DType::kF64}; }
TensorMeta i64(Shape shape) { return {std::move(shape), DType::kI64}; }

std::string refusal(std::string_view name, const std::vector<TensorMeta>& operands,
                    const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(testing::builtin_table().find(name));
  const StatusOr<Attrs> complete = complete_attrs(op, attrs);
  return std::string(message_of(infer(op, operands, *complete).status()));
}

/// Σ over all letters of the product of the operands' elements.
Values summed_by_letters(const std::vector<std::string>& terms, const std::string& result,
                         const std::vector<Array>& operands) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t d = 0; d < terms[i].size(); ++d) sizes[terms[i][d]] = operands[i].shape()[d];
  }
  std::vector<Values> values;
  for (const Array& operand : operands) values.push_back(operand.to_vector());
  std::int64_t all = 1, out = 1;
  for (const auto& [letter, size] : sizes) all *= size;
  for (const char letter : result) out *= sizes[letter];
  Values sums(static_cast<std::size_t>(out));
  for (std::int64_t step = 0; step < all; ++step) {
    std::map<char, std::int64_t> index;
    std::int64_t rest = step;
    for (const auto& [letter, size] : sizes) {
      index[letter] = rest % size;
      rest /= size;
    }
    const auto place = [&](const std::string& term) {
      std::int64_t at = 0;
      for (const char letter : term) at = at * sizes[letter] + index[letter];
      return static_cast<std::size_t>(at);
    };
    double product = 1.0;
    for (std::size_t i = 0; i < terms.size(); ++i) product *= values[i][place(terms[i])];
    sums[place(result)] += product;
  }
  return sums;
}

}  // namespace

TEST_CASE("einsum sums over the letters that its result lacks", "[strategies][ops][einsum]") {
  struct Case {
    std::string equation;
    std::vector<std::string> terms;
    std::string result;
    std::vector<Shape> shapes;
  };
  const std::vector<Case> cases = {
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"bij, bkj", {"bij", "bkj"}, "ik", {{2, 3, 4}, {2, 5, 4}}},
      {"ba,bc->ca", {"ba", "bc"}, "ca", {{3, 2}, {3, 4}}},
      {"ab,cd->dbca", {"ab", "cd"}, "dbca", {{2, 3}, {4, 2}}},
      {"abc->cb", {"abc"}, "cb", {{3, 2, 4}}},
      {"abc->", {"abc"}, "", {{3, 2, 4}}},
      {"ab,bc,cd->ad", {"ab", "bc", "cd"}, "ad", {{2, 3}, {3, 4}, {4, 2}}},
      {"aB,Bc,ca", {"aB", "Bc", "ca"}, "", {{2, 3}, {3, 4}, {4, 2}}},
      {"i,i,i->i", {"i", "i", "i"}, "i", {{4}, {4}, {4}}}};
  for (const Case& c : cases) {
    CAPTURE(c.equation);
    std::vector<Array> operands;
    for (const Shape& shape : c.shapes) operands.push_back(numbers(shape, operands.size() + 1));
    const Values got = call_values("einsum", operands, {{"equation", c.equation}});
    CHECK(distance(got, summed_by_letters(c.terms, c.result, operands)) < 1e-12);
  }
  const Array a = numbers({2, 3, 4}, 1), b = numbers({1, 4, 5}, 2);
  CHECK(distance(call_values("einsum", {a, b}, {{"equation", "...ij,...jk"}}),
                 call_values("matmul", {a, b})) < 1e-12);
}

TEST_CASE("einsum says what its equation may not hold", "[strategies][ops][einsum]") {
  const auto text = [](std::string equation, std::vector<TensorMeta> operands) {
    return refusal("einsum", operands, {{"equation", std::move(equation)}});
  };
  CHECK(text("ii->i", {f64({3, 3})}) ==
        "einsum: equation term 'ii' has 'i' twice; take the diagonal first, or name the dims "
        "apart. [operands[0] F64[3, 3]]");
  CHECK(text("ij,jk->ik", {f64({3, 4}), f64({5, 2})}) ==
        "einsum: operand 1 [5, 2] has 5 elements along 'j', where another has 4. [operands[0] "
        "F64[3, 4], operands[1] F64[5, 2]]");
  CHECK(text("ij->ik", {f64({3, 4})}) ==
        "einsum: the result has 'k', which no operand has. [operands[0] F64[3, 4]]");
  CHECK(text("ij", {f64({3, 4}), f64({3, 4})}) ==
        "einsum: equation 'ij' has 1 terms for 2 operands. [operands[0] F64[3, 4], operands[1] "
        "F64[3, 4]]");
}

TEST_CASE("products by their names are sums of products", "[strategies][ops]") {
  const Array a = reals({2, 3}, {1, 2, 3, 4, 5, 6}), b = reals({3, 2}, {1, 0, 2, 1, 0, 3});
  const Array v = reals({3}, {1, -1, 2}), w = reals({2}, {3, -2});
  CHECK(call_values("mm", {a, b}) == Values{5, 11, 14, 23});
  CHECK(call_values("mv", {a, v}) == Values{5, 11});
  CHECK(call_values("dot", {v, v}) == Values{6});
  CHECK(call_values("outer", {w, v}) == Values{3, -3, 6, -2, 2, -4});
  CHECK(call_values("addmm", {w, a, b}, {{"beta", 2.0}, {"alpha", -1.0}}) ==
        Values{1, -15, -8, -27});
  CHECK(call_values("addmv", {w, a, v}) == Values{8, 9});
  CHECK(call_values("addr", {reals({3}, {1, 1, 1}), w, v}, {{"alpha", 2.0}}) ==
        Values{7, -5, 13, -3, 5, -7});
  CHECK(call_values("inner", {a, v}) == Values{5, 11});
  CHECK(call_values("kron", {reals({1, 2}, {2, 3}), reals({2, 1}, {5, 7})}) ==
        Values{10, 15, 14, 21});
  CHECK(call_values("trace", {a}) == Values{6});
  CHECK(call_values("linalg_cross", {v, reals({3}, {0, 1, 4})}) == Values{-6, -4, 1});
  CHECK(call_values("linear", {a, reals({2, 3}, {1, 0, 0, 0, 1, 1}), w}) == Values{4, 3, 7, 9});
  const Array batch = reals({2, 1, 2}, {1, 2, 3, 4}), other = reals({2, 2, 1}, {1, 1, 2, 2});
  CHECK(call_values("bmm", {batch, other}) == Values{3, 14});
  CHECK(call_values("addbmm", {reals({1}, {10}), batch, other}) == Values{27});
  // What is not added may hold anything.
  CHECK(call_values("addmv", {reals({2}, {NAN, NAN}), a, v}, {{"beta", 0.0}}) == Values{5, 11});
}

TEST_CASE("products name the op and both shapes where they do not fit", "[strategies][ops]") {
  CHECK(refusal("matmul", {f64({2, 3}), f64({4, 5})}) ==
        "matmul: self [2, 3] and other [4, 5]: both need two dims (mv and dot take vectors), and "
        "the last of the first must equal the last but one of the second. [self F64[2, 3], other "
        "F64[4, 5]]");
  CHECK(refusal("mm", {f64({2, 3}), f64({4, 5})}) ==
        "mm: first operand [2, 3] and second [4, 5]: need [m, k] and [k, n]. [self F64[2, 3], mat2 "
        "F64[4, 5]]");
  CHECK(refusal("addmm", {f64({3}), f64({2, 3}), f64({3, 4})}) ==
        "addmm: operands [2, 4] and [3] do not broadcast: dims from the right must be equal or 1. "
        "[self F64[3], mat1 F64[2, 3], mat2 F64[3, 4]]");
  CHECK(refusal("conv2d", {f64({1, 3, 4, 4}), f64({2, 2, 3, 3}), {.absent = true}}) ==
        "conv2d: input [1, 3, 4, 4] and weight [2, 2, 3, 3]: need [n, c, h, w] and [o, c / groups, "
        "…] with groups 1 dividing both channels. [input F64[1, 3, 4, 4], weight F64[2, 2, 3, 3]]");
}

namespace {

/// Attention of one head by its definition. `sees` says which keys a query sees.
template <class Sees>
Values attention_by_definition(const Array& q, const Array& k, const Array& v, double scale,
                               const Sees& sees) {
  const std::int64_t heads = q.size(1), group = heads / k.size(1), depth = q.size(3),
                     width = v.size(3);
  const Values qs = q.to_vector(), ks = k.to_vector(), vs = v.to_vector();
  Values out;
  for (std::int64_t row = 0; row < q.size(0) * heads * q.size(2); ++row) {
    const std::int64_t i = row % q.size(2), head = row / q.size(2) % heads,
                       b = row / q.size(2) / heads;
    const std::int64_t keys = (b * k.size(1) + head / group) * k.size(2);
    Values weights;
    double sum = 0.0;
    for (std::int64_t j = 0; j < k.size(2); ++j) {
      double score = 0.0;
      for (std::int64_t e = 0; e < depth; ++e) {
        score += qs[static_cast<std::size_t>(row * depth + e)] *
                 ks[static_cast<std::size_t>((keys + j) * depth + e)];
      }
      weights.push_back(sees(b, head, i, j) ? std::exp(scale * score) : 0.0);
      sum += weights.back();
    }
    for (std::int64_t e = 0; e < width; ++e) {
      double value = 0.0;
      for (std::int64_t j = 0; j < k.size(2); ++j) {
        value += weights[static_cast<std::size_t>(j)] *
                 vs[static_cast<std::size_t>((keys + j) * width + e)];
      }
      out.push_back(sum > 0.0 ? value / sum : 0.0);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("scaled_dot_product_attention is softmax of the scores times the values",
          "[strategies][ops][attention]") {
  const Array q = numbers({2, 4, 5, 3}, 1), k = numbers({2, 2, 6, 3}, 2),
              v = numbers({2, 2, 6, 2}, 3);
  const double scale = 1.0 / std::sqrt(3.0);
  constexpr std::string_view kName = "scaled_dot_product_attention";
  const auto all = [](auto...) { return true; };
  CHECK(distance(call_values(kName, {q, k, v, {}}, {{"enable_gqa", true}}),
                 attention_by_definition(q, k, v, scale, all)) < 1e-12);
  const auto causal = [](auto, auto, std::int64_t i, std::int64_t j) { return j <= i; };
  CHECK(distance(call_values(kName, {q, k, v, {}}, {{"enable_gqa", true}, {"is_causal", true}}),
                 attention_by_definition(q, k, v, scale, causal)) < 1e-12);
  // Row 1 sees no key: its result is 0.
  Values mask;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 6; ++j) mask.push_back(i == 1 ? 0.0 : double((i + j) % 3 != 0));
  }
  const auto masked = [&](auto, auto, std::int64_t i, std::int64_t j) {
    return mask[static_cast<std::size_t>(i * 6 + j)] != 0.0;
  };
  CHECK(distance(call_values(kName, {q, k, v, reals({5, 6}, mask, DType::kBool)},
                             {{"enable_gqa", true}, {"scale", 0.5}}),
                 attention_by_definition(q, k, v, 0.5, masked)) < 1e-12);
}

TEST_CASE("attention runs over cut queries and over cut keys without moving them",
          "[strategies][ops][attention]") {
  const auto placed = [](const Shape& q, const std::string& q_cut, const Shape& k,
                         const std::string& k_cut) {
    return value_or_throw(resolve_call(
        "attention", {3}, {{f64(q), q_cut}, {f64(k), k_cut}, {f64(k), k_cut}}, {{"scale", 0.5}}));
  };
  const Resolution queries = placed({2, 5, 9, 4}, "S(2)", {2, 5, 9, 4}, "R");
  CHECK(total_moved(queries) == 0);
  CHECK(to_string(value_or_throw(queries.outputs[0].placements())) == "(S(2))");
  // A few queries over many keys: results are joined, keys stay.
  const Resolution keys = placed({1, 2, 2, 4}, "R", {1, 2, 60, 4}, "S(2)");
  CHECK(total_moved(keys) == 0);
  CHECK(keys.lowering == 0);
  CHECK(keys.outputs[0].is_replicated());
}

TEST_CASE("grouped_mm takes cut rows or cut weights, and with slots both alike",
          "[strategies][ops]") {
  const std::vector<TensorMeta> operands = {f64({12, 8}), f64({6, 4, 8}), i64({6})};
  const auto rows = rows_text("grouped_mm", operands);
  CHECK(has_row(rows, "S(0), R, R -> S(0)"));
  CHECK(has_row(rows, "R, S(0), R -> P(sum)"));
  CHECK_FALSE(has_row(rows, "S(0), S(0), S(0) -> S(0)"));
  const Resolution alike = value_or_throw(
      resolve_call("grouped_mm_slots", {3},
                   {{operands[0], "S(0)"}, {operands[1], "S(0)"}, {operands[2], "S(0)"}}));
  CHECK(total_moved(alike) == 0);
  CHECK(to_string(value_or_throw(alike.outputs[0].placements())) == "(S(0))");
  const Array x = reals({4, 1}, {1, 2, 3, 4}), weight = reals({2, 1, 1}, {10, 100});
  CHECK(call_values("grouped_mm_slots", {x, weight, ints({2}, {1, 2})}) == Values{10, 0, 300, 400});
}

TEST_CASE("a convolution over cut rows fetches its halo only", "[strategies][ops][conv]") {
  const Attrs attrs = {{"padding", Shape{1}}};
  const Op& op = *value_or_throw(testing::builtin_table().find("conv2d"));
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{4})));
  const auto spec = [&](const Shape& shape, const std::string& text) {
    return value_or_throw(
        Spec::make(mesh, shape, DType::kF64, value_or_throw(parse_placements(text))));
  };
  const Spec x = spec({2, 3, 32, 8}, "S(2)"), weight = spec({5, 3, 3, 3}, "R");
  const std::vector<const Spec*> operands = {&x, &weight, nullptr};
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  const Resolution resolution = value_or_throw(propagate(op, operands, complete));
  CHECK(total_moved(resolution) == 0);
  CHECK(to_string(value_or_throw(resolution.outputs[0].placements())) == "(S(2))");
  const LocalOp local = LocalOp::make(op, resolution, complete, Coord{1});
  const LoweringStep& window = local.lowering_steps()[0];
  CHECK(local.windows_of(window, Coord{0}) == std::vector<Interval>{{0, 9}});
  CHECK(local.windows_of(window, Coord{1}) == std::vector<Interval>{{7, 17}});
  CHECK(local.windows_of(window, Coord{3}) == std::vector<Interval>{{23, 32}});
}

TEST_CASE("pads continue a dim as their names say", "[strategies][ops][pad]") {
  const Array x = reals({1, 4}, {1, 2, 3, 4});
  const Attrs list = {{"pad", Shape{2, 1}}}, padding = {{"padding", Shape{2, 1}}};
  CHECK(call_values("constant_pad_nd", {x}, {{"pad", Shape{2, 1}}, {"value", 7.0}}) ==
        Values{7, 7, 1, 2, 3, 4, 7});
  CHECK(call_values("constant_pad_nd", {x}, {{"pad", Shape{-1, 1}}}) == Values{2, 3, 4, 0});
  CHECK(call_values("_pad_circular", {x}, list) == Values{3, 4, 1, 2, 3, 4, 1});
  CHECK(call_values("reflection_pad1d", {x}, padding) == Values{3, 2, 1, 2, 3, 4, 3});
  CHECK(call_values("replication_pad1d", {x}, padding) == Values{1, 1, 1, 2, 3, 4, 4});
  CHECK(call_values("upsample_nearest1d", {x}, {{"output_size", Shape{6}}}) ==
        Values{1, 1, 2, 3, 3, 4});
  CHECK(refusal("reflection_pad1d", {f64({1, 2})}, padding) ==
        "reflection_pad1d: a dim of 2 cannot become 5; a reflection is shorter than the dim. [self "
        "F64[1, 2]]");
}

TEST_CASE("pools by hand", "[strategies][ops][pool]") {
  const Array x = reals({1, 5}, {1, 5, 2, 4, 3});
  const Attrs two = {{"kernel_size", Shape{2}}, {"stride", Shape{2}}, {"ceil_mode", true}};
  CHECK(call_values("max_pool1d", {x}, two) == Values{5, 4, 3});
  CHECK(call_op("max_pool1d_with_indices", {x}, two)[1].to_vector() == Values{1, 3, 4});
  CHECK(call_values("avg_pool1d", {x}, two) == Values{3, 3, 3});
  const Attrs padded = {{"kernel_size", Shape{3}}, {"stride", Shape{2}}, {"padding", Shape{1}}};
  CHECK(call_values("avg_pool1d", {x}, padded) == Values{2, 11.0 / 3.0, 7.0 / 3.0});
  CHECK(call_values("adaptive_avg_pool1d", {x}, {{"output_size", Shape{3}}}) ==
        Values{3, 11.0 / 3.0, 3.5});
  CHECK(refusal("max_pool2d", {f64({3, 2, 2})}, {{"kernel_size", Shape{3}}}) ==
        "max_pool2d: a window of 3 elements, 1 apart, does not fit into 2 with padding 0 (at most "
        "half a window). [self F64[3, 2, 2]]");
}

}  // namespace tessera
