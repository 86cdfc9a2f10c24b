#include "program/export/shardy_text.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "io/json.h"
#include "program/export/placement_words.h"
#include "program/export/value_flow.h"
#include "program/stablehlo/sharding.h"

namespace tessera {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// As MLIR takes it without quotes, where `others` are taken as well.
std::string plain_name(std::string_view name, std::string_view others, std::string_view before) {
  std::string plain;
  for (const char c : name) {
    plain += is_name_character(c) || others.find(c) != std::string_view::npos ? c : '_';
  }
  const bool begins_well = !plain.empty() && (plain[0] < '0' || plain[0] > '9');
  return begins_well ? plain : std::string(before) + plain;
}

/// A string of MLIR: of ASCII alone.
std::string mlir_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte > 0x7E) {
      quoted += absl::StrFormat("\\%02X", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string type_text(const ProgramValue& value) {
  constexpr std::string_view kElements[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "ui8", "i1"};
  constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                               DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
  std::string text = "tensor<";
  for (const std::int64_t size : value.global_shape) text += std::to_string(size) + 'x';
  const auto at = std::ranges::find(kDTypes, value.dtype) - std::begin(kDTypes);
  return text + std::string(kElements[at]) + '>';
}

/// "jvp(layers)/0/attention/mm", as jax names what it traces.
std::string scope_text(const StepOrigin& origin, const std::string& op) {
  std::string path = absl::StrReplaceAll(origin.module, {{"/", "_"}, {".", "/"}});
  const std::size_t end = std::min(path.find('/'), path.size());
  std::string first = path.substr(0, end);
  if (origin.phase == StepPhase::kForward) first = "jvp(" + first + ')';
  if (origin.phase == StepPhase::kRecompute) first = "rematted_computation/" + first;
  if (origin.phase == StepPhase::kBackward) first = "transpose(jvp(" + first + "))";
  path = first + path.substr(end);
  return path.empty() ? op : path + '/' + op;
}

/// `loc("scope"("file":3:0))`
std::string location_text(const StepOrigin& origin, const std::string& op) {
  const std::size_t colon = origin.site.rfind(':');
  std::string line = colon == std::string::npos ? "" : origin.site.substr(colon + 1);
  const bool is_line = !line.empty() && line.size() < 10 &&
                       line.find_first_not_of("0123456789") == std::string::npos;
  std::string text = "loc(" + mlir_string(scope_text(origin, op));
  if (is_line) text += '(' + mlir_string(origin.site.substr(0, colon)) + ':' + line + ":0)";
  return text + ')';
}

class ShardyWriter {
 public:
  explicit ShardyWriter(const ValueFlow& flow) : flow_(flow) {}

  ShardyText write() {
    name_meshes();
    name_values();
    for (const FlowValue& each : flow_.values()) shardings_.push_back(sharding_text(each.value));
    std::string body = function_text();
    std::string text = "module @" + plain_name(flow_.program().name, "", "program_") + " {\n";
    text += meshes_text() + body + "}\n";
    return {.text = std::move(text), .unsaid = std::move(unsaid_)};
  }

 private:
  void name_meshes() {
    const std::vector<ProgramMesh>& meshes = flow_.program().meshes;
    absl::flat_hash_set<std::string> taken = {"plain"};
    for (const ProgramMesh& mesh : meshes) {
      std::string name = plain_name(mesh.name, "", "mesh_");
      while (!taken.insert(name).second) name += '_';
      meshes_.push_back(std::move(name));
    }
  }

  void name_values() {
    absl::flat_hash_set<std::string> taken;
    for (const FlowValue& each : flow_.values()) {
      std::string name = plain_name(each.value.name, "._-", "v_");
      const std::string base = name;
      for (int i = 2; !taken.insert(name).second; ++i) name = base + '_' + std::to_string(i);
      names_.push_back('%' + name);
    }
  }

  /// Why Shardy has no such mesh beside the others; empty: it has.
  std::string obstacle_of(int mesh) const {
    const ProgramMesh& each = flow_.program().meshes[static_cast<std::size_t>(mesh)];
    if (each.of) return "its mesh is a slice of another";
    if (each.mesh.first_rank() != 0) return "its mesh does not begin with rank 0";
    if (each.mesh.num_ranks() != flow_.program().ranks) return "its mesh has not all ranks";
    return "";
  }

  std::string meshes_text() const {
    std::string text;
    for (std::size_t i = 0; i < meshes_.size(); ++i) {
      if (!obstacle_of(static_cast<int>(i)).empty()) continue;
      const Mesh& mesh = flow_.program().meshes[i].mesh;
      std::vector<std::string> axes;
      for (int axis = 0; axis < mesh.ndim(); ++axis) {
        axes.push_back(mlir_string(mesh.axis_label(axis)) + '=' + std::to_string(mesh.size(axis)));
      }
      text += "  sdy.mesh @" + meshes_[i] + " = <[" + absl::StrJoin(axes, ", ") + "]>\n";
    }
    return has_plain_ ? text + "  sdy.mesh @plain = <[]>\n" : text;
  }

  /// Axes of each dim, major first; none where a cut is none of Shardy's.
  std::optional<std::vector<std::vector<int>>> axes_of(const ProgramValue& value) const {
    const Mesh& mesh = flow_.program().meshes[static_cast<std::size_t>(*value.mesh)].mesh;
    std::vector<std::vector<int>> axes(value.global_shape.size());
    Layout said{.dims = {}, .partial = value.layout->partial};
    for (std::size_t dim = 0; dim < axes.size(); ++dim) {
      for (const Level& level : value.layout->dims[dim]) {
        if (level.kind != Level::Kind::kAxis) return std::nullopt;
        axes[dim].push_back(level.axis);
      }
      said.dims.push_back(stablehlo::shardy_levels(mesh, value.global_shape[dim], axes[dim]));
    }
    said = canonical(mesh, view_of(value.global_shape), std::move(said));
    if (said != canonical(mesh, view_of(value.global_shape), *value.layout)) return std::nullopt;
    return axes;
  }

  std::string names_of(const Mesh& mesh, const std::vector<int>& axes) const {
    std::vector<std::string> names;
    for (const int axis : axes) names.push_back(mlir_string(mesh.axis_label(axis)));
    return '{' + absl::StrJoin(names, ", ") + '}';
  }

  std::string leave_out(const ProgramValue& value, const std::string& why) {
    unsaid_.push_back(absl::StrFormat("%s: %s: %s", in_quotes(value.name),
                                      placements_in_words(flow_.program(), value), why));
    return "";
  }

  /// "<@mesh, [{"dp"}, {}]>"; "" where there is no such sharding.
  std::string sharding_text(const ProgramValue& value) {
    if (!value.mesh) {
      has_plain_ = true;
      const std::vector<std::string> dims(value.global_shape.size(), "{}");
      return "<@plain, [" + absl::StrJoin(dims, ", ") + "]>";
    }
    const std::string obstacle = obstacle_of(*value.mesh);
    if (!obstacle.empty()) return leave_out(value, obstacle);
    const Mesh& mesh = flow_.program().meshes[static_cast<std::size_t>(*value.mesh)].mesh;
    std::vector<int> unreduced;
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      const std::optional<ReduceOp>& partial =
          value.layout->partial[static_cast<std::size_t>(axis)];
      if (partial && *partial != ReduceOp::kSum) {
        return leave_out(value, "unreduced axes are of sums");
      }
      if (partial) unreduced.push_back(axis);
    }
    const auto axes = axes_of(value);
    if (!axes) return leave_out(value, "no list of axes cuts a dim so");
    std::vector<std::string> dims;
    for (const std::vector<int>& each : *axes) dims.push_back(names_of(mesh, each));
    std::string text = "<@" + meshes_[static_cast<std::size_t>(*value.mesh)] + ", [" +
                       absl::StrJoin(dims, ", ") + ']';
    if (!unreduced.empty()) text += ", unreduced=" + names_of(mesh, unreduced);
    return text + '>';
  }

  /// Nothing is said: "<@mesh, [{?}, {?}]>".
  std::string free_text(const ProgramValue& value) const {
    for (std::size_t i = 0; i < meshes_.size(); ++i) {
      if (!obstacle_of(static_cast<int>(i)).empty()) continue;
      const std::vector<std::string> dims(value.global_shape.size(), "{?}");
      return "<@" + meshes_[i] + ", [" + absl::StrJoin(dims, ", ") + "]>";
    }
    return "";
  }

  const std::string& name_of(int index) const { return names_[static_cast<std::size_t>(index)]; }
  const std::string& sharding_of(int index) const {
    return shardings_[static_cast<std::size_t>(index)];
  }
  std::string attribute_text(int index) const {
    const std::string& sharding = sharding_of(index);
    return sharding.empty() ? "" : " {sdy.sharding = #sdy.sharding" + sharding + '}';
  }

  std::string arguments_text() {
    std::vector<std::string> arguments;
    for (int i = 0; i < static_cast<int>(names_.size()); ++i) {
      const FlowValue& each = flow_.at(i);
      if (each.made_by != kBeforeAll) continue;
      arguments.push_back(name_of(i) + ": " + type_text(each.value) + attribute_text(i) + " loc(" +
                          mlir_string(each.value.name) + ')');
    }
    return absl::StrJoin(arguments, ",\n      ");
  }

  /// What takes the place of a parameter or state, and what nobody reads.
  std::vector<int> results() const {
    std::vector<int> found;
    for (std::size_t i = 0; i < flow_.values().size(); ++i) {
      const FlowValue& each = flow_.values()[i];
      if (each.made_by == kBeforeAll) continue;
      if (each.value.role != ValueRole::kTemporary || each.read_by.empty()) {
        found.push_back(static_cast<int>(i));
      }
    }
    return found;
  }

  std::string function_text() {
    std::string text = "  func.func public @main(" + arguments_text() + ")";
    const std::vector<int> last = results();
    std::vector<std::string> types, bare, names;
    for (const int index : last) {
      const ProgramValue& value = flow_.at(index).value;
      types.push_back(type_text(value) + attribute_text(index));
      bare.push_back(type_text(value));
      names.push_back(name_of(index));
    }
    if (!last.empty()) text += " -> (" + absl::StrJoin(types, ",\n      ") + ')';
    text += " {\n";
    for (std::int64_t step = 0; step < std::ssize(flow_.program().steps); ++step) {
      text += step_text(step);
    }
    text += "    return";
    if (!last.empty()) {
      text += ' ' + absl::StrJoin(names, ", ") + " : " + absl::StrJoin(bare, ", ");
    }
    return text + "\n  }\n";
  }

  std::string step_text(std::int64_t number) {
    const AnyStep& step = flow_.step(number);
    if (std::holds_alternative<MoveStep>(step.what)) return constraint_text(number);
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      return call_text(number, call->op,
                       Json::object({{"args", call->args}, {"attrs", call->attrs}}));
    }
    if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      return call_text(number, region->name, Json::object({{"args", region->args}}));
    }
    return "";
  }

  std::string constraint_text(std::int64_t number) {
    const int from = flow_.read_at(number)[0], to = flow_.made_at(number)[0];
    const ProgramValue& out = flow_.at(to).value;
    const std::string& sharding = sharding_of(to);
    std::string text = "    " + name_of(to) + " = ";
    text += sharding.empty() ? "stablehlo.custom_call @redistribute(" + name_of(from) + ") : (" +
                                   type_text(flow_.at(from).value) + ") -> "
                             : "sdy.sharding_constraint " + name_of(from) + ' ' + sharding + " : ";
    return text + type_text(out) + ' ' + location_text(flow_.step(number).origin, "redistribute") +
           '\n';
  }

  std::string call_text(std::int64_t number, const std::string& op, const Json& config) {
    std::vector<std::string> operands, operand_types, names, types, shardings;
    bool any_said = false;
    for (const int index : flow_.read_at(number)) {
      operands.push_back(name_of(index));
      operand_types.push_back(type_text(flow_.at(index).value));
    }
    for (const int index : flow_.made_at(number)) {
      names.push_back(name_of(index));
      types.push_back(type_text(flow_.at(index).value));
      const bool is_said = !sharding_of(index).empty();
      any_said = any_said || is_said;
      shardings.push_back(is_said ? sharding_of(index) : free_text(flow_.at(index).value));
    }
    std::string text = "    ";
    if (!names.empty()) text += absl::StrJoin(names, ", ") + " = ";
    text += "stablehlo.custom_call @" + plain_name(op, "._", "op_") + '(' +
            absl::StrJoin(operands, ", ") +
            ") {backend_config = " + mlir_string(config.to_string()) +
            ", has_side_effect = " + (names.empty() ? "true" : "false");
    if (any_said) {
      text += ", sdy.sharding = #sdy.sharding_per_value<[" + absl::StrJoin(shardings, ", ") + "]>";
    }
    text += "} : (" + absl::StrJoin(operand_types, ", ") + ") -> ";
    text += types.size() == 1 ? types[0] : '(' + absl::StrJoin(types, ", ") + ')';
    return text + ' ' + location_text(flow_.step(number).origin, op) + '\n';
  }

  const ValueFlow& flow_;
  std::vector<std::string> meshes_, names_, shardings_;
  std::vector<std::string> unsaid_;
  bool has_plain_ = false;
};

}  // namespace

StatusOr<ShardyText> shardy_of(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const ValueFlow flow, ValueFlow::make(program));
  return ShardyWriter(flow).write();
}

}  // namespace tessera
