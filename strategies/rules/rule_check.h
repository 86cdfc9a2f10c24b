// strategies/rules/rule_check.h: the grammar of rules, written once: for parse_rule at run time,
// and for rule_error_column in a constant expression. Included by rule.h only.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/reduce_op.h"
#include "strategies/rules/rule_scan.h"

namespace tessera::rule_grammar {

template <class Sink>
class Parser : private Scanner {
 public:
  constexpr Parser(std::string_view text, Sink& sink) : Scanner(text), sink_(sink) {}

  constexpr Error parse() {
    skip_spaces();
    const bool no_inputs = at("->");
    if (!no_inputs && !operands(Side::kInput)) return error_;
    if (!at("->")) return fail("'->' or ',' and another operand"), error_;
    pos_ += 2;
    if (!operands(Side::kOutput)) return error_;
    while (peek() == '|') {
      ++pos_;
      if (!section()) return error_;
    }
    if (pos_ < text_.size())
      return fail("'|' and a section, ',' and another output, or the end"), error_;
    return factors_.check(num_outputs_);
  }

 private:
  static constexpr int kMaxOperands = 26;

  constexpr bool operands(Side side) {
    for (;;) {
      if (!operand(side)) return false;
      if (peek() != ',') return true;
      ++pos_;
    }
  }

  constexpr bool operand(Side side) {
    int& count = side == Side::kInput ? num_inputs_ : num_outputs_;
    if (count == kMaxOperands) return fail("at most 26 operands");
    sink_.begin_operand(side);
    const std::uint32_t bit = std::uint32_t{1} << count++;
    has_rest_ = false;
    skip_spaces();
    if (peek() == '&') {
      if (side == Side::kInput) return fail("'&' only before an output");
      ++pos_;
      const int input = operand_letter();
      if (input < 0) return false;
      sink_.alias(input);
    }
    for (;;) {
      skip_spaces();
      const char c = peek();
      if (c == '\0' || c == ',' || c == '|' || at("->")) return true;
      if (side == Side::kOutput && at_word("int") && (pos_ == 0 || !is_name(text_[pos_ - 1]))) {
        pos_ += 3;
        sink_.integer();
        return ends_operand("',' '|' or the end after int");
      }
      if (side == Side::kInput && (c == '?' || (at("..") && !at("...")))) {
        pos_ += c == '?' ? 1 : 2;
        c == '?' ? sink_.optional() : sink_.list();
        return ends_operand("',' or '->' after '?' or '..'");
      }
      if (!dim(side, bit)) return false;
    }
  }

  constexpr bool ends_operand(const char* allowed) {
    skip_spaces();
    const char c = peek();
    return c == '\0' || c == ',' || c == '|' || at("->") ? true : fail(allowed);
  }

  constexpr bool dim(Side side, std::uint32_t bit) {
    const char c = peek();
    if (c == '*' || at("...")) {
      if (has_rest_) return fail("one '*' or '...' in an operand");
      has_rest_ = true;
      if (!note(side, bit, c)) return false;
      pos_ += c == '*' ? 1 : 3;
      sink_.dim(c == '*' ? RuleDim::Kind::kStar : RuleDim::Kind::kEllipsis, c, {});
      return true;
    }
    if (c == '(') return group(side, bit);
    if (is_lower(c)) {
      if (!note(side, bit, c)) return false;
      ++pos_;
      return position(c, RuleDim::Kind::kFactor);
    }
    if (is_upper(c)) {
      ++pos_;
      return position(c, RuleDim::Kind::kAttr);
    }
    return fail("a factor (a-z), '*', '...', a size letter (A-Z), '(fg)', '?', '..' or ','");
  }

  /// An optional `@attr` after a letter.
  constexpr bool position(char letter, RuleDim::Kind kind) {
    std::string_view attr;
    if (peek() == '@') {
      ++pos_;
      attr = name();
      if (attr.empty()) return fail("an attribute's name after '@'");
      if (kind == RuleDim::Kind::kFactor) {
        kind = attr.ends_with("dims") ? RuleDim::Kind::kAtDims : RuleDim::Kind::kAtDim;
      }
    }
    sink_.dim(kind, letter, attr);
    return true;
  }

  constexpr bool group(Side side, std::uint32_t bit) {
    const std::size_t start = ++pos_;
    while (is_lower(peek())) {
      if (!note(side, bit, peek())) return false;
      ++pos_;
    }
    if (peek() != ')') return fail("a factor (a-z) or ')'");
    if (pos_ - start > 4) return fail("at most 4 factors in '(…)'");
    if (pos_ > start) {
      sink_.dim(RuleDim::Kind::kGroup, text_[start], text_.substr(start, pos_ - start));
    }
    ++pos_;
    return true;
  }

  constexpr bool note(Side side, std::uint32_t bit, char c) {
    return factors_.note(side, bit, c, pos_) || fail("each factor once in an operand");
  }

  constexpr int operand_letter() {
    const char c = peek();
    if (!is_upper(c) || c - 'A' >= num_inputs_) {
      fail("an operand's letter: A for the first, B for the second, …");
      return -1;
    }
    ++pos_;
    return c - 'A';
  }

  constexpr bool section() {
    skip_spaces();
    constexpr std::string_view kWords[] = {"lin", "aff", "mono", "anti", "max", "min", "prod"};
    for (int i = 0; i < 7; ++i) {
      if (at_word(kWords[i])) {
        pos_ += kWords[i].size();
        return linearity(static_cast<RuleLinearity::Kind>(i));
      }
    }
    for (;;) {
      if (!mark()) return false;
      skip_spaces();
      if (peek() == '\0' || peek() == '|') return true;
    }
  }

  constexpr bool mark() {
    const char c = peek();
    const bool rest = c == '*' || at("...");
    if (!rest && !is_lower(c))
      return fail("a mark such as k:sum, r! or g#:own; or lin, aff, mono, anti, max, min, prod");
    FactorLedger::Letter& letter = factors_.letter(c);
    if (letter.column < 0) return fail("a factor that an operand has");
    if (letter.marked) return fail("one mark for a factor");
    letter.marked = true;
    pos_ += c == '.' ? 3 : 1;
    RuleMark mark;
    mark.letter = c;
    const char sign = peek();
    if (sign == '!' || sign == '^' || sign == '~') {
      ++pos_;
      mark.whole = sign == '!';
      mark.scan = sign == '^';
      mark.window = sign == '~';
    } else {
      if (sign == '#') {
        ++pos_;
        mark.indexed = true;
      }
      if (peek() != ':')
        return fail("'!', '^', '~', ':sum', ':max', ':min', ':prod', '#:sum' or '#:own'");
      ++pos_;
      if (!mark_kind(mark)) return false;
      letter.owned = mark.owned;
    }
    sink_.mark(mark);
    return true;
  }

  constexpr bool mark_kind(RuleMark& mark) {
    if (mark.indexed && at_word("own")) {
      pos_ += 3;
      mark.owned = true;
      return true;
    }
    for (const ReduceOp op : kReduceOps) {
      const bool allowed = !divides(op) && (!mark.indexed || is_linear(op));
      if (!allowed || !at_word(name_of(op))) continue;
      pos_ += name_of(op).size();
      mark.reduce = op;
      return true;
    }
    return fail(mark.indexed ? "sum or own" : "sum, max, min or prod");
  }

  constexpr bool linearity(RuleLinearity::Kind kind) {
    sink_.begin_linearity(kind);
    if (peek() == '[' && !only_outputs()) return false;
    const bool polynomial = kind == RuleLinearity::Kind::kLin ||
                            kind == RuleLinearity::Kind::kAff || kind == RuleLinearity::Kind::kProd;
    skip_spaces();
    for (;;) {
      sink_.begin_monomial();
      for (;;) {
        const int input = operand_letter();
        if (input < 0) return false;
        sink_.carrier(input);
        skip_spaces();
        if (!polynomial || peek() != '*') break;
        ++pos_;
        skip_spaces();
      }
      const char c = peek();
      if (c == '\0' || c == '|') return true;
      if (at_word("if")) return guard();
      if (polynomial ? c == '+' || c == '-' : c == ',') {
        ++pos_;
        skip_spaces();
      } else if (polynomial || !is_upper(c)) {
        return fail(polynomial ? "'*', '+', '|', if or the end"
                               : "an operand's letter, ',', '|', if or the end");
      }
    }
  }

  constexpr bool only_outputs() {
    do {
      ++pos_;
      skip_spaces();
      const char c = peek();
      if (!is_digit(c) || c - '0' >= num_outputs_) return fail("an output's number, from 0");
      sink_.only_output(c - '0');
      ++pos_;
      skip_spaces();
    } while (peek() == ',');
    if (peek() != ']') return fail("',' or ']'");
    ++pos_;
    return true;
  }

  constexpr bool guard() {
    pos_ += 2;
    skip_spaces();
    const std::string_view attr = name();
    if (attr.empty()) return fail("an attribute's name after if");
    skip_spaces();
    RuleLinearity::Compare compare{};
    if (!comparison(compare)) return fail("'==', '!=', '<', '<=', '>' or '>='");
    skip_spaces();
    double value = 0.0;
    if (at_word("true") || at_word("false")) {
      value = peek() == 't' ? 1.0 : 0.0;
      pos_ += peek() == 't' ? 4 : 5;
    } else if (!number(value)) {
      return false;
    }
    sink_.guard(attr, compare, value);
    skip_spaces();
    return peek() == '\0' || peek() == '|' ? true : fail("'|' or the end");
  }

  constexpr bool comparison(RuleLinearity::Compare& compare) {
    using Compare = RuleLinearity::Compare;
    // The longer ones first.
    constexpr std::string_view kSigns[] = {"==", "!=", "<=", ">=", "<", ">"};
    constexpr Compare kCompares[] = {Compare::kEqual,     Compare::kNotEqual,
                                     Compare::kLessEqual, Compare::kGreaterEqual,
                                     Compare::kLess,      Compare::kGreater};
    for (int i = 0; i < 6; ++i) {
      if (!at(kSigns[i])) continue;
      pos_ += kSigns[i].size();
      compare = kCompares[i];
      return true;
    }
    return false;
  }

  Sink& sink_;
  FactorLedger factors_;
  int num_inputs_ = 0;
  int num_outputs_ = 0;
  bool has_rest_ = false;
};

}  // namespace tessera::rule_grammar

namespace tessera {

constexpr int rule_error_column(std::string_view text) {
  rule_grammar::NullSink sink;
  return rule_grammar::Parser<rule_grammar::NullSink>(text, sink).parse().column;
}
static_assert(rule_error_column("mk, kn -> mn | k:sum | lin A*B") < 0);
static_assert(rule_error_column("mk, kn => mn | k:sum") == 7);
static_assert(rule_error_column("mk, kn -> mn") == 1);  // k is in no output: it needs a mark

}  // namespace tessera
