#include "strategies/rules/op.h"

#include <algorithm>

#include "strategies/rules/binding.h"
#include "strategies/rules/offers.h"

namespace tessera {
namespace {

/// Edit distance of two names. Cost: O(|a|·|b|).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

Status bad_op(const OpDef& def, const std::string& what) {
  return invalid_argument("op '" + def.name + "': " + what);
}

bool declares(const OpDef& def, std::string_view attr) {
  return std::any_of(def.attrs.begin(), def.attrs.end(),
                     [&](const AttrDef& known) { return known.name == attr; });
}

/// Rule and schema say the same.
Status check_schema(const OpDef& def, const Rule& rule) {
  if (rule.inputs.size() != def.args.size()) {
    return bad_op(def, "its rule has " + std::to_string(rule.inputs.size()) +
                           " operands, its schema " + std::to_string(def.args.size()));
  }
  if (static_cast<int>(rule.outputs.size()) != def.num_outputs) {
    return bad_op(def, "its rule has " + std::to_string(rule.outputs.size()) +
                           " results, its definition " + std::to_string(def.num_outputs));
  }
  if (def.auxiliary_outputs < 0 || def.auxiliary_outputs >= std::max(def.num_outputs, 1)) {
    return bad_op(def, "auxiliary_outputs is " + std::to_string(def.auxiliary_outputs) + " of " +
                           std::to_string(def.num_outputs) +
                           " results; at least the first is for callers");
  }
  for (std::size_t i = 0; i < def.args.size(); ++i) {
    const RuleOperand& operand = rule.inputs[i];
    if (operand.list != (def.args[i].kind == ArgDef::Kind::kList) ||
        operand.optional != (def.args[i].kind == ArgDef::Kind::kOptional)) {
      return bad_op(def, "rule and schema differ on whether " + def.args[i].name +
                             " is a tensor, optional ('?') or a list ('..')");
    }
    for (const RuleDim& dim : operand.dims) {
      if (!dim.attr.empty() && !declares(def, dim.attr)) {
        return bad_op(def,
                      "its rule names attribute '" + dim.attr + "', which it does not declare");
      }
    }
  }
  for (const RuleLinearity& linearity : rule.linearity) {
    if (!linearity.guard_attr.empty() && !declares(def, linearity.guard_attr)) {
      return bad_op(
          def, "a guard names attribute '" + linearity.guard_attr + "', which it does not declare");
    }
  }
  return absl::OkStatus();
}

Status check_complete(const OpDef& def) {
  if (def.name.empty()) return bad_op(def, "it has no name");
  if (def.doc.empty()) return bad_op(def, "it has no doc");
  if (def.rule.empty() && def.strategies == nullptr) {
    return bad_op(def, "it has neither rule nor strategies");
  }
  if (def.rule.empty() && def.infer == nullptr) return bad_op(def, "without a rule it needs infer");
  if (def.kernel == nullptr) return bad_op(def, "it has no kernel");
  if (def.samples.empty()) return bad_op(def, "it has no sample to be verified with");
  for (std::size_t i = 0; i < def.args.size(); ++i) {
    if (def.args[i].kind == ArgDef::Kind::kList && i + 1 != def.args.size()) {
      return bad_op(def, "a list may only be the last operand");
    }
  }
  return absl::OkStatus();
}

/// Rows to add are complete, and there is a rule beside which they stand.
StatusOr<std::vector<RowPattern>> parse_added_rows(const OpDef& def) {
  std::vector<RowPattern> rows;
  const auto is_exact = [](const RowPattern::Entry& entry) { return entry.exact(); };
  for (const std::string& text : def.added_rows) {
    if (def.strategies != nullptr) {
      return bad_op(def, "a function of its own gives its rows: the row '" + text +
                             "' belongs into what that function gives");
    }
    StatusOr<RowPattern> row = parse_row(text, def.args.size());
    if (!row.ok())
      return bad_op(def, "added row '" + text + "': " + std::string(message_of(row.status())));
    const bool complete = row->outputs.has_value() &&
                          row->outputs->size() == static_cast<std::size_t>(def.num_outputs) &&
                          std::all_of(row->inputs.begin(), row->inputs.end(), is_exact) &&
                          std::all_of(row->outputs->begin(), row->outputs->end(), is_exact);
    if (!complete) {
      return bad_op(def, "added row '" + text + "': expected R, S(dim) or P(kind) for each of " +
                             std::to_string(def.args.size()) + " operands and, after \"->\", " +
                             std::to_string(def.num_outputs) + " results");
    }
    rows.push_back(*std::move(row));
  }
  return rows;
}

StatusOr<std::vector<Declined>> parse_left_out(const OpDef& def) {
  std::vector<Declined> all;
  for (const std::string& text : def.left_out) {
    StatusOr<Declined> declined = parse_declined(text, def.args.size());
    if (!declined.ok()) return bad_op(def, std::string(message_of(declined.status())));
    const bool lowers =
        std::any_of(def.lowerings.begin(), def.lowerings.end(),
                    [&](const Lowering& lowering) { return lowering.factor == declined->factor; });
    if (declined->lowering && !lowers) {
      return bad_op(
          def, "declined '" + text + "': the op has no lowering of '" + declined->factor + "'");
    }
    all.push_back(*std::move(declined));
  }
  return all;
}

StatusOr<std::unique_ptr<Op>> make_op(OpDef def) {
  TSR_RETURN_IF_ERROR(check_complete(def));
  auto op = std::make_unique<Op>();
  if (!def.rule.empty()) {
    StatusOr<Rule> rule = parse_rule(def.rule);
    if (!rule.ok()) return bad_op(def, std::string(message_of(rule.status())));
    TSR_RETURN_IF_ERROR(check_schema(def, *rule));
    op->rule = *std::move(rule);
  }
  TSR_ASSIGN_OR_RETURN(op->added_rows, parse_added_rows(def));
  TSR_ASSIGN_OR_RETURN(op->left_out, parse_left_out(def));
  if (def.strategies != nullptr && !op->left_out.empty()) {
    def.strategies = without_rows(std::move(def.strategies), op->left_out);
  }
  op->in_place.assign(static_cast<std::size_t>(std::max(def.num_outputs, 0)), -1);
  for (std::size_t o = 0; o < op->rule.outputs.size(); ++o) {
    op->in_place[o] = op->rule.outputs[o].alias;
  }
  op->def = std::move(def);
  return op;
}

std::string_view type_name(AttrDef::Type type) {
  constexpr std::string_view kNames[] = {"a bool", "an int",  "a double",
                                         "ints",   "a dtype", "a string"};
  return kNames[static_cast<int>(type)];
}

constexpr std::int64_t kMostExact = std::int64_t{1} << 53;

/// The value in the declared type, where that is exact.
std::optional<AttrValue> convert(const AttrValue& value, AttrDef::Type type) {
  using Type = AttrDef::Type;
  const auto* as_int = std::get_if<std::int64_t>(&value);
  const auto* as_string = std::get_if<std::string>(&value);
  switch (type) {
    case Type::kBool:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case Type::kInt:
      if (as_int != nullptr) return value;
      break;
    case Type::kDouble:
      if (std::holds_alternative<double>(value)) return value;
      // Beyond 2^53 a double holds some integers only: the others would change on the way.
      if (as_int != nullptr && *as_int >= -kMostExact && *as_int <= kMostExact) {
        return AttrValue{static_cast<double>(*as_int)};
      }
      break;
    case Type::kInts:
      if (std::holds_alternative<Shape>(value)) return value;
      if (as_int != nullptr) return AttrValue(std::in_place_type<Shape>, std::size_t{1}, *as_int);
      break;
    case Type::kDType:
      if (std::holds_alternative<DType>(value)) return value;
      if (as_string != nullptr) {
        if (const StatusOr<DType> parsed = parse_dtype(*as_string); parsed.ok()) return *parsed;
      }
      break;
    case Type::kString:
      if (as_string != nullptr) return value;
      break;
  }
  return std::nullopt;
}

Status unknown_attr(const OpDef& def, std::string_view name) {
  std::string text = def.name + ": unknown attribute '" + std::string(name) + "'; it takes ";
  for (std::size_t i = 0; i < def.attrs.size(); ++i) {
    text += (i == 0 ? "" : ", ") + def.attrs[i].name;
  }
  if (def.attrs.empty()) text += "none";
  return invalid_argument(text);
}

}  // namespace

bool Op::mutates() const noexcept {
  return std::any_of(in_place.begin(), in_place.end(), [](int input) { return input >= 0; });
}

std::vector<int> Op::finite_arguments() const {
  std::vector<int> arguments = def.finite;
  for (const RuleLinearity& clause : rule.linearity) {
    const bool sums =
        clause.kind == RuleLinearity::Kind::kLin || clause.kind == RuleLinearity::Kind::kAff;
    for (const std::vector<int>& monomial : clause.monomials) {
      if (sums && monomial.size() > 1) {
        arguments.insert(arguments.end(), monomial.begin(), monomial.end());
      }
    }
  }
  std::sort(arguments.begin(), arguments.end());
  arguments.erase(std::unique(arguments.begin(), arguments.end()), arguments.end());
  return arguments;
}

Status OpTable::add(OpDef def) {
  if (look_up(def.name) != nullptr) return bad_op(def, "the name is in use");
  std::string name = def.name;
  TSR_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, make_op(std::move(def)));
  ops_.emplace(std::move(name), std::move(op));
  return absl::OkStatus();
}

void OpTable::must_add(OpDef def) {
  const std::string name = def.name;
  const Status status = add(std::move(def));
  TSR_CHECK(status.ok(), std::string(message_of(status)));
}

Status OpTable::amend(std::string_view name, OpAmendment amendment) {
  TSR_ASSIGN_OR_RETURN(const Op* old, find(name));
  OpDef def = old->def;
  if (amendment.by.empty()) return bad_op(def, "an amendment says in `by` who makes it, and why");
  std::vector<std::string> changes;
  for (std::string& row : amendment.add_rows) {
    changes.push_back("row " + row + " added");
    def.added_rows.push_back(std::move(row));
  }
  for (std::string& rows : amendment.decline_rows) {
    changes.push_back("declines " + rows);
    def.left_out.push_back(std::move(rows));
  }
  if (!amendment.rule.empty()) {
    changes.push_back("rule replaced, which was " +
                      (def.rule.empty() ? std::string("none") : def.rule));
    def.rule = std::move(amendment.rule);
  }
  if (amendment.strategies != nullptr) {
    changes.emplace_back("rows by a function of the amendment's");
    def.strategies = std::move(amendment.strategies);
  }
  if (amendment.kernel != nullptr) {
    changes.emplace_back("kernel replaced");
    def.kernel = std::move(amendment.kernel);
  }
  if (changes.empty()) return bad_op(def, "the amendment by " + amendment.by + " changes nothing");
  for (const std::string& change : changes) {
    def.amendments.push_back(change + " (" + amendment.by + ")");
  }
  def.samples.insert(def.samples.end(), amendment.samples.begin(), amendment.samples.end());
  TSR_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, make_op(std::move(def)));
  std::unique_ptr<Op>& place = ops_[std::string(name)];
  if (place != nullptr) amended_.push_back(std::move(place));
  place = std::move(op);
  ++num_amendments_;
  return absl::OkStatus();
}

void OpTable::build_on(const OpTable& base) {
  TSR_CHECK(base_ == nullptr && ops_.empty() && base.base_ == nullptr,
            "an op table is built on another one before it has ops");
  base_ = &base;
}

const Op* OpTable::look_up(std::string_view name) const noexcept {
  if (const auto found = ops_.find(name); found != ops_.end()) return found->second.get();
  return base_ == nullptr ? nullptr : base_->look_up(name);
}

StatusOr<const Op*> OpTable::find(std::string_view name) const {
  if (const Op* op = look_up(name)) return op;
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const Op* op : ops()) near.emplace_back(distance(name, op->def.name), op->def.name);
  std::sort(near.begin(), near.end());
  if (near.size() > 3) near.resize(3);
  std::string text = "unknown op '" + std::string(name) + "'";
  for (std::size_t i = 0; i < near.size(); ++i) {
    text += (i == 0 ? "; the nearest names are " : ", ") + std::string(near[i].second);
  }
  return not_found(text);
}

std::vector<const Op*> OpTable::ops() const {
  std::vector<const Op*> list;
  if (base_ != nullptr) list = base_->ops();
  std::erase_if(list, [&](const Op* op) { return ops_.contains(op->def.name); });
  const auto inherited = static_cast<std::ptrdiff_t>(list.size());
  for (const auto& [name, op] : ops_) list.push_back(op.get());
  std::inplace_merge(list.begin(), list.begin() + inherited, list.end(),
                     [](const Op* a, const Op* b) { return a->def.name < b->def.name; });
  return list;
}

StatusOr<Attrs> complete_attrs(const OpDef& def, const Attrs& given) {
  for (const auto& [name, value] : given) {
    if (!declares(def, name)) return unknown_attr(def, name);
  }
  Attrs complete;
  for (const AttrDef& known : def.attrs) {
    const AttrValue* value = given.find(known.name);
    if (value == nullptr || std::holds_alternative<std::monostate>(*value)) {
      if (!known.default_value.has_value()) {
        return invalid_argument(def.name + ": attribute '" + known.name + "' (" +
                                std::string(type_name(known.type)) + ") must be given");
      }
      complete.set(known.name, *known.default_value);
      continue;
    }
    std::optional<AttrValue> converted = convert(*value, known.type);
    if (!converted.has_value()) {
      const Attrs seen = {{known.name, *value}};
      return invalid_argument(def.name + ": attribute " + seen.to_string() + " must be " +
                              std::string(type_name(known.type)));
    }
    complete.set(known.name, *std::move(converted));
  }
  return complete;
}

}  // namespace tessera
