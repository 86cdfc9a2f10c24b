// What a program starts from, and what it has to come to.

#include "absl/strings/str_format.h"
#include "io/nearest_names.h"
#include "tools/placement_audit/executed/run_scope.h"

namespace tessera::audit {
namespace {

/// Shape and dtype: of the file, which what is stated must fit, or as stated beside the values.
StatusOr<TensorType> type_of_input(const std::string& name, const JsonView& view,
                                   const TensorTypes& types) {
  const bool has_values = view.find("values") || view.find("local");
  if (has_values || !types) {
    if (!view.find("shape")) {
      return view.error(absl::StrFormat("missing key \"shape\", which %s need",
                                        has_values ? "values" : "inputs without values"));
    }
    return read_stated_type(view, {});
  }
  StatusOr<TensorType> held = types(name);
  if (!held.ok()) return view.annotate(held.status());
  TSR_ASSIGN_OR_RETURN(const TensorType stated, read_stated_type(view, *held));
  if (stated.global_shape != held->global_shape) {
    return view.find("shape")->error(
        absl::StrFormat("%s, but %s of the file has shape %s", to_string(stated.global_shape),
                        in_quotes(name), to_string(held->global_shape)));
  }
  if (stated.dtype != held->dtype) {
    return view.find("dtype")->error(absl::StrFormat("%s, but %s of the file is %s",
                                                     name_of(stated.dtype), in_quotes(name),
                                                     name_of(held->dtype)));
  }
  return held;
}

StatusOr<ProgramInput> read_elements(const JsonView& view, const Spec& spec) {
  ProgramInput input;
  const std::optional<JsonView> values = view.find("values"), locals = view.find("local");
  if (values) {
    input.from = ProgramInput::From::kWhole;
    TSR_ASSIGN_OR_RETURN(Array whole, read_values(*values, spec.global_shape(), spec.dtype()));
    input.arrays.push_back(std::move(whole));
  }
  if (!locals) return input;
  input.from = ProgramInput::From::kLocals;
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> ranks, locals->items());
  const std::vector<std::int64_t> members = spec.mesh().ranks();
  if (ranks.size() != members.size()) {
    return locals->error(absl::StrFormat("%d lists for the %d ranks of mesh %s", ranks.size(),
                                         members.size(), spec.mesh().to_string()));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Shape shape = spec.local_shape(*spec.mesh().coord_of(members[i]));
    TSR_ASSIGN_OR_RETURN(Array local, read_values(ranks[i], shape, spec.dtype()));
    input.arrays.push_back(std::move(local));
  }
  return input;
}

Status read_input(const std::string& name, const JsonView& view, const TensorTypes& types,
                  ProgramScope& scope, Program& program) {
  TSR_RETURN_IF_ERROR(
      view.check_keys({}, {"placements", "layout", "mesh", "shape", "dtype", "values", "local"}));
  const std::optional<JsonView> placements = view.find("placements");
  const std::optional<JsonView> layout = view.find("layout");
  if (placements.has_value() == layout.has_value()) {
    return view.error("give one of \"placements\" and \"layout\"");
  }
  if (view.find("values") && view.find("local")) {
    return view.error("give one of \"values\" and \"local\", or none");
  }
  TSR_ASSIGN_OR_RETURN(TensorType type, type_of_input(name, view, types));
  Mesh mesh = program.mesh;
  if (const std::optional<JsonView> own = view.find("mesh")) {
    TSR_ASSIGN_OR_RETURN(mesh, scope.read_mesh_of_ranks(*own));
  }
  const JsonView& lies = placements ? *placements : *layout;
  TSR_ASSIGN_OR_RETURN(Layout read,
                       read_placements_or_layout(lies, mesh, view_of(type.global_shape)));
  StatusOr<Spec> spec = Spec::make(mesh, type.global_shape, type.dtype, std::move(read));
  if (!spec.ok()) return lies.annotate(spec.status());
  const StatusOr<int> slot = scope.define(view, name, *spec);  // counts bytes before it takes any
  if (!slot.ok()) return slot.status();
  TSR_ASSIGN_OR_RETURN(ProgramInput input, read_elements(view, *spec));
  program.inputs.push_back(std::move(input));
  return absl::OkStatus();
}

const std::string& name_of_slot(const Program& program, int slot) {
  return program.tensors[static_cast<std::size_t>(slot)].name;
}

/// The result or the gradient of that name; none has a slot of −1.
ExpectedTensor find_expected(std::string_view name, const Program& program) {
  ExpectedTensor expected;
  for (const int slot : program.results) {
    if (name_of_slot(program, slot) == name) expected.slot = slot;
  }
  expected.gradient = name.starts_with(kGradPrefix);
  if (!expected.gradient) return expected;
  for (const int slot : program.gradients) {
    if (name_of_slot(program, slot) == name.substr(kGradPrefix.size())) expected.slot = slot;
  }
  return expected;
}

std::vector<std::string> results_of(const Program& program) {
  std::vector<std::string> names;
  for (const int slot : program.results) names.push_back(name_of_slot(program, slot));
  for (const int slot : program.gradients) {
    names.push_back(gradient_name(name_of_slot(program, slot)));
  }
  return names;
}

Status read_expectation(const std::string& name, const JsonView& view, Program& program) {
  TSR_RETURN_IF_ERROR(
      view.check_keys({"values"}, {"shape", "dtype", "placements", "rtol", "atol"}));
  ExpectedTensor expected = find_expected(name, program);
  if (expected.slot < 0) {
    return view.annotate(
        not_found(absl::StrFormat("the program has no result %s; %s", in_quotes(name),
                                  nearest_names(name, results_of(program)))));
  }
  const Spec& spec = program.tensors[static_cast<std::size_t>(expected.slot)].spec;
  TSR_ASSIGN_OR_RETURN(const TensorType type,
                       read_stated_type(view, {spec.global_shape(), spec.dtype()}));
  TSR_ASSIGN_OR_RETURN(expected.values,
                       read_values(*view.find("values"), type.global_shape, type.dtype));
  if (const std::optional<JsonView> placements = view.find("placements")) {
    TSR_ASSIGN_OR_RETURN(expected.placements, read_placements(*placements));
  }
  expected.tolerance = default_tolerance(type.dtype);
  if (const std::optional<JsonView> given = view.find("rtol")) {
    TSR_ASSIGN_OR_RETURN(expected.tolerance.relative, given->number());
  }
  if (const std::optional<JsonView> given = view.find("atol")) {
    TSR_ASSIGN_OR_RETURN(expected.tolerance.absolute, given->number());
  }
  program.expected.push_back(std::move(expected));
  return absl::OkStatus();
}

}  // namespace

Status read_program_inputs(const JsonView& root, const TensorTypes& types, ProgramScope& scope,
                           Program& program) {
  TSR_ASSIGN_OR_RETURN(const auto members, root.find("inputs")->members(kProgramInputs));
  for (const auto& [name, view] : members) {
    TSR_RETURN_IF_ERROR(read_input(name, view, types, scope, program));
  }
  return absl::OkStatus();
}

Status read_program_expected(const JsonView& root, Program& program) {
  const std::optional<JsonView> expect = root.find("expect");
  if (!expect) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const auto members, expect->members(kProgramInputs));
  for (const auto& [name, view] : members) {
    TSR_RETURN_IF_ERROR(read_expectation(name, view, program));
  }
  return absl::OkStatus();
}

}  // namespace tessera::audit
