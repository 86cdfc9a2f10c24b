// Ops on operands of stated sizes and with one owner: which rows carry them, and what moves else.
#include <cmath>

#include "placement/plan_cost.h"
#include "strategies/rules/propagate.h"
#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

Mesh line(std::int64_t ranks) { return value_or_throw(Mesh::make(view_of(Shape{ranks}), {"dp"})); }
Spec placed(const Mesh& mesh, Shape shape, std::string_view placements) {
  return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF32,
                                   value_or_throw(parse_placements(placements))));
}

/// "(S(0;3,0,5)), (R) -> (S(0;3,0,5)), 0 bytes"
std::string resolved(std::string_view name, const std::vector<Spec>& operands,
                     const Attrs& given = {}) {
  const Op& op = *value_or_throw(testing::builtin_table().find(name));
  std::vector<const Spec*> pointers;
  for (const Spec& spec : operands) pointers.push_back(&spec);
  const Resolution answer =
      value_or_throw(propagate(op, pointers, value_or_throw(complete_attrs(op, given))));
  std::string text;
  for (const Spec& input : answer.inputs) {
    text += (text.empty() ? "" : ", ") + to_string(value_or_throw(input.placements()));
  }
  text += " ->";
  for (const Spec& output : answer.outputs) {
    const auto list = output.placements();
    text += " " + (list.ok() ? to_string(*list) : output.to_string());
  }
  std::int64_t bytes = 0;
  for (const std::int64_t each : answer.moved_bytes) bytes += each;
  return text + ", " + std::to_string(bytes) + " bytes";
}

}  // namespace

TEST_CASE("rows carry stated sizes where all operands have them", "[strategies][ragged]") {
  const Mesh mesh = line(3);
  const Spec x = placed(mesh, {8, 6}, "S(0;3,0,5)");
  CHECK(resolved("relu", {x}) == "(S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("add", {x, x}) == "(S(0;3,0,5)), (S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  // A replica is cut as the other operand is.
  CHECK(resolved("mul", {placed(mesh, {8, 6}, "R"), x}) ==
        "(S(0;3,0,5)), (S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("matmul", {x, placed(mesh, {6, 4}, "R")}) ==
        "(S(0;3,0,5)), (R) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("matmul", {placed(mesh, {4, 8}, "S(1;3,0,5)"), x}) ==
        "(S(1;3,0,5)), (S(0;3,0,5)) -> (P(sum)), 0 bytes");
  CHECK(resolved("sum", {x}, {{"dim", Shape{1}}}) == "(S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("softmax", {x}, {{"dim", 1}}) == "(S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("transpose", {x}, {{"dim0", 0}, {"dim1", 1}}) ==
        "(S(0;3,0,5)) -> (S(1;3,0,5)), 0 bytes");
  CHECK(resolved("reshape", {x}, {{"shape", Shape{8, 2, 3}}}) ==
        "(S(0;3,0,5)) -> (S(0;3,0,5)), 0 bytes");
  CHECK(resolved("reshape", {x}, {{"shape", Shape{48}}}) ==
        "(S(0;3,0,5)) -> (S(0;18,0,30)), 0 bytes");
  CHECK(resolved("repeat_interleave", {x}, {{"repeats", 2}, {"dim", 0}}) ==
        "(S(0;3,0,5)) -> (S(0;6,0,10)), 0 bytes");
}

TEST_CASE("rows carry an owner", "[strategies][ragged]") {
  const Mesh mesh = line(3);
  const Spec x = placed(mesh, {8, 6}, "O(1)");
  CHECK(resolved("relu", {x}) == "(O(1)) -> (O(1)), 0 bytes");
  CHECK(resolved("add", {x, x}) == "(O(1)), (O(1)) -> (O(1)), 0 bytes");
  CHECK(resolved("matmul", {x, placed(mesh, {6, 4}, "R")}) == "(O(1)), (R) -> (O(1)), 0 bytes");
  CHECK(resolved("reshape", {x}, {{"shape", Shape{48}}}) == "(O(1)) -> (O(1)), 0 bytes");
  CHECK(resolved("transpose", {x}, {{"dim0", 0}, {"dim1", 1}}) ==
        "(O(1)) -> (S(1;0,8,0)), 0 bytes");
}

TEST_CASE("operands of other sizes move, the cheaper one", "[strategies][ragged]") {
  const Mesh mesh = line(3);
  const Spec small = placed(mesh, {8, 1}, "S(0;3,0,5)"), large = placed(mesh, {8, 6}, "S(0)");
  // Rows 3 to 5 of the small one: rank 1 has nothing of it, and needs them.
  CHECK(resolved("mul", {small, large}) == "(S(0)), (S(0)) -> (S(0)), 12 bytes");
  const Spec owned = placed(mesh, {8, 6}, "O(0)");
  CHECK(resolved("add", {owned, placed(mesh, {8, 6}, "O(2)")}) ==
        "(O(0)), (O(0)) -> (O(0)), 192 bytes");
}

TEST_CASE("the search counts what plans move between stated sizes", "[strategies][ragged][cost]") {
  const Mesh mesh = line(4);
  const std::vector<std::string> texts = {"R",    "S(0)", "S(1)",          "S(0;1,0,20,3)",
                                          "O(0)", "O(3)", "S(0;6,12,6,0)", "S(1;2,2,10,10)"};
  std::vector<Spec> specs;
  for (const std::string& text : texts) specs.push_back(placed(mesh, {24, 24}, text));
  specs.push_back(placed(mesh, {24, 24}, "P(sum)"));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j + 1 < specs.size(); ++j) {
      CAPTURE(specs[i].to_string(), specs[j].to_string());
      const Plan made = value_or_throw(plan(specs[i], specs[j]));
      CHECK(estimate_moved_bytes(specs[i], specs[j]) == cost_of(made).bytes_received.total);
    }
  }
}

}  // namespace tessera
