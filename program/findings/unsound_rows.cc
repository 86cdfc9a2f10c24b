// Rows of PyTorch's table that are known to give wrong values, each with what was seen and with the
// row of the proven table that is right. Measured on four real processes of PyTorch 2.15. To add
// one write its condition and a line in kRows.
#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "program/findings/rules.h"
#include "program/findings/texts.h"
#include "strategies/rules/row_pattern.h"

namespace tessera {
namespace {

struct Call {
  FindingContext& context;
  int step = -1;
  std::string_view name;  ///< the foreign name, or the op's

  const StepNode& node() const { return context.step(step); }
  const Json::Object& attributes() const {
    static const Json::Object none;
    const auto* call = std::get_if<CallStep>(&node().step->what);
    return call == nullptr ? none : call->attrs;
  }
  const Json* attribute(std::string_view key) const {
    for (const JsonMember& each : attributes()) {
      if (each.key == key) return &each.value;
    }
    return nullptr;
  }
  /// Operand `index` of an op, or argument of a region or a redistribution; -1 where there is none.
  int operand(std::size_t index) const {
    const bool is_call = std::holds_alternative<CallStep>(node().step->what);
    const std::vector<int>& values = is_call ? context.operands(step) : node().reads;
    return index < values.size() ? values[index] : -1;
  }
  const Spec* in(std::size_t index) const { return context.spec(operand(index)); }
  const Spec* out() const { return node().makes.empty() ? nullptr : context.spec(node().makes[0]); }
};

bool is_partial(const Spec* spec, std::initializer_list<ReduceOp> kinds) {
  if (spec == nullptr) return false;
  for (int axis = 0; axis < spec->mesh().ndim(); ++axis) {
    const RowEntry entry = entry_of(*spec, axis);
    if (entry.kind == RowEntry::Kind::kPartial &&
        std::find(kinds.begin(), kinds.end(), entry.op) != kinds.end()) {
      return true;
    }
  }
  return false;
}
bool is_cut(const Spec* spec) {
  if (spec == nullptr) return false;
  return std::any_of(spec->layout().dims.begin(), spec->layout().dims.end(),
                     [](const Levels& levels) { return !levels.empty(); });
}
bool is_cut_on(const Spec& spec, int dim) {
  return !spec.layout().dims[static_cast<std::size_t>(dim)].empty();
}
/// Axes that cut a dim.
std::int64_t pieces_of(const Spec& spec, int dim, int& axes) {
  std::int64_t pieces = 1;
  axes = 0;
  for (const Level& level : spec.layout().dims[static_cast<std::size_t>(dim)]) {
    if (level.kind != Level::Kind::kAxis) continue;
    pieces *= spec.mesh().size(level.axis);
    ++axes;
  }
  return pieces;
}
bool is_uneven(const Spec* spec, int least_axes) {
  for (int dim = 0; spec != nullptr && dim < spec->ndim(); ++dim) {
    int axes = 0;
    const std::int64_t pieces = pieces_of(*spec, dim, axes);
    if (axes >= least_axes && spec->global_shape()[static_cast<std::size_t>(dim)] % pieces != 0) {
      return true;
    }
  }
  return false;
}
bool has_empty_piece(const Spec* spec) {
  for (int dim = 0; spec != nullptr && dim < spec->ndim(); ++dim) {
    int axes = 0;
    const std::int64_t pieces = pieces_of(*spec, dim, axes);
    const std::int64_t size = spec->global_shape()[static_cast<std::size_t>(dim)];
    if (pieces > 1 && (size + pieces - 1) / pieces * (pieces - 1) >= size) return true;
  }
  return false;
}
/// Whether levels are other than the mesh's axes in order: torch's _StridedShard.
bool is_strided(const Spec* spec) {
  if (spec == nullptr) return false;
  const StatusOr<Placements> placements = spec->placements();
  return placements.ok() &&
         std::any_of(placements->begin(), placements->end(), [](const Placement& placement) {
           return std::holds_alternative<StridedShard>(placement);
         });
}
bool is_float(const Spec* spec) { return spec != nullptr && is_floating(spec->dtype()); }
bool is_integer(const Spec* spec) { return spec != nullptr && !is_floating(spec->dtype()); }

/// Whether one of two operands is the smaller along a dim that is cut, other than the indexed one.
bool smaller_along_cut(const Call& call, const Spec* large, const Spec* small) {
  if (large == nullptr || small == nullptr || large->ndim() != small->ndim()) return false;
  const Json* dim = call.attribute("dim");
  const std::int64_t given =
      dim != nullptr && dim->if_integer() != nullptr ? *dim->if_integer() : 0;
  const std::int64_t indexed = given < 0 ? given + large->ndim() : given;
  for (int each = 0; each < large->ndim(); ++each) {
    const auto at = static_cast<std::size_t>(each);
    if (each != indexed && small->global_shape()[at] < large->global_shape()[at] &&
        (is_cut_on(*large, each) || is_cut_on(*small, each))) {
      return true;
    }
  }
  return false;
}

bool gathers_fewer(const Call& call) { return smaller_along_cut(call, call.in(0), call.in(1)); }
bool scatters_more(const Call& call) { return smaller_along_cut(call, call.in(2), call.in(1)); }
bool adds_to_integers(const Call& call) {
  return is_integer(call.in(0)) && is_integer(call.in(1)) && is_float(call.out()) &&
         (is_partial(call.in(0), {ReduceOp::kSum}) || is_partial(call.in(1), {ReduceOp::kSum}));
}
bool keeps_extremes(const Call& call) {
  const std::initializer_list<ReduceOp> kinds = {ReduceOp::kMax, ReduceOp::kMin};
  return is_partial(call.in(0), kinds) && is_partial(call.out(), kinds);
}
bool keeps_sums(const Call& call) {
  return is_partial(call.in(0), {ReduceOp::kSum}) && is_partial(call.out(), {ReduceOp::kSum});
}
bool rounds_summands(const Call& call) {
  // copy_(self, source), and to(self): what is written is of whole numbers.
  const bool copies = call.in(1) != nullptr;
  const Spec* from = copies ? call.in(1) : call.in(0);
  const Spec* to = copies ? call.in(0) : call.out();
  return is_float(from) && is_integer(to) && is_partial(from, {ReduceOp::kSum}) &&
         is_partial(to, {ReduceOp::kSum});
}
bool moves_strided(const Call& call) {
  const Spec* from = call.in(0);
  const Spec* to = call.out();
  return from != nullptr && to != nullptr && !(*from == *to) && from->mesh().ndim() > 1 &&
         (is_strided(from) || is_strided(to));
}
bool gathers_flattened(const Call& call) {
  const Spec* to = call.out();
  return to != nullptr && is_uneven(call.in(0), 2) && !(*call.in(0) == *to);
}
bool maps_uneven(const Call& call) {
  for (const int read : call.node().reads) {
    if (is_uneven(call.context.spec(read), 1)) return true;
  }
  return false;
}
bool picks_from_pieces(const Call& call) {
  const Spec* from = call.in(0);
  const Json* dim = call.attribute("dim");
  if (from == nullptr) return false;
  if (dim == nullptr || dim->if_integer() == nullptr) return is_cut(from);
  const std::int64_t given = *dim->if_integer();
  const std::int64_t at = given < 0 ? given + from->ndim() : given;
  return at >= 0 && at < from->ndim() && is_cut_on(*from, static_cast<int>(at));
}
bool clamps_summands(const Call& call) {
  return is_partial(call.in(0), {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd});
}
bool draws_in_pieces(const Call& call) {
  return is_cut(call.out() != nullptr ? call.out() : call.in(0));
}
bool reduces_nothing(const Call& call) { return has_empty_piece(call.in(0)); }

struct UnsoundRow {
  std::string_view number;              ///< of the list of rows: stays
  std::vector<std::string_view> names;  ///< what foreign names begin with
  bool (*applies)(const Call& call);
  std::string_view wrong;
  std::string_view right;  ///< what the proven table does
  Severity severity = Severity::kFail;
};

const std::vector<UnsoundRow>& rows() {
  static const std::vector<UnsoundRow> table = {
      {"gather",
       {"aten.gather."},
       gathers_fewer,
       "the index has fewer rows than the cut input: each rank reads rows of its own piece, not of "
       "the whole",
       "redistribute the input to R on the axis, or give it as many rows as the index has"},
      {"scatter_add",
       {"aten.scatter_add", "aten.scatter."},
       scatters_more,
       "the source has more rows than the index, and is cut: rows are added at places of other "
       "pieces",
       "cut the source to the index's rows first, or redistribute it to R"},
      {"add",
       {"aten.add", "aten.sub"},
       adds_to_integers,
       "integers that are P(sum) and R become float32 and lose bits: 67108869 turns into 67108864",
       "redistribute the P(sum) operand to R first: integers stay integers"},
      {"norm-of-max",
       {"aten.linalg_vector_norm", "aten.norm"},
       keeps_extremes,
       "the infinity norm of P(max) is not P(max) of the norms: 6 where 3 is right",
       "redistribute to R (or S) before the norm"},
      {"not-monotone",
       {"aten.threshold", "aten.nan_to_num", "aten._fft", "aten.fft"},
       keeps_extremes,
       "P(max) and P(min) pass through a function that is not monotone: the largest of its results "
       "is not its result of the largest",
       "redistribute to R (or S) first; only monotone functions have the row P(max) -> P(max)"},
      {"sum-not-linear",
       {"aten.nansum", "aten.linalg__powsum", "aten._foreach_powsum"},
       keeps_sums,
       "P(sum) passes through a sum that treats summands one by one: with NaN 13 where 10 is right "
       "(powsum: 92 for 340)",
       "redistribute to R (or S) first"},
      {"cast-of-sum",
       {"aten.copy_", "aten._to_copy", "aten.to."},
       rounds_summands,
       "summands of P(sum) are cut to whole numbers one by one: 0 where 3 is right",
       "redistribute to R (or S) before the cast"},
      {"strided-move",
       {"DTensor.redistribute", "Redistribute"},
       moves_strided,
       "redistributions from and to strided shards on a mesh of several axes permute rows or lose "
       "them (330 of 1,440 cases tried)",
       "go through R on the axes that cut the dim, or use one axis a dim"},
      {"flattened-move",
       {"DTensor.redistribute", "Redistribute"},
       gathers_flattened,
       "a dim cut unevenly by two axes: where a flattened mesh is there the gather loses rows "
       "(row 4 of 5)",
       "pad the dim to a multiple of the pieces, or gather one axis after the other"},
      {"uneven-region",
       {"local_map"},
       maps_uneven,
       "local_map over uneven pieces: each rank computes the global shape from its own, and they "
       "disagree",
       "pass shape and stride to from_local, or pad the dim"},
      {"argmax",
       {"aten.argmax", "aten.argmin"},
       picks_from_pieces,
       "among equals a later index is returned than on one device",
       "redistribute to R first; the proven table has a row that keeps the first index"},
      {"max-indices",
       {"aten.max.dim", "aten.min.dim"},
       picks_from_pieces,
       "each rank's indices are those of its own piece, not of the whole (older releases)",
       "redistribute to R first, as torch 2.15 does by itself, or use amax where indices are not "
       "needed"},
      {"clamp-of-sum",
       {"aten.clamp_.", "aten.clamp_min_.", "aten.clamp_max_."},
       clamps_summands,
       "summands are clamped one by one, and added afterwards: 144 where 2 is right (older "
       "releases; 2.15 refuses it)",
       "redistribute to R (or S) before the clamp"},
      {"random",
       {"aten.bernoulli", "aten.rand", "aten.normal", "aten.uniform", "aten.native_dropout",
        "aten.exponential", "aten.multinomial"},
       draws_in_pieces,
       "random values depend on how the tensor is cut, and on the processor pieces repeat each "
       "other's",
       "draw it as R and cut it, where runs on other meshes have to agree",
       Severity::kWarn},
      {"empty-piece",
       {"aten.amax.", "aten.amin.", "aten.max.", "aten.min.", "aten.argmax.", "aten.argmin."},
       reduces_nothing,
       "a rank whose piece is empty raises, and the others wait for it",
       "pad the dim, or redistribute to R first"}};
  return table;
}

bool begins_with_one(std::string_view name, const std::vector<std::string_view>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](std::string_view each) { return name.starts_with(each); });
}

/// "gather(S(0), S(0)) -> S(0)"
std::string as_called(const Call& call) {
  std::string text(call.name);
  text += '(';
  std::string_view before;
  for (std::size_t i = 0; i < 4 && call.operand(i) >= 0; ++i) {
    text += std::string(before) + placements_text(call.in(i));
    before = ", ";
  }
  text += ')';
  if (call.out() != nullptr) text += " -> " + placements_text(call.out());
  return text;
}

}  // namespace

Status find_unsound_rows(FindingContext& context) {
  if (context.program().source.kind != "torch") return absl::OkStatus();
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const AnyStep& any = *context.step(i).step;
    const auto* region = std::get_if<RegionStep>(&any.what);
    const auto* move = std::get_if<MoveStep>(&any.what);
    if (move != nullptr && move->implicit) continue;
    const bool by_name = region != nullptr && any.origin.from.empty();
    const Call call = {context, i, by_name ? std::string_view(region->name) : any.origin.from};
    if (call.name.empty()) continue;
    for (const UnsoundRow& row : rows()) {
      if (!begins_with_one(call.name, row.names) || !row.applies(call)) continue;
      Finding finding = context.start("unsound-source", i);
      finding.bytes = {};
      finding.severity = row.severity;
      if (finding.op.empty()) finding.op = "redistribute";
      finding.op += " (" + std::string(row.number) + ")";
      if (context.step(i).reads.empty() == false) {
        finding.value = context.value(context.step(i).reads[0]).value->name;
      }
      finding.measure = std::string(call.name);
      finding.cause = as_called(call) + ": " + std::string(row.wrong);
      finding.fix = std::string(row.right);
      context.add(std::move(finding), i);
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
