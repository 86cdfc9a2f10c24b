#include "strategies/rules/rule.h"

namespace tessera {
namespace {

/// Builds a Rule from what the shared grammar reports.
class RuleBuilder {
 public:
  explicit RuleBuilder(Rule& rule) : rule_(rule) {}

  void begin_operand(rule_grammar::Side side) {
    auto& operands = side == rule_grammar::Side::kInput ? rule_.inputs : rule_.outputs;
    operand_ = &operands.emplace_back();
  }
  void optional() { operand_->optional = true; }
  void list() { operand_->list = true; }
  void integer() { operand_->integer = true; }
  void alias(int input) { operand_->alias = input; }
  void dim(RuleDim::Kind kind, char letter, std::string_view text) {
    RuleDim& dim = operand_->dims.emplace_back();
    dim.kind = kind;
    dim.letter = letter;
    (kind == RuleDim::Kind::kGroup ? dim.group : dim.attr) = std::string(text);
  }
  void mark(const RuleMark& mark) { rule_.marks.push_back(mark); }
  void begin_linearity(RuleLinearity::Kind kind) { rule_.linearity.emplace_back().kind = kind; }
  void only_output(int output) { rule_.linearity.back().only_outputs.push_back(output); }
  void begin_monomial() { rule_.linearity.back().monomials.emplace_back(); }
  void carrier(int input) { rule_.linearity.back().monomials.back().push_back(input); }
  void guard(std::string_view attr, RuleLinearity::Compare compare, double value) {
    rule_.linearity.back().guard_attr = std::string(attr);
    rule_.linearity.back().guard_compare = compare;
    rule_.linearity.back().guard_value = value;
  }

 private:
  Rule& rule_;
  RuleOperand* operand_ = nullptr;
};

std::string describe(std::string_view text, const rule_grammar::Error& error) {
  const auto column = static_cast<std::size_t>(error.column);
  std::string out = "rule, column " + std::to_string(column) + ": saw ";
  out += column < text.size() ? "'" + std::string(1, text[column]) + "'" : std::string("the end");
  out += ", allowed: ";
  out += error.allowed;
  out += "\n  ";
  out += text;
  out += "\n  " + std::string(column, ' ') + "^";
  return out;
}

}  // namespace

bool RuleLinearity::holds(double value) const noexcept {
  if (guard_attr.empty()) return true;
  switch (guard_compare) {
    case Compare::kEqual:
      return value == guard_value;
    case Compare::kNotEqual:
      return value != guard_value;
    case Compare::kLess:
      return value < guard_value;
    case Compare::kLessEqual:
      return value <= guard_value;
    case Compare::kGreater:
      return value > guard_value;
    case Compare::kGreaterEqual:
      return value >= guard_value;
  }
  return false;
}

StatusOr<Rule> parse_rule(std::string_view text) {
  Rule rule;
  RuleBuilder builder(rule);
  const rule_grammar::Error error = rule_grammar::Parser<RuleBuilder>(text, builder).parse();
  if (error.column >= 0) return invalid_argument(describe(text, error));
  rule.text = std::string(text);
  return rule;
}

}  // namespace tessera
