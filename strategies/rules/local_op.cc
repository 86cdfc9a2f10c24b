#include "strategies/rules/local_op.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "strategies/rules/binding.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

/// This rank's coord on a mesh that differs from `mesh` in axes of size 1 only.
Coord coord_on(const Mesh& target, const Mesh& mesh, const Coord& coord) {
  if (target == mesh) return coord;
  Coord result(static_cast<std::size_t>(target.ndim()), 0);
  std::size_t from = 0;
  for (int a = 0; a < target.ndim(); ++a) {
    if (target.size(a) == 1) continue;
    while (from < coord.size() && mesh.size(static_cast<int>(from)) == 1) ++from;
    if (from == coord.size()) break;
    result[static_cast<std::size_t>(a)] = coord[from++];
  }
  return result;
}

/// What a kernel refuses, and memory that is not there, is told under the op's name: kernels have
/// names of their own.
template <class Body>
void under_name_of(const Op& op, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text(message_of(error.status()));
    if (text.starts_with(op.def.name + ":")) throw;
    throw Error(Status(error.status().code(), to_absl(op.def.name + ": " + text)));
  } catch (const std::bad_alloc&) {
    throw Error(absl::ResourceExhaustedError(op.def.name + ": out of memory"));
  }
}

[[noreturn]] void refuse_device(const Op& op, std::size_t operand, const KernelCall& call) {
  throw Error(failed_precondition(op.def.name + ": operand " + std::to_string(operand) +
                                  " lies on " + to_string(call.inputs[operand].device().id()) +
                                  ", but the call runs on " + to_string(call.ctx.device->id())));
}

void run_kernel(const Op& op, const Kernel& kernel, KernelCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Array& x = call.inputs[i];
    if (!x.is_null() && !takes_arrays_of(*call.ctx.device, x.device())) [[unlikely]]
      refuse_device(op, i, call);
  }
  under_name_of(op, [&] { kernel(call); });
}

}  // namespace

LocalOp LocalOp::make(const Op& op, Resolution resolution, const Attrs& attrs, Coord coord) {
  auto state = std::make_shared<State>();
  state->op = &op;
  state->coord = std::move(coord);
  state->resolution = std::move(resolution);
  const Resolution& resolved = state->resolution;
  const Mesh& mesh = resolved.outputs.empty() ? Mesh() : resolved.outputs.front().mesh();
  const bool distributed = mesh.ndim() > 0;
  state->input_coords.reserve(resolved.inputs.size());
  for (const Spec& spec : resolved.inputs) {
    state->input_coords.push_back(coord_on(spec.mesh(), mesh, state->coord));
  }
  for (const Spec& spec : resolved.outputs) {
    state->output_shapes.push_back(spec.local_shape(coord_on(spec.mesh(), mesh, state->coord)));
  }
  if (distributed) {
    for (std::size_t i = 0; i < resolved.inputs.size(); ++i) {
      state->input_views.push_back({&resolved.inputs[i], &state->input_coords[i]});
    }
    for (const Spec& spec : resolved.outputs) state->output_views.push_back({&spec, &state->coord});
    find_index_maps(*state);
  }
  state->global_attrs = attrs;
  state->local_attrs = op.def.localize != nullptr && distributed
                           ? op.def.localize(attrs, resolved.inputs, resolved.outputs, state->coord)
                           : attrs;
  state->num_temporaries = static_cast<int>(resolved.inputs.size() + resolved.outputs.size());
  if (resolved.lowering >= 0) {
    const Lowering& lowering = op.def.lowerings[static_cast<std::size_t>(resolved.lowering)];
    state->steps = lowering.steps(state->local_attrs);
    for (LoweringStep& step : state->steps) {
      if (step.kind == LoweringStep::Kind::kWindow && step.dim < 0) {  // from the end
        step.dim += resolved.inputs[static_cast<std::size_t>(step.in[0])].ndim();
      }
      for (const int t : step.in) state->num_temporaries = std::max(state->num_temporaries, t + 1);
      for (const int t : step.out) state->num_temporaries = std::max(state->num_temporaries, t + 1);
    }
  }
  LocalOp local;
  local.state_ = std::move(state);
  return local;
}

void LocalOp::find_index_maps(State& state) {
  const Resolution& resolved = state.resolution;
  for (const IndexedFactor& indexed : resolved.indexed) {
    const bool masked =
        std::any_of(resolved.rows.begin(), resolved.rows.end(),
                    [&](const Row& row) { return row.masked_factor == indexed.factor; });
    const bool known = std::any_of(
        state.index_maps.begin(), state.index_maps.end(),
        [&](const IndexMap& other) { return other.index_operand == indexed.index_operand; });
    if (!masked || known) continue;
    const auto at = static_cast<std::size_t>(indexed.addressed_operand);
    const bool is_input = at < resolved.inputs.size();
    const OperandView addressed =
        is_input ? OperandView{&resolved.inputs[at], &state.input_coords[at]}
                 : OperandView{&resolved.outputs[at - resolved.inputs.size()], &state.coord};
    state.index_maps.push_back({indexed.index_operand, indexed.addressed_operand,
                                indexed.addressed_dim,
                                held_part(addressed, indexed.addressed_dim)});
  }
}

Array LocalOp::localize_index(KernelContext& ctx, const IndexMap& map, const Array& index) const {
  const Array local = Array::empty(index.shape(), index.dtype(), ctx.allocator);
  const auto refuse = [state = state_, &map](std::int64_t at, std::int64_t value) {
    return out_of_range(state->op->def.name + ": " + operand_name(*state->op, map.index_operand) +
                        " holds " + std::to_string(value) + " at position " + std::to_string(at) +
                        "; allowed are 0 … " + std::to_string(map.part.size - 1));
  };
  kernels::localize(ctx, index, map.part, {}, refuse, local);
  return local;
}

void LocalOp::allocate_outputs(KernelContext& ctx, std::span<const Array> inputs,
                               std::span<Array> outputs) const {
  const State& state = *state_;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const int aliased = state.op->alias_of(o);
    if (aliased >= 0) {
      outputs[o] = inputs[static_cast<std::size_t>(aliased)];
    } else if (outputs[o].is_null()) {
      outputs[o] =
          Array::empty(state.output_shapes[o], state.resolution.outputs[o].dtype(), ctx.allocator);
    }
  }
}

void LocalOp::run(KernelContext& ctx, std::span<const Array> inputs,
                  std::span<Array> outputs) const {
  const State& state = *state_;
  if (!state.op->def.is_view) {
    under_name_of(*state.op, [&] { allocate_outputs(ctx, inputs, outputs); });
  }
  KernelCall call{.ctx = ctx,
                  .inputs = inputs,
                  .attrs = state.local_attrs,
                  .outputs = outputs,
                  .input_views = state.input_views,
                  .output_views = state.output_views};
  if (state.index_maps.empty()) [[likely]] {
    run_kernel(*state.op, state.op->def.kernel, call);
    return;
  }
  std::vector<Array> localized(inputs.begin(), inputs.end());
  for (const IndexMap& map : state.index_maps) {
    Array& index = localized[static_cast<std::size_t>(map.index_operand)];
    index = localize_index(ctx, map, index);
  }
  call.inputs = localized;
  call.absent = kernels::Absent::kSkip;
  run_kernel(*state.op, state.op->def.kernel, call);
}

std::vector<Interval> LocalOp::windows_of(const LoweringStep& step, const Coord& coord) const {
  const Resolution& resolved = state_->resolution;
  const Spec& operand = resolved.inputs[static_cast<std::size_t>(step.in[0])];
  const Coord operand_coord = coord_on(operand.mesh(), resolved.outputs[0].mesh(), coord);
  return step.windows(state_->global_attrs, {&operand, &operand_coord},
                      {&resolved.outputs[0], &coord});
}

std::vector<Interval> LocalOp::intervals_of(const LoweringStep& step, const Coord& coord) const {
  const Resolution& resolved = state_->resolution;
  const Spec& operand = resolved.inputs[static_cast<std::size_t>(step.in[0])];
  const Coord operand_coord = coord_on(operand.mesh(), resolved.outputs[0].mesh(), coord);
  return held_part({&operand, &operand_coord}, step.dim).held;
}

void LocalOp::run_step(KernelContext& ctx, const LoweringStep& step,
                       std::span<Array> temporaries) const {
  const State& state = *state_;
  std::vector<Array> inputs, outputs;
  std::vector<OperandView> input_views, output_views;
  const auto view_of_temporary = [&](int t) -> OperandView {
    const auto i = static_cast<std::size_t>(t);
    if (i < state.input_views.size()) return state.input_views[i];
    const std::size_t o = i - state.input_views.size();
    return o < state.output_views.size() ? state.output_views[o] : OperandView{};
  };
  for (const int t : step.in) {
    inputs.push_back(temporaries[static_cast<std::size_t>(t)]);
    input_views.push_back(view_of_temporary(t));
  }
  for (const int t : step.out) {
    outputs.push_back(temporaries[static_cast<std::size_t>(t)]);
    output_views.push_back(view_of_temporary(t));
  }
  KernelCall call{.ctx = ctx,
                  .inputs = inputs,
                  .attrs = state.local_attrs,
                  .outputs = outputs,
                  .absent = kernels::Absent::kSkip,
                  .input_views = input_views,
                  .output_views = output_views};
  run_kernel(*state.op, step.kernel, call);
  for (std::size_t i = 0; i < step.out.size(); ++i) {
    temporaries[static_cast<std::size_t>(step.out[i])] = std::move(outputs[i]);
  }
}

}  // namespace tessera
