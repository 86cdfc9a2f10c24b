// placement-audit run: reads a program, executes it, saves and prints what came of it.
#include <optional>

#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "io/placement_json.h"
#include "io/safetensors.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/run_execute.h"
#include "tools/placement_audit/executed/run_solved.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

/// Beyond so many elements a text answer does not spell a tensor out.
constexpr std::int64_t kMostShown = 64;

/// A result that is not what was expected.
struct Failure {
  std::string tensor;
  std::string text;
  std::optional<Shape> index;  ///< none where shape, dtype or placements differ
  Json got, expected;
};

std::optional<Failure> check(const RunResult& result, const ExpectedTensor& expected) {
  Failure failure{.tensor = result.name};
  const auto differs = [&](std::string_view what, const std::string& got,
                           const std::string& wanted) {
    failure.got = Json(got);
    failure.expected = Json(wanted);
    failure.text = absl::StrFormat("%s: %s is %s, expected %s", result.name, what, got, wanted);
    return failure;
  };
  const Array &got = result.whole, &wanted = expected.values;
  if (got.shape() != wanted.shape()) {
    return differs("shape", to_string(got.shape()), to_string(wanted.shape()));
  }
  if (got.dtype() != wanted.dtype()) {
    return differs("dtype", std::string(name_of(got.dtype())),
                   std::string(name_of(wanted.dtype())));
  }
  if (expected.placements) {
    const StatusOr<Placements> placements = result.spec.placements();
    const std::string lies = placements.ok() ? to_string(*placements) : result.spec.to_string();
    if (lies != to_string(*expected.placements)) {
      return differs("placements", lies, to_string(*expected.placements));
    }
  }
  const std::optional<std::int64_t> at = first_difference(got, wanted, expected.tolerance);
  if (!at) return std::nullopt;
  failure.index = index_of(got.shape(), *at);
  differs(absl::StrFormat("element %s", to_string(*failure.index)), element_to_text(got, *at),
          element_to_text(wanted, *at));
  failure.got = element_to_json(got, *at);
  failure.expected = element_to_json(wanted, *at);
  return failure;
}

std::vector<Failure> check_all(const Program& program, const RunOutcome& outcome) {
  std::vector<Failure> failures;
  for (const ExpectedTensor& expected : program.expected) {
    const std::string& slot_name = program.tensors[static_cast<std::size_t>(expected.slot)].name;
    const std::string name = expected.gradient ? gradient_name(slot_name) : slot_name;
    for (const RunResult& result : outcome.results) {
      if (result.name != name) continue;
      if (std::optional<Failure> failure = check(result, expected)) {
        failures.push_back(*std::move(failure));
      }
    }
  }
  return failures;
}

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

Json to_json(const Failure& failure) {
  Json json = Json::object({{"tensor", failure.tensor}});
  if (failure.index) {
    json.set("index", Json(Json::Array(failure.index->begin(), failure.index->end())));
  }
  json.set("got", failure.got);
  json.set("expected", failure.expected);
  json.set("text", failure.text);
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
  Json::Array events, failed;
  for (const RunEvent& event : outcome.events) events.push_back(to_json(event));
  for (const Failure& failure : failures) failed.push_back(to_json(failure));
  Json json = Json::object({{"results", std::move(results)}, {"events", Json(std::move(events))}});
  if (!program.expected.empty()) json.set("failures", Json(std::move(failed)));
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
  for (const Failure& failure : failures) text += "FAILED " + failure.text + '\n';
  if (!program.expected.empty()) {
    text += absl::StrFormat("%d as expected, %d not\n", program.expected.size() - failures.size(),
                            failures.size());
  }
  return text;
}

Status save(const std::string& path, const RunOutcome& outcome) {
  std::vector<TensorBytes> tensors;
  for (const RunResult& result : outcome.results) {
    const auto size = static_cast<std::size_t>(result.whole.num_bytes());
    tensors.push_back({.name = result.name,
                       .dtype = result.whole.dtype(),
                       .shape = result.whole.shape(),
                       .bytes = {result.whole.bytes(), size}});
  }
  return write_safetensors(path, tensors);
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
  const std::vector<Failure> failures = check_all(program, outcome);
  if (!request.save.empty() && failures.empty()) {
    TSR_RETURN_IF_ERROR(save(request.save, outcome));
  }
  return Answer{.text = request.format == Format::kText
                            ? to_text(program, outcome, failures)
                            : json_line(to_json(program, outcome, failures)),
                .checks_passed = failures.empty()};
}

}  // namespace tessera::audit
