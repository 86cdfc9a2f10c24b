#include "strategies/rules/rule.h"

namespace tessera {
namespace {

TEST_CASE("every rule of the notation's table parses", "[strategies][rule]") {
  const char* const rule = GENERATE(
      TSR_RULE("mk, kn -> mn | k:sum | lin A*B"), TSR_RULE("mn, mk, kn -> mn | k:sum | lin A+B*C"),
      TSR_RULE("*, * -> * | lin A+B | mono AB"),
      TSR_RULE("*, *, * -> * | lin B+C | mono BC | max B,C | min B,C"),
      TSR_RULE("*r@dims -> * | r:sum | lin A"), TSR_RULE("*r@dims -> * | r:max | max A"),
      TSR_RULE("*r@dim -> *r | r!"), TSR_RULE("*r@dim -> *K, *K int | r!"),
      TSR_RULE("vd, * -> *d | v#:sum | lin A | mono A"),
      TSR_RULE("*g@dim, *i@dim -> *i | g#:sum | lin A | mono A"),
      TSR_RULE("*g@dim, *i@dim, *i@dim -> &A *g | g#:own i! | lin A+C"),
      TSR_RULE("*g@dim, i, *i@dim -> &A *g | g#:own i:sum | lin A+C"),
      TSR_RULE("g*, i, i* -> &A g* | g#:own i! | lin A+C"), TSR_RULE("*r, r -> *r, * | r!"),
      TSR_RULE("*r, *r, *, *, r -> *r, r, r | r! *:sum | lin A"),
      TSR_RULE("bhqd, bhkd, bhkv -> bhqv | d! k! | lin C"),
      TSR_RULE("tk, ekn, e -> tn | k:sum e! t! | lin A*B"),
      TSR_RULE("* -> * | lin A if value==0 | aff A"), TSR_RULE("...k, nk, n? -> ...n | k:sum"),
      TSR_RULE("*.. -> * | lin A"), TSR_RULE("(fg)k -> fgk"), TSR_RULE("*r@dim -> *r | r^"),
      TSR_RULE("* -> *, * int | lin[0] A"), TSR_RULE("-> K"), TSR_RULE("* -> | *:sum"));
  CAPTURE(rule);
  const StatusOr<Rule> parsed = parse_rule(rule);
  REQUIRE(parsed.ok());
  CHECK(parsed->text == rule);
}

TEST_CASE("a rule says operands, marks and linearity", "[strategies][rule]") {
  const Rule rule = value_or_throw(
      parse_rule("*g@dim, *i@dim, *i@dim -> &A *g | g#:own i:sum | lin A+B*C if value==-1.5"));
  REQUIRE(rule.inputs.size() == 3);
  REQUIRE(rule.outputs.size() == 1);
  CHECK(rule.outputs[0].alias == 0);
  CHECK(rule.inputs[0].dims[0].kind == RuleDim::Kind::kStar);
  CHECK(rule.inputs[0].dims[1].kind == RuleDim::Kind::kAtDim);
  CHECK(rule.inputs[0].dims[1].attr == "dim");
  REQUIRE(rule.marks.size() == 2);
  CHECK(rule.marks[0].indexed);
  CHECK(rule.marks[0].owned);
  CHECK(rule.marks[1].reduce == ReduceOp::kSum);
  REQUIRE(rule.linearity.size() == 1);
  CHECK(rule.linearity[0].monomials == std::vector<std::vector<int>>{{0}, {1, 2}});
  CHECK(rule.linearity[0].guard_attr == "value");
  CHECK(rule.linearity[0].guard_value == -1.5);
}

struct Bad {
  const char* rule;
  int column;
  const char* allowed;
};

TEST_CASE("a rule's error points at the character, at run time as at compile time",
          "[strategies][rule]") {
  constexpr Bad kBad[] = {
      {"mk, kn => mn | k:sum", 7, "a factor (a-z)"},
      {"mk, kn -> mn", 1, "a factor of every output, or one with a mark"},
      {"mk, kn -> mnz | k:sum", 12, "a factor of an input"},
      {"mk, kn -> mn | k:total", 17, "sum, max, min or prod"},
      {"mk, kn -> mn | q!", 15, "a factor that an operand has"},
      {"mk, kn -> mn | k:sum | lin A*C", 29, "an operand's letter"},
      {"mk, kn -> mn | k:sum | lin A*", 29, "an operand's letter"},
      {"mk, kn -> mn | k:sum k!", 21, "one mark for a factor"},
      {"mm -> m", 1, "each factor once in an operand"},
      {"** -> *", 1, "one '*' or '...'"},
      {"* -> &B *", 6, "an operand's letter"},
      {"&A * -> *", 0, "'&' only before an output"},
      {"*r@ -> * | r!", 3, "an attribute's name after '@'"},
      {"* -> * | lin[1] A", 13, "an output's number"},
      {"* -> * | lin A if value=0", 23, "'=='"},
      {"* -> * | lin A if value==x", 25, "a number, true or false"},
      {"* -> * | log A", 9, "a factor that an operand has"},
      {"(f -> f", 2, "a factor (a-z) or ')'"},
      {"v#, * -> *", 1, "a factor (a-z)"},
      {"vd, * -> *d | v#:max", 17, "sum or own"},
      {"* -> * int x", 11, "',' '|' or the end after int"},
      {"mk, kn", 6, "'->' or ','"},
  };
  for (const Bad& bad : kBad) {
    CAPTURE(bad.rule);
    const StatusOr<Rule> parsed = parse_rule(bad.rule);
    REQUIRE_FALSE(parsed.ok());
    const std::string text(message_of(parsed.status()));
    CAPTURE(text);
    CHECK(rule_error_column(bad.rule) == bad.column);
    CHECK(text.find("column " + std::to_string(bad.column) + ":") != std::string::npos);
    CHECK(text.find(bad.allowed) != std::string::npos);
    // The caret stands under the character.
    const std::string last = text.substr(text.rfind('\n') + 1);
    CHECK(last == std::string(2 + static_cast<std::size_t>(bad.column), ' ') + "^");
  }
}

TEST_CASE("the text of a rule's error", "[strategies][rule]") {
  CHECK(message_of(parse_rule("mk, kn -> mn | k:total").status()) ==
        "rule, column 17: saw 't', allowed: sum, max, min or prod\n"
        "  mk, kn -> mn | k:total\n"
        "                   ^");
  CHECK(message_of(parse_rule("mk, kn").status()) ==
        "rule, column 6: saw the end, allowed: '->' or ',' and another operand\n"
        "  mk, kn\n"
        "        ^");
}

static_assert(rule_error_column("mk, kn -> mn | k:sum | lin A*C") == 29);
static_assert(rule_error_column("* -> * | mono A") < 0);

}  // namespace
}  // namespace tessera
