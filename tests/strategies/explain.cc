#include "strategies/rules/explain.h"

namespace tessera {
namespace {

Spec spec_on(const Mesh& mesh, Shape shape, std::string_view placements) {
  return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF32,
                                   value_or_throw(parse_placements(placements))));
}

Explanation explained(std::string_view name, const std::vector<Spec>& operands,
                      const Attrs& given = {}) {
  static const OpTable* const table = [] {
    auto* made = new OpTable;  // outlives the tests
    add_builtin_ops(*made);
    return made;
  }();
  const Op& op = *value_or_throw(table->find(name));
  std::vector<const Spec*> pointers;
  for (const Spec& spec : operands) pointers.push_back(&spec);
  return value_or_throw(explain(op, pointers, value_or_throw(complete_attrs(op, given))));
}

TEST_CASE("an explanation prices every row and says who would have to move", "[explain]") {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{4}), {"tp"}));
  const Explanation answer =
      explained("matmul", {spec_on(mesh, {8, 64}, "(S(0))"), spec_on(mesh, {64, 128}, "(S(0))")});
  // self by columns: each of 4 ranks lacks 3/4 of its 128 elements of 4 bytes.
  CHECK(answer.bytes == 4 * 96 * 4);
  REQUIRE(answer.offers.size() >= 4);
  CHECK(answer.offers[0].chosen);
  CHECK(to_string(answer.offers[0].row) == "S(1), S(0) -> P(sum)");
  REQUIRE(answer.offers[0].needs.size() == 1);
  CHECK(answer.offers[0].needs[0].name == "self");
  for (const RowOffer& offer : answer.offers) {
    CAPTURE(offer.row.why);
    CHECK(offer.bytes >= answer.bytes);
    // m keeps self and gathers other: 3 ranks' rows to each of 4, 64 * 128 * 4 bytes in all.
    if (offer.row.why == "m") CHECK(offer.bytes == std::int64_t{3} * 64 * 128 * 4);
  }
  REQUIRE(answer.wishes.size() == 2);
  CHECK(answer.wishes[0].bytes == 0);
  CHECK(answer.wishes[0].name == "self");
  CHECK(to_string(answer.wishes[0].want) == "S(1)");
  CHECK(answer.wishes[1].name == "other");
  CHECK(to_string(answer.wishes[1].want) == "R");
  CHECK(answer.obstacles.empty());
}

TEST_CASE("an explanation names what no row keeps", "[explain]") {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2}), {"tp"}));
  const Explanation partial = explained("relu", {spec_on(mesh, {8, 6}, "(P(sum))")});
  REQUIRE(partial.obstacles.size() == 1);
  CHECK(partial.obstacles[0].why == "no row carries its P(sum) with these operands");

  const Spec index = value_or_throw(
      Spec::make(mesh, {4, 3}, DType::kI64, value_or_throw(parse_placements("(R)"))));
  const Explanation shorter =
      explained("gather", {spec_on(mesh, {8, 4}, "(S(0))"), index}, {{"dim", std::int64_t{1}}});
  REQUIRE(shorter.obstacles.size() == 1);
  CHECK(shorter.obstacles[0].why == "index has 4 of its 8 elements along dim 0");
}

TEST_CASE("a call that moves nothing leaves nothing to wish for", "[explain]") {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2, 1, 2}), {"dp", "pp", "tp"}));
  const Explanation answer = explained(
      "add", {spec_on(mesh, {8, 6}, "(S(0), R, S(1))"), spec_on(mesh, {8, 6}, "(S(0), R, S(1))")});
  CHECK(answer.bytes == 0);
  CHECK(answer.wishes.empty());
  CHECK(answer.obstacles.empty());
  // Rows on dp and tp only: pp has one rank.
  for (const RowOffer& offer : answer.offers) CHECK(offer.axis != 1);
}

}  // namespace
}  // namespace tessera
