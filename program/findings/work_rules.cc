// Work that several ranks do alike, and ranks that have less of it than others.
#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "program/findings/rules.h"
#include "program/findings/texts.h"
#include "program/product_flops.h"
#include "strategies/rules/row_pattern.h"

namespace tessera {
namespace {

constexpr double kLeastShare = 0.01;  // of a rank's products: below, nobody would mend it
constexpr double kLeastIdle = 0.01;
constexpr double kMuchIdle = 0.05;

/// Of a whole product; 0 for ops that are none.
double flops_of(FindingContext& context, int step, const CallStep& call) {
  if (call.out.empty()) return 0;
  std::vector<Shape> shapes;
  for (const int operand : context.operands(step)) {
    if (operand < 0) break;
    shapes.push_back(context.value(operand).value->global_shape);
  }
  return product_flops(call.op, shapes, call.out[0].global_shape,
                       context.attrs(call).value_or(Attrs()));
}

/// The mesh that others of the same stage are slices of; null where there is none. One that has
/// stages of the pipeline on an axis is no step's: each stage does something else.
const Mesh* world_of(const Program& program, const StepOrigin& origin) {
  const bool staged = std::any_of(
      program.meshes.begin(), program.meshes.end(),
      [&](const ProgramMesh& mesh) { return origin.stage && mesh.stage == origin.stage; });
  const ProgramMesh* world = nullptr;
  for (const ProgramMesh& mesh : program.meshes) {
    if (mesh.of || (staged && mesh.stage != origin.stage)) continue;
    if (world == nullptr || mesh.mesh.num_ranks() > world->mesh.num_ranks()) world = &mesh;
  }
  return world == nullptr ? nullptr : &world->mesh;
}

struct Sharing {
  std::vector<std::string> axes;  ///< along which all ranks do the same
  double alike = 1;               ///< ranks that do the same
  double pieces = 1;              ///< into which the work is cut
};

/// Whether an axis, by name, makes any operand or result of a step differ from rank to rank.
bool differs_along(FindingContext& context, const StepNode& node, const std::string& name) {
  const auto differs = [&](int index) {
    const ProgramValue& value = *context.value(index).value;
    if (std::find(value.varies.begin(), value.varies.end(), name) != value.varies.end())
      return true;
    const Spec* spec = context.spec(index);
    if (value.mesh && spec == nullptr) return true;  // not placed yet: not known
    if (spec == nullptr) return false;
    const StatusOr<int> axis = spec->mesh().find_axis(name);
    return axis.ok() && entry_of(*spec, *axis).kind != RowEntry::Kind::kReplicate;
  };
  return std::any_of(node.reads.begin(), node.reads.end(), differs) ||
         std::any_of(node.makes.begin(), node.makes.end(), differs);
}

Sharing sharing_of(FindingContext& context, const StepNode& node) {
  Sharing sharing;
  bool plain = true;
  const Mesh* mesh = nullptr;
  for (const int read : node.reads) {
    const ProgramValue& value = *context.value(read).value;
    if (!value.mesh) continue;
    plain = false;
    mesh = &context.program().meshes[static_cast<std::size_t>(*value.mesh)].mesh;
  }
  // Only a tracer of local tensors says along which axes a plain value differs.
  const bool told = context.program().source.kind == "torch";
  const Mesh* world = told ? world_of(context.program(), node.step->origin) : nullptr;
  if (plain && !told) return sharing;
  const Mesh* over = world != nullptr ? world : mesh;
  if (over == nullptr) return sharing;
  for (int axis = 0; axis < over->ndim(); ++axis) {
    const auto size = static_cast<double>(over->size(axis));
    const std::string name = over->axis_label(axis);
    if (differs_along(context, node, name)) {
      // Plain shapes are one rank's own; those on a mesh are cut over its own axes only.
      if (mesh != nullptr && mesh->find_axis(name).ok()) sharing.pieces *= size;
    } else if (size > 1) {
      sharing.axes.push_back(name);
      sharing.alike *= size;
    }
  }
  return sharing;
}

/// The part of a cut's time that ranks wait for the one with most. Stated sizes are meant.
double idle_part(const Spec& spec, std::vector<int>& dims, std::vector<std::string>& axes) {
  if (num_elements(spec.global_shape()) == 0 || spec.layout().is_ragged()) return 0;
  const Shape largest = spec.local_shape(Coord(static_cast<std::size_t>(spec.mesh().ndim()), 0));
  double part = 1;
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    const auto at = static_cast<std::size_t>(dim);
    double pieces = 1;
    std::vector<std::string> cut_by;
    for (const Level& level : spec.layout().dims[at]) {
      if (level.kind != Level::Kind::kAxis) continue;
      pieces *= static_cast<double>(spec.mesh().size(level.axis));
      cut_by.push_back(spec.mesh().axis_label(level.axis));
    }
    const double even =
        static_cast<double>(spec.global_shape()[at]) / (pieces * static_cast<double>(largest[at]));
    if (even >= 1) continue;
    part *= even;
    dims.push_back(dim);
    axes.insert(axes.end(), cut_by.begin(), cut_by.end());
  }
  return 1 - part;
}

class UnevenCuts {
 public:
  explicit UnevenCuts(FindingContext& context) : context_(context) {}

  void look_at(int value, int made_by) {
    const Spec* spec = context_.spec(value);
    if (spec == nullptr || spec->mesh().ndim() == 0) return;
    std::vector<int> dims;
    std::vector<std::string> axes;
    const double idle = idle_part(*spec, dims, axes);
    if (idle < kLeastIdle) return;
    uneven_.push_back(value);
    // Said where it begins: what is made of uneven pieces is uneven, too.
    if (made_by >= 0) {
      for (const int read : context_.step(made_by).reads) {
        if (std::binary_search(uneven_.begin(), uneven_.end(), read)) return;
      }
    }
    const ProgramValue& cut = *context_.value(value).value;
    const auto dim = static_cast<std::size_t>(dims[0]);
    // Batches that are too small, say, are uneven in every layer: one finding, at the first place.
    const std::string kind =
        absl::StrFormat("%d %s", spec->global_shape()[dim], absl::StrJoin(axes, ","));
    const auto [entry, is_new] = first_.try_emplace(kind);
    if (is_new) entry->second = first_place(value, made_by, axes);
    Finding finding = entry->second;
    if (idle < kMuchIdle) finding.severity = Severity::kNote;
    if (is_new) {
      finding.measure = absl::StrFormat("%.1f %% idle", 100 * idle);
      const Shape largest =
          spec->local_shape(Coord(static_cast<std::size_t>(spec->mesh().ndim()), 0));
      std::int64_t pieces = 1;
      for (const Level& level : spec->layout().dims[dim]) {
        if (level.kind == Level::Kind::kAxis) pieces *= spec->mesh().size(level.axis);
      }
      finding.cause = absl::StrFormat(
          "dim %d of %s, %d, is cut into %d pieces of at most %d: ranks with less wait for the "
          "rest",
          dims[0], cut.name, spec->global_shape()[dim], pieces, largest[dim]);
      finding.fix = absl::StrFormat("pad it to %d, or cut another dim",
                                    (spec->global_shape()[dim] + pieces - 1) / pieces * pieces);
    }
    if (made_by < 0) finding.count = cut.count;
    context_.add(std::move(finding), made_by);
  }

 private:
  Finding first_place(int value, int made_by, const std::vector<std::string>& axes) {
    const ProgramValue& cut = *context_.value(value).value;
    Finding finding = context_.start("uneven-cut", made_by);
    finding.bytes = {};
    finding.collective.clear();
    finding.axes = axes;
    finding.value = cut.name;
    if (finding.module.empty()) finding.module = group_of_layers(cut.module);
    if (finding.op.empty()) finding.op = group_of_layers(cut.name);
    return finding;
  }

  FindingContext& context_;
  std::vector<int> uneven_;               // ascending
  std::map<std::string, Finding> first_;  // by size and axes
};

}  // namespace

Status find_replicated_work(FindingContext& context) {
  struct Place {
    Finding finding;
    int step = -1;
  };
  std::vector<Place> places;
  std::map<std::string, double> wasted;  // by id
  double all = 0;
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const StepNode& node = context.step(i);
    const auto* call = std::get_if<CallStep>(&node.step->what);
    if (call == nullptr) continue;
    const double whole = flops_of(context, i, *call);
    if (whole == 0) continue;
    const Sharing sharing = sharing_of(context, node);
    const double own = whole / sharing.pieces * static_cast<double>(node.rounds.clamped());
    all += own;
    if (sharing.alike <= 1) continue;
    Finding finding = context.start("replicated-work", i);
    finding.axes = sharing.axes;
    finding.collective.clear();
    finding.bytes = {};
    finding.phase.reset();
    wasted[id_of(finding)] += own * (1 - 1 / sharing.alike);
    finding.cause = absl::StrFormat("every rank along %s computes the same %s of %s",
                                    absl::StrJoin(sharing.axes, ","), call->op, call->out[0].name);
    finding.fix = "cut an operand or the result along " + sharing.axes[0] +
                  ", where what follows takes it so";
    finding.value = call->out[0].name;
    places.push_back({.finding = std::move(finding), .step = i});
  }
  for (Place& place : places) {
    const double share = wasted[id_of(place.finding)] / all;
    if (share < kLeastShare) continue;
    place.finding.measure = absl::StrFormat("%.1f %% of a rank's products", 100 * share);
    context.add(std::move(place.finding), place.step);
  }
  return absl::OkStatus();
}

Status find_uneven_cuts(FindingContext& context) {
  UnevenCuts cuts(context);
  for (int i = 0; i < std::ssize(context.values()); ++i) cuts.look_at(i, context.value(i).made_by);
  return absl::OkStatus();
}

}  // namespace tessera
