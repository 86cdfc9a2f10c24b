#include "strategies/rules/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = RuleLinearity::Kind;
using Mask = std::uint32_t;

constexpr RowEntry shard(int dim) { return {RowEntry::Kind::kShard, dim}; }
constexpr RowEntry partial(ReduceOp op) { return {RowEntry::Kind::kPartial, -1, op}; }

/// Whether operands of a clause may be Partial of this kind.
bool carries(Kind clause, ReduceOp op) {
  switch (clause) {
    case Kind::kLin:
      return is_linear(op);
    case Kind::kAff:  // a constant is its own average
      return is_linear(op) && divides(op);
    case Kind::kMono:
    case Kind::kAnti:
      return is_extreme(op);
    case Kind::kMax:
      return op == ReduceOp::kMax;
    case Kind::kMin:
      return op == ReduceOp::kMin;
    case Kind::kProd:
      return op == ReduceOp::kProd;
  }
  return false;
}

class RowMaker {
 public:
  RowMaker(const Op& op, const Binding& binding, std::span<const TensorMeta> inputs,
           std::span<const TensorMeta> outputs, const Attrs& attrs)
      : op_(op), binding_(binding), inputs_(inputs), outputs_(outputs), attrs_(attrs) {}

  std::vector<CompactRow> make() {
    rows_.reserve(12);
    finite_ = numbers_are_finite();
    for (std::size_t f = 0; f < binding_.factors.size(); ++f) factor_rows(static_cast<int>(f));
    for (std::size_t i = 0; finite_ && i < op_.rule.linearity.size(); ++i) {
      if (guard_holds(op_.rule.linearity[i])) linearity_rows(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < op_.added_rows.size(); ++i) added_row(static_cast<int>(i));
    add(blank(CompactRow::Origin::kReplicate));
    return std::move(rows_);
  }

 private:
  CompactRow blank(CompactRow::Origin origin) const {
    CompactRow row;
    row.origin = origin;
    row.inputs.resize(inputs_.size());
    row.outputs.resize(outputs_.size());
    return row;
  }
  void factor_rows(int factor);
  void lowering_rows(int factor);
  void contraction_rows(const CompactRow& base, int factor, ReduceOp reduce);
  void linearity_rows(int index);
  void polynomial_rows(int index, ReduceOp reduce);
  void extreme_rows(int index, ReduceOp reduce);
  void product_rows(int index, ReduceOp reduce);
  void added_row(int index);
  bool place(CompactRow& row, RowEntry& entry, int operand, const RowPattern::Entry& want) const;
  bool left_out(const CompactRow& row) const;
  bool selects() const;
  bool numbers_are_finite() const;
  bool wraps() const;
  bool cut_inputs(CompactRow& row, int factor) const;
  bool guard_holds(const RuleLinearity& linearity) const {
    return linearity.guard_attr.empty() || linearity.holds(attrs_.get_double(linearity.guard_attr));
  }
  /// Bits of the operands of each monomial; a monomial of an absent operand goes with it.
  std::vector<Mask> monomials(const RuleLinearity& linearity) const;
  bool absent(int rule_operand) const;
  Mask carriers_of(int factor) const;
  void set_partial(CompactRow& row, Mask operands, ReduceOp reduce) const;
  bool set_partial_outputs(CompactRow& row, const RuleLinearity& linearity, ReduceOp reduce) const;
  bool dtypes_allow(const CompactRow& row) const;
  void add(CompactRow row);

  const Op& op_;
  const Binding& binding_;
  std::span<const TensorMeta> inputs_;
  std::span<const TensorMeta> outputs_;
  const Attrs& attrs_;
  bool finite_ = true;
  std::vector<CompactRow> rows_;
};

void RowMaker::add(CompactRow row) {
  for (std::size_t o = 0; o < row.outputs.size(); ++o) {
    const int aliased = op_.alias_of(o);
    if (aliased >= 0 && !(row.inputs[static_cast<std::size_t>(aliased)] == row.outputs[o])) return;
  }
  if (left_out(row)) return;
  const bool known = std::any_of(rows_.begin(), rows_.end(), [&](const CompactRow& other) {
    return other.inputs == row.inputs && other.outputs == row.outputs;
  });
  if (!known) rows_.push_back(std::move(row));
}

bool RowMaker::cut_inputs(CompactRow& row, int factor) const {
  bool any = false;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const int dim = Binding::dim_of(binding_.inputs[i], factor);
    if (dim < 0) continue;
    row.inputs[i] = shard(dim);
    any = true;
  }
  return any;
}

void RowMaker::factor_rows(int f) {
  const Factor& factor = binding_.factors[static_cast<std::size_t>(f)];
  if (!factor.cuttable) return;
  const RuleMark* mark = factor.mark;
  if (mark != nullptr && (mark->whole || mark->scan || mark->window)) return lowering_rows(f);
  CompactRow row = blank(CompactRow::Origin::kFactor);
  row.factor = static_cast<std::int16_t>(f);
  row.masked = mark != nullptr && mark->indexed;
  if (row.masked && index_operand_of(binding_, f, inputs_) < 0) return;
  const bool any_input = cut_inputs(row, f);
  if (!any_input && !(mark != nullptr && mark->owned)) return;
  bool all_outputs = true;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const int dim = Binding::dim_of(binding_.outputs[o], f);
    all_outputs &= dim >= 0;
    if (dim >= 0) row.outputs[o] = shard(dim);
  }
  if (mark != nullptr && mark->reduce.has_value()) return contraction_rows(row, f, *mark->reduce);
  if (all_outputs) add(std::move(row));
}

void RowMaker::lowering_rows(int f) {
  const char letter = binding_.factors[static_cast<std::size_t>(f)].letter;
  for (std::size_t i = 0; i < op_.def.lowerings.size(); ++i) {
    if (op_.def.lowerings[i].factor != std::string_view(&letter, 1)) continue;
    CompactRow row = blank(CompactRow::Origin::kLowering);
    row.factor = static_cast<std::int16_t>(f);
    row.lowering = static_cast<std::int16_t>(i);
    cut_inputs(row, f);
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const int dim = Binding::dim_of(binding_.outputs[o], f);
      if (dim >= 0) row.outputs[o] = shard(dim);
    }
    add(std::move(row));
  }
}

/// A sharded contraction stands for one Partial carrier in each monomial that has it; a monomial
/// without it needs one Partial carrier of its own, or its term would be added once per rank.
void RowMaker::contraction_rows(const CompactRow& base, int f, ReduceOp reduce) {
  std::vector<Mask> open;
  Mask choosable = 0;
  const Mask cut = carriers_of(f);
  if (is_linear(reduce)) {
    if (!finite_) return;
    for (const RuleLinearity& linearity : op_.rule.linearity) {
      if (linearity.kind != Kind::kLin || !guard_holds(linearity)) continue;
      for (const Mask monomial : monomials(linearity)) {
        if ((monomial & cut) == 0) {
          open.push_back(monomial);
          choosable |= monomial;
        }
      }
    }
  }
  Mask chosen = 0;
  do {
    const bool fits = std::all_of(open.begin(), open.end(),
                                  [&](Mask m) { return std::popcount(m & chosen) == 1; });
    if (fits) {
      CompactRow row = base;
      row.reduce = reduce;
      set_partial(row, chosen, reduce);
      for (std::size_t o = 0; o < outputs_.size(); ++o) {
        if (row.outputs[o].kind == RowEntry::Kind::kReplicate) row.outputs[o] = partial(reduce);
      }
      if (dtypes_allow(row)) add(std::move(row));
    }
    chosen = (chosen - choosable) & choosable;  // the next subset
  } while (chosen != 0);
}

void RowMaker::linearity_rows(int index) {
  const Kind clause = op_.rule.linearity[static_cast<std::size_t>(index)].kind;
  for (const ReduceOp reduce : kReduceOps) {
    if (!carries(clause, reduce)) continue;
    if (is_linear(reduce)) {
      polynomial_rows(index, reduce);
    } else if (is_extreme(reduce)) {
      extreme_rows(index, reduce);
    } else {
      product_rows(index, reduce);
    }
  }
}

/// A sum needs exactly one Partial carrier in every monomial. An average also passes where a
/// monomial has none: in the operands chosen the op is affine, and a constant is its own average.
void RowMaker::polynomial_rows(int index, ReduceOp reduce) {
  const RuleLinearity& linearity = op_.rule.linearity[static_cast<std::size_t>(index)];
  const std::vector<Mask> terms = monomials(linearity);
  Mask all = 0;
  for (const Mask term : terms) all |= term;
  for (Mask chosen = all & (~all + 1); chosen != 0; chosen = (chosen - all) & all) {
    const bool fits = std::all_of(terms.begin(), terms.end(), [&](Mask term) {
      const int count = std::popcount(term & chosen);
      return count == 1 || (count == 0 && divides(reduce));
    });
    if (!fits) continue;
    CompactRow row = blank(CompactRow::Origin::kLinearity);
    row.linearity = static_cast<std::int16_t>(index);
    row.reduce = reduce;
    set_partial(row, chosen, reduce);
    if (set_partial_outputs(row, linearity, reduce) && dtypes_allow(row)) {
      add(std::move(row));
    }
  }
}

/// A product passes through what only selects.
bool RowMaker::selects() const {
  return std::any_of(op_.rule.linearity.begin(), op_.rule.linearity.end(),
                     [](const RuleLinearity& each) { return each.kind == Kind::kProd; });
}

/// An infinity among the attributes makes 0 * inf and inf - inf of summands, and of the infinities
/// that ranks without elements hold of a maximum. As a default it stands for no bound.
bool RowMaker::numbers_are_finite() const {
  return selects() ||
         std::all_of(op_.def.attrs.begin(), op_.def.attrs.end(), [&](const AttrDef& def) {
           if (def.type != AttrDef::Type::kDouble || !attrs_.has(def.name)) return true;
           const double value = attrs_.get_double_or(def.name, 0.0);
           if (std::isfinite(value)) return true;
           const double* otherwise =
               def.default_value ? std::get_if<double>(&*def.default_value) : nullptr;
           return otherwise != nullptr && *otherwise == value;
         });
}

/// Integers wrap at their limits, one of which is what a rank without elements holds of a maximum,
/// and BOOL has no negative: what adds or scales is not monotone there.
bool RowMaker::wraps() const {
  const bool scales = std::any_of(op_.rule.linearity.begin(), op_.rule.linearity.end(),
                                  [&](const RuleLinearity& each) {
                                    return each.kind == Kind::kLin || each.kind == Kind::kAff;
                                  });
  if (!scales || selects()) return false;
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [](const TensorMeta& meta) { return !is_floating(meta.dtype); });
}

void RowMaker::extreme_rows(int index, ReduceOp reduce) {
  const RuleLinearity& linearity = op_.rule.linearity[static_cast<std::size_t>(index)];
  const bool mono = linearity.kind == Kind::kMono || linearity.kind == Kind::kAnti;
  if (mono && wraps()) return;
  const std::vector<Mask> terms = monomials(linearity);
  Mask all = 0;
  for (const Mask term : terms) all |= term;
  for (Mask chosen = all & (~all + 1); chosen != 0; chosen = (chosen - all) & all) {
    if (mono && std::popcount(chosen) > 1) continue;  // one operand at a time
    CompactRow row = blank(CompactRow::Origin::kLinearity);
    row.linearity = static_cast<std::int16_t>(index);
    row.reduce = reduce;
    set_partial(row, chosen, reduce);
    const ReduceOp result = linearity.kind == Kind::kAnti ? *opposite_of(reduce) : reduce;
    if (set_partial_outputs(row, linearity, result)) add(std::move(row));
  }
}

/// A product passes where every operand listed is one.
void RowMaker::product_rows(int index, ReduceOp reduce) {
  const RuleLinearity& linearity = op_.rule.linearity[static_cast<std::size_t>(index)];
  for (const Mask term : monomials(linearity)) {
    CompactRow row = blank(CompactRow::Origin::kLinearity);
    row.linearity = static_cast<std::int16_t>(index);
    row.reduce = reduce;
    set_partial(row, term, reduce);
    if (set_partial_outputs(row, linearity, reduce) && dtypes_allow(row)) add(std::move(row));
  }
}

/// What the row makes of one operand or result; false where it has no such dim, or not a dim of the
/// one factor that the row cuts.
bool RowMaker::place(CompactRow& row, RowEntry& entry, int operand,
                     const RowPattern::Entry& want) const {
  if (want.kind == RowEntry::Kind::kPartial) entry = partial(*want.op);
  if (want.kind != RowEntry::Kind::kShard) return true;
  const BoundOperand& bound = binding_.operand(operand);
  if (*want.dim >= static_cast<int>(bound.size())) return false;
  const BoundDim& dim = bound[static_cast<std::size_t>(*want.dim)];
  if (dim.count != 1 || (row.factor >= 0 && row.factor != dim.factors[0])) return false;
  row.factor = dim.factors[0];
  entry = shard(*want.dim);
  return true;
}

/// As OpDef::added_rows has it, where these operands have its dims and dtypes.
void RowMaker::added_row(int index) {
  const RowPattern& wanted = op_.added_rows[static_cast<std::size_t>(index)];
  CompactRow row = blank(CompactRow::Origin::kAdded);
  row.added = static_cast<std::int16_t>(index);
  const int num_inputs = static_cast<int>(inputs_.size());
  for (int i = 0; i < num_inputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto argument = static_cast<std::size_t>(rule_operand_of(op_.rule, i));
    if (!inputs_[at].absent && !place(row, row.inputs[at], i, wanted.inputs[argument])) return;
    if (row.inputs[at].kind == RowEntry::Kind::kPartial) row.reduce = row.inputs[at].op;
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const int number = num_inputs + static_cast<int>(o);
    if (!place(row, row.outputs[o], number, (*wanted.outputs)[o])) return;
  }
  if (row.factor >= 0) {
    const Factor& factor = binding_.factors[static_cast<std::size_t>(row.factor)];
    if (!factor.cuttable) return;
    row.masked = factor.mark != nullptr && factor.mark->indexed;
    CompactRow cut = blank(CompactRow::Origin::kAdded);
    cut_inputs(cut, row.factor);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const bool has = cut.inputs[i].kind == RowEntry::Kind::kShard;
      if (has && !inputs_[i].absent && !(row.inputs[i] == cut.inputs[i])) return;
    }
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const int dim = Binding::dim_of(binding_.outputs[o], row.factor);
      if (dim >= 0 && !(row.outputs[o] == shard(dim))) return;
    }
  }
  const bool sums = row.has_partial_input();
  if ((!sums || finite_) && dtypes_allow(row)) add(std::move(row));
}

bool RowMaker::left_out(const CompactRow& row) const {
  if (row.origin == CompactRow::Origin::kReplicate) return false;
  return std::any_of(op_.left_out.begin(), op_.left_out.end(), [&](const Declined& declined) {
    if (declined.lowering) {
      return row.lowering >= 0 &&
             op_.def.lowerings[static_cast<std::size_t>(row.lowering)].factor == declined.factor;
    }
    return any_matches(declined.rows, inputs_, row.inputs, row.outputs);
  });
}

bool RowMaker::absent(int rule_operand) const {
  const auto i = static_cast<std::size_t>(rule_operand);
  return i >= inputs_.size() || inputs_[i].absent;
}

std::vector<Mask> RowMaker::monomials(const RuleLinearity& linearity) const {
  std::vector<Mask> terms;
  for (const std::vector<int>& monomial : linearity.monomials) {
    if (std::any_of(monomial.begin(), monomial.end(), [&](int i) { return absent(i); })) continue;
    Mask term = 0;
    for (const int operand : monomial) term |= Mask{1} << operand;
    terms.push_back(term);
  }
  return terms;
}

Mask RowMaker::carriers_of(int factor) const {
  Mask carriers = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (Binding::dim_of(binding_.inputs[i], factor) >= 0) {
      carriers |= Mask{1} << rule_operand_of(op_.rule, static_cast<int>(i));
    }
  }
  return carriers;
}

void RowMaker::set_partial(CompactRow& row, Mask operands, ReduceOp reduce) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const int which = rule_operand_of(op_.rule, static_cast<int>(i));
    if (((operands >> which) & 1) != 0) row.inputs[i] = partial(reduce);
  }
}

/// `lin[0]` speaks for the outputs listed; the others do not depend on its operands and stay R.
bool RowMaker::set_partial_outputs(CompactRow& row, const RuleLinearity& linearity,
                                   ReduceOp reduce) const {
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const auto& listed = linearity.only_outputs;
    const bool named = std::find(listed.begin(), listed.end(), static_cast<int>(o)) != listed.end();
    if (!listed.empty() && !named) continue;
    // Positions and counts are not sums of positions and counts, unless the rule says so.
    if (op_.rule.outputs[o].integer && !named) return false;
    row.outputs[o] = partial(reduce);
  }
  return true;
}

/// Sums are exact for floats (in true arithmetic) and for integers that stay integers; averages for
/// floats only.
bool RowMaker::dtypes_allow(const CompactRow& row) const {
  bool floating_in = false;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    if (row.inputs[i].kind != RowEntry::Kind::kPartial) continue;
    if (!allows(row.inputs[i].op, inputs_[i].dtype)) return false;
    floating_in |= is_floating(inputs_[i].dtype);
  }
  for (std::size_t o = 0; o < row.outputs.size(); ++o) {
    if (row.outputs[o].kind != RowEntry::Kind::kPartial) continue;
    if (!allows(row.outputs[o].op, outputs_[o].dtype)) return false;
    if (floating_in && !is_floating(outputs_[o].dtype)) return false;  // a cast to integers rounds
  }
  return true;
}

}  // namespace

bool CompactRow::has_partial_input() const noexcept {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const RowEntry& e) { return e.kind == RowEntry::Kind::kPartial; });
}

std::vector<CompactRow> compact_rows(const Op& op, const Binding& binding,
                                     std::span<const TensorMeta> inputs,
                                     std::span<const TensorMeta> outputs, const Attrs& attrs) {
  return RowMaker(op, binding, inputs, outputs, attrs).make();
}

StatusOr<std::vector<Row>> rows_of(const Op& op, std::span<const TensorMeta> inputs,
                                   const Attrs& attrs, std::int64_t axis_size) {
  TSR_ASSIGN_OR_RETURN(const std::vector<TensorMeta> outputs, infer(op, inputs, attrs));
  std::vector<Row> rows;
  if (op.rule.text.empty()) return rows;
  TSR_ASSIGN_OR_RETURN(const Binding binding, bind_rule(op, inputs, outputs, attrs));
  for (const CompactRow& row : compact_rows(op, binding, inputs, outputs, attrs)) {
    // On an axis of one rank all placements mean the same.
    if (axis_size == 1 && row.origin != CompactRow::Origin::kReplicate) continue;
    rows.push_back(expand(op, binding, row));
  }
  return rows;
}

}  // namespace tessera
