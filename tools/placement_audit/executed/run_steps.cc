// The steps of a program: each call is resolved as dispatch will resolve it.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "strategies/rules/in_place.h"
#include "tools/placement_audit/call.h"
#include "tools/placement_audit/executed/run_scope.h"

namespace tessera::audit {
namespace {

class StepReader {
 public:
  StepReader(const OpTable& table, ProgramScope& scope, Program& program)
      : table_(table), scope_(scope), program_(program) {}

  Status find_gradients(const JsonView& step);
  Status read(const JsonView& view);
  Status check_results() const;

 private:
  Status read_op(const JsonView& view);
  Status read_operands(const JsonView& args_view, OpStep& step);
  Status read_operand(const JsonView& view, ProgramOperand& operand);
  Status read_number(const JsonView& view, OpStep& step, std::size_t at) const;
  StatusOr<Resolution> resolve(const JsonView& view, OpStep& step);
  Status check_aliases(const JsonView& view, const OpStep& step) const;
  void note_aliases(const OpStep& step, const Resolution& resolution, std::size_t first_new);
  Status read_results(const JsonView& view, const std::vector<Spec>& specs, OpStep& step);
  StatusOr<int> read_result(const JsonView& view, const Spec& spec, int aliased);
  void record(const OpStep& step, const std::vector<Spec>& specs);
  Status read_redistribute(const JsonView& view);
  Status read_region(const JsonView& view);
  Status read_backward(const JsonView& view);
  Status read_cotangent(const JsonView& view, BackwardStep& step);
  Status read_grads(const JsonView& view, BackwardStep& step);
  Status go_back(const JsonView& view, BackwardStep& step);

  const Spec& spec_of(int slot) const { return scope_.tensor(slot).spec; }
  int number() const { return static_cast<int>(program_.steps.size()); }
  template <class Step>
  void add(const JsonView& view, Step step) {
    program_.steps.push_back({std::string(message_of(view.error(""))), std::move(step)});
  }
  void note_result(int slot) {
    std::vector<int>& all = program_.results;
    if (std::find(all.begin(), all.end(), slot) == all.end()) all.push_back(slot);
  }

  const OpTable& table_;
  ProgramScope& scope_;
  Program& program_;
};

/// Inputs need a gradient from the start: whoever asks for it comes later.
Status StepReader::find_gradients(const JsonView& step) {
  const std::optional<JsonView> grads = step.find("grads");
  if (!step.find("backward") || !grads) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, grads->items());
  for (const JsonView& name : names) {
    TSR_ASSIGN_OR_RETURN(const std::string text, name.text());
    const int slot = scope_.find(text);  // others are told of where the step is read
    if (slot < 0) continue;
    if (!is_floating(spec_of(slot).dtype())) {
      return name.error(absl::StrFormat("%s is %s: only floating tensors have a gradient",
                                        in_quotes(text), spec_of(slot).to_string()));
    }
    program_.inputs[static_cast<std::size_t>(slot)].needs_grad = true;
    scope_.history.set_leaf(slot);
  }
  return absl::OkStatus();
}

Status StepReader::read(const JsonView& view) {
  if (view.kind() == Json::Kind::kObject) {
    if (view.find("op")) return read_op(view);
    if (view.find("redistribute")) return read_redistribute(view);
    if (view.find("backward")) return read_backward(view);
    if (view.find("local_map")) return read_region(view);
  }
  return view.error(
      "a step is an object with \"op\", \"redistribute\", \"backward\" or \"local_map\"");
}

Status StepReader::read_op(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"op", "args"}, {"attrs", "out", "into", "force"}));
  OpStep step;
  TSR_ASSIGN_OR_RETURN(step.op, audit::read_op(*view.find("op"), table_));
  const JsonView args_view = *view.find("args");
  TSR_RETURN_IF_ERROR(read_operands(args_view, step));
  TSR_ASSIGN_OR_RETURN(step.attrs, read_attrs(view.find("attrs"), view, *step.op));
  TSR_ASSIGN_OR_RETURN(const Resolution resolution, resolve(view, step));
  TSR_RETURN_IF_ERROR(check_aliases(view, step));
  const std::size_t first_new = program_.tensors.size();
  if (!step.into) TSR_RETURN_IF_ERROR(read_results(view, resolution.outputs, step));
  note_aliases(step, resolution, first_new);
  record(step, resolution.outputs);
  add(view, std::move(step));
  return absl::OkStatus();
}

/// As dispatch will; an operand that moves is held twice.
StatusOr<Resolution> StepReader::resolve(const JsonView& view, OpStep& step) {
  std::vector<const Spec*> specs, outs;
  for (const ProgramOperand& operand : step.operands) {
    specs.push_back(operand.slot >= 0 ? &spec_of(operand.slot)
                    : operand.number  ? &operand.number->spec
                                      : nullptr);
  }
  if (const std::optional<JsonView> into = view.find("into")) {
    if (view.find("out")) return view.error("give one of \"out\" and \"into\"");
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, items_of(*into));
    for (const JsonView& name : names) {
      TSR_ASSIGN_OR_RETURN(const int slot, scope_.slot_of(name));
      step.results.push_back(slot);
      note_result(slot);
    }
    for (const int slot : step.results) outs.push_back(&spec_of(slot));
    step.into = true;
  }
  const auto placed = std::find_if(specs.begin(), specs.end(), [](const Spec* spec) {
    return spec != nullptr && spec->mesh().ndim() > 0;
  });
  TSR_ASSIGN_OR_RETURN(
      step.forced, read_forced(view, placed == specs.end() ? program_.mesh : (*placed)->mesh()));
  StatusOr<Resolution> resolution =
      step.into ? propagate_into(*step.op, specs, step.attrs, outs, step.forced)
                : propagate(*step.op, specs, step.attrs, step.forced);
  if (!resolution.ok()) return view.annotate(resolution.status());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i] == nullptr || *specs[i] == resolution->inputs[i]) continue;
    TSR_RETURN_IF_ERROR(scope_.count_bytes(view, resolution->inputs[i]));
  }
  return resolution;
}

/// As dispatch will, before the call: no operand is a copy of what was written since, and every
/// write reaches what it should.
Status StepReader::check_aliases(const JsonView& view, const OpStep& step) const {
  const std::string& op = step.op->def.name;
  std::vector<int> operands, written;
  for (const ProgramOperand& operand : step.operands) operands.push_back(operand.slot);
  for (const int slot : operands) {
    if (slot < 0) continue;
    const Status current = scope_.aliases.check_read(op, slot, scope_.tensor(slot));
    if (!current.ok()) return view.annotate(current);
  }
  if (step.into) written = step.results;
  for (const int input : step.op->in_place) {
    if (input >= 0) written.push_back(operands[static_cast<std::size_t>(input)]);
  }
  for (const int slot : written) {
    if (slot < 0) continue;
    const Status reaches =
        scope_.aliases.check_write(op, slot, scope_.tensor(slot), scope_.history, operands);
    if (!reaches.ok()) return view.annotate(reaches);
  }
  return absl::OkStatus();
}

/// After the call: what was written, and what its results, in slots from `first_new` on, share.
void StepReader::note_aliases(const OpStep& step, const Resolution& resolution,
                              std::size_t first_new) {
  for (std::size_t o = 0; o < step.results.size(); ++o) {
    const int input = step.into ? -1 : step.op->alias_of(o);
    const int written = step.into    ? step.results[o]
                        : input >= 0 ? step.operands[static_cast<std::size_t>(input)].slot
                                     : -1;
    if (written >= 0) scope_.aliases.note_write(written);
    const int slot = step.results[o];
    if (step.into || slot < static_cast<int>(first_new)) continue;
    if (written >= 0) {
      scope_.aliases.set_same(slot, written);
    } else if (step.op->def.is_view && step.operands[0].slot >= 0) {
      const int of = step.operands[0].slot;
      scope_.aliases.set_view(slot, of, view_aliasing(*step.op, spec_of(of), resolution));
    }
  }
}

/// All results are read once more, to be printed.
Status StepReader::check_results() const {
  for (const int slot : program_.results) {
    TSR_RETURN_IF_ERROR(
        scope_.aliases.check_read("the end of the program", slot, scope_.tensor(slot)));
  }
  return absl::OkStatus();
}

/// As autograd will: calls with a floating result, in place ones for the operand that they write.
void StepReader::record(const OpStep& step, const std::vector<Spec>& specs) {
  std::vector<int> operands;
  for (const ProgramOperand& operand : step.operands) operands.push_back(operand.slot);
  const bool recorded = std::any_of(specs.begin(), specs.end(),
                                    [](const Spec& spec) { return is_floating(spec.dtype()); });
  if (!recorded) return;
  const int node = scope_.history.add_call({.name = step.op->def.name,
                                            .step = number(),
                                            .differentiable = step.op->def.gradient != nullptr},
                                           operands);
  for (std::size_t o = 0; o < specs.size() && node >= 0; ++o) {
    if (!is_floating(specs[o].dtype())) continue;
    if (step.results[o] >= 0) scope_.history.set_result(step.results[o], node);
    const int input = step.op->alias_of(o);
    if (input < 0) continue;
    const int written = operands[static_cast<std::size_t>(input)];
    if (written >= 0) scope_.history.set_result(written, node);
  }
}

Status StepReader::read_operands(const JsonView& args_view, OpStep& step) {
  TSR_ASSIGN_OR_RETURN(const std::vector<std::optional<JsonView>> given,
                       operands_given(args_view, step.op->def));
  if (given.empty()) {
    return args_view.error(step.op->def.name +
                           " takes no operands: nothing says where it would run");
  }
  step.operands.resize(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] && !is_number(*given[i])) {
      TSR_RETURN_IF_ERROR(read_operand(*given[i], step.operands[i]));
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {  // once the first tensor is known
    if (given[i] && is_number(*given[i])) {
      TSR_RETURN_IF_ERROR(read_number(*given[i], step, i));
    }
  }
  return absl::OkStatus();
}

Status StepReader::read_operand(const JsonView& view, ProgramOperand& operand) {
  if (view.kind() != Json::Kind::kString) return no_operand(view, "a tensor's name");
  TSR_ASSIGN_OR_RETURN(operand.slot, scope_.slot_of(view));
  return absl::OkStatus();
}

Status StepReader::read_number(const JsonView& view, OpStep& step, std::size_t at) const {
  const auto first = std::find_if(step.operands.begin(), step.operands.end(),
                                  [](const ProgramOperand& each) { return each.slot >= 0; });
  const Spec* beside = first == step.operands.end() ? nullptr : &spec_of(first->slot);
  const DType dtype =
      number_dtype(view, beside ? std::optional<DType>(beside->dtype()) : std::nullopt);
  ProgramOperand& operand = step.operands[at];
  TSR_ASSIGN_OR_RETURN(operand.value, read_value(view, dtype));
  const Mesh& mesh = beside ? beside->mesh() : program_.mesh;
  const Placements everywhere(static_cast<std::size_t>(mesh.ndim()), Replicate{});
  TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(mesh, Shape(), dtype, everywhere));
  operand.number = ProgramTensor{
      absl::StrFormat("%s (/program/%d, operand %d)", view.to_json().to_string(), number(), at),
      std::move(spec)};
  return absl::OkStatus();
}

Status StepReader::read_results(const JsonView& view, const std::vector<Spec>& specs,
                                OpStep& step) {
  std::vector<int> aliased;
  for (std::size_t o = 0; o < specs.size(); ++o) {
    const int input = step.op->alias_of(o);
    aliased.push_back(input < 0 ? -1 : step.operands[static_cast<std::size_t>(input)].slot);
  }
  const std::optional<JsonView> out = view.find("out");
  if (!out) {
    // An op that only writes operands needs no other names for them.
    if (std::count(aliased.begin(), aliased.end(), -1) > 0) {
      return view.error("missing key \"out\", the names of the results");
    }
    step.results = aliased;
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, items_of(*out));
  if (names.size() != specs.size()) {
    return out->error(absl::StrFormat("%d names for the %d results of %s (null drops one)",
                                      names.size(), specs.size(), step.op->def.name));
  }
  for (std::size_t o = 0; o < names.size(); ++o) {
    TSR_ASSIGN_OR_RETURN(const int slot, read_result(names[o], specs[o], aliased[o]));
    step.results.push_back(slot);
  }
  return absl::OkStatus();
}

StatusOr<int> StepReader::read_result(const JsonView& view, const Spec& spec, int aliased) {
  if (view.kind() == Json::Kind::kNull) return -1;
  TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
  int slot = aliased;
  if (aliased < 0 || scope_.tensor(aliased).name != name) {
    TSR_ASSIGN_OR_RETURN(slot, scope_.define(view, name, spec));
  }
  note_result(slot);
  return slot;
}

Status StepReader::read_redistribute(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"redistribute", "to", "out"}, {"mesh"}));
  RedistributeStep step;
  TSR_ASSIGN_OR_RETURN(step.slot, scope_.slot_of(*view.find("redistribute")));
  const Spec from = spec_of(step.slot);
  Mesh mesh = from.mesh();
  if (const std::optional<JsonView> other = view.find("mesh")) {
    TSR_ASSIGN_OR_RETURN(mesh, scope_.read_mesh_of_ranks(*other));
  }
  const JsonView to = *view.find("to");
  TSR_ASSIGN_OR_RETURN(Layout layout,
                       read_placements_or_layout(to, mesh, view_of(from.global_shape())));
  StatusOr<Spec> spec = Spec::make(mesh, from.global_shape(), from.dtype(), std::move(layout));
  if (!spec.ok()) return to.annotate(spec.status());
  if (!(mesh == from.mesh()) && !spec->placements().ok()) {
    return to.error("on another mesh only what has a placement list");
  }
  step.to = *std::move(spec);
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, items_of(*view.find("out")));
  if (names.size() != 1) return view.find("out")->error("one name: redistribute has one result");
  TSR_ASSIGN_OR_RETURN(const std::string text, names[0].text());
  TSR_ASSIGN_OR_RETURN(step.result, scope_.define(names[0], text, step.to));
  note_result(step.result);
  const Status current =
      scope_.aliases.check_read("redistribute", step.slot, scope_.tensor(step.slot));
  if (!current.ok()) return view.annotate(current);
  if (step.to == from) scope_.aliases.set_same(step.result, step.slot);
  const int node = scope_.history.add_call({.name = "redistribute", .step = number()}, {step.slot});
  if (node >= 0) scope_.history.set_result(step.result, node);
  add(view, std::move(step));
  return absl::OkStatus();
}

Status StepReader::read_region(const JsonView& view) {
  TSR_ASSIGN_OR_RETURN(ReadRegion read, read_local_map(view, table_, scope_));
  LocalMapStep& step = read.step;
  std::vector<int> operands;
  for (const LocalMapStep::Argument& each : step.arguments) {
    const Status current =
        scope_.aliases.check_read("local_map", each.slot, scope_.tensor(each.slot));
    if (!current.ok()) return view.annotate(current);
    operands.push_back(each.slot);
  }
  const int node = scope_.history.add_call(
      {.name = "local_map " + step.region, .step = number(), .differentiable = step.differentiable},
      operands);
  for (std::size_t o = 0; o < read.specs.size(); ++o) {
    const auto& [name, place] = read.names[o];
    const bool is_floating_result = is_floating(read.specs[o].dtype());
    TSR_ASSIGN_OR_RETURN(step.results[o].slot, scope_.define(place, name, read.specs[o]));
    note_result(step.results[o].slot);
    if (node >= 0 && is_floating_result) scope_.history.set_result(step.results[o].slot, node);
  }
  add(view, std::move(step));
  return absl::OkStatus();
}

Status StepReader::read_cotangent(const JsonView& view, BackwardStep& step) {
  TSR_ASSIGN_OR_RETURN(step.cotangent, scope_.slot_of(view));
  const Spec &given = spec_of(step.cotangent), &root = spec_of(step.root);
  if (given.global_shape() == root.global_shape() && given.dtype() == root.dtype() &&
      given.mesh() == root.mesh()) {
    return absl::OkStatus();
  }
  return view.error(
      absl::StrFormat("%s is no cotangent of %s: their shapes, dtypes and meshes are equal",
                      given.to_string(), root.to_string()));
}

Status StepReader::read_grads(const JsonView& view, BackwardStep& step) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, view.items());
  if (names.empty()) return view.error("no input; a backward step is for gradients");
  for (const JsonView& name : names) {
    TSR_ASSIGN_OR_RETURN(const int slot, scope_.slot_of(name));
    if (static_cast<std::size_t>(slot) >= program_.inputs.size()) {
      return name.error("the result of a step; gradients are those of inputs");
    }
    if (std::count(step.inputs.begin(), step.inputs.end(), slot) > 0) {
      return name.error("stands in the list twice");
    }
    step.inputs.push_back(slot);
  }
  return absl::OkStatus();
}

/// Every input whose gradient is asked for lies on the way back.
Status StepReader::go_back(const JsonView& view, BackwardStep& step) {
  const StatusOr<std::vector<int>> reached = scope_.history.go_back(step.root, number());
  if (!reached.ok()) return view.find("backward")->annotate(reached.status());
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, view.find("grads")->items());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::count(reached->begin(), reached->end(), step.inputs[i]) == 0) {
      return names[i].error(
          absl::StrFormat("%s does not depend on it", in_quotes(scope_.tensor(step.root).name)));
    }
    std::vector<int>& all = program_.gradients;
    if (std::count(all.begin(), all.end(), step.inputs[i]) == 0) all.push_back(step.inputs[i]);
  }
  return absl::OkStatus();
}

Status StepReader::read_backward(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"backward", "grads"}, {"cotangent"}));
  BackwardStep step;
  const JsonView root_view = *view.find("backward");
  TSR_ASSIGN_OR_RETURN(step.root, scope_.slot_of(root_view));
  const Spec& root = spec_of(step.root);
  if (!is_floating(root.dtype())) {
    return root_view.error(root.to_string() + ": only floating tensors have a gradient");
  }
  if (const std::optional<JsonView> cotangent = view.find("cotangent")) {
    TSR_RETURN_IF_ERROR(read_cotangent(*cotangent, step));
  }
  TSR_RETURN_IF_ERROR(read_grads(*view.find("grads"), step));
  TSR_RETURN_IF_ERROR(go_back(view, step));
  add(view, std::move(step));
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<JsonView>> items_of(const JsonView& view) {
  if (view.kind() == Json::Kind::kArray) return view.items();
  return std::vector<JsonView>{view};
}

StatusOr<std::vector<std::optional<JsonView>>> operands_given(const JsonView& args_view,
                                                              const OpDef& def) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> args, args_view.items());
  const std::vector<ArgDef>& expected = def.args;
  TSR_RETURN_IF_ERROR(check_arity(args_view, args.size(), def));
  std::vector<std::optional<JsonView>> given;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].kind == ArgDef::Kind::kList) {
      TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, args[i].items(kListOperands));
      if (items.empty()) return args[i].error("a list operand has at least one item");
      given.insert(given.end(), items.begin(), items.end());
    } else if (i >= args.size() || (expected[i].kind == ArgDef::Kind::kOptional &&
                                    args[i].kind() == Json::Kind::kNull)) {
      given.emplace_back();
    } else {
      given.emplace_back(args[i]);
    }
  }
  return given;
}

Status no_operand(const JsonView& view, std::string_view tensor) {
  return view.error(absl::StrFormat(
      "expected %s, a number, null for an optional operand, or a list of them for a list operand, "
      "not %s",
      std::string(tensor), describe(view.kind())));
}

Status read_program_steps(const JsonView& root, const OpTable& table, ProgramScope& scope,
                          Program& program) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> steps,
                       root.find("program")->items(kProgramSteps));
  StepReader reader(table, scope, program);
  for (const JsonView& step : steps) TSR_RETURN_IF_ERROR(reader.find_gradients(step));
  for (const JsonView& step : steps) TSR_RETURN_IF_ERROR(reader.read(step));
  const Status results = reader.check_results();
  return results.ok() ? results : root.find("program")->annotate(results);
}

}  // namespace tessera::audit
