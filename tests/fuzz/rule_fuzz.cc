// The first line is a rule, the rest gives its operands' shapes: both readers of the notation
// agree, and the rows of an op with that rule name dims that exist and carry what their clause
// says.
#include <set>

#include "strategies/rules/rows.h"
#include "strategies/rules/rule.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

constexpr int kMaxNdim = 3;
constexpr std::size_t kMaxOperands = 5;  ///< rows are counted in subsets of operands

/// Every attribute that the rule names: lists of dims, a dim, a size or a guarded value.
std::vector<AttrDef> attrs_of(const Rule& rule, testing::Bytes& in) {
  std::set<std::string> dims, lists, values;
  for (const auto* operands : {&rule.inputs, &rule.outputs}) {
    for (const RuleOperand& operand : *operands) {
      for (const RuleDim& dim : operand.dims) {
        if (dim.kind == RuleDim::Kind::kAttr) values.insert({char(dim.letter - 'A' + 'a'), 1});
        if (!dim.attr.empty()) (dim.attr.ends_with("dims") ? lists : dims).insert(dim.attr);
      }
    }
  }
  for (const RuleLinearity& linearity : rule.linearity) {
    if (!linearity.guard_attr.empty()) values.insert(linearity.guard_attr);
  }
  std::vector<AttrDef> attrs = {
      {"keepdim", AttrDef::Type::kBool, AttrValue{in.next_below(2) == 1}}};
  for (const std::string& name : dims) {
    attrs.push_back({name, AttrDef::Type::kInt, AttrValue{std::int64_t{in.next_below(4)} - 1}});
  }
  for (const std::string& name : lists) {
    Shape listed;
    for (int left = in.next_below(3); left > 0; --left) listed.push_back(in.next_below(4) - 1);
    attrs.push_back({name, AttrDef::Type::kInts, AttrValue{listed}});
  }
  for (const std::string& name : values) {
    if (dims.contains(name) || lists.contains(name) || name == "keepdim") continue;
    attrs.push_back({name, AttrDef::Type::kInt, AttrValue{std::int64_t{in.next_below(4)}}});
  }
  return attrs;
}

Op op_of(const Rule& rule, testing::Bytes& in) {
  Op op;
  op.def.name = "fuzzed";
  op.def.rule = rule.text;
  op.def.num_outputs = static_cast<int>(rule.outputs.size());
  for (const RuleOperand& operand : rule.inputs) {
    const auto kind = operand.list       ? ArgDef::Kind::kList
                      : operand.optional ? ArgDef::Kind::kOptional
                                         : ArgDef::Kind::kTensor;
    op.def.args.push_back({std::string(1, static_cast<char>('a' + op.def.args.size())), kind});
  }
  op.def.attrs = attrs_of(rule, in);
  op.rule = rule;
  for (const RuleOperand& operand : rule.outputs) op.in_place.push_back(operand.alias);
  return op;
}

std::vector<TensorMeta> operands_of(const Op& op, testing::Bytes& in) {
  constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kI64, DType::kBool};
  std::vector<TensorMeta> operands;
  for (const ArgDef& arg : op.def.args) {
    for (int left = arg.kind == ArgDef::Kind::kList ? 1 + in.next_below(2) : 1; left > 0; --left) {
      TensorMeta meta;
      meta.dtype = kDTypes[in.next_below(4)];
      meta.absent = arg.kind == ArgDef::Kind::kOptional && in.next_below(2) == 0;
      if (!meta.absent) {
        for (int dims = in.next_below(kMaxNdim + 1); dims > 0; --dims) {
          meta.shape.push_back(in.next_below(4));
        }
      }
      operands.push_back(std::move(meta));
    }
  }
  return operands;
}

void check_entry(const RowEntry& entry, const TensorMeta& tensor, const std::string& row) {
  if (entry.kind != RowEntry::Kind::kShard) return;
  TSR_CHECK(entry.dim >= 0 && entry.dim < static_cast<int>(tensor.shape.size()), row);
}

double number_of(const AttrValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const double* number = std::get_if<double>(&value);
  return number != nullptr ? *number : 0.0;
}

/// A row of linearity stands only where its guard holds, and its Partials are of the kinds that
/// its clause carries.
void check_linear_row(const Op& op, const CompactRow& row, const Attrs& attrs) {
  if (row.origin != CompactRow::Origin::kLinearity) return;
  using Kind = RuleLinearity::Kind;
  const RuleLinearity& clause = op.rule.linearity[static_cast<std::size_t>(row.linearity)];
  if (const AttrValue* value = attrs.find(clause.guard_attr); value != nullptr) {
    TSR_CHECK(clause.holds(number_of(*value)), op.rule.text);
  }
  int partials = 0;
  ReduceOp in = ReduceOp::kSum;
  for (const RowEntry& entry : row.inputs) {
    if (entry.kind != RowEntry::Kind::kPartial) continue;
    ++partials;
    in = entry.op;
  }
  TSR_CHECK(partials > 0, op.rule.text);
  const bool ordered = in == ReduceOp::kMax || in == ReduceOp::kMin;
  TSR_CHECK(clause.kind != Kind::kProd || in == ReduceOp::kProd, op.rule.text);
  TSR_CHECK((clause.kind != Kind::kMono && clause.kind != Kind::kAnti) || ordered, op.rule.text);
  const ReduceOp opposite = in == ReduceOp::kMax ? ReduceOp::kMin : ReduceOp::kMax;
  for (const RowEntry& entry : row.outputs) {
    if (entry.kind != RowEntry::Kind::kPartial) continue;
    TSR_CHECK(entry.op == (clause.kind == Kind::kAnti ? opposite : in), op.rule.text);
  }
}

void check_rows(const Op& op, testing::Bytes& in) {
  const std::vector<TensorMeta> inputs = operands_of(op, in);
  const StatusOr<Attrs> attrs = complete_attrs(op, {});
  TSR_CHECK(attrs.ok(), std::string(message_of(attrs.status())));
  const StatusOr<std::vector<TensorMeta>> outputs = infer(op, inputs, *attrs);
  if (!outputs.ok()) return;
  TSR_CHECK(outputs->size() == op.rule.outputs.size(), op.rule.text);
  const StatusOr<Binding> binding = bind_rule(op, inputs, *outputs, *attrs);
  if (!binding.ok()) return;
  const std::vector<CompactRow> rows = compact_rows(op, *binding, inputs, *outputs, *attrs);
  TSR_CHECK(!rows.empty() && rows.back().origin == CompactRow::Origin::kReplicate, op.rule.text);
  for (const CompactRow& compact : rows) {
    check_linear_row(op, compact, *attrs);
    const Row row = expand(op, *binding, compact);
    const std::string text = op.rule.text + ": " + row.why;
    TSR_CHECK(row.inputs.size() == inputs.size() && row.outputs.size() == outputs->size(), text);
    for (std::size_t i = 0; i < inputs.size(); ++i) check_entry(row.inputs[i], inputs[i], text);
    for (std::size_t o = 0; o < outputs->size(); ++o) {
      check_entry(row.outputs[o], (*outputs)[o], text);
      const int held = op.in_place[o];
      TSR_CHECK(held < 0 || row.inputs[static_cast<std::size_t>(held)] == row.outputs[o], text);
    }
  }
}

void try_rule(std::span<const std::uint8_t> input) {
  testing::Bytes in(input);
  const std::string_view whole = in.rest_as_text();
  const std::string_view text = whole.substr(0, whole.find('\n'));
  in.take(text.size() + 1);
  const StatusOr<Rule> rule = parse_rule(text);
  const int column = rule_error_column(text);
  TSR_CHECK(rule.ok() == (column < 0), std::string(text));
  if (!rule.ok()) {
    TSR_CHECK(column <= static_cast<int>(text.size()), std::string(text));
    return;
  }
  TSR_CHECK(rule->text == text, rule->text);
  if (rule->inputs.size() > kMaxOperands || rule->outputs.size() > kMaxOperands) return;
  check_rows(op_of(*rule, in), in);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_rule({data, size});
  return 0;
}
