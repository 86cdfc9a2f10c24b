// Rows that hand-written tables have wrong, or lack: each case states what must (not) be among an
// op's rows, and what propagation does with it.
#include <limits>

#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using testing::has_row;
using testing::resolve_call;
using testing::rows_text;
using testing::total_moved;

TensorMeta f64(const Shape& shape) { return {.shape = shape, .dtype = DType::kF64}; }
TensorMeta i64(const Shape& shape) { return {.shape = shape, .dtype = DType::kI64}; }
TensorMeta flags(const Shape& shape) { return {.shape = shape, .dtype = DType::kBool}; }

bool any_partial_input(const std::vector<std::string>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const std::string& row) {
    return row.substr(0, row.find("->")).find("P(") != std::string::npos;
  });
}

std::string placements_of(const Spec& spec) {
  const Placements placements = value_or_throw(spec.placements());
  return to_string(std::span<const Placement>(placements));
}

}  // namespace

TEST_CASE("gather is not cut along a dim on which the index is smaller", "[strategies][rules]") {
  const auto rows = rows_text("gather", {f64({8, 4}), i64({4, 3})}, {{"dim", 1}});
  CHECK_FALSE(has_row(rows, "S(0), S(0) -> S(0)"));
  CHECK(has_row(rows, "S(1), R -> P(sum)"));
  CHECK(has_row(rows, "R, S(1) -> S(1)"));
  CHECK(
      has_row(rows_text("gather", {f64({8, 4}), i64({8, 3})}, {{"dim", 1}}), "S(0), S(0) -> S(0)"));
}

TEST_CASE("scatter_add is not cut along a dim on which src is larger", "[strategies][rules]") {
  const auto rows = rows_text("scatter_add", {f64({4, 4}), i64({4, 3}), f64({8, 3})}, {{"dim", 1}});
  CHECK_FALSE(has_row(rows, "S(0), S(0), S(0) -> S(0)"));
  CHECK(has_row(rows, "P(sum), S(1), S(1) -> P(sum)"));
  CHECK_FALSE(has_row(rows, "R, S(1), S(1) -> P(sum)"));
  CHECK(has_row(rows, "S(1), R, R -> S(1)"));
}

TEST_CASE("P(sum) + R never adds the replicated operand once per rank", "[strategies][rules]") {
  for (const TensorMeta& other : {i64({6}), i64({})}) {
    const auto rows = rows_text("add", {i64({6}), other});
    CHECK(has_row(rows, "P(sum), P(sum) -> P(sum)"));
    CHECK_FALSE(has_row(rows, "P(sum), R -> P(sum)"));
    const Resolution sum =
        value_or_throw(resolve_call("add", {2}, {{i64({6}), "P(sum)"}, {other, "R"}}));
    CHECK(sum.outputs[0].dtype() == DType::kI64);
    CHECK(total_moved(sum) == 0);  // the scalar or tensor stays on one coordinate
  }
  CHECK_FALSE(has_row(rows_text("add_scalar", {f64({6})}, {{"value", 1.0}}), "P(sum) -> P(sum)"));
  CHECK(has_row(rows_text("add_scalar", {f64({6})}, {{"value", 1.0}}), "P(avg) -> P(avg)"));
}

TEST_CASE("a Partial passes only where the function commutes with its reduction",
          "[strategies][rules]") {
  for (const char* name : {"abs", "sign", "square", "silu", "gelu", "rsqrt", "reciprocal"}) {
    INFO(name);
    for (const char* kind : {"sum", "avg", "max", "min"}) {
      const std::string held = "P(" + std::string(kind) + ") -> ";
      for (const std::string& row : rows_text(name, {f64({6})})) CHECK(row.find(held) != 0);
    }
  }
  for (const char* name : {"abs", "sign", "square", "reciprocal"}) {  // of a product: the product
    INFO(name);
    CHECK(has_row(rows_text(name, {f64({6})}), "P(prod) -> P(prod)"));
  }
  for (const char* name : {"log", "sqrt"}) {  // below a maximum they may not be defined
    INFO(name);
    CHECK_FALSE(has_row(rows_text(name, {f64({6})}), "P(max) -> P(max)"));
    CHECK(has_row(rows_text(name, {f64({6})}), "P(min) -> P(min)"));
  }
  CHECK(has_row(rows_text("relu", {f64({6})}), "P(max) -> P(max)"));
  CHECK_FALSE(has_row(rows_text("relu", {f64({6})}), "P(sum) -> P(sum)"));
  CHECK_FALSE(has_row(rows_text("clamp", {f64({6})}, {{"max", 1.0}}), "P(sum) -> P(sum)"));
  CHECK_FALSE(any_partial_input(rows_text("to", {f64({6})}, {{"dtype", DType::kI64}})));
  CHECK(has_row(rows_text("to", {f64({6})}, {{"dtype", DType::kBF16}}), "P(sum) -> P(sum)"));
  CHECK_FALSE(any_partial_input(rows_text("copy_", {i64({6}), f64({6})})));
  CHECK_FALSE(has_row(rows_text("amax", {f64({6})}), "P(sum) -> P(sum)"));
}

TEST_CASE("where and masked_fill carry what they may", "[strategies][rules]") {
  const auto filled = rows_text("masked_fill", {f64({6}), flags({6})}, {{"value", 2.0}});
  CHECK_FALSE(has_row(filled, "P(sum), R -> P(sum)"));
  CHECK(has_row(filled, "P(avg), R -> P(avg)"));
  CHECK(has_row(filled, "P(max), R -> P(max)"));
  CHECK(has_row(rows_text("masked_fill", {f64({6}), flags({6})}, {{"value", 0.0}}),
                "P(sum), R -> P(sum)"));
  const auto chosen = rows_text("where", {flags({6}), f64({6}), f64({6})});
  CHECK(has_row(chosen, "R, P(sum), P(sum) -> P(sum)"));
  CHECK_FALSE(has_row(chosen, "R, P(sum), R -> P(sum)"));
  CHECK(has_row(chosen, "R, P(max), R -> P(max)"));
}

TEST_CASE("a maximum passes what adds to it only where infinities and integers cannot meet",
          "[strategies][rules]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // A rank without elements holds -inf: with an infinity of the other operand it would give NaN.
  CHECK_FALSE(has_row(rows_text("add", {f64({6}), f64({6})}), "R, P(max) -> P(max)"));
  CHECK(has_row(rows_text("maximum", {f64({6}), f64({6})}), "R, P(max) -> P(max)"));
  const auto plus = [](const TensorMeta& self, double value) {
    return has_row(rows_text("add_scalar", {self}, {{"value", value}}), "P(max) -> P(max)");
  };
  CHECK(plus(f64({6}), 2.0));
  CHECK_FALSE(plus(f64({6}), kInfinity));
  // It holds the least integer, which wraps.
  CHECK_FALSE(plus({{6}, DType::kI64}, 2.0));
  CHECK_FALSE(has_row(rows_text("neg", {{{6}, DType::kI64}}), "P(max) -> P(min)"));
  CHECK(has_row(rows_text("relu", {f64({6})}), "P(max) -> P(max)"));
  CHECK_FALSE(has_row(rows_text("div_scalar", {f64({6})}, {{"value", 0.0}}), "P(sum) -> P(sum)"));
  CHECK(has_row(rows_text("div_scalar", {f64({6})}, {{"value", 4.0}}), "P(sum) -> P(sum)"));
}

TEST_CASE("scatter_ stays in place whichever dim is cut", "[strategies][rules]") {
  const Attrs attrs = {{"dim", 1}};
  const Resolution tokens = value_or_throw(
      resolve_call("scatter_", {2},
                   {{f64({8, 6}), "S(0)"}, {i64({8, 4}), "S(0)"}, {f64({8, 4}), "S(0)"}}, attrs));
  CHECK(total_moved(tokens) == 0);
  CHECK(placements_of(tokens.outputs[0]) == "(S(0))");
  const Resolution owners = value_or_throw(resolve_call(
      "scatter_", {2}, {{f64({8, 6}), "S(1)"}, {i64({8, 4}), "R"}, {f64({8, 4}), "R"}}, attrs));
  CHECK(total_moved(owners) == 0);
  CHECK(placements_of(owners.outputs[0]) == "(S(1))");
  const auto rows = rows_text("scatter_", {f64({8, 6}), i64({8, 4}), f64({8, 4})}, attrs);
  CHECK(has_row(rows, "P(sum), R, P(sum) -> P(sum)"));
  CHECK_FALSE(has_row(rows, "P(sum), S(1), S(1) -> P(sum)"));  // overwrites do not add
  CHECK_FALSE(has_row(rows, "R, R, P(sum) -> P(sum)"));        // self would change its placement
}

TEST_CASE("a token-sharded mask and its count move nothing", "[strategies][rules]") {
  const Resolution mask = value_or_throw(
      resolve_call("scatter_value_", {2}, {{flags({2, 8, 6}), "S(1)"}, {i64({2, 8, 2}), "S(1)"}},
                   {{"dim", -1}, {"value", 1.0}}));
  CHECK(total_moved(mask) == 0);
  CHECK(placements_of(mask.outputs[0]) == "(S(1))");
  const Resolution count = value_or_throw(
      resolve_call("sum", {2}, {{flags({2, 8, 6}), "S(1)"}}, {{"dim", Shape{0, 1}}}));
  CHECK(total_moved(count) == 0);
  CHECK(placements_of(count.outputs[0]) == "(P(sum))");
  CHECK(count.outputs[0].dtype() == DType::kI64);
}

TEST_CASE("selection, softmax and cross-entropy work on a cut dim without gathering it",
          "[strategies][rules]") {
  const Attrs last = {{"dim", -1}};
  for (const char* name : {"argmax", "softmax", "log_softmax"}) {
    INFO(name);
    const Resolution cut = value_or_throw(resolve_call(name, {4}, {{f64({8, 64}), "S(1)"}}, last));
    CHECK(total_moved(cut) == 0);
    CHECK(cut.lowering == 0);
  }
  const Resolution top =
      value_or_throw(resolve_call("topk", {4}, {{f64({8, 64}), "S(1)"}}, {{"k", 2}}));
  CHECK(total_moved(top) == 0);
  const Resolution loss =
      value_or_throw(resolve_call("cross_entropy", {4}, {{f64({8, 64}), "S(1)"}, {i64({8}), "R"}}));
  CHECK(total_moved(loss) == 0);
  const Resolution grad = value_or_throw(
      resolve_call("cross_entropy_grad", {4},
                   {{f64({8}), "R"}, {f64({8, 64}), "S(1)"}, {i64({8}), "R"}, {f64({8}), "R"}}));
  CHECK(total_moved(grad) == 0);
  CHECK(placements_of(grad.outputs[0]) == "(S(1))");
}

TEST_CASE("views keep uneven and nested cuts where they fit", "[strategies][rules]") {
  const Resolution nested = value_or_throw(
      resolve_call("view", {2, 2}, {{f64({8, 3}), "S(0), S(0)"}}, {{"size", Shape{2, 4, 3}}}));
  CHECK(total_moved(nested) == 0);
  CHECK(placements_of(nested.outputs[0]) == "(S(0), S(1))");
  const Resolution flat = value_or_throw(resolve_call("flatten", {2}, {{f64({5, 3}), "S(0)"}}));
  CHECK(total_moved(flat) == 0);
  CHECK(flat.outputs[0].local_shape({0}) == Shape{9});
  CHECK(flat.outputs[0].local_shape({1}) == Shape{6});
  // Chunks of 2, 2, 2 and 0 do not fall on rows of 3: one axis has to move, and it says so.
  const Resolution uneven = value_or_throw(
      resolve_call("unflatten", {4}, {{f64({6}), "S(0)"}}, {{"dim", 0}, {"sizes", Shape{2, 3}}}));
  CHECK(total_moved(uneven) > 0);
  CHECK_FALSE(uneven.why.empty());
  const Resolution partial =
      value_or_throw(resolve_call("view", {2}, {{f64({8, 3}), "P(max)"}}, {{"size", Shape{24}}}));
  CHECK(placements_of(partial.outputs[0]) == "(P(max))");
}

TEST_CASE("views of nested and strided cuts hold the same elements", "[strategies][rules]") {
  const struct {
    const char* op;
    Shape mesh, shape;
    const char* placements;
    Attrs attrs;
  } cases[] = {
      {"view", {2, 2}, {8, 3}, "SS(0,2), S(0)", {{"size", Shape{2, 4, 3}}}},
      {"view", {2, 2}, {7, 2}, "S(0), S(0)", {{"size", Shape{14}}}},
      {"flatten", {2, 3}, {4, 6}, "S(0), S(1)", {}},
      {"flatten", {2, 2}, {5, 3}, "S(1), S(0)", {}},
      {"flatten", {2, 2}, {5, 3}, "SS(0,2), S(0)", {}},
      {"unflatten", {2}, {12}, "SS(0,3)", {{"dim", 0}, {"sizes", Shape{3, 4}}}},
      {"unflatten", {2, 2}, {12}, "S(0), S(0)", {{"dim", 0}, {"sizes", Shape{2, 6}}}},
      {"unflatten", {3}, {10}, "S(0)", {{"dim", 0}, {"sizes", Shape{2, 5}}}},
      {"reshape", {2, 2}, {6, 4}, "S(1), S(0)", {{"shape", Shape{8, 3}}}},
      {"transpose", {2, 2}, {5, 6}, "SS(0,2), S(0)", {{"dim0", 0}, {"dim1", 1}}},
  };
  for (const auto& each : cases) {
    CAPTURE(each.op, each.placements);
    WholeTensor whole{each.shape, DType::kF64, {}};
    for (int i = 0; i < num_elements(each.shape); ++i) whole.values.push_back(i);
    const Resolution resolution = value_or_throw(
        resolve_call(each.op, each.mesh, {{f64(each.shape), each.placements}}, each.attrs));
    const WholeTensor got = testing::run_on_ranks(each.op, resolution, {whole}, each.attrs);
    const Array expected = testing::call_op(each.op, {array_of(whole)}, each.attrs)[0];
    CHECK(difference(got, whole_of(expected)).empty());
  }
}

TEST_CASE("a vocabulary of fewer rows than ranks still embeds", "[strategies][rules]") {
  const Resolution out = value_or_throw(
      resolve_call("embedding", {2, 2}, {{f64({3, 8}), "S(0), S(0)"}, {i64({5}), "R, R"}}));
  CHECK(total_moved(out) == 0);
  CHECK(placements_of(out.outputs[0]) == "(P(sum), P(sum))");
}

TEST_CASE("a weight's cotangent over cut rows is P(sum)", "[strategies][rules]") {
  CHECK(has_row(rows_text("linear_weight_grad", {f64({2, 8, 4}), f64({2, 8, 6})}),
                "S(1), S(1) -> P(sum)"));
  CHECK(has_row(rows_text("embedding_grad", {f64({8, 4}), i64({8})}, {{"num_embeddings", 5}}),
                "R, R -> S(0)"));
  CHECK(has_row(rows_text("rms_norm_grad", {f64({8, 4}), f64({8, 4}), f64({8}), f64({4})}),
                "S(0), S(0), S(0), R -> S(0), P(sum)"));
}

}  // namespace tessera
