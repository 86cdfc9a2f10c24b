// How the search goes. Each mesh axis of more than one rank takes one row. First the rows of each
// axis are thinned: those that would move what may not move, and those that can gain nothing, since
// all operands are whole there already. Then combinations are tried depth first, axis by axis, in
// the order of the rule; a row of one axis is left out where it does not combine with a row of an
// axis before. Beyond two axes a branch ends where its rows alone cost more than the second best so
// far. At a leaf the factors that several axes cut need an order of these axes: it is taken from
// the operand that would be dearest to move. What each operand then receives is estimated (cost.h),
// lowerings add what ranks say inside the op, and the two cheapest are kept: the choice, and what
// the audit says lost.
#include "strategies/rules/search.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = RowEntry::Kind;
using RowIndices = absl::InlinedVector<std::int16_t, 4>;
const LevelList kWhole;

class Search {
 public:
  Search(const Call& call, Written written) : call_(call), written_(written) {
    const std::size_t num_factors = call.binding.factors.size();
    masks_.resize(num_factors, 0);
    levels_.resize(num_factors);
    entries_.resize(call.axis_sizes.size());
  }

  SearchResult run() {
    candidates_.resize(call_.axis_sizes.size());
    for (std::size_t a = 0; a < candidates_.size(); ++a) {
      if (a < call_.forced.size() && !call_.forced[a].empty()) {
        for (const std::int16_t r : call_.forced[a]) {
          if (possible(call_.rows[static_cast<std::size_t>(r)], a)) candidates_[a].push_back(r);
        }
        continue;
      }
      for (std::size_t r = 0; r < call_.rows.size(); ++r) {
        if (possible(call_.rows[r], a) && relevant(call_.rows[r], a)) {
          candidates_[a].push_back(static_cast<std::int16_t>(r));
        }
      }
    }
    rows_.resize(candidates_.size());
    descend(0, -1);
    return std::move(result_);
  }

 private:
  bool possible(const CompactRow& row, std::size_t axis) const;
  bool relevant(const CompactRow& row, std::size_t axis) const;
  /// Results that may not move (out=).
  std::span<const CallOperand> fixed_results() const {
    if (written_ == Written::kMoves) return {};
    return {call_.wanted.data(), call_.wanted.size()};
  }
  /// Some row gives result `o` this way from cut operands: better than to make one Partial first.
  bool cut_gives(std::size_t o, const RowEntry& entry) const {
    return std::any_of(call_.rows.begin(), call_.rows.end(), [&](const CompactRow& row) {
      const bool cuts = row.origin == CompactRow::Origin::kFactor ||
                        (row.origin == CompactRow::Origin::kAdded && !row.passes_partials());
      return cuts && row.outputs[o] == entry;
    });
  }
  bool gives_fixed_results();
  void descend(std::size_t axis, int lowering);
  double bound(std::size_t num_axes);
  void evaluate();
  void choose_levels(std::size_t factor);
  bool needs_intervals(int f) const;
  bool better(double bytes, int moved, const Choice& than) const;
  void keep(double bytes, int moved);

  const Call& call_;
  Written written_;
  absl::InlinedVector<RowIndices, 4> candidates_;
  RowIndices rows_;
  absl::InlinedVector<AxisMask, 6> masks_;    // per factor: the axes that cut it
  absl::InlinedVector<LevelList, 6> levels_;  // per factor
  absl::InlinedVector<RowEntry, 4> entries_;
  SearchResult result_;
};

/// What may not move would not.
bool Search::possible(const CompactRow& row, std::size_t axis) const {
  for (std::size_t i = 0; i < call_.operands.size(); ++i) {
    const CallOperand& operand = call_.operands[i];
    if (operand.spec == nullptr) continue;
    const bool stays = operand.fixed && written_ == Written::kStays;
    if (stays && !(operand.cut.entries[axis] == row.inputs[i])) return false;
    if (operand.foreign && row.inputs[i].kind != Kind::kReplicate) return false;
  }
  for (std::size_t o = 0; o < fixed_results().size(); ++o) {
    if (!(fixed_results()[o].cut.entries[axis] == row.outputs[o])) return false;
  }
  return true;
}

/// An axis on which every operand is replicated stays so; a Partial row needs a Partial operand
/// that it keeps.
bool Search::relevant(const CompactRow& row, std::size_t axis) const {
  bool any_cut = false, keeps_partial = false;
  for (std::size_t i = 0; i < call_.operands.size(); ++i) {
    const CallOperand& operand = call_.operands[i];
    if (operand.spec == nullptr) continue;
    const RowEntry& now = operand.cut.entries[axis];
    if (now.kind != Kind::kReplicate) any_cut = true;
    if (now.kind == Kind::kPartial && now == row.inputs[i]) keeps_partial = true;
  }
  for (std::size_t o = 0; o < fixed_results().size(); ++o) {
    const RowEntry& entry = fixed_results()[o].cut.entries[axis];
    if (entry.kind != Kind::kReplicate) any_cut = true;
    if (entry.kind == Kind::kPartial && !cut_gives(o, entry)) keeps_partial = true;
  }
  if (row.origin == CompactRow::Origin::kReplicate) return true;
  return any_cut && (!row.passes_partials() || keeps_partial);
}

void Search::descend(std::size_t axis, int lowering) {
  if (axis == candidates_.size()) return evaluate();
  for (const std::int16_t r : candidates_[axis]) {
    const CompactRow& row = call_.rows[static_cast<std::size_t>(r)];
    if (row.lowering >= 0 && lowering >= 0 && row.lowering != lowering) continue;
    const bool combines = std::all_of(
        rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(axis), [&](std::int16_t before) {
          return may_combine(call_.rows[static_cast<std::size_t>(before)], row);
        });
    if (!combines) continue;
    rows_[axis] = r;
    // Only from the third axis on is the bound cheaper than what it saves.
    if (axis >= 1 && axis + 1 < candidates_.size() && result_.found == 2 &&
        bound(axis + 1) > result_.best[1].bytes) {
      continue;
    }
    if (row.factor >= 0) masks_[static_cast<std::size_t>(row.factor)] |= AxisMask{1} << axis;
    descend(axis + 1, row.lowering >= 0 ? row.lowering : lowering);
    if (row.factor >= 0) masks_[static_cast<std::size_t>(row.factor)] &= ~(AxisMask{1} << axis);
  }
}

/// Bytes that the first `num_axes` rows cost at least: on the other axes each operand stays as it
/// is, or is cut.
double Search::bound(std::size_t num_axes) {
  double bytes = 0.0;
  absl::InlinedVector<const LevelList*, 6> levels;
  for (std::size_t i = 0; i < call_.operands.size(); ++i) {
    const CallOperand& operand = call_.operands[i];
    if (operand.spec == nullptr) continue;
    levels.clear();
    for (const LevelList& list : operand.cut.levels) levels.push_back(&list);
    double copies = 1.0;
    for (std::size_t a = 0; a < entries_.size(); ++a) {
      entries_[a] = a < num_axes ? call_.rows[static_cast<std::size_t>(rows_[a])].inputs[i]
                                 : operand.cut.entries[a];
      if (a >= num_axes && entries_[a].kind != Kind::kShard) {
        copies *= static_cast<double>(call_.axis_sizes[a]);
      }
    }
    bytes += moved_elements(call_.axis_sizes, operand.num_elements, operand.cut,
                            {entries_, {levels.data(), levels.size()}}) *
             operand.element_bytes / copies;
  }
  return bytes;
}

/// The chosen rows lower factor `f` by steps that count on intervals in coord order.
bool Search::needs_intervals(int f) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](std::int16_t r) {
    const CompactRow& row = call_.rows[static_cast<std::size_t>(r)];
    return row.factor == f && row.lowering >= 0 &&
           call_.op->def.lowerings[static_cast<std::size_t>(row.lowering)].cut ==
               Lowering::Cut::kIntervals;
  });
}

/// The chosen rows and levels leave every result where out= has it.
bool Search::gives_fixed_results() {
  absl::InlinedVector<LevelList, 4> lists;
  absl::InlinedVector<const LevelList*, 4> levels;
  for (std::size_t o = 0; o < fixed_results().size(); ++o) {
    lists.clear();
    levels.clear();
    for (const BoundDim& dim : call_.binding.outputs[o]) {
      StatusOr<LevelList> list = levels_of(call_, dim, {levels_.data(), levels_.size()});
      if (!list.ok()) return false;
      lists.push_back(*std::move(list));
    }
    for (const LevelList& list : lists) levels.push_back(&list);
    for (std::size_t a = 0; a < entries_.size(); ++a) {
      entries_[a] = call_.rows[static_cast<std::size_t>(rows_[a])].outputs[o];
    }
    if (!stays(fixed_results()[o].cut, {entries_, {levels.data(), levels.size()}})) return false;
  }
  return true;
}

/// The level order comes from the operand that does not move, else from the one that is dearest to
/// move; axes that it lacks are appended, because to slice what one has is free.
void Search::choose_levels(std::size_t f) {
  const AxisMask wanted = masks_[f];
  LevelList& out = levels_[f];
  out.clear();
  if (wanted == 0) return;
  if (needs_intervals(static_cast<int>(f))) {
    for (AxisMask left = wanted; left != 0; left &= left - 1) {
      out.push_back(Level::of_axis(std::countr_zero(left)));
    }
    return;
  }
  const LevelList* best = nullptr;
  std::pair<int, double> best_weight = {-1, 0.0};  // may not move, cut by all of them; bytes
  AxisMask best_axes = 0;
  const std::size_t num_inputs = call_.operands.size();
  for (std::size_t i = 0; i < num_inputs + fixed_results().size(); ++i) {
    const bool is_result = i >= num_inputs;
    const CallOperand& operand = is_result ? fixed_results()[i - num_inputs] : call_.operands[i];
    if (operand.spec == nullptr) continue;
    const BoundOperand& bound = call_.binding.operand(static_cast<int>(i));
    for (std::size_t d = 0; d < bound.size(); ++d) {
      if (bound[d].count != 1 || bound[d].factors[0] != static_cast<int>(f)) continue;
      const AxisMask axes = operand.cut.axes[d];
      if ((axes & wanted) == 0) continue;
      const std::pair weight((operand.fixed ? 2 : 0) + (axes == wanted ? 1 : 0),
                             operand.num_elements * operand.element_bytes);
      if (weight <= best_weight) continue;
      best = &operand.cut.levels[d];
      best_weight = weight;
      best_axes = axes;
    }
  }
  AxisMask placed = 0;
  if (best != nullptr) {
    const bool whole = (best_axes & ~wanted) == 0;
    for (const Level& level : *best) {
      const bool is_axis = level.kind == Level::Kind::kAxis;
      if (whole || (is_axis && (wanted >> level.axis & 1) != 0)) {
        out.push_back(whole ? level : Level::of_axis(level.axis));
        if (is_axis) placed |= AxisMask{1} << level.axis;
      }
    }
  }
  for (AxisMask left = wanted & ~placed; left != 0; left &= left - 1) {
    out.push_back(Level::of_axis(std::countr_zero(left)));
  }
}

void Search::evaluate() {
  for (std::size_t f = 0; f < levels_.size(); ++f) choose_levels(f);
  if (!gives_fixed_results()) return;
  double bytes = 0.0;
  int moved = 0;
  absl::InlinedVector<const LevelList*, 6> levels;
  absl::InlinedVector<LevelList, 2> grouped;
  for (std::size_t i = 0; i < call_.operands.size(); ++i) {
    const CallOperand& operand = call_.operands[i];
    if (operand.spec == nullptr) continue;
    levels.clear();
    grouped.clear();
    const BoundOperand& bound = call_.binding.inputs[i];
    grouped.reserve(bound.size());
    for (const BoundDim& dim : bound) {
      if (dim.count <= 1) {
        levels.push_back(dim.count == 0 ? &kWhole : &levels_[std::size_t(dim.factors[0])]);
        continue;
      }
      StatusOr<LevelList> list = levels_of(call_, dim, {levels_.data(), levels_.size()});
      if (!list.ok()) return;
      grouped.push_back(*std::move(list));
      levels.push_back(&grouped.back());
    }
    for (std::size_t a = 0; a < entries_.size(); ++a) {
      entries_[a] = call_.rows[static_cast<std::size_t>(rows_[a])].inputs[i];
    }
    const TargetCut target{entries_, {levels.data(), levels.size()}};
    if (stays(operand.cut, target)) continue;
    if (operand.fixed && written_ == Written::kStays) return;
    ++moved;
    bytes += moved_elements(call_.axis_sizes, operand.num_elements, operand.cut, target) *
             operand.element_bytes;
  }
  if (!std::isfinite(bytes)) return;
  for (const std::int16_t r : rows_) {
    const CompactRow& row = call_.rows[static_cast<std::size_t>(r)];
    if (row.lowering < 0) continue;
    // Inside the op each communicating step moves about a result without the lowered factor.
    const Factor& factor = call_.binding.factors[static_cast<std::size_t>(row.factor)];
    double result = 0.0;
    for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
      const double held = static_cast<double>(num_elements(call_.outputs[o].shape)) *
                          static_cast<double>(size_of(call_.outputs[o].dtype));
      const bool carries = Binding::dim_of(call_.binding.outputs[o], row.factor) >= 0;
      result = std::max(
          result,
          carries ? held / static_cast<double>(std::max<std::int64_t>(1, factor.size)) : held);
    }
    bytes += 2.0 * result;
  }
  keep(bytes, moved);
}

bool Search::better(double bytes, int moved, const Choice& than) const {
  if (bytes != than.bytes) return bytes < than.bytes;
  return moved < than.moved;  // rows are visited in the order of the rule
}

void Search::keep(double bytes, int moved) {
  int place = result_.found;
  while (place > 0 && better(bytes, moved, result_.best[static_cast<std::size_t>(place - 1)])) {
    --place;
  }
  if (place >= 2) return;
  if (place == 0 && result_.found > 0) result_.best[1] = std::move(result_.best[0]);
  Choice& choice = result_.best[static_cast<std::size_t>(place)];
  choice.rows = rows_;
  choice.factor_levels = levels_;
  choice.bytes = bytes;
  choice.moved = moved;
  result_.found = std::min(result_.found + 1, 2);
}

}  // namespace

bool may_combine(const CompactRow& a, const CompactRow& b) noexcept {
  if (!a.passes_partials() || !b.passes_partials()) return true;
  // What counts is what the results become: with `mono A | anti B`, P(max) of B gives P(min).
  const auto result = [](const CompactRow& row) {
    const auto at = std::find_if(row.outputs.begin(), row.outputs.end(), [](const RowEntry& entry) {
      return entry.kind == RowEntry::Kind::kPartial;
    });
    return at == row.outputs.end() ? row.reduce : at->op;
  };
  if (opposite_of(result(a)) != result(b)) return true;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    if (a.inputs[i].kind != b.inputs[i].kind) return false;
  }
  return true;
}

SearchResult search(const Call& call, Written written) { return Search(call, written).run(); }

StatusOr<LevelList> levels_of(const Call& call, const BoundDim& dim,
                              std::span<const LevelList> factor_levels) {
  if (dim.count == 0) return StatusOr<LevelList>(absl::in_place);
  const auto level_list = [&](int i) {
    const LevelList& list = factor_levels[static_cast<std::size_t>(dim.factors[std::size_t(i)])];
    return Levels(list.begin(), list.end());
  };
  const auto size_of_factor = [&](int i) {
    return call.binding.factors[static_cast<std::size_t>(dim.factors[std::size_t(i)])].size;
  };
  Levels merged = level_list(0);
  std::int64_t size = size_of_factor(0);
  for (int i = 1; i < dim.count; ++i) {
    TSR_ASSIGN_OR_RETURN(
        merged, flatten_levels(call.reduced_mesh, merged, size, level_list(i), size_of_factor(i)));
    size *= size_of_factor(i);
    merged = canonical_levels(call.reduced_mesh, size, std::move(merged));
  }
  return LevelList(merged.begin(), merged.end());
}

absl::InlinedVector<LevelList, 6> default_levels(const Call& call,
                                                 std::span<const std::int16_t> rows) {
  absl::InlinedVector<LevelList, 6> levels(call.binding.factors.size());
  for (std::size_t a = 0; a < rows.size(); ++a) {
    const int factor = call.rows[static_cast<std::size_t>(rows[a])].factor;
    if (factor >= 0) {
      levels[static_cast<std::size_t>(factor)].push_back(Level::of_axis(static_cast<int>(a)));
    }
  }
  return levels;
}

std::string why_of(const Call& call, std::span<const std::int16_t> rows) {
  std::string text;
  for (std::size_t a = 0; a < rows.size(); ++a) {
    if (a > 0) text += ", ";
    text += call.mesh.axis_label(call.mesh_axes[a]);
    text += ": ";
    text += why_of(*call.op, call.binding, call.rows[static_cast<std::size_t>(rows[a])]);
  }
  return text;
}

}  // namespace tessera
