#include "tools/placement_audit/executed/run_program.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/nearest_names.h"
#include "tools/placement_audit/executed/run_scope.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kLongestName = 256;

Status check_name(const JsonView& place, const std::string& name) {
  if (name.empty() || name.size() > kLongestName) {
    return place.error(
        absl::StrFormat("a name of %d bytes; allowed: 1 to %d", name.size(), kLongestName));
  }
  if (name == "__metadata__" || name.starts_with(kGradPrefix)) {
    return place.error(
        absl::StrFormat("%s is no name for a tensor: grad.NAME is the gradient of NAME, and files "
                        "keep __metadata__",
                        in_quotes(name)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string gradient_name(std::string_view input) {
  return std::string(kGradPrefix) + std::string(input);
}

std::vector<const ProgramOperand*> numbers_of(const RunStep& step) {
  std::vector<const ProgramOperand*> numbers;
  const auto* call = std::get_if<OpStep>(&step.what);
  if (call == nullptr) return numbers;
  for (const ProgramOperand& operand : call->operands) {
    if (operand.number) numbers.push_back(&operand);
  }
  return numbers;
}

StatusOr<Mesh> ProgramScope::read_mesh_of_ranks(const JsonView& view) {
  TSR_ASSIGN_OR_RETURN(Mesh mesh, read_mesh(view));
  if (mesh.num_ranks() > kMaxProgramRanks ||
      mesh.first_rank() > kMaxProgramRanks - mesh.num_ranks()) {
    return view.error(absl::StrFormat(
        "%d ranks from rank %d on; allowed: ranks 0 to %d, which are threads of this process",
        mesh.num_ranks(), mesh.first_rank(), kMaxProgramRanks - 1));
  }
  program_.num_ranks = std::max(program_.num_ranks, mesh.first_rank() + mesh.num_ranks());
  return mesh;
}

StatusOr<int> ProgramScope::define(const JsonView& place, const std::string& name, Spec spec) {
  TSR_RETURN_IF_ERROR(check_name(place, name));
  const int slot = static_cast<int>(program_.tensors.size());
  if (!slots_.emplace(name, slot).second) {
    return place.error(absl::StrFormat(
        "%s is a tensor already; a name is given once, except to the operand that an op writes",
        in_quotes(name)));
  }
  TSR_RETURN_IF_ERROR(count_bytes(place, spec));
  program_.tensors.push_back({name, std::move(spec)});
  history.add_slot();
  aliases.add_slot();
  return slot;
}

int ProgramScope::find(std::string_view name) const {
  const auto found = slots_.find(name);
  return found == slots_.end() ? -1 : found->second;
}

StatusOr<int> ProgramScope::slot_of(const JsonView& view) const {
  TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
  if (const int slot = find(name); slot >= 0) return slot;
  if (name.starts_with(kGradPrefix)) {
    return view.error(
        absl::StrFormat("%s: gradients are results, steps cannot use them", in_quotes(name)));
  }
  std::vector<std::string> known;
  for (const ProgramTensor& tensor : program_.tensors) known.push_back(tensor.name);
  return view.annotate(not_found(
      absl::StrFormat("no tensor %s so far; %s", in_quotes(name), nearest_names(name, known))));
}

Status ProgramScope::count_bytes(const JsonView& place, const Spec& spec) {
  // A dim without elements counts as of one: what is made for each position of the others is there.
  double bytes = static_cast<double>(size_of(spec.dtype()) * spec.mesh().num_ranks());
  for (const std::int64_t size : spec.global_shape()) {
    bytes *= static_cast<double>(std::max<std::int64_t>(size, 1));
  }
  bytes_ += bytes;
  if (bytes_ <= static_cast<double>(kMaxProgramBytes)) return absl::OkStatus();
  return place.error(absl::StrFormat(
      "with %s the tensors take more than %d bytes, had every rank the whole of each",
      spec.to_string(), kMaxProgramBytes));
}

StatusOr<TensorType> read_stated_type(const JsonView& view, TensorType otherwise) {
  if (const std::optional<JsonView> shape = view.find("shape")) {
    TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, shape->integers(kJsonDims));
    const StatusOr<std::int64_t> elements = checked_num_elements(sizes);
    if (!elements.ok()) return shape->annotate(elements.status());
    otherwise.global_shape = to_shape(sizes);
  }
  if (const std::optional<JsonView> dtype = view.find("dtype")) {
    TSR_ASSIGN_OR_RETURN(const std::string name, dtype->text());
    const StatusOr<DType> parsed = parse_dtype(name);
    if (!parsed.ok()) return dtype->annotate(parsed.status());
    otherwise.dtype = *parsed;
  }
  return otherwise;
}

StatusOr<Program> read_program(const JsonView& root, const OpTable& table,
                               const TensorTypes& types) {
  TSR_RETURN_IF_ERROR(root.check_keys({"mesh", "inputs", "program"}, {"checked", "expect"}));
  Program program;
  if (const auto checked = root.find("checked")) {
    TSR_ASSIGN_OR_RETURN(program.checked, checked->boolean());
  }
  ProgramScope scope(program);
  TSR_ASSIGN_OR_RETURN(program.mesh, scope.read_mesh_of_ranks(*root.find("mesh")));
  TSR_RETURN_IF_ERROR(read_program_inputs(root, types, scope, program));
  TSR_RETURN_IF_ERROR(read_program_steps(root, table, scope, program));
  TSR_RETURN_IF_ERROR(read_program_expected(root, program));
  return program;
}

}  // namespace tessera::audit
