// Convolutions, attention and products on ranks against one rank, forward and backward.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

Array numbers(const Shape& shape, std::uint64_t seed) {
  return random_values(shape, DType::kF64, static_cast<unsigned>(seed));
}

struct Operand {
  std::string name;
  Shape shape;
  Placement at;
};
struct OpCase {
  std::string op;
  std::vector<Operand> operands;
  Attrs attrs = {};
};

/// The op on operands placed so, and the gradients of the sum of its squares.
Outcome run_case(Rank& rank, const OpCase& c, bool placed) {
  std::vector<DTensor> operands;
  Named leaves;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    const Placement at = placed ? operand.at : Placement(R);
    operands.push_back(rank.parameter(numbers(operand.shape, i + 1), {at}));
    leaves.emplace_back(operand.name, operands.back());
  }
  const OpDef& def = value_or_throw(rank.runtime.ops().find(c.op))->def;
  while (operands.size() < def.args.size()) operands.emplace_back();  // optional ones
  const DTensor result = call(rank.runtime, c.op, operands, c.attrs)[0];
  backward(sum(square(result)));
  return outcome_of({{"result", result}}, leaves);
}

std::vector<OpCase> op_cases() {
  const Attrs padded = {{"padding", Shape{1}}, {"stride", Shape{2}}};
  const Attrs causal = {{"is_causal", true}, {"enable_gqa", true}};
  return {
      {"conv2d",
       {{"x", {2, 3, 13, 5}, S(2)}, {"weight", {4, 3, 3, 2}, R}, {"bias", {4}, R}},
       padded},
      {"conv2d", {{"x", {2, 4, 6, 7}, S(1)}, {"weight", {3, 4, 3, 3}, S(1)}, {"bias", {3}, R}}},
      {"conv2d", {{"x", {3, 2, 6, 7}, S(0)}, {"weight", {3, 2, 3, 3}, R}}},
      {"conv1d", {{"x", {2, 3, 40}, S(2)}, {"weight", {4, 3, 5}, R}}, padded},
      {"conv_transpose1d", {{"x", {2, 3, 20}, S(2)}, {"weight", {3, 2, 4}, R}}, padded},
      {"max_pool2d",
       {{"x", {2, 3, 14, 6}, S(2)}},
       {{"kernel_size", Shape{3}}, {"stride", Shape{2}}}},
      {"avg_pool1d", {{"x", {2, 3, 17}, S(2)}}, {{"kernel_size", Shape{4}}, {"padding", Shape{2}}}},
      {"adaptive_avg_pool1d", {{"x", {4, 17}, S(1)}}, {{"output_size", Shape{6}}}},
      {"reflection_pad1d", {{"x", {3, 12}, S(1)}}, {{"padding", Shape{3, 2}}}},
      {"scaled_dot_product_attention",
       {{"q", {1, 4, 7, 3}, S(2)}, {"k", {1, 2, 9, 3}, R}, {"v", {1, 2, 9, 2}, R}},
       causal},
      {"scaled_dot_product_attention",
       {{"q", {1, 2, 2, 3}, R}, {"k", {1, 2, 50, 3}, S(2)}, {"v", {1, 2, 50, 2}, S(2)}}},
      {"einsum",
       {{"a", {4, 6}, S(1)}, {"b", {6, 5}, S(0)}},
       {{"equation", std::string("ij,jk->ki")}}},
      {"addmm", {{"self", {5}, S(0)}, {"a", {4, 3}, R}, {"b", {3, 5}, S(1)}}, {{"alpha", 0.5}}}};
}

TEST_CASE("convolutions, pools, pads, attention and equations on ranks are those of one rank",
          "[dtensor][linalg]") {
  for (const OpCase& c : op_cases()) {
    const Outcome expected =
        run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return run_case(rank, c, false); })[0];
    for (const std::int64_t n : {2, 3, 4}) {
      if (!runs_here(n)) continue;
      CAPTURE(c.op, n);
      const auto ranks =
          run_ranks(mesh_of_shape({n}), [&](Rank& rank) { return run_case(rank, c, true); });
      CHECK(worst_difference(ranks, expected) < 1e-10);
    }
  }
}

TEST_CASE("matmul takes a vector as a row or a column", "[dtensor][linalg]") {
  const Array a = numbers({4, 3}, 1), b = numbers({3, 5}, 2), v = numbers({3}, 3);
  for (const std::int64_t n : {1, 2, 3}) {
    if (!runs_here(n)) continue;
    const auto ranks = run_ranks(mesh_of_shape({n}), [&](Rank& rank) {
      const DTensor left = rank.distribute(a, {S(0)}), right = rank.distribute(b, {S(1)});
      const DTensor vector = rank.distribute(v, {S(0)});
      return std::vector<Array>{copy_of(full_tensor(matmul(left, vector))),
                                copy_of(full_tensor(matmul(vector, right))),
                                copy_of(full_tensor(matmul(vector, vector)))};
    });
    std::vector<double> mv(4), vm(5), dot(1);
    const auto as = a.to_vector(), bs = b.to_vector(), vs = v.to_vector();
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t i = 0; i < 4; ++i) mv[i] += as[i * 3 + k] * vs[k];
      for (std::size_t j = 0; j < 5; ++j) vm[j] += vs[k] * bs[k * 5 + j];
      dot[0] += vs[k] * vs[k];
    }
    for (const std::vector<Array>& got : ranks) {
      CHECK(max_difference(got[0], Array::from_values({4}, DType::kF64, mv)) < 1e-12);
      CHECK(max_difference(got[1], Array::from_values({5}, DType::kF64, vm)) < 1e-12);
      CHECK(max_difference(got[2], Array::from_values({}, DType::kF64, dot)) < 1e-12);
    }
  }
}

}  // namespace
}  // namespace tessera::testing
