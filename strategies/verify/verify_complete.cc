#include "strategies/verify/verify_complete.h"

#include <algorithm>
#include <set>

#include "strategies/rules/rows.h"
#include "strategies/verify/verify_trial.h"

namespace tessera {
namespace {

bool is_replicate(const RowEntry& entry) { return entry.kind == RowEntry::Kind::kReplicate; }
bool is_partial(const RowEntry& entry) { return entry.kind == RowEntry::Kind::kPartial; }

/// No result depends on this operand's values: whatever kind of Partial it is alone, all results
/// stand whole on every rank.
bool carries_no_values(const SampleRows& sample, std::size_t operand) {
  if (sample.inputs[operand].absent) return false;
  for (const ReduceOp kind : partial_kinds(sample.inputs[operand].dtype)) {
    FoundRow alone;
    alone.inputs.resize(sample.inputs.size());
    alone.outputs.resize(sample.outputs.size());
    alone.inputs[operand] = {RowEntry::Kind::kPartial, -1, kind};
    if (std::find(sample.rows.begin(), sample.rows.end(), alone) == sample.rows.end()) return false;
  }
  return true;
}

StatusOr<Spec> spec_of(const Mesh& mesh, const TensorMeta& meta, const RowEntry& entry) {
  Placement placement = Replicate{};
  if (entry.kind == RowEntry::Kind::kShard) placement = Shard{entry.dim};
  if (entry.kind == RowEntry::Kind::kPartial) placement = Partial{entry.op};
  return Spec::make(mesh, meta.shape, meta.dtype, Placements{placement});
}

/// The op's own function offers this row, with nothing to move.
bool strategies_give(const Op& op, const SampleRows& sample, const FoundRow& row,
                     std::int64_t axis_size) {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{axis_size})));
  std::vector<Spec> specs, wanted;
  std::vector<const Spec*> pointers;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    specs.push_back(sample.inputs[i].absent
                        ? Spec()
                        : value_or_throw(spec_of(mesh, sample.inputs[i], row.inputs[i])));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    pointers.push_back(sample.inputs[i].absent ? nullptr : &specs[i]);
  }
  for (std::size_t o = 0; o < row.outputs.size(); ++o) {
    wanted.push_back(value_or_throw(spec_of(mesh, sample.outputs[o], row.outputs[o])));
  }
  const StatusOr<std::vector<Strategy>> offers =
      op.def.strategies(pointers, sample.outputs, sample.attrs);
  if (!offers.ok()) return false;
  return std::any_of(offers->begin(), offers->end(), [&](const Strategy& offer) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!sample.inputs[i].absent && !(offer.inputs[i] == specs[i])) return false;
    }
    return offer.outputs == wanted;
  });
}

bool op_has(const Op& op, const SampleRows& sample, const std::vector<Row>& rows,
            const FoundRow& found) {
  if (op.def.strategies != nullptr) {
    return std::all_of(sample.axis_sizes.begin(), sample.axis_sizes.end(),
                       [&](std::int64_t n) { return strategies_give(op, sample, found, n); });
  }
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return row.inputs == found.inputs && row.outputs == found.outputs;
  });
}

/// Reads all that an op declines; texts that do not parse become complaints.
std::vector<Declined> read_declined(const Op& op, std::vector<std::string>& complaints) {
  std::vector<Declined> all;
  for (const std::string& text : op.def.declined) {
    StatusOr<Declined> declined = parse_declined(text, op.def.args.size());
    if (declined.ok()) {
      all.push_back(*std::move(declined));
    } else {
      complaints.emplace_back(message_of(declined.status()));
    }
  }
  return all;
}

void check_sizes(const Op& op, const std::vector<SampleRows>& found, Completeness& result) {
  if (op.def.args.empty()) return;
  for (const std::int64_t n : {2, 3}) {
    const bool searched = std::any_of(found.begin(), found.end(), [&](const SampleRows& sample) {
      return std::find(sample.axis_sizes.begin(), sample.axis_sizes.end(), n) !=
             sample.axis_sizes.end();
    });
    if (searched) continue;
    result.complaints.push_back("no sample can be searched on an axis of " + std::to_string(n) +
                                ": every dim of every operand needs at least " +
                                std::to_string(2 * n) + " elements");
  }
}

bool is_left_out(const Op& op, const SampleRows& sample, const FoundRow& row) {
  return std::any_of(op.left_out.begin(), op.left_out.end(), [&](const Declined& declined) {
    return any_matches(declined.rows, sample.inputs, row.inputs, row.outputs);
  });
}

/// On some sample a row of `op` reads like one of these.
bool has_row_like(const Op& op, std::span<const RowPattern> patterns) {
  for (const Sample& sample : op.def.samples) {
    const TrialData call(op, sample, /*seed=*/1);
    const StatusOr<std::vector<Row>> rows = rows_of(op, call.inputs(), call.attrs(), 2);
    if (!rows.ok()) continue;
    for (const Row& row : *rows) {
      if (any_matches(patterns, call.inputs(), row.inputs, row.outputs)) return true;
    }
  }
  return false;
}

/// Rows that were added and fit no sample, or left out and are on none, say nothing.
void check_amended_rows(const Op& op, Completeness& result) {
  for (const RowPattern& row : op.added_rows) {
    if (has_row_like(op, {&row, 1})) continue;
    result.complaints.push_back("added row '" + row.text +
                                "': no sample has operands that it fits, or it was left out");
  }
  if (op.def.strategies != nullptr) return;
  Op whole;
  whole.def = op.def;
  whole.rule = op.rule;
  whole.in_place = op.in_place;
  for (const Declined& declined : op.left_out) {
    if (declined.lowering || has_row_like(whole, declined.rows)) continue;
    result.complaints.push_back("declined '" + declined.text +
                                "': the op has no such row on any sample");
  }
}

}  // namespace

std::vector<FoundRow> rows_lacking(const Op& op, const SampleRows& sample) {
  const std::vector<Row> rows =
      op.def.strategies != nullptr
          ? std::vector<Row>{}
          : value_or_throw(rows_of(op, sample.inputs, sample.attrs, sample.axis_sizes.front()));
  std::vector<FoundRow> lacking;
  for (const FoundRow& found : sample.rows) {
    FoundRow row = found;
    bool says_something = !std::all_of(row.outputs.begin(), row.outputs.end(), is_replicate);
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      if (is_partial(row.inputs[i]) && carries_no_values(sample, i)) row.inputs[i] = RowEntry{};
      says_something = says_something || !is_replicate(row.inputs[i]);
    }
    if (says_something && !op_has(op, sample, rows, row)) lacking.push_back(found);
  }
  return lacking;
}

Completeness judge_completeness(const Op& op, const std::vector<SampleRows>& found) {
  Completeness result;
  const std::vector<Declined> declined = read_declined(op, result.complaints);
  std::vector<bool> needed(declined.size(), false);
  std::set<std::string> seen, left_out;
  for (const SampleRows& sample : found) {
    for (const FoundRow& row : sample.rows) seen.insert(to_string(row));
    for (const FoundRow& row : rows_lacking(op, sample)) {
      const std::string text = to_string(row);
      bool excused = is_left_out(op, sample, row);
      for (std::size_t d = 0; d < declined.size(); ++d) {
        if (any_matches(declined[d].rows, sample.inputs, row.inputs, row.outputs)) {
          needed[d] = excused = true;
        }
      }
      if (!left_out.insert(text).second) continue;
      if (excused) {
        ++result.rows_declined;
      } else {
        result.missing.push_back({text, describe(*sample.sample)});
      }
    }
  }
  for (std::size_t d = 0; d < declined.size(); ++d) {
    if (needed[d] || declined[d].lowering) continue;
    result.complaints.push_back("declined '" + declined[d].text +
                                "': no sample has such a row that the op lacks");
  }
  result.rows_found = static_cast<std::int64_t>(seen.size());
  check_amended_rows(op, result);
  check_sizes(op, found, result);
  return result;
}

std::string to_string(const FoundRow& row) {
  Row text;
  text.inputs = row.inputs;
  text.outputs = row.outputs;
  return to_string(text);
}

}  // namespace tessera
