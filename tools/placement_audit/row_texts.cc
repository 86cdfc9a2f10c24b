#include "tools/placement_audit/row_texts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "strategies/rules/explain.h"

namespace tessera::audit {
namespace {

struct SpelledSample {
  std::vector<TensorMeta> operands;
  Attrs attrs;
};

std::string text_of(const Sample& sample) {
  std::string text;
  for (const Shape& shape : sample.shapes) text += (text.empty() ? "" : ", ") + to_string(shape);
  if (!sample.attrs.empty()) text += (text.empty() ? "" : ", ") + sample.attrs.to_string();
  return text;
}

StatusOr<SpelledSample> sample_of(const Op& op, const Sample& sample) {
  SpelledSample spelled;
  for (std::size_t i = 0; i < sample.shapes.size(); ++i) {
    const DType dtype = i < sample.dtypes.size() ? sample.dtypes[i] : DType::kF64;
    spelled.operands.push_back({sample.shapes[i], dtype});
  }
  while (spelled.operands.size() < op.def.args.size()) {
    spelled.operands.push_back({.absent = true});
  }
  TSR_ASSIGN_OR_RETURN(spelled.attrs, complete_attrs(op, sample.attrs));
  return spelled;
}

/// Rows by reason, in the order in which reasons come up.
class Lines {
 public:
  void add(const std::string& why, const std::string& row) {
    for (auto& [have, rows] : lines_) {
      if (have != why) continue;
      rows += "; " + row;
      return;
    }
    lines_.emplace_back(why, row);
  }
  std::string text() const {
    std::size_t width = 0;
    for (const auto& [why, rows] : lines_) width = std::max(width, why.size());
    std::string text;
    for (const auto& [why, rows] : lines_) {
      text += absl::StrFormat("%-*s  %s\n", static_cast<int>(width), why, rows);
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

/// How an operand may stand on one axis.
std::vector<Placement> choices_of(const TensorMeta& operand) {
  std::vector<Placement> choices = {Replicate{}};
  if (operand.absent) return choices;
  for (int dim = 0; dim < static_cast<int>(operand.shape.size()); ++dim) {
    choices.push_back(Shard{dim});
  }
  choices.push_back(Partial{ReduceOp::kSum});
  return choices;
}

std::string placed(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  return placements.ok() && placements->size() == 1 ? tessera::to_string((*placements)[0])
                                                    : spec.to_string();
}

/// Adds the row where the operands stay where `chosen` puts them.
void try_row(const Op& op, const SpelledSample& sample, std::span<const Placement> chosen,
             Lines& lines) {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2})));
  std::vector<Spec> specs(sample.operands.size());
  std::vector<const Spec*> pointers(sample.operands.size(), nullptr);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TensorMeta& meta = sample.operands[i];
    if (meta.absent) continue;
    StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, {&chosen[i], 1});
    if (!spec.ok()) return;
    specs[i] = *std::move(spec);
    pointers[i] = &specs[i];
  }
  const StatusOr<Resolution> resolution = propagate(op, pointers, sample.attrs);
  if (!resolution.ok()) return;
  std::string row;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (pointers[i] == nullptr) continue;
    if (!(resolution->inputs[i] == specs[i])) return;
    row += (row.empty() ? "" : ", ") + placed(specs[i]);
  }
  row += " ->";
  for (std::size_t o = 0; o < resolution->outputs.size(); ++o) {
    row += (o > 0 ? ", " : " ") + placed(resolution->outputs[o]);
  }
  lines.add(resolution->why, row);
}

/// All placements of one operand, and of two together, the others R.
void try_rows(const Op& op, const SpelledSample& sample, Lines& lines) {
  const std::size_t count = sample.operands.size();
  std::vector<Placement> chosen(count, Replicate{});
  for (std::size_t i = 0; i < count; ++i) {
    for (const Placement& first : choices_of(sample.operands[i])) {
      if (std::holds_alternative<Replicate>(first)) continue;
      chosen[i] = first;
      try_row(op, sample, chosen, lines);
      for (std::size_t j = i + 1; j < count; ++j) {
        for (const Placement& second : choices_of(sample.operands[j])) {
          if (std::holds_alternative<Replicate>(second)) continue;
          chosen[j] = second;
          try_row(op, sample, chosen, lines);
        }
        chosen[j] = Replicate{};
      }
    }
    chosen[i] = Replicate{};
  }
}

}  // namespace

SpelledRows spell_rows(const Op& op) {
  SpelledRows spelled;
  for (const Sample& sample : op.def.samples) {
    const StatusOr<SpelledSample> on = sample_of(op, sample);
    if (!on.ok()) continue;
    Lines lines;
    if (op.def.rule.empty()) {
      try_rows(op, *on, lines);
    } else {
      const StatusOr<std::vector<Row>> rows = rows_of(op, on->operands, on->attrs, 2);
      if (!rows.ok()) continue;
      for (const Row& row : *rows) {
        if (row.why != "all R") lines.add(row.why, to_string(row));
      }
    }
    spelled.on = text_of(sample);
    spelled.text = lines.text();
    return spelled;
  }
  return spelled;
}

}  // namespace tessera::audit
