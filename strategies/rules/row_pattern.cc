#include "strategies/rules/row_pattern.h"

#include <charconv>

#include "placement/reduce_op.h"

namespace tessera {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Status bad_entry(std::string_view entry) {
  return invalid_argument("saw '" + std::string(entry) + "'; an entry is R, S, S(1), P, P(" +
                          names_of_reduce_ops("|") + ") or _");
}

StatusOr<RowPattern::Entry> parse_entry(std::string_view text) {
  RowPattern::Entry entry;
  if (text == "_") {
    entry.any = true;
    return entry;
  }
  if (text == "R") return entry;
  if (text.empty() || (text[0] != 'S' && text[0] != 'P')) return bad_entry(text);
  entry.kind = text[0] == 'S' ? RowEntry::Kind::kShard : RowEntry::Kind::kPartial;
  if (text.size() == 1) return entry;
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') return bad_entry(text);
  const std::string_view inner = text.substr(2, text.size() - 3);
  if (entry.kind == RowEntry::Kind::kShard) {
    int dim = 0;
    const auto [stop, error] = std::from_chars(inner.data(), inner.data() + inner.size(), dim);
    if (error != std::errc() || stop != inner.data() + inner.size() || dim < 0) {
      return bad_entry(text);
    }
    entry.dim = dim;
    return entry;
  }
  const StatusOr<ReduceOp> op = parse_reduce_op(inner);
  if (!op.ok()) return bad_entry(text);
  entry.op = *op;
  return entry;
}

StatusOr<std::vector<RowPattern::Entry>> parse_entries(std::string_view text) {
  std::vector<RowPattern::Entry> entries;
  for (const std::string_view each : split(text, ',')) {
    TSR_ASSIGN_OR_RETURN(const RowPattern::Entry entry, parse_entry(each));
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

std::string to_string(const RowEntry& entry) {
  switch (entry.kind) {
    case RowEntry::Kind::kShard:
      return "S(" + std::to_string(entry.dim) + ")";
    case RowEntry::Kind::kPartial:
      return "P(" + std::string(name_of(entry.op)) + ")";
    case RowEntry::Kind::kReplicate:
      break;
  }
  return "R";
}

RowEntry entry_of(const Spec& spec, int axis) {
  const Layout& layout = spec.layout();
  if (const auto& partial = layout.partial[static_cast<std::size_t>(axis)]) {
    return {RowEntry::Kind::kPartial, -1, *partial};
  }
  const int dim = layout.dim_of_axis(axis);
  return dim < 0 ? RowEntry{} : RowEntry{RowEntry::Kind::kShard, dim};
}

Layout with_entry(Layout layout, int axis, const RowEntry& entry) {
  std::optional<ReduceOp>& partial = layout.partial[static_cast<std::size_t>(axis)];
  partial.reset();
  for (Levels& levels : layout.dims) {
    std::erase_if(levels, [&](const Level& level) {
      return level.kind == Level::Kind::kAxis && level.axis == axis;
    });
  }
  if (entry.kind == RowEntry::Kind::kPartial) partial = entry.op;
  if (entry.kind == RowEntry::Kind::kShard) {
    layout.dims[static_cast<std::size_t>(entry.dim)].push_back(Level::of_axis(axis));
  }
  return layout;
}

bool RowPattern::Entry::matches(const RowEntry& entry) const noexcept {
  if (any) return true;
  if (kind != entry.kind) return false;
  if (kind == RowEntry::Kind::kShard) return !dim || *dim == entry.dim;
  return kind != RowEntry::Kind::kPartial || !op || *op == entry.op;
}

bool RowPattern::Entry::exact() const noexcept {
  if (any) return false;
  if (kind == RowEntry::Kind::kShard) return dim.has_value();
  return kind != RowEntry::Kind::kPartial || op.has_value();
}

StatusOr<RowPattern> parse_row(std::string_view text, std::size_t num_arguments) {
  RowPattern row{.text = std::string(trimmed(text)), .inputs = {}, .outputs = {}};
  const std::size_t arrow = text.find("->");
  TSR_ASSIGN_OR_RETURN(row.inputs, parse_entries(trimmed(text.substr(0, arrow))));
  if (row.inputs.size() != num_arguments) {
    return invalid_argument("the row '" + std::string(text) + "' has " +
                            std::to_string(row.inputs.size()) + " operands; the op has " +
                            std::to_string(num_arguments));
  }
  if (arrow == std::string_view::npos) return row;
  TSR_ASSIGN_OR_RETURN(row.outputs, parse_entries(trimmed(text.substr(arrow + 2))));
  return row;
}

StatusOr<Declined> parse_declined(std::string_view text, std::size_t num_arguments) {
  const auto refuse = [&](std::string_view what) {
    return invalid_argument("declined '" + std::string(text) + "': " + std::string(what));
  };
  Declined declined{
      .text = std::string(text), .reason = {}, .lowering = false, .factor = {}, .rows = {}};
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return refuse("expected \"ROW; ROW: reason\"");
  declined.reason = std::string(trimmed(text.substr(colon + 1)));
  if (declined.reason.empty()) return refuse("no reason after ':'");
  const std::string_view rows = trimmed(text.substr(0, colon));
  constexpr std::string_view kLowering = "lowering";
  declined.lowering = rows.starts_with(kLowering);
  if (declined.lowering) {
    declined.factor = std::string(trimmed(rows.substr(kLowering.size())));
    return declined;
  }
  for (const std::string_view each : split(rows, ';')) {
    StatusOr<RowPattern> row = parse_row(each, num_arguments);
    if (!row.ok()) return refuse(message_of(row.status()));
    declined.rows.push_back(*std::move(row));
  }
  return declined;
}

}  // namespace tessera
