#include "strategies/verify/verify_mutate.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = RuleLinearity::Kind;
using Compare = RuleLinearity::Compare;

constexpr Kind kKinds[] = {Kind::kLin, Kind::kAff, Kind::kMono, Kind::kAnti,
                           Kind::kMax, Kind::kMin, Kind::kProd};
constexpr std::string_view kKindNames[] = {"lin", "aff", "mono", "anti", "max", "min", "prod"};
constexpr std::string_view kCompareSigns[] = {"==", "!=", "<", "<=", ">", ">="};

bool has_products(Kind kind) {
  return kind == Kind::kLin || kind == Kind::kAff || kind == Kind::kProd;
}

std::string dim_text(const RuleDim& dim) {
  switch (dim.kind) {
    case RuleDim::Kind::kStar:
      return "*";
    case RuleDim::Kind::kEllipsis:
      return "...";
    case RuleDim::Kind::kGroup:
      return "(" + dim.group + ")";
    default:
      break;
  }
  std::string text(1, dim.letter);
  if (!dim.attr.empty()) text += "@" + dim.attr + " ";
  return text;
}

std::string operand_text(const RuleOperand& operand) {
  std::string text;
  if (operand.alias >= 0) text += std::string("&") + static_cast<char>('A' + operand.alias) + " ";
  for (const RuleDim& dim : operand.dims) text += dim_text(dim);
  if (operand.optional) text += "?";
  if (operand.list) text += "..";
  if (operand.integer) text += " int";
  return text;
}

std::string letter_text(char letter) { return letter == '.' ? "..." : std::string(1, letter); }

std::string mark_text(const RuleMark& mark) {
  std::string text = letter_text(mark.letter);
  if (mark.whole) return text + "!";
  if (mark.scan) return text + "^";
  if (mark.window) return text + "~";
  if (mark.indexed) text += "#";
  return text + ":" + std::string(mark.owned ? "own" : name_of(*mark.reduce));
}

std::string clause_text(const RuleLinearity& clause) {
  std::string text(kKindNames[static_cast<int>(clause.kind)]);
  for (std::size_t i = 0; i < clause.only_outputs.size(); ++i) {
    text += (i == 0 ? "[" : ",") + std::to_string(clause.only_outputs[i]);
  }
  text += clause.only_outputs.empty() ? " " : "] ";
  for (std::size_t m = 0; m < clause.monomials.size(); ++m) {
    if (m > 0) text += has_products(clause.kind) ? "+" : ",";
    for (std::size_t i = 0; i < clause.monomials[m].size(); ++i) {
      if (i > 0) text += "*";
      text += static_cast<char>('A' + clause.monomials[m][i]);
    }
  }
  if (clause.guard_attr.empty()) return text;
  return text + absl::StrFormat(" if %s%s%g", clause.guard_attr,
                                kCompareSigns[static_cast<int>(clause.guard_compare)],
                                clause.guard_value);
}

Compare opposite(Compare compare) {
  constexpr Compare kOpposites[] = {Compare::kNotEqual, Compare::kEqual,     Compare::kGreaterEqual,
                                    Compare::kGreater,  Compare::kLessEqual, Compare::kLess};
  return kOpposites[static_cast<int>(compare)];
}

/// Collects mutants of one rule.
class Mutator {
 public:
  explicit Mutator(const Rule& rule) : rule_(rule) { texts_.insert(to_text(rule)); }

  std::vector<Mutant> run() {
    for (std::size_t m = 0; m < rule_.marks.size(); ++m) change_mark(m);
    add_whole();
    for (std::size_t c = 0; c < rule_.linearity.size(); ++c) {
      change_kind(c);
      change_terms(c);
      change_guard(c);
    }
    add_clauses();
    change_outputs();
    return std::move(mutants_);
  }

 private:
  template <class Change>
  void mutate(std::string what, const Change& change) {
    Rule other = rule_;
    change(other);
    std::string text = to_text(other);
    if (texts_.insert(text).second) mutants_.push_back({std::move(what), std::move(text)});
  }
  void change_mark(std::size_t m);
  void add_whole();
  void change_kind(std::size_t c);
  void change_terms(std::size_t c);
  void change_guard(std::size_t c);
  void add_clauses();
  void change_outputs();

  const Rule& rule_;
  std::set<std::string> texts_;
  std::vector<Mutant> mutants_;
};

void Mutator::change_mark(std::size_t m) {
  const RuleMark& mark = rule_.marks[m];
  const std::string name = mark_text(mark);
  const auto drop = [m](Rule& rule) {
    rule.marks.erase(rule.marks.begin() + static_cast<std::ptrdiff_t>(m));
  };
  mutate(name + " dropped", drop);
  if (mark.indexed) {
    mutate(name + ": without #", [m](Rule& rule) {
      rule.marks[m].indexed = rule.marks[m].owned = false;
      rule.marks[m].reduce = ReduceOp::kSum;
    });
    mutate(name + ": read and written swapped", [m](Rule& rule) {
      RuleMark& other = rule.marks[m];
      other.owned = !other.owned;
      other.reduce = other.owned ? std::nullopt : std::optional<ReduceOp>(ReduceOp::kSum);
    });
  } else if (mark.reduce) {
    for (const ReduceOp op : kReduceOps) {
      if (divides(op)) continue;
      mutate(name + ": as :" + std::string(name_of(op)),
             [m, op](Rule& rule) { rule.marks[m].reduce = op; });
    }
    mutate(name + ": as !", [m](Rule& rule) {
      rule.marks[m].reduce.reset();
      rule.marks[m].whole = true;
    });
  }
}

/// A plain factor that must be whole.
void Mutator::add_whole() {
  std::set<char> letters;
  for (const RuleOperand& operand : rule_.inputs) {
    for (const RuleDim& dim : operand.dims) {
      if (dim.kind == RuleDim::Kind::kStar) letters.insert('*');
      if (dim.kind == RuleDim::Kind::kEllipsis) letters.insert('.');
      if (dim.kind != RuleDim::Kind::kAttr && dim.letter >= 'a') letters.insert(dim.letter);
    }
  }
  for (const RuleMark& mark : rule_.marks) letters.erase(mark.letter);
  for (const char letter : letters) {
    mutate(letter_text(letter) + ": as !", [letter](Rule& rule) {
      RuleMark& mark = rule.marks.emplace_back();
      mark.letter = letter;
      mark.whole = true;
    });
  }
}

void Mutator::change_kind(std::size_t c) {
  const RuleLinearity& clause = rule_.linearity[c];
  const std::string name = clause_text(clause);
  mutate(name + " dropped", [c](Rule& rule) {
    rule.linearity.erase(rule.linearity.begin() + static_cast<std::ptrdiff_t>(c));
  });
  for (const Kind kind : kKinds) {
    const bool products = std::any_of(clause.monomials.begin(), clause.monomials.end(),
                                      [](const auto& term) { return term.size() > 1; });
    if (products && !has_products(kind)) continue;
    mutate(name + ": as " + std::string(kKindNames[static_cast<int>(kind)]),
           [c, kind](Rule& rule) { rule.linearity[c].kind = kind; });
  }
}

/// Drops, adds and joins monomials.
void Mutator::change_terms(std::size_t c) {
  const RuleLinearity& clause = rule_.linearity[c];
  const std::string name = clause_text(clause);
  for (std::size_t t = 0; t < clause.monomials.size(); ++t) {
    if (clause.monomials.size() > 1) {
      mutate(name + ": a term dropped", [c, t](Rule& rule) {
        auto& terms = rule.linearity[c].monomials;
        terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(t));
      });
    }
    for (std::size_t i = 0; clause.monomials[t].size() > 1 && i < clause.monomials[t].size(); ++i) {
      mutate(name + ": a factor dropped", [c, t, i](Rule& rule) {
        auto& term = rule.linearity[c].monomials[t];
        term.erase(term.begin() + static_cast<std::ptrdiff_t>(i));
      });
    }
  }
  for (int operand = 0; operand < static_cast<int>(rule_.inputs.size()); ++operand) {
    mutate(name + ": a term added",
           [c, operand](Rule& rule) { rule.linearity[c].monomials.push_back({operand}); });
    if (!has_products(clause.kind)) continue;
    mutate(name + ": a factor added", [c, operand](Rule& rule) {
      auto& term = rule.linearity[c].monomials[0];
      if (std::find(term.begin(), term.end(), operand) == term.end()) term.push_back(operand);
    });
  }
}

void Mutator::change_guard(std::size_t c) {
  const RuleLinearity& clause = rule_.linearity[c];
  const std::string name = clause_text(clause);
  if (!clause.guard_attr.empty()) {
    mutate(name + ": guard dropped", [c](Rule& rule) { rule.linearity[c].guard_attr.clear(); });
    mutate(name + ": guard flipped", [c](Rule& rule) {
      rule.linearity[c].guard_compare = opposite(rule.linearity[c].guard_compare);
    });
  }
  if (!clause.only_outputs.empty()) {
    mutate(name + ": of all results", [c](Rule& rule) { rule.linearity[c].only_outputs.clear(); });
  }
}

/// Every kind for every operand alone.
void Mutator::add_clauses() {
  for (int operand = 0; operand < static_cast<int>(rule_.inputs.size()); ++operand) {
    for (const Kind kind : kKinds) {
      RuleLinearity clause;
      clause.kind = kind;
      clause.monomials = {{operand}};
      mutate(clause_text(clause) + " added",
             [&clause](Rule& rule) { rule.linearity.push_back(clause); });
    }
  }
}

void Mutator::change_outputs() {
  for (std::size_t o = 0; o < rule_.outputs.size(); ++o) {
    const std::string name = "result " + std::to_string(o);
    mutate(name + (rule_.outputs[o].integer ? ": int dropped" : ": int added"),
           [o](Rule& rule) { rule.outputs[o].integer = !rule.outputs[o].integer; });
    if (rule_.outputs[o].alias < 0) continue;
    mutate(name + ": & dropped", [o](Rule& rule) { rule.outputs[o].alias = -1; });
  }
}

}  // namespace

std::vector<Mutant> mutants_of(const Rule& rule) { return Mutator(rule).run(); }

std::string to_text(const Rule& rule) {
  std::string text;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    text += (i > 0 ? ", " : "") + operand_text(rule.inputs[i]);
  }
  text += " -> ";
  for (std::size_t o = 0; o < rule.outputs.size(); ++o) {
    text += (o > 0 ? ", " : "") + operand_text(rule.outputs[o]);
  }
  for (std::size_t m = 0; m < rule.marks.size(); ++m) {
    text += (m == 0 ? " | " : " ") + mark_text(rule.marks[m]);
  }
  for (const RuleLinearity& clause : rule.linearity) text += " | " + clause_text(clause);
  return text;
}

}  // namespace tessera
