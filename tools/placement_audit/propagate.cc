#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "strategies/rules/explain.h"
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

// How many rows of an axis a text answer lists beside the chosen one.
constexpr int kMostOffers = 3;

Json bytes_json(std::int64_t bytes) { return bytes == RowOffer::kNever ? Json() : Json(bytes); }

Json to_json(const RowNeed& need) {
  return Json::object({{"operand", need.name},
                       {"have", to_string(need.have)},
                       {"want", to_string(need.want)},
                       {"bytes", bytes_json(need.bytes)},
                       {"written", need.written}});
}

// Per mesh axis the row that was chosen, and what each other one would cost.
Json axes_of(const Explanation& explanation) {
  Json::Array axes;
  for (std::size_t i = 0; i < explanation.offers.size();) {
    const int axis = explanation.offers[i].axis;
    Json::Array offers;
    for (; i < explanation.offers.size() && explanation.offers[i].axis == axis; ++i) {
      const RowOffer& offer = explanation.offers[i];
      Json::Array needs;
      for (const RowNeed& need : offer.needs) needs.push_back(to_json(need));
      offers.push_back(Json::object({{"row", to_string(offer.row)},
                                     {"why", offer.row.why},
                                     {"chosen", offer.chosen},
                                     {"bytes", bytes_json(offer.bytes)},
                                     {"needs", Json(std::move(needs))}}));
    }
    axes.push_back(Json::object(
        {{"axis", explanation.mesh.axis_label(axis)}, {"rows", Json(std::move(offers))}}));
  }
  return Json(std::move(axes));
}

Json wishes_of(const Explanation& explanation) {
  Json::Array wishes;
  for (const Wish& wish : explanation.wishes) {
    wishes.push_back(Json::object({{"operand", wish.name},
                                   {"axis", explanation.mesh.axis_label(wish.axis)},
                                   {"want", to_string(wish.want)},
                                   {"bytes", wish.bytes},
                                   {"why", wish.why}}));
  }
  return Json(std::move(wishes));
}

Json obstacles_of(const Explanation& explanation) {
  Json::Array obstacles;
  for (const Obstacle& obstacle : explanation.obstacles) {
    obstacles.push_back(Json::object({{"operand", obstacle.name},
                                      {"axis", explanation.mesh.axis_label(obstacle.axis)},
                                      {"why", obstacle.why}}));
  }
  return Json(std::move(obstacles));
}

Json to_json(const Call& call, const Explanation& explanation) {
  const Resolution& resolution = explanation.chosen;
  Json::Array rows;
  for (const Row& row : resolution.rows) rows.push_back(Json(to_string(row)));
  Json runner_up;
  if (!resolution.runner_up.empty()) runner_up = Json::object({{"why", resolution.runner_up}});
  Json answer = Json::object({{"outputs", outputs_of(resolution)},
                              {"inputs", inputs_of(call, resolution)},
                              {"rows", Json(std::move(rows))},
                              {"bytes", explanation.bytes},
                              {"why", resolution.why},
                              {"runner_up", std::move(runner_up)},
                              {"axes", axes_of(explanation)},
                              {"cheaper_if", wishes_of(explanation)},
                              {"obstacles", obstacles_of(explanation)}});
  if (!call.op->def.amendments.empty()) answer.set("amended", amendments_of(call.op->def));
  return answer;
}

std::string operands_text(const Call& call, const Resolution& resolution) {
  std::string text = call.op->def.name + '(' + call.attrs.to_string() + ")\n";
  for (const std::string& change : call.op->def.amendments) text += "amended: " + change + '\n';
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
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  return bytes == RowOffer::kNever ? "cannot be reached" : absl::StrFormat("%d bytes", bytes);
}

// "    not S(0), R -> S(0) (m): 96 bytes: other S(0) to R"
std::string offer_text(const RowOffer& offer) {
  std::string text = absl::StrFormat("    not %s (%s): %s", to_string(offer.row), offer.row.why,
                                     bytes_text(offer.bytes));
  std::string_view before = ": ";
  for (const RowNeed& need : offer.needs) {
    text += absl::StrFormat("%s%s %s to %s%s", before, need.name, to_string(need.have),
                            to_string(need.want),
                            need.written ? ", which is written in place and may not move" : "");
    before = ", ";
  }
  return text + '\n';
}

std::string to_text(const Call& call, const Explanation& explanation) {
  const Resolution& resolution = explanation.chosen;
  const Mesh& mesh = explanation.mesh;
  std::string text = operands_text(call, resolution);
  for (std::size_t axis = 0; axis < resolution.rows.size(); ++axis) {
    text += absl::StrFormat("on %s: %s (%s)\n", mesh.axis_label(static_cast<int>(axis)),
                            to_string(resolution.rows[axis]), resolution.rows[axis].why);
    int listed = 0;
    for (const RowOffer& offer : explanation.offers) {
      if (offer.axis != static_cast<int>(axis) || offer.chosen || listed++ >= kMostOffers) continue;
      text += offer_text(offer);
    }
  }
  text += "why: " + resolution.why + '\n';
  if (!resolution.runner_up.empty()) text += "second: " + resolution.runner_up + '\n';
  for (const Obstacle& obstacle : explanation.obstacles) {
    text += absl::StrFormat("%s cannot stay on %s: %s\n", obstacle.name,
                            mesh.axis_label(obstacle.axis), obstacle.why);
  }
  for (const Wish& wish : explanation.wishes) {
    text += absl::StrFormat("would move %d bytes, not %d, if %s were %s on %s (%s)\n", wish.bytes,
                            explanation.bytes, wish.name, to_string(wish.want),
                            mesh.axis_label(wish.axis), wish.why);
  }
  return text;
}

}  // namespace

StatusOr<Answer> propagate_call(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(request.input, request.input_name));
  const JsonView root = document.root();
  TSR_ASSIGN_OR_RETURN(const Call call, read_call(root, table));
  std::vector<const Spec*> operands;
  for (const std::optional<Spec>& operand : call.operands) {
    operands.push_back(operand ? &*operand : nullptr);
  }
  const StatusOr<Explanation> explanation = explain(*call.op, operands, call.attrs, call.forced);
  if (!explanation.ok()) return root.annotate(explanation.status());
  if (request.format == Format::kText) return Answer{.text = to_text(call, *explanation)};
  return Answer{.text = json_line(to_json(call, *explanation))};
}

}  // namespace tessera::audit
