#include <algorithm>

#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

using testing::f64;
using testing::i64;
using testing::rows_text;
using Rows = std::vector<std::string>;

bool has(const Rows& rows, const std::string& start) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const std::string& row) { return row.starts_with(start + " |"); });
}

TEST_CASE("mm has a row for each factor, and one for each Partial operand", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  CHECK(rows_text(table, "mm", {f64({8, 6}), f64({6, 4})}) ==
        Rows{"S(0), R -> S(0) | m", "S(1), S(0) -> P(sum) | k:sum", "R, S(1) -> S(1) | n",
             "P(sum), R -> P(sum) | lin A*B", "R, P(sum) -> P(sum) | lin A*B",
             "P(avg), R -> P(avg) | lin A*B", "R, P(avg) -> P(avg) | lin A*B",
             "R, R -> R | all R"});
}

TEST_CASE("the bias of a sharded contraction must be Partial too", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "addmm", {f64({8, 4}), f64({8, 6}), f64({6, 4})});
  CHECK(has(rows, "P(sum), S(1), S(0) -> P(sum)"));
  CHECK_FALSE(has(rows, "R, S(1), S(0) -> P(sum)"));  // would add the bias once per rank
  CHECK(has(rows, "P(sum), P(sum), R -> P(sum)"));
  CHECK_FALSE(has(rows, "R, P(sum), R -> P(sum)"));
  CHECK(has(rows, "P(avg), R, R -> P(avg)"));
  CHECK(has(rows, "R, P(avg), R -> P(avg)"));
  CHECK_FALSE(has(rows, "R, P(avg), P(avg) -> P(avg)"));  // a product of averages is none
}

TEST_CASE("add takes a sum only from both operands, an average from either", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "add", {f64({8, 6}), f64({8, 6})});
  CHECK(rows == Rows{"S(0), S(0) -> S(0) | *[-2]", "S(1), S(1) -> S(1) | *[-1]",
                     "P(sum), P(sum) -> P(sum) | lin A+B", "P(avg), R -> P(avg) | lin A+B",
                     "R, P(avg) -> P(avg) | lin A+B", "P(avg), P(avg) -> P(avg) | lin A+B",
                     "P(max), R -> P(max) | mono AB", "R, P(max) -> P(max) | mono AB",
                     "P(min), R -> P(min) | mono AB", "R, P(min) -> P(min) | mono AB",
                     "R, R -> R | all R"});
}

TEST_CASE("integer sums pass through add exactly, averages do not", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "add", {i64({8}), i64({8})});
  CHECK(has(rows, "P(sum), P(sum) -> P(sum)"));
  CHECK_FALSE(has(rows, "P(sum), R -> P(sum)"));
  CHECK_FALSE(has(rows, "P(avg), R -> P(avg)"));
  // The least integer, which a rank without elements holds of a maximum, wraps.
  CHECK_FALSE(has(rows, "P(max), R -> P(max)"));
  // Promotion keeps integers: 67108869 would lose bits as a float.
  const Op& add = *value_or_throw(table.find("add"));
  const std::vector<TensorMeta> inputs = {i64({8}), i64({})};
  CHECK(value_or_throw(infer(add, inputs, {}))[0].dtype == DType::kI64);
}

TEST_CASE("a broadcast dim does not carry its factor", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "add", {f64({8, 1}), f64({6})});
  CHECK(has(rows, "S(0), R -> S(0)"));
  CHECK(has(rows, "R, S(0) -> S(1)"));
  CHECK_FALSE(has(rows, "S(1), S(0) -> S(1)"));
}

TEST_CASE("gather with fewer indices on another dim has no row for that dim",
          "[strategies][rows][rules][1]") {
  const OpTable table = testing::small_table();
  const Attrs dim = {{"dim", std::int64_t{1}}};
  const Rows equal = rows_text(table, "gather", {f64({8, 4}), i64({8, 3})}, dim);
  CHECK(has(equal, "S(0), S(0) -> S(0)"));
  const Rows smaller = rows_text(table, "gather", {f64({8, 4}), i64({4, 3})}, dim);
  CHECK(smaller == Rows{"S(1), R -> P(sum) | g#:sum", "R, S(1) -> S(1) | i",
                        "P(sum), R -> P(sum) | lin A", "P(avg), R -> P(avg) | lin A",
                        "P(max), R -> P(max) | mono A", "P(min), R -> P(min) | mono A",
                        "R, R -> R | all R"});
  // One row of indices is one row, not a broadcast.
  CHECK_FALSE(has(rows_text(table, "gather", {f64({8, 4}), i64({1, 3})}, dim), "S(0), R -> S(0)"));
}

TEST_CASE("scatter_add_ with more sources than indices has no row for that dim",
          "[strategies][rows][rules][2]") {
  const OpTable table = testing::small_table();
  const Attrs dim = {{"dim", std::int64_t{0}}};
  const Rows fits = rows_text(table, "scatter_add_", {f64({4, 4}), i64({4, 4}), f64({4, 4})}, dim);
  CHECK(fits == Rows{"S(0), R, R -> S(0) | g#:own", "S(1), S(1), S(1) -> S(1) | *[-1]",
                     "P(sum), S(0), S(0) -> P(sum) | i:sum",
                     "P(sum), R, P(sum) -> P(sum) | lin A+C", "P(avg), R, R -> P(avg) | lin A+C",
                     "P(avg), R, P(avg) -> P(avg) | lin A+C", "R, R, R -> R | all R"});
  const Rows larger =
      rows_text(table, "scatter_add_", {f64({4, 4}), i64({4, 3}), f64({8, 3})}, dim);
  CHECK_FALSE(has(larger, "S(1), S(1), S(1) -> S(1)"));
  CHECK_FALSE(has(larger, "P(sum), S(0), S(0) -> P(sum)"));
  CHECK(has(larger, "S(0), R, R -> S(0)"));
}

TEST_CASE("scatter_ stays on the scattered dim, and does not add overwrites",
          "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "scatter_", {f64({6, 5}), i64({6, 5}), f64({6, 5})});
  CHECK(has(rows, "S(0), R, R -> S(0)"));
  CHECK(has(rows, "S(1), S(1), S(1) -> S(1)"));
  CHECK_FALSE(has(rows, "P(sum), S(0), S(0) -> P(sum)"));
}

TEST_CASE("in-place rows keep the placement of the operand written", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Rows rows = rows_text(table, "add_", {f64({8}), f64({8})});
  CHECK(rows == Rows{"S(0), S(0) -> S(0) | *[-1]", "P(sum), P(sum) -> P(sum) | lin A+B",
                     "P(avg), R -> P(avg) | lin A+B", "P(avg), P(avg) -> P(avg) | lin A+B",
                     "R, R -> R | all R"});
}

TEST_CASE("P(max) passes through what is monotone, P(sum) does not",
          "[strategies][rows][rules][4]") {
  const OpTable table = testing::small_table();
  CHECK(rows_text(table, "relu", {f64({5})}) ==
        Rows{"S(0) -> S(0) | *[-1]", "P(max) -> P(max) | mono A", "P(min) -> P(min) | mono A",
             "R -> R | all R"});
  CHECK(rows_text(table, "softmax", {f64({5, 3})}, {{"dim", std::int64_t{-1}}}) ==
        Rows{"S(0) -> S(0) | *[-1]", "R -> R | all R"});
  const Rows where = rows_text(table, "where", {{{5}, DType::kBool}, f64({5}), f64({5})});
  CHECK(has(where, "R, P(max), R -> P(max)"));
  CHECK(has(where, "R, P(max), P(max) -> P(max)"));
  CHECK_FALSE(has(where, "R, P(sum), R -> P(sum)"));
  CHECK(has(where, "R, P(avg), R -> P(avg)"));
}

TEST_CASE("a cast of a float sum to an integer has no Partial row",
          "[strategies][rows][rules][4]") {
  OpTable table;
  OpDef cast = testing::op_def("to_int", "* -> * | lin A", 1, [](KernelCall& call) {
    kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
  });
  cast.infer = [](std::span<const TensorMeta> inputs, const Attrs&) {
    return StatusOr<std::vector<TensorMeta>>({{inputs[0].shape, DType::kI64}});
  };
  cast.samples = {{.shapes = {{4}}}};
  table.must_add(cast);
  CHECK(rows_text(table, "to_int", {f64({4})}) == Rows{"S(0) -> S(0) | *[-1]", "R -> R | all R"});
  CHECK(has(rows_text(table, "to_int", {i64({4})}), "P(sum) -> P(sum)"));
}

TEST_CASE("reductions: dims, no dims, kept dims", "[strategies][rows][rules][14]") {
  const OpTable table = testing::small_table();
  CHECK(rows_text(table, "sum", {f64({8, 6})}, {{"dims", Shape{0}}}) ==
        Rows{"S(0) -> P(sum) | r:sum", "S(1) -> S(0) | *[-1]", "P(sum) -> P(sum) | lin A",
             "P(avg) -> P(avg) | lin A", "R -> R | all R"});
  CHECK(rows_text(table, "sum", {f64({8, 6})}, {{"dims", Shape{0}}, {"keepdim", true}})[1] ==
        "S(1) -> S(1) | *[-1]");
  // No dims listed: all of them.
  const Op& sum = *value_or_throw(table.find("sum"));
  const std::vector<TensorMeta> input = {f64({8, 6})};
  const Attrs all = value_or_throw(complete_attrs(sum, {}));
  CHECK(value_or_throw(infer(sum, input, all))[0].shape == Shape{});
  CHECK(rows_text(table, "sum", {f64({8, 6})})[1] == "S(1) -> P(sum) | r[1]:sum");
  CHECK(rows_text(table, "amax", {f64({8})}) ==
        Rows{"S(0) -> P(max) | r:max", "P(max) -> P(max) | max A", "R -> R | all R"});
}

TEST_CASE("an attribute's size takes the place of the listed dim", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const Op& topk = *value_or_throw(table.find("topk"));
  const Attrs attrs =
      value_or_throw(complete_attrs(topk, {{"k", std::int64_t{2}}, {"dim", std::int64_t{0}}}));
  const std::vector<TensorMeta> input = {{{7, 3}, DType::kF32}};
  const std::vector<TensorMeta> outputs = value_or_throw(infer(topk, input, attrs));
  CHECK(outputs == std::vector<TensorMeta>{{{2, 3}, DType::kF32}, {{2, 3}, DType::kI64}});
  CHECK(rows_text(table, "topk", {f64({7, 3})}, attrs) ==
        Rows{"S(1) -> S(1), S(1) | *[-1]", "R -> R, R | all R"});
}

TEST_CASE("lin of one output leaves the others replicated", "[strategies][rows]") {
  OpTable table;
  OpDef op =
      testing::op_def("scaled", "*, * -> *, * | lin[0] A if twice==1", 2, [](KernelCall&) {});
  op.num_outputs = 2;
  op.attrs = {{"twice", AttrDef::Type::kBool, AttrValue{false}}};
  op.samples = {{.shapes = {{4}, {4}}}};
  table.must_add(op);
  CHECK(has(rows_text(table, "scaled", {f64({4}), f64({4})}, {{"twice", true}}),
            "P(sum), R -> P(sum), R"));
  CHECK_FALSE(has(rows_text(table, "scaled", {f64({4}), f64({4})}), "P(sum), R -> P(sum), R"));
}

TEST_CASE("absent optional operands take their monomial along, lists count as one",
          "[strategies][rows]") {
  OpTable table;
  OpDef linear =
      testing::op_def("linear", "*k, nk, n? -> *n | k:sum | lin A*B+C", 3, [](KernelCall&) {});
  linear.args[2].kind = ArgDef::Kind::kOptional;
  linear.samples = {{.shapes = {{4, 3}, {2, 3}}}};
  table.must_add(linear);
  TensorMeta none;
  none.absent = true;
  const Rows bare = rows_text(table, "linear", {f64({4, 3}), f64({2, 3}), none});
  CHECK(has(bare, "S(1), S(1), R -> P(sum)"));
  const Rows biased = rows_text(table, "linear", {f64({4, 3}), f64({2, 3}), f64({2})});
  CHECK_FALSE(has(biased, "S(1), S(1), R -> P(sum)"));
  CHECK(has(biased, "S(1), S(1), P(sum) -> P(sum)"));
  CHECK(has(biased, "R, S(0), S(0) -> S(1)"));

  OpDef total = testing::op_def("total", "*.. -> * | lin A", 1, [](KernelCall&) {});
  total.args[0].kind = ArgDef::Kind::kList;
  total.samples = {{.shapes = {{4}, {4}}}};
  table.must_add(total);
  const Rows list = rows_text(table, "total", {f64({4}), f64({4}), f64({4})});
  CHECK(list == Rows{"S(0), S(0), S(0) -> S(0) | *[-1]", "P(sum), P(sum), P(sum) -> P(sum) | lin A",
                     "P(avg), P(avg), P(avg) -> P(avg) | lin A", "R, R, R -> R | all R"});
}

TEST_CASE("a dim made of factors carries each of them", "[strategies][rows]") {
  OpTable table;
  OpDef merge = testing::op_def("merge", "fgk -> (fg)k", 1, [](KernelCall&) {});
  merge.samples = {{.shapes = {{2, 3, 4}}}};
  table.must_add(merge);
  CHECK(rows_text(table, "merge", {f64({4, 3, 2})}) ==
        Rows{"S(0) -> S(0) | f", "S(1) -> S(0) | g", "S(2) -> S(1) | k", "R -> R | all R"});
  const Op& op = *value_or_throw(table.find("merge"));
  const std::vector<TensorMeta> input = {f64({4, 3, 2})};
  CHECK(value_or_throw(infer(op, input, {}))[0].shape == Shape{12, 2});
}

TEST_CASE("on an axis of one rank there is one row", "[strategies][rows]") {
  const OpTable table = testing::small_table();
  const std::vector<TensorMeta> inputs = {f64({8, 6}), f64({6, 4})};
  const auto rows = value_or_throw(rows_of(*value_or_throw(table.find("mm")), inputs, {}, 1));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].why == "all R");
}

}  // namespace
}  // namespace tessera
