// Rows in words, and whether a row reads as such words.

#include <algorithm>

#include "strategies/rules/rows.h"

namespace tessera {
namespace {

std::string terms_text(const RuleLinearity& linearity) {
  constexpr std::string_view kWords[] = {"lin", "aff", "mono", "anti", "max", "min", "prod"};
  std::string text(kWords[static_cast<int>(linearity.kind)]);
  text += ' ';
  const bool polynomial =
      linearity.kind == RuleLinearity::Kind::kLin || linearity.kind == RuleLinearity::Kind::kAff;
  const bool joined =
      linearity.kind == RuleLinearity::Kind::kMono || linearity.kind == RuleLinearity::Kind::kAnti;
  for (std::size_t m = 0; m < linearity.monomials.size(); ++m) {
    if (m > 0 && !joined) text += polynomial ? '+' : ',';
    for (std::size_t i = 0; i < linearity.monomials[m].size(); ++i) {
      if (i > 0) text += '*';
      text += static_cast<char>('A' + linearity.monomials[m][i]);
    }
  }
  return text;
}

}  // namespace

std::string why_of(const Op& op, const Binding& binding, const CompactRow& row) {
  switch (row.origin) {
    case CompactRow::Origin::kReplicate:
      return "all R";
    case CompactRow::Origin::kLinearity:
      return terms_text(op.rule.linearity[static_cast<std::size_t>(row.linearity)]);
    case CompactRow::Origin::kAdded:
      return "added " + op.added_rows[static_cast<std::size_t>(row.added)].text;
    case CompactRow::Origin::kFactor:
    case CompactRow::Origin::kLowering:
      break;
  }
  const Factor& factor = binding.factors[static_cast<std::size_t>(row.factor)];
  std::string name = name_of(op.rule, factor);
  if (row.origin == CompactRow::Origin::kLowering) return "lowering " + name;
  if (factor.mark == nullptr) return name;
  if (factor.mark->indexed) name += '#';
  name += ':';
  name += factor.mark->owned ? std::string_view("own") : name_of(*factor.mark->reduce);
  return name;
}

Row expand(const Op& op, const Binding& binding, const CompactRow& compact) {
  Row row;
  row.inputs.assign(compact.inputs.begin(), compact.inputs.end());
  row.outputs.assign(compact.outputs.begin(), compact.outputs.end());
  row.why = why_of(op, binding, compact);
  row.lowering = compact.lowering;
  row.masked_factor = compact.masked ? compact.factor : -1;
  return row;
}

std::string to_string(const Row& row) {
  std::string text;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(row.inputs[i]);
  }
  text += text.empty() ? "->" : " ->";
  for (std::size_t o = 0; o < row.outputs.size(); ++o) {
    text += o > 0 ? ", " : " ";
    text += to_string(row.outputs[o]);
  }
  return text;
}

bool matches(const RowPattern& pattern, std::span<const TensorMeta> operands,
             std::span<const RowEntry> inputs, std::span<const RowEntry> outputs) noexcept {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t argument = std::min(i, pattern.inputs.size() - 1);  // the last may be a list
    if (!operands[i].absent && !pattern.inputs[argument].matches(inputs[i])) return false;
  }
  if (!pattern.outputs) return true;
  const std::vector<RowPattern::Entry>& wanted = *pattern.outputs;
  if (wanted.size() != outputs.size() && wanted.size() != 1) return false;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!wanted[wanted.size() == 1 ? 0 : o].matches(outputs[o])) return false;
  }
  return true;
}

bool any_matches(std::span<const RowPattern> patterns, std::span<const TensorMeta> operands,
                 std::span<const RowEntry> inputs, std::span<const RowEntry> outputs) noexcept {
  return std::any_of(patterns.begin(), patterns.end(), [&](const RowPattern& each) {
    return matches(each, operands, inputs, outputs);
  });
}

}  // namespace tessera
