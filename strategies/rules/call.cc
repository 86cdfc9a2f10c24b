// From the choice of a search to a Resolution: specs of operands and results, and the rows with
// their texts.

#include <algorithm>
#include <cmath>

#include "strategies/rules/search.h"

namespace tessera {
namespace {

/// Reduced axis → axis of `mesh`, which has the same axes of more than one rank.
absl::InlinedVector<int, 4> axes_of(const Mesh& mesh) {
  absl::InlinedVector<int, 4> axes;
  for (int a = 0; a < mesh.ndim(); ++a) {
    if (mesh.size(a) > 1) axes.push_back(a);
  }
  return axes;
}

/// The spec of a tensor whose dims have these levels (reduced axes) and these entries.
StatusOr<Spec> make_spec(const Mesh& mesh, const TensorMeta& meta,
                         std::span<const LevelList> levels, std::span<const RowEntry> entries) {
  const absl::InlinedVector<int, 4> axes = axes_of(mesh);
  Layout layout;
  layout.dims.resize(meta.shape.size());
  layout.partial.resize(static_cast<std::size_t>(mesh.ndim()));
  for (std::size_t d = 0; d < levels.size(); ++d) {
    for (Level level : levels[d]) {
      if (level.kind == Level::Kind::kAxis) level.axis = axes[static_cast<std::size_t>(level.axis)];
      layout.dims[d].push_back(level);
    }
  }
  for (std::size_t a = 0; a < entries.size(); ++a) {
    if (entries[a].kind == RowEntry::Kind::kPartial) {
      layout.partial[static_cast<std::size_t>(axes[a])] = entries[a].op;
    }
  }
  return Spec::make(mesh, meta.shape, meta.dtype, std::move(layout));
}

/// Specs of the operands and results under one choice.
class Resolver {
 public:
  Resolver(const Call& call, const Choice& choice) : call_(call), choice_(choice) {
    entries_.resize(choice.rows.size());
  }

  StatusOr<Spec> input(std::size_t i) {
    const CallOperand& operand = call_.operands[i];
    const BoundOperand& bound = call_.binding.inputs[i];
    TSR_RETURN_IF_ERROR(set_levels(bound));
    for (std::size_t a = 0; a < entries_.size(); ++a) entries_[a] = row(a).inputs[i];
    levels_pointers();
    if (stays(operand.cut, {entries_, {pointers_.data(), pointers_.size()}})) return *operand.spec;
    const bool plain = operand.spec->mesh().ndim() == 0;
    TSR_ASSIGN_OR_RETURN(Spec spec,
                         make_spec(plain ? call_.mesh : operand.spec->mesh(), call_.inputs[i],
                                   {levels_.data(), levels_.size()}, entries_));
    return spec;
  }

  StatusOr<Spec> output(std::size_t o) {
    const int aliased = call_.op->alias_of(o);
    if (aliased >= 0) return input(static_cast<std::size_t>(aliased));
    TSR_RETURN_IF_ERROR(set_levels(call_.binding.outputs[o]));
    for (std::size_t a = 0; a < entries_.size(); ++a) entries_[a] = row(a).outputs[o];
    return make_spec(call_.mesh, call_.outputs[o], {levels_.data(), levels_.size()}, entries_);
  }

  std::int64_t moved_bytes(std::size_t i) {
    const CallOperand& operand = call_.operands[i];
    if (!set_levels(call_.binding.inputs[i]).ok()) return 0;
    for (std::size_t a = 0; a < entries_.size(); ++a) entries_[a] = row(a).inputs[i];
    levels_pointers();
    const TargetCut target{entries_, {pointers_.data(), pointers_.size()}};
    if (stays(operand.cut, target)) return 0;
    return std::llround(
        moved_elements(call_.axis_sizes, operand.num_elements, operand.cut, target) *
        operand.element_bytes);
  }

 private:
  const CompactRow& row(std::size_t axis) const {
    return call_.rows[static_cast<std::size_t>(choice_.rows[axis])];
  }
  Status set_levels(const BoundOperand& bound) {
    levels_.clear();
    for (const BoundDim& dim : bound) {
      TSR_ASSIGN_OR_RETURN(
          LevelList list,
          levels_of(call_, dim, {choice_.factor_levels.data(), choice_.factor_levels.size()}));
      levels_.push_back(std::move(list));
    }
    return absl::OkStatus();
  }
  void levels_pointers() {
    pointers_.clear();
    for (const LevelList& list : levels_) pointers_.push_back(&list);
  }

  const Call& call_;
  const Choice& choice_;
  absl::InlinedVector<RowEntry, 4> entries_;
  absl::InlinedVector<LevelList, 4> levels_;
  absl::InlinedVector<const LevelList*, 4> pointers_;
};

/// The rows chosen, one per axis of the mesh; on an axis of one rank all operands are R.
void set_rows(const Call& call, const Choice& choice, Resolution& resolution) {
  Row unit;
  unit.inputs.resize(call.inputs.size());
  unit.outputs.resize(call.outputs.size());
  unit.why = "one rank";
  resolution.rows.assign(static_cast<std::size_t>(call.mesh.ndim()), unit);
  for (std::size_t a = 0; a < choice.rows.size(); ++a) {
    const CompactRow& compact = call.rows[static_cast<std::size_t>(choice.rows[a])];
    const int axis = call.mesh_axes[a];
    resolution.rows[static_cast<std::size_t>(axis)] = expand(*call.op, call.binding, compact);
    if (compact.lowering >= 0) {
      resolution.lowering = compact.lowering;
      resolution.lowering_axes.push_back(axis);
    }
  }
}

}  // namespace

StatusOr<Call> make_call(const Op& op, std::vector<TensorMeta> inputs, const Attrs& attrs,
                         const Mesh& mesh) {
  Call call;
  call.op = &op;
  call.inputs = std::move(inputs);
  TSR_ASSIGN_OR_RETURN(call.outputs, infer(op, call.inputs, attrs));
  TSR_ASSIGN_OR_RETURN(call.binding, bind_rule(op, call.inputs, call.outputs, attrs));
  call.rows = compact_rows(op, call.binding, call.inputs, call.outputs, attrs);
  call.mesh = mesh;
  call.mesh_axes = axes_of(mesh);
  for (const int axis : call.mesh_axes) call.axis_sizes.push_back(mesh.size(axis));
  call.reduced_mesh =
      static_cast<int>(call.axis_sizes.size()) == mesh.ndim() ? mesh : mesh.without_unit_axes();
  return call;
}

CallOperand operand_of(const Call& call, const Spec* spec) {
  CallOperand operand;
  operand.spec = spec;
  if (spec == nullptr) return operand;
  operand.num_elements = static_cast<double>(num_elements(spec->global_shape()));
  operand.element_bytes = static_cast<double>(size_of(spec->dtype()));
  operand.foreign = spec->mesh().ndim() > 0 && !equal_axes(spec->mesh(), call.mesh);
  if (spec->mesh().ndim() == 0 || operand.foreign) {
    operand.cut.entries.resize(call.axis_sizes.size());
    operand.cut.levels.resize(spec->global_shape().size());
    operand.cut.axes.resize(spec->global_shape().size(), 0);
    return operand;
  }
  absl::InlinedVector<int, 6> axis_of;
  int next = 0;
  for (const MeshAxis& axis : spec->mesh().axes()) axis_of.push_back(axis.size == 1 ? -1 : next++);
  operand.cut = cut_of(*spec, axis_of, call.axis_sizes.size());
  return operand;
}

bool equal_axes(const Mesh& a, const Mesh& b) {
  return a == b || a.without_unit_axes() == b.without_unit_axes();
}

StatusOr<Resolution> resolve(const Call& call, const Choice& choice) {
  Resolution resolution;
  Resolver resolver(call, choice);
  resolution.inputs.reserve(call.operands.size());
  resolution.moved_bytes.reserve(call.operands.size());
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (call.operands[i].spec == nullptr) {
      resolution.inputs.emplace_back();
      resolution.moved_bytes.push_back(0);
      continue;
    }
    TSR_ASSIGN_OR_RETURN(Spec spec, resolver.input(i));
    // Levels that read differently may mean the same sets: then nothing moves.
    const bool moves = !(spec == *call.operands[i].spec);
    resolution.inputs.push_back(std::move(spec));
    resolution.moved_bytes.push_back(moves ? resolver.moved_bytes(i) : 0);
  }
  resolution.outputs.reserve(call.outputs.size());
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    TSR_ASSIGN_OR_RETURN(Spec spec, resolver.output(o));
    resolution.outputs.push_back(std::move(spec));
  }
  set_rows(call, choice, resolution);
  resolution.why = why_of(call, choice.rows);
  resolution.indexed = indexed_factors(call.binding, call.inputs);
  return resolution;
}

}  // namespace tessera
