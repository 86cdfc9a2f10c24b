#include "dtensor/resolve_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/lowering.h"
#include "dtensor/redistribute.h"
#include "dtensor/tensor_impl.h"
#include "placement/plan_cost.h"
#include "placement/reduce_op.h"
#include "strategies/rules/binding.h"
#include "strategies/rules/in_place.h"
#include "strategies/rules/stated_call.h"

namespace tessera {
namespace {

using SpecList = absl::InlinedVector<const Spec*, 4>;

/// The mesh on which the op runs: that of the first operand with dims, or of any on a mesh; null
/// where all are plain.
const Mesh* mesh_of(std::span<const Spec* const> specs) {
  const Mesh* mesh = nullptr;
  for (const Spec* each : specs) {
    if (each == nullptr || each->mesh().ndim() == 0) continue;
    if (each->ndim() > 0) return &each->mesh();
    if (mesh == nullptr) mesh = &each->mesh();
  }
  return mesh;
}

/// Operands' specs as the op sees them: a 0-d value from elsewhere counts as R on the op's mesh.
void resolve_meshes(Runtime& runtime, const Op& op, ResolvedCall& call, SpecList& specs) {
  const Mesh* mesh = mesh_of({specs.data(), specs.size()});
  if (mesh == nullptr) return;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i] == nullptr || specs[i]->mesh() == *mesh) continue;
    const bool is_plain = specs[i]->mesh().ndim() == 0;
    if (specs[i]->ndim() == 0 && specs[i]->is_replicated()) {
      const Placements all(static_cast<std::size_t>(mesh->ndim()), Replicate{});
      specs[i] = runtime.intern(value_or_throw(Spec::make(*mesh, {}, specs[i]->dtype(), all)));
      call.promotions.push_back({static_cast<int>(i), specs[i]});
    } else if (is_plain) {
      throw Error(invalid_argument(absl::StrFormat(
          "%s: %s is a plain tensor %s beside operands on mesh %s; only 0-d tensors may be plain "
          "there: "
          "distribute() it, or give it a placement with from_local()",
          op.def.name, operand_name(op, static_cast<int>(i)), specs[i]->to_string(),
          mesh->to_string())));
    }
  }
}

void plan_moves(Runtime& runtime, const Resolution& resolution, const SpecList& specs,
                ResolvedCall& call) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i] == nullptr) {
      call.inputs.push_back(nullptr);
      continue;
    }
    const Spec* want = runtime.intern(resolution.inputs[i]);
    call.inputs.push_back(want);
    if (want == specs[i]) continue;
    OperandMove move{.operand = static_cast<int>(i), .to = want};
    for (const PlanStep& step : plan_between(runtime, specs[i], want).steps) {
      move.communicates |= step.kind != PlanStep::Kind::kLocal;
      move.bytes += bytes_of(step).total;
    }
    move.why = absl::StrFormat("%s: operand %s is %s, the op runs as %s", call.op->def.name,
                               operand_name(*call.op, static_cast<int>(i)), placed(*specs[i]),
                               resolution.why);
    call.moves.push_back(std::move(move));
  }
}

bool is_sum(const Spec& spec) {
  const auto& partial = spec.layout().partial;
  return std::any_of(partial.begin(), partial.end(),
                     [](const std::optional<ReduceOp>& kind) { return kind && is_linear(*kind); });
}

void find_sums(const Resolution& resolution, ResolvedCall& call) {
  const bool passes = std::any_of(resolution.outputs.begin(), resolution.outputs.end(), is_sum);
  if (!passes || call.op->finite_arguments().empty()) return;
  for (std::size_t i = 0; i < resolution.inputs.size(); ++i) {
    if (is_sum(resolution.inputs[i])) call.sums.push_back(static_cast<int>(i));
  }
}

/// Fills in what follows from the resolution.
void complete(Runtime& runtime, Resolution resolution, const SpecList& specs, ResolvedCall& call) {
  call.why = resolution.why;
  plan_moves(runtime, resolution, specs, call);
  find_sums(resolution, call);
  if (call.op->def.is_view) call.view = view_aliasing(*call.op, *specs[0], resolution);
  for (const Spec& output : resolution.outputs) call.outputs.push_back(runtime.intern(output));
  const Coord* coord = runtime.coord_on(call.outputs[0]);
  if (coord == nullptr) return;
  if (resolution.lowering >= 0) {
    const Mesh& mesh = call.outputs[0]->mesh();
    call.lowered = true;
    call.group = value_or_throw(runtime.world().group_along(mesh, resolution.lowering_axes));
    call.group_axes = mesh.axis_labels(resolution.lowering_axes);
  }
  call.local =
      std::make_unique<LocalOp>(LocalOp::make(*call.op, std::move(resolution), call.attrs, *coord));
  if (call.lowered) call.windows = plan_windows(call, *coord);
}

std::shared_ptr<ResolvedCall> new_call(const Op& op, const Attrs& attrs) {
  auto call = std::make_shared<ResolvedCall>();
  call->op = &op;
  call->attrs = value_or_throw(complete_attrs(op, attrs));
  call->mutates = op.mutates();
  return call;
}

}  // namespace

std::string placed(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  return placements.ok() ? to_string(*placements) : spec.to_string();
}

std::shared_ptr<const ResolvedCall> resolve_call(Runtime& runtime, const Op& op,
                                                 const CallSpecs& given, const Attrs& attrs,
                                                 std::span<const ForcedRow> forced) {
  const std::shared_ptr<ResolvedCall> call = new_call(op, attrs);
  SpecList specs(given.operands.begin(), given.operands.end());
  resolve_meshes(runtime, op, *call, specs);
  const std::span<const Spec* const> operands(specs.data(), specs.size());
  Resolution resolution = value_or_throw(
      given.results.empty() ? propagate(op, operands, call->attrs, forced)
                            : propagate_into(op, operands, call->attrs, given.results, forced));
  complete(runtime, std::move(resolution), specs, *call);
  return call;
}

std::shared_ptr<const ResolvedCall> resolve_stated(Runtime& runtime, const Op& op,
                                                   const CallSpecs& given, const Attrs& attrs,
                                                   std::string_view row) {
  const std::shared_ptr<ResolvedCall> call = new_call(op, attrs);
  SpecList specs(given.operands.begin(), given.operands.end());
  resolve_meshes(runtime, op, *call, specs);
  const StatedCall stated = {
      .inputs = {specs.data(), specs.size()}, .outputs = given.results, .row = row};
  complete(runtime, value_or_throw(propagate_stated(op, stated, call->attrs)), specs, *call);
  return call;
}

}  // namespace tessera
