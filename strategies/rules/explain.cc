#include "strategies/rules/explain.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "strategies/rules/binding.h"

namespace tessera {
namespace {

using Kind = RowEntry::Kind;
using SpecPointers = std::span<const Spec* const>;

/// The same tensor with another entry on one axis, whose level comes last; none where it has no
/// such layout.
std::optional<Spec> with_entry(const Spec& spec, int axis, const RowEntry& entry) {
  if (entry_of(spec, axis) == entry) return spec;
  StatusOr<Spec> made = Spec::make(spec.mesh(), spec.global_shape(), spec.dtype(),
                                   with_entry(spec.layout(), axis, entry));
  return made.ok() ? std::optional<Spec>(*std::move(made)) : std::nullopt;
}

std::int64_t add_bytes(std::int64_t a, std::int64_t b) {
  return a > RowOffer::kNever - b ? RowOffer::kNever : a + b;
}

std::int64_t total(std::span<const std::int64_t> bytes) {
  std::int64_t sum = 0;
  for (const std::int64_t each : bytes) sum = add_bytes(sum, each);
  return sum;
}

class Explainer {
 public:
  Explainer(const Op& op, SpecPointers inputs, const Attrs& attrs,
            std::span<const ForcedRow> forced)
      : op_(op), inputs_(inputs), attrs_(attrs), forced_(forced) {}

  StatusOr<Explanation> run() {
    TSR_ASSIGN_OR_RETURN(result_.chosen, propagate(op_, inputs_, attrs_, forced_));
    result_.bytes = total(result_.chosen.moved_bytes);
    result_.mesh = mesh_of_call();
    if (!result_.chosen.rows.empty()) {
      TSR_RETURN_IF_ERROR(offer_rows());
      TSR_RETURN_IF_ERROR(find_obstacles());
    }
    make_wishes();
    return std::move(result_);
  }

 private:
  /// As propagate() has it: of the first operand with dims, else of the first on a mesh.
  Mesh mesh_of_call() const {
    const Spec* leader = nullptr;
    for (const Spec* spec : inputs_) {
      if (spec == nullptr || spec->mesh().ndim() == 0) continue;
      if (spec->ndim() > 0) return spec->mesh();
      if (leader == nullptr) leader = spec;
    }
    return leader == nullptr ? Mesh() : leader->mesh();
  }
  /// An operand that lies on the call's mesh.
  bool counts(std::size_t i) const {
    return inputs_[i] != nullptr && inputs_[i]->mesh() == result_.mesh;
  }
  bool is_written(std::size_t i) const {
    return std::count(op_.in_place.begin(), op_.in_place.end(), static_cast<int>(i)) > 0;
  }
  std::string name(std::size_t i) const { return operand_name(op_, static_cast<int>(i)); }
  std::vector<TensorMeta> metas() const;
  Status offer_rows();
  std::optional<RowOffer> offer(const Row& row, int axis) const;
  Status find_obstacles();
  std::string why_not_kept(const Binding& binding, std::size_t i, const RowEntry& now) const;
  void make_wishes();
  std::optional<Wish> best_wish(std::size_t i) const;

  const Op& op_;
  SpecPointers inputs_;
  const Attrs& attrs_;
  std::span<const ForcedRow> forced_;
  std::vector<Row> rows_;
  Explanation result_;
};

std::vector<TensorMeta> Explainer::metas() const {
  std::vector<TensorMeta> metas;
  for (const Spec* spec : inputs_) {
    metas.push_back(spec == nullptr ? TensorMeta{.absent = true}
                                    : TensorMeta{spec->global_shape(), spec->dtype()});
  }
  return metas;
}

Status Explainer::offer_rows() {
  TSR_ASSIGN_OR_RETURN(rows_, rows_of(op_, metas(), attrs_, /*axis_size=*/2));
  for (int axis = 0; axis < result_.mesh.ndim(); ++axis) {
    if (result_.mesh.size(axis) == 1) continue;
    std::vector<RowOffer> offers;
    for (const Row& row : rows_) {
      if (std::optional<RowOffer> made = offer(row, axis)) offers.push_back(*std::move(made));
    }
    std::stable_sort(offers.begin(), offers.end(), [](const RowOffer& a, const RowOffer& b) {
      return a.chosen != b.chosen ? a.chosen : a.bytes < b.bytes;
    });
    result_.offers.insert(result_.offers.end(), offers.begin(), offers.end());
  }
  return absl::OkStatus();
}

/// As the search sees it: an axis on which all is replicated stays so, and a row with Partials
/// needs one of them to be there.
std::optional<RowOffer> Explainer::offer(const Row& row, int axis) const {
  const Row& chosen = result_.chosen.rows[static_cast<std::size_t>(axis)];
  RowOffer made{.axis = axis, .row = row};
  made.chosen = row.why == chosen.why && to_string(row) == to_string(chosen);
  bool any_cut = false, asks_partial = false, has_partial = false;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!counts(i)) continue;
    const RowEntry have = entry_of(*inputs_[i], axis), want = row.inputs[i];
    any_cut |= have.kind != Kind::kReplicate;
    asks_partial |= want.kind == Kind::kPartial;
    has_partial |= want.kind == Kind::kPartial && have == want;
    const Spec& settled = result_.chosen.inputs[i];
    const std::optional<Spec> target = made.chosen ? settled : with_entry(settled, axis, want);
    const std::int64_t bytes = !target ? RowOffer::kNever
                               : *target == *inputs_[i]
                                   ? 0
                                   : estimate_moved_bytes(*inputs_[i], *target);
    made.bytes = add_bytes(made.bytes, bytes);
    if (have == want) continue;
    made.needs.push_back({static_cast<int>(i), name(i), have, want, bytes, is_written(i)});
  }
  if (made.chosen) return made;
  if (!any_cut || (asks_partial && !has_partial)) return std::nullopt;
  return made;
}

std::string Explainer::why_not_kept(const Binding& binding, std::size_t i,
                                    const RowEntry& now) const {
  if (now.kind == Kind::kPartial) {
    return "no row carries its P(" + std::string(name_of(now.op)) + ") with these operands";
  }
  const std::string dim = "dim " + std::to_string(now.dim);
  const BoundDim& bound = binding.inputs[i][static_cast<std::size_t>(now.dim)];
  for (int f = 0; f < bound.count; ++f) {
    const Factor& factor =
        binding.factors[static_cast<std::size_t>(bound.factors[static_cast<std::size_t>(f)])];
    if (!factor.cuttable) {
      return operand_name(op_, factor.unequal.operand) + " has " +
             std::to_string(factor.unequal_size) + " of its " + std::to_string(factor.size) +
             " elements along " + dim;
    }
    if (factor.mark != nullptr && factor.mark->whole) return "the rule needs " + dim + " whole";
  }
  if (bound.count == 0) return dim + " broadcasts, or its size is an attribute's";
  return "no row keeps " + dim + " cut with these operands";
}

Status Explainer::find_obstacles() {
  const std::vector<TensorMeta> inputs = metas();
  TSR_ASSIGN_OR_RETURN(const std::vector<TensorMeta> outputs, infer(op_, inputs, attrs_));
  TSR_ASSIGN_OR_RETURN(const Binding binding, bind_rule(op_, inputs, outputs, attrs_));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!counts(i) || *inputs_[i] == result_.chosen.inputs[i]) continue;
    for (int axis = 0; axis < result_.mesh.ndim(); ++axis) {
      const RowEntry now = entry_of(*inputs_[i], axis);
      if (result_.mesh.size(axis) == 1 || now.kind == Kind::kReplicate ||
          now == entry_of(result_.chosen.inputs[i], axis)) {
        continue;
      }
      const bool kept = std::any_of(rows_.begin(), rows_.end(),
                                    [&](const Row& row) { return row.inputs[i] == now; });
      if (kept) continue;
      result_.obstacles.push_back(
          {static_cast<int>(i), name(i), axis, why_not_kept(binding, i, now)});
    }
  }
  return absl::OkStatus();
}

std::optional<Wish> Explainer::best_wish(std::size_t i) const {
  std::optional<Wish> best;
  std::vector<const Spec*> inputs(inputs_.begin(), inputs_.end());
  const auto consider = [&](int axis, const RowEntry& want) {
    const std::optional<Spec> other = with_entry(*inputs_[i], axis, want);
    if (!other || *other == *inputs_[i]) return;
    inputs[i] = &*other;
    const StatusOr<Resolution> resolution = propagate(op_, inputs, attrs_, forced_);
    inputs[i] = inputs_[i];
    if (!resolution.ok()) return;
    const std::int64_t bytes = total(resolution->moved_bytes);
    if (bytes >= (best ? best->bytes : result_.bytes)) return;
    best = Wish{static_cast<int>(i), name(i), axis, want, bytes, resolution->why};
  };
  for (int axis = 0; axis < result_.mesh.ndim(); ++axis) {
    if (result_.mesh.size(axis) == 1) continue;
    for (int dim = 0; dim < inputs_[i]->ndim(); ++dim) {
      consider(axis, {Kind::kShard, dim});
    }
    consider(axis, {});
  }
  return best;
}

void Explainer::make_wishes() {
  if (result_.bytes == 0) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!counts(i)) continue;
    if (std::optional<Wish> wish = best_wish(i)) result_.wishes.push_back(*std::move(wish));
  }
  std::stable_sort(result_.wishes.begin(), result_.wishes.end(),
                   [](const Wish& a, const Wish& b) { return a.bytes < b.bytes; });
}

}  // namespace

StatusOr<Explanation> explain(const Op& op, std::span<const Spec* const> inputs, const Attrs& attrs,
                              std::span<const ForcedRow> forced) {
  return Explainer(op, inputs, attrs, forced).run();
}

}  // namespace tessera
