#include "strategies/verify/verify_search.h"

#include <algorithm>

#include "strategies/rules/binding.h"
#include "strategies/verify/verify_trial.h"

namespace tessera {
namespace {

using Entries = std::vector<RowEntry>;

constexpr std::size_t kExhaustive = 3;  // operands that are assigned freely, all at once
constexpr std::int64_t kLargestAxis = 3;

RowEntry shard(std::size_t dim) { return {RowEntry::Kind::kShard, static_cast<int>(dim)}; }

/// All of one op's samples, and the search over one of them.
class RowSearch {
 public:
  RowSearch(const Op& op, std::uint64_t seed) {
    for (const Sample& sample : op.def.samples) trials_.emplace_back(op, sample, seed);
  }

  std::vector<SampleRows> run() {
    std::vector<SampleRows> found;
    const std::vector<TrialData::Fixed> allowed = {sizes_allowed(2), sizes_allowed(3)};
    for (TrialData& data : trials_) {
      SampleRows rows{.sample = &data.sample(),
                      .attrs = data.attrs(),
                      .inputs = data.inputs(),
                      .outputs = data.outputs(),
                      .axis_sizes = {},
                      .rows = {}};
      for (std::int64_t n = 2; n <= kLargestAxis; ++n) {
        if (data.has_dims_of(2 * n, allowed[std::size_t(n - 2)])) rows.axis_sizes.push_back(n);
      }
      if (rows.axis_sizes.empty()) continue;
      search(data, rows);
      found.push_back(std::move(rows));
    }
    return found;
  }

 private:
  /// Dims that the op fixes stay whole where no sample does without.
  TrialData::Fixed sizes_allowed(std::int64_t axis_size) const {
    const bool any = std::any_of(trials_.begin(), trials_.end(), [&](const TrialData& data) {
      return data.has_dims_of(2 * axis_size, TrialData::Fixed::kRefuse);
    });
    return any ? TrialData::Fixed::kRefuse : TrialData::Fixed::kAllow;
  }
  void search(TrialData& data, SampleRows& rows);
  void cuts_of_few(const TrialData& data, std::vector<std::vector<int>>& cuts) const;
  void cuts_of_all(const TrialData& data, std::vector<std::vector<int>>& cuts) const;
  void try_partials(TrialData& data, const std::vector<int>& cuts, SampleRows& rows);
  void try_row(TrialData& data, const Entries& slots, SampleRows& rows);
  bool holds_elsewhere(const TrialData& data, const Entries& inputs, Verdict& verdict);
  Entries expanded(const TrialData& data, const Entries& slots) const;

  std::vector<TrialData> trials_;
};

/// Each slot whole (−1) or cut along a dim; then each whole slot R or Partial.
void RowSearch::search(TrialData& data, SampleRows& rows) {
  std::vector<std::vector<int>> cuts;
  cuts_of_few(data, cuts);
  if (data.slots().size() > kExhaustive) cuts_of_all(data, cuts);
  for (const std::vector<int>& cut : cuts) {
    Entries inputs;
    for (const int dim : cut) inputs.push_back(dim < 0 ? RowEntry{} : shard(std::size_t(dim)));
    const bool fits =
        std::all_of(rows.axis_sizes.begin(), rows.axis_sizes.end(),
                    [&](std::int64_t n) { return data.shapes_fit(expanded(data, inputs), n); });
    if (fits) try_partials(data, cut, rows);
  }
}

/// Every choice of cuts, for many slots at most two of them at once.
void RowSearch::cuts_of_few(const TrialData& data, std::vector<std::vector<int>>& cuts) const {
  const std::size_t count = data.slots().size();
  std::vector<int> cut(count, -1);
  for (;;) {
    const auto chosen = std::count_if(cut.begin(), cut.end(), [](int dim) { return dim >= 0; });
    if (count <= kExhaustive || chosen <= 2) cuts.push_back(cut);
    std::size_t at = 0;
    while (at < count && ++cut[at] >= static_cast<int>(data.slots()[at].ndim)) cut[at++] = -1;
    if (at == count) return;
  }
}

/// All slots along one factor, as far as it can be told without the rule: the same place from the
/// left or from the right, or the same size.
void RowSearch::cuts_of_all(const TrialData& data, std::vector<std::vector<int>>& cuts) const {
  const auto add = [&](const std::function<int(const TrialData::Slot&)>& dim_of) {
    std::vector<int> cut;
    for (const TrialData::Slot& slot : data.slots()) cut.push_back(dim_of(slot));
    const bool known = std::find(cuts.begin(), cuts.end(), cut) != cuts.end();
    if (!known) cuts.push_back(std::move(cut));
  };
  for (int place = 0; place < 6; ++place) {
    add([&](const TrialData::Slot& slot) { return place < slot.ndim ? place : -1; });
    add([&](const TrialData::Slot& slot) { return slot.ndim - 1 - place; });
  }
  for (const TrialData::Slot& leader : data.slots()) {
    for (const std::int64_t size : data.inputs()[leader.operands[0]].shape) {
      add([&](const TrialData::Slot& slot) {
        const Shape& shape = data.inputs()[slot.operands[0]].shape;
        const auto at = std::find(shape.begin(), shape.end(), size);
        return at == shape.end() ? -1 : static_cast<int>(at - shape.begin());
      });
    }
  }
}

void RowSearch::try_partials(TrialData& data, const std::vector<int>& cuts, SampleRows& rows) {
  const std::size_t count = cuts.size();
  std::vector<Entries> choices(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (cuts[i] >= 0) {
      choices[i] = {shard(std::size_t(cuts[i]))};
      continue;
    }
    choices[i] = {RowEntry{}};
    for (const ReduceOp kind : partial_kinds(data.inputs()[data.slots()[i].operands[0]].dtype)) {
      choices[i].push_back({RowEntry::Kind::kPartial, -1, kind});
    }
  }
  const auto num_cut = std::count_if(cuts.begin(), cuts.end(), [](int dim) { return dim >= 0; });
  std::vector<std::size_t> at(count, 0);
  Entries slots(count);
  for (;;) {
    const auto others = std::count_if(at.begin(), at.end(), [](std::size_t c) { return c > 0; });
    if (count <= kExhaustive || others == 0 || others + num_cut <= 2) {
      for (std::size_t i = 0; i < count; ++i) slots[i] = choices[i][at[i]];
      if (others + num_cut > 0) try_row(data, slots, rows);
    }
    std::size_t i = 0;
    while (i < count && ++at[i] == choices[i].size()) at[i++] = 0;
    if (i == count) return;
  }
}

void RowSearch::try_row(TrialData& data, const Entries& slots, SampleRows& rows) {
  const Entries inputs = expanded(data, slots);
  Verdict verdict = data.anything();
  for (std::size_t draw = 0; draw < TrialData::kAllDraws; ++draw) {
    if (draw == TrialData::kDraws && !data.may_be_accident(verdict)) break;
    for (const std::int64_t n : rows.axis_sizes) {
      if (!data.narrow(inputs, n, draw, verdict)) return;
    }
  }
  const bool cut = std::any_of(inputs.begin(), inputs.end(), [](const RowEntry& entry) {
    return entry.kind == RowEntry::Kind::kShard;
  });
  if (!cut && !holds_elsewhere(data, slots, verdict)) return;
  rows.rows.push_back({inputs, data.placements_of(verdict)});
}

/// A row without cuts must hold whatever the sizes: values of one sample may agree by accident.
bool RowSearch::holds_elsewhere(const TrialData& data, const Entries& slots, Verdict& verdict) {
  for (TrialData& other : trials_) {
    if (&other == &data || !other.same_call(data)) continue;
    const Entries inputs = expanded(other, slots);
    for (std::size_t draw = 0; draw < TrialData::kDraws; ++draw) {
      for (std::int64_t n = 2; n <= kLargestAxis; ++n) {
        if (!other.shapes_fit(inputs, n) || !other.narrow(inputs, n, draw, verdict)) return false;
      }
    }
  }
  return true;
}

Entries RowSearch::expanded(const TrialData& data, const Entries& slots) const {
  Entries inputs(data.inputs().size());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    for (const std::size_t operand : data.slots()[s].operands) inputs[operand] = slots[s];
  }
  return inputs;
}

}  // namespace

std::vector<SampleRows> search_rows(const Op& op, std::uint64_t seed) {
  return RowSearch(op, seed).run();
}

std::vector<std::vector<std::size_t>> operands_by_argument(const Op& op, std::size_t num_operands) {
  std::vector<std::vector<std::size_t>> operands(op.def.args.size());
  for (std::size_t i = 0; i < num_operands && !operands.empty(); ++i) {
    operands[std::min(i, operands.size() - 1)].push_back(i);
  }
  return operands;
}

}  // namespace tessera
