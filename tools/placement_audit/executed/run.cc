// placement-audit run: reads a program, executes it, saves and prints what came of it.
#include <optional>

#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "io/placement_json.h"
#include "io/safetensors.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/run_execute.h"
#include "tools/placement_audit/executed/run_results.h"
#include "tools/placement_audit/executed/run_solved.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

/// Beyond so many elements a text answer does not spell a tensor out.
constexpr std::int64_t kMostShown = 64;

std::string_view name_of(Event::Kind kind) {
  constexpr std::string_view kNames[] = {"collective", "redistribute", "host_read", "span"};
  return kNames[static_cast<int>(kind)];
}

Json axes_of(const std::string& axes) {
  Json::Array list;
  for (std::size_t begin = 0; begin < axes.size();) {
    const std::size_t end = std::min(axes.find(',', begin), axes.size());
    list.push_back(Json(axes.substr(begin, end - begin)));
    begin = end + 1;
  }
  return Json(std::move(list));
}

Json to_json(const RunEvent& event) {
  Json json = Json::object(
      {{"step", event.step},
       {"kind", name_of(event.kind)},
       {"op", event.name},
       {"tensor", event.tensor},
       {"axes", axes_of(event.axes)},
       {"bytes", Json::object({{"max", event.most_received}, {"total", event.bytes_received}})},
       {"ranks", event.ranks},
       {"origin", event.origin == Origin::kExplicit ? "explicit" : "implicit"}});
  if (!event.why.empty()) json.set("why", event.why);
  return json;
}

Json to_json(const Program& program, const RunOutcome& outcome,
             const std::vector<Failure>& failures) {
  Json results{Json::Object()};
  for (const RunResult& result : outcome.results) {
    Json json = tessera::to_json(TensorType{result.spec.global_shape(), result.spec.dtype()});
    add_placements(json, result.spec);
    results.set(result.name, std::move(json));
  }
  Json::Array events;
  for (const RunEvent& event : outcome.events) events.push_back(to_json(event));
  Json json = Json::object({{"results", std::move(results)}, {"events", Json(std::move(events))}});
  if (!program.expected.empty()) json.set("failures", json_of(failures));
  if (outcome.device != "cpu") json.set("device", Json(outcome.device));
  return json;
}

std::string to_text(const Program& program, const RunOutcome& outcome,
                    const std::vector<Failure>& failures) {
  std::string text = outcome.device == "cpu" ? "" : "device: " + outcome.device + '\n';
  for (const RunResult& result : outcome.results) {
    text += in_quotes(result.name) + "  " + result.spec.to_string() + '\n';
    const std::int64_t count = result.whole.num_elements();
    if (count > kMostShown) continue;
    const std::int64_t width = result.whole.ndim() == 0 ? 1 : result.whole.shape().back();
    for (std::int64_t i = 0; i < count; ++i) {
      text += (i % width == 0 ? "    " : "  ") + element_to_text(result.whole, i);
      if ((i + 1) % width == 0) text += '\n';
    }
  }
  for (const RunEvent& event : outcome.events) {
    text += absl::StrFormat("step %d: %s%s%s: %d bytes, %s%s\n", event.step, event.name,
                            event.tensor.empty() ? "" : " of " + in_quotes(event.tensor),
                            event.axes.empty() ? "" : " over " + event.axes, event.bytes_received,
                            event.origin == Origin::kExplicit ? "explicit" : "implicit",
                            event.why.empty() ? "" : " (" + event.why + ")");
  }
  return text + failures_text(program, failures);
}

/// The type of a tensor in the file; an error that says what to give where there is no file.
TensorTypes types_of(const SafetensorsFile* file) {
  return [file](std::string_view name) -> StatusOr<TensorType> {
    if (file == nullptr) {
      return invalid_argument(
          "neither \"values\" nor \"local\", and no file of tensors: give --tensors FILE");
    }
    TSR_ASSIGN_OR_RETURN(const TensorInfo* info, file->at(name));
    if (!info->dtype) {
      return invalid_argument(absl::StrFormat("%s of %s is %s, which this engine has not",
                                              in_quotes(name), file->path(), info->dtype_name()));
    }
    return TensorType{info->shape, *info->dtype};
  };
}

}  // namespace

StatusOr<Answer> run_program(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(request.input, request.input_name));
  std::optional<SafetensorsFile> file;
  if (!request.tensors.empty()) {
    TSR_ASSIGN_OR_RETURN(file, SafetensorsFile::open(request.tensors));
  }
  const SafetensorsFile* const tensors = file ? &*file : nullptr;
  TSR_ASSIGN_OR_RETURN(const Program program,
                       read_program(document.root(), table, types_of(tensors)));
  if (request.solved_run.asked) return run_solved(request, program, table, tensors);
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", request.device));
  TSR_ASSIGN_OR_RETURN(const std::optional<Topology> topology, topology_of(request));
  TSR_ASSIGN_OR_RETURN(RunOutcome outcome, execute(program, {.file = tensors,
                                                             .add_ops = request.add_ops,
                                                             .device = device,
                                                             .topology = topology}));
  outcome.device = request.device;
  const std::vector<Failure> failures =
      check_all(program, outcome.results, ExpectedPlacements::kChecked);
  if (!request.save.empty() && failures.empty()) {
    TSR_RETURN_IF_ERROR(save_results(request.save, outcome.results));
  }
  return Answer{.text = request.format == Format::kText
                            ? to_text(program, outcome, failures)
                            : json_line(to_json(program, outcome, failures)),
                .checks_passed = failures.empty()};
}

}  // namespace tessera::audit
