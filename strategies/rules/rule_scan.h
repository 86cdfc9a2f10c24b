// strategies/rules/rule_scan.h: characters, names, numbers and factors of a rule, for the grammar
// in rule_check.h. Everything is usable in a constant expression; the first error stays. Included
// by rule.h only.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::rule_grammar {

enum class Side : std::uint8_t { kInput, kOutput };

/// Where a rule breaks, and what may stand there; column −1: nowhere.
struct Error {
  int column = -1;
  const char* allowed = "";
};

/// What a parser reports; a sink that keeps nothing.
struct NullSink {
  constexpr void begin_operand(Side) {}
  constexpr void optional() {}
  constexpr void list() {}
  constexpr void integer() {}
  constexpr void alias(int) {}
  constexpr void dim(RuleDim::Kind, char, std::string_view /*attr or group*/) {}
  constexpr void mark(const RuleMark&) {}
  constexpr void begin_linearity(RuleLinearity::Kind) {}
  constexpr void only_output(int) {}
  constexpr void begin_monomial() {}
  constexpr void carrier(int) {}
  constexpr void guard(std::string_view, RuleLinearity::Compare, double) {}
};

/// A place in a rule's text.
class Scanner {
 public:
  constexpr explicit Scanner(std::string_view text) : text_(text) {}

 protected:
  static constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
  static constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
  static constexpr bool is_name(char c) {
    return is_lower(c) || is_upper(c) || is_digit(c) || c == '_';
  }

  constexpr char peek(std::size_t ahead = 0) const {
    return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
  }
  constexpr bool at(std::string_view word) const { return text_.substr(pos_).starts_with(word); }
  /// `word` stands here alone, not as the start of a longer name.
  constexpr bool at_word(std::string_view word) const {
    return at(word) && !is_name(peek(word.size()));
  }
  constexpr void skip_spaces() {
    while (is_space(peek())) ++pos_;
  }
  constexpr bool fail(const char* allowed) {
    if (error_.column < 0) error_ = {static_cast<int>(pos_), allowed};
    return false;
  }

  /// Lower case, digits and '_', as far as they go.
  constexpr std::string_view name() {
    const std::size_t start = pos_;
    while (is_lower(peek()) || is_digit(peek()) || peek() == '_') ++pos_;
    return text_.substr(start, pos_ - start);
  }

  constexpr bool number(double& value) {
    const double sign = peek() == '-' ? -1.0 : 1.0;
    if (peek() == '-') ++pos_;
    if (!is_digit(peek())) return fail("a number, true or false");
    for (; is_digit(peek()); ++pos_) value = value * 10.0 + (peek() - '0');
    if (peek() == '.') {
      ++pos_;
      for (double unit = 0.1; is_digit(peek()); ++pos_, unit /= 10.0)
        value += unit * (peek() - '0');
    }
    value *= sign;
    return true;
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  Error error_;
};

/// Which operands carry each factor, and what the marks say of it.
class FactorLedger {
 public:
  struct Letter {
    int column = -1;
    std::uint32_t inputs = 0;  // a bit per operand that carries it
    std::uint32_t outputs = 0;
    bool marked = false;
    bool owned = false;
  };

  static constexpr int kLetters = 28;  // a–z, '*', '...'

  constexpr Letter& letter(char c) { return letters_[index_of(c)]; }
  /// False where the operand of this bit has the factor already.
  constexpr bool note(Side side, std::uint32_t bit, char c, std::size_t column) {
    Letter& letter = letters_[index_of(c)];
    std::uint32_t& carriers = side == Side::kInput ? letter.inputs : letter.outputs;
    if ((carriers & bit) != 0) return false;
    carriers |= bit;
    if (letter.column < 0) letter.column = static_cast<int>(column);
    return true;
  }
  /// A plain factor stands on both sides; one that an output lacks says what becomes of it.
  constexpr Error check(int num_outputs) const {
    const std::uint32_t all_outputs = (std::uint32_t{1} << num_outputs) - 1;
    for (const Letter& letter : letters_) {
      if (letter.column < 0) continue;
      if (letter.inputs == 0 && !letter.owned) {
        return {letter.column, "a factor of an input (a size set by an attribute is upper case)"};
      }
      if (letter.outputs != all_outputs && !letter.marked) {
        return {letter.column,
                "a factor of every output, or one with a mark after '|' (f:sum, f!, f#:own)"};
      }
    }
    return {};
  }

 private:
  static constexpr int index_of(char c) { return c == '*' ? 26 : c == '.' ? 27 : c - 'a'; }

  Letter letters_[kLetters];
};

}  // namespace tessera::rule_grammar
