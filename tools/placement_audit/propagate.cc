#include "strategies/propagate.h"

#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "tools/placement_audit/call.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

Json outputs_of(const Resolution& resolution) {
  Json::Array outputs;
  for (const Spec& spec : resolution.outputs) {
    Json output =
        Json::object({{"tensor", to_json(TensorType{spec.global_shape(), spec.dtype()})}});
    add_placements(output, spec);
    outputs.push_back(std::move(output));
  }
  return Json(std::move(outputs));
}

// An absent optional operand is null.
Json inputs_of(const Call& call, const Resolution& resolution) {
  Json::Array inputs;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (!call.operands[i]) {
      inputs.push_back(Json());
      continue;
    }
    Json input{Json::Object()};
    add_placements(input, resolution.inputs[i]);
    input.set("bytes", resolution.moved_bytes[i]);
    inputs.push_back(std::move(input));
  }
  return Json(std::move(inputs));
}

Json to_json(const Call& call, const Resolution& resolution) {
  Json::Array rows;
  for (const Row& row : resolution.rows) rows.push_back(Json(to_string(row)));
  Json runner_up;
  if (!resolution.runner_up.empty()) runner_up = Json::object({{"why", resolution.runner_up}});
  return Json::object({{"outputs", outputs_of(resolution)},
                       {"inputs", inputs_of(call, resolution)},
                       {"rows", Json(std::move(rows))},
                       {"why", resolution.why},
                       {"runner_up", std::move(runner_up)}});
}

std::string to_text(const Call& call, const Resolution& resolution) {
  std::string text = call.op->def.name + '(' + call.attrs.to_string() + ")\n";
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (!call.operands[i]) continue;
    const Spec& from = *call.operands[i];
    const Spec& to = resolution.inputs[i];
    text += absl::StrFormat("in  %s", from.to_string());
    if (!(from == to)) {
      text +=
          absl::StrFormat("\n    moves to %s: %d bytes", to.to_string(), resolution.moved_bytes[i]);
    }
    text += '\n';
  }
  for (const Spec& spec : resolution.outputs) text += "out " + spec.to_string() + '\n';
  const Mesh& mesh = resolution.outputs.empty() ? Mesh() : resolution.outputs[0].mesh();
  for (std::size_t axis = 0; axis < resolution.rows.size(); ++axis) {
    const int position = static_cast<int>(axis);
    text += absl::StrFormat("on %s: %s (%s)\n",
                            position < mesh.ndim() ? mesh.axis_label(position) : "?",
                            to_string(resolution.rows[axis]), resolution.rows[axis].why);
  }
  text += "why: " + resolution.why + '\n';
  if (!resolution.runner_up.empty()) text += "second: " + resolution.runner_up + '\n';
  return text;
}

}  // namespace

StatusOr<Answer> propagate_call(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Json json, parse_json(request.input, request.input_name));
  const JsonView root(json, request.input_name);
  TSR_ASSIGN_OR_RETURN(const Call call, read_call(root, table));
  std::vector<const Spec*> operands;
  for (const std::optional<Spec>& operand : call.operands) {
    operands.push_back(operand ? &*operand : nullptr);
  }
  const StatusOr<Resolution> resolution = propagate(*call.op, operands, call.attrs);
  if (!resolution.ok()) return root.annotate(resolution.status());
  if (request.format == Format::kText) return Answer{.text = to_text(call, *resolution)};
  return Answer{.text = json_line(to_json(call, *resolution))};
}

}  // namespace tessera::audit
