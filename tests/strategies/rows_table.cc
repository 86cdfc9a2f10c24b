#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

using testing::f64;
using testing::i64;

std::string text_of(const Status& status) { return std::string(message_of(status)); }

TEST_CASE("an unknown op names the nearest ones", "[strategies][op]") {
  const OpTable table = testing::small_table();
  const Status status = table.find("sofmax").status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(text_of(status) == "unknown op 'sofmax'; the nearest names are softmax, amax, sum");
}

TEST_CASE("the table refuses an op that is not complete", "[strategies][op]") {
  OpTable table;
  OpDef def = testing::op_def("f", "* -> *", 1, [](KernelCall&) {});
  def.samples = {{.shapes = {{4}}}};
  const auto refusal = [&](auto change) {
    OpDef changed = def;
    change(changed);
    return text_of(table.add(changed));
  };
  CHECK(refusal([](OpDef& d) { d.doc.clear(); }) == "op 'f': it has no doc");
  CHECK(refusal([](OpDef& d) { d.rule.clear(); }) == "op 'f': it has neither rule nor strategies");
  CHECK(refusal([](OpDef& d) { d.kernel = nullptr; }) == "op 'f': it has no kernel");
  CHECK(refusal([](OpDef& d) { d.samples.clear(); }) ==
        "op 'f': it has no sample to be verified with");
  CHECK(refusal([](OpDef& d) { d.rule = "*, * -> *"; }) ==
        "op 'f': its rule has 2 operands, its schema 1");
  CHECK(refusal([](OpDef& d) { d.rule = "*r@dim -> * | r:sum"; }) ==
        "op 'f': its rule names attribute 'dim', which it does not declare");
  CHECK(refusal([](OpDef& d) { d.auxiliary_outputs = 1; }) ==
        "op 'f': auxiliary_outputs is 1 of 1 results; at least the first is for callers");
  CHECK(
      refusal([](OpDef& d) { d.rule = "* => *"; }).starts_with("op 'f': rule, column 2: saw '='"));
  CHECK(table.add(def).ok());
  CHECK(text_of(table.add(def)) == "op 'f': the name is in use");
}

TEST_CASE("attributes are completed in the declared order", "[strategies][op]") {
  const OpTable table = testing::small_table();
  const Op& topk = *value_or_throw(table.find("topk"));
  const Attrs attrs =
      value_or_throw(complete_attrs(topk, {{"dim", std::int64_t{1}}, {"k", std::int64_t{2}}}));
  CHECK(attrs.to_string() == "k=2, dim=1");
  CHECK(attrs == value_or_throw(complete_attrs(topk, attrs)));
  CHECK(attrs.hash() == value_or_throw(complete_attrs(topk, attrs)).hash());
  CHECK(text_of(complete_attrs(topk, {}).status()) == "topk: attribute 'k' (an int) must be given");
  CHECK(text_of(complete_attrs(topk, {{"n", std::int64_t{1}}}).status()) ==
        "topk: unknown attribute 'n'; it takes k, dim");
  CHECK(text_of(complete_attrs(topk, {{"k", 1.5}}).status()) ==
        "topk: attribute k=1.5 must be an int");
  const Op& sum = *value_or_throw(table.find("sum"));
  CHECK(value_or_throw(complete_attrs(sum, {{"dims", std::int64_t{1}}})).to_string() ==
        "dims=[1], keepdim=false");
}

TEST_CASE("shape errors name operand, sizes seen and allowed", "[strategies][op]") {
  const OpTable table = testing::small_table();
  const auto refusal = [&](std::string_view name, std::vector<TensorMeta> inputs,
                           Attrs attrs = {}) {
    const Op& op = *value_or_throw(table.find(name));
    return text_of(infer(op, inputs, value_or_throw(complete_attrs(op, attrs))).status());
  };
  CHECK(refusal("mm", {f64({8, 6}), f64({5, 4})}) ==
        "mm: b has 5 elements along dim 0 where a has 6 along dim 1; sizes must be equal. "
        "[a F64[8, 6], b F64[5, 4]]");
  CHECK(refusal("add", {f64({8, 6}), f64({5})}) ==
        "add: b has 5 elements along dim 0 where a has 6 along dim 1; sizes must be equal or 1. "
        "[a F64[8, 6], b F64[5]]");
  CHECK(refusal("mm", {f64({8}), f64({5, 4})}) ==
        "mm: a has 1 dim; its rule takes 2. [rule mk, kn -> mn | k:sum | lin A*B; a F64[8], b "
        "F64[5, 4]]");
  CHECK(refusal("sum", {f64({8})}, {{"dims", Shape{1}}}) ==
        "sum: dims names dim 1 of a, which has 1 dims; allowed are -1 to 0. [a F64[8]]");
  CHECK(refusal("sum", {f64({8, 2})}, {{"dims", Shape{1, -1}}}) ==
        "sum: dims lists a dim twice: [1, -1]. [a F64[8, 2]]");
  CHECK(refusal("add_", {f64({1, 3}), f64({4, 3})}) ==
        "add_: the result of shape [4, 3] does not fit a of shape [1, 3], which it is written to. "
        "[a F64[1, 3], b F64[4, 3]]");
  CHECK(refusal("add_", {i64({3}), f64({3})}) ==
        "add_: a result of F64 cannot be written to a, which is I64. [a I64[3], b F64[3]]");
  CHECK(refusal("mm", {f64({8, 6})}) == "mm: 1 operands given; it takes 2");
}

TEST_CASE("dtypes promote as torch has them", "[strategies][op]") {
  const OpTable table = testing::small_table();
  const auto dtype = [&](std::string_view name, TensorMeta a, TensorMeta b) {
    const std::vector<TensorMeta> inputs = {std::move(a), std::move(b)};
    const Op& op = *value_or_throw(table.find(name));
    return value_or_throw(infer(op, inputs, value_or_throw(complete_attrs(op, {}))))[0].dtype;
  };
  CHECK(dtype("add", {{3}, DType::kF32}, {{}, DType::kF64}) == DType::kF32);
  CHECK(dtype("add", {{3}, DType::kI32}, {{}, DType::kF32}) == DType::kF32);
  CHECK(dtype("add", {{3}, DType::kBF16}, {{3}, DType::kF32}) == DType::kF32);
  CHECK(dtype("add", {{}, DType::kBF16}, {{}, DType::kF32}) == DType::kF32);
  CHECK(dtype("gather", {{3}, DType::kI32}, {{3}, DType::kI64}) == DType::kI32);
}

}  // namespace
}  // namespace tessera
