// strategies/rules/rule.h: the rule notation: a string that states an op's factors and its
// linearity. parse_rule reads it at run time (errors point at the character); TSR_RULE checks a
// literal at compile time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/placement.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// One entry of an operand's dims as written.
struct RuleDim {
  enum class Kind : std::uint8_t {
    kFactor,    ///< a lower-case letter
    kStar,      ///< `*`: all unnamed dims, by position from the right
    kEllipsis,  ///< `...`: leading batch dims
    kAttr,      ///< an upper-case letter: size set by an attribute
    kAtDim,     ///< `f@dim`: the factor sits at the dim that attribute `attr` names
    kAtDims,    ///< `r@dims`: one factor for each dim listed
    kGroup      ///< `(fg)`: one dim made of factors, major first
  };
  Kind kind = Kind::kFactor;
  char letter = 0;
  std::string attr;
  std::string group;
};
struct RuleOperand {
  std::vector<RuleDim> dims;
  bool optional = false;  ///< `A?`
  bool list = false;      ///< `A..`
  int alias = -1;         ///< outputs: `&A` gives 0
  bool integer = false;   ///< outputs: `int`
};
/// A letter's marks after the bar.
struct RuleMark {
  char letter = 0;                 ///< '*' for all starred dims
  bool whole = false;              ///< `!`
  bool scan = false;               ///< `^`
  bool window = false;             ///< `~`
  bool indexed = false;            ///< `#`
  bool owned = false;              ///< `#:own`
  std::optional<ReduceOp> reduce;  ///< `:sum` …; with indexed: the read
};
/// A sum of monomials; each lists operand indices. `lin A*B+C` → {{0,1},{2}}.
struct RuleLinearity {
  /// kAnti: non-increasing, P(max) becomes P(min); kProd: f(∏a, ∏b) = ∏ f(a, b).
  enum class Kind : std::uint8_t { kLin, kAff, kMono, kAnti, kMax, kMin, kProd };
  enum class Compare : std::uint8_t {
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual
  };
  Kind kind = Kind::kLin;
  std::vector<std::vector<int>> monomials;
  std::vector<int> only_outputs;  ///< `lin[0]`; empty: all
  std::string guard_attr;         ///< `if value==0`, `if value>=0`
  Compare guard_compare = Compare::kEqual;
  double guard_value = 0.0;
  /// True without a guard, or where the attribute's value passes it.
  bool holds(double value) const noexcept;
};
struct Rule {
  std::string text;
  std::vector<RuleOperand> inputs;
  std::vector<RuleOperand> outputs;
  std::vector<RuleMark> marks;
  std::vector<RuleLinearity> linearity;
};

/// Errors: InvalidArgument with the text, a caret under the character, what was seen and what is
/// allowed.
StatusOr<Rule> parse_rule(std::string_view text);

/// First error of a rule literal, or −1: the column. The same grammar, usable in a constant
/// expression.
constexpr int rule_error_column(std::string_view text);

}  // namespace tessera

#include "strategies/rules/rule_check.h"

/// A rule literal that does not compile when a letter or mark is wrong.
#define TSR_RULE(text)                                                        \
  ([] {                                                                       \
    static_assert(::tessera::rule_error_column(text) < 0, "bad rule: " text); \
    return text;                                                              \
  }())
