#include "tools/placement_audit/executed/run_solved.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "dtensor/ops.h"
#include "execute/own_moves.h"
#include "execute/program_run.h"
#include "execute/traffic.h"
#include "io/placement_json.h"
#include "placement/checked_int.h"
#include "program/solver/propagate_program.h"
#include "runtime/world.h"
#include "tools/placement_audit/executed/run_execute.h"
#include "tools/placement_audit/executed/run_results.h"

namespace tessera::audit {
namespace {

StatusOr<PropagatedProgram> solve(const Request& request, const Program& program,
                                  const OpTable& table) {
  TSR_ASSIGN_OR_RETURN(tessera::Program traced,
                       trace(program, 0, {.add_ops = request.add_ops}, ValueNames::kOfDocument));
  if (!request.solved_run.keep_inputs) {
    for (ProgramValue& value : traced.values) value.layout.reset();
  }
  TSR_ASSIGN_OR_RETURN(const std::optional<Topology> topology, topology_of(request));
  const PropagateOptions options = {.constraints = request.solve.pins,
                                    .topology = topology ? &*topology : nullptr,
                                    .memory_cap = request.cap_bytes,
                                    .time_limit_s = request.solve.time_limit_s};
  return propagate_program(traced, table, options);
}

/// What came of it, and what each rank moved.
struct SolvedOutcome {
  std::vector<RunResult> left;  ///< by name
  std::vector<std::vector<RankMove>> moves;
};

/// Values of the document by name, numbers among its operands included. Errors: InvalidArgument for
/// one that has no whole, or a tensor that is called as a number is.
StatusOr<std::map<std::string, Array>> given_values(const Program& program,
                                                    const SafetensorsFile* file) {
  TSR_ASSIGN_OR_RETURN(const std::vector<Array> whole, whole_inputs(program, {.file = file}));
  std::map<std::string, Array> values;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::string& name = program.tensors[i].name;
    if (whole[i].is_null()) {
      return invalid_argument("run --solve: " + in_quotes(name) +
                              " is given rank by rank, which says where it lies; give its values");
    }
    values[name] = whole[i];
  }
  absl::flat_hash_set<std::string_view> taken;
  for (const ProgramTensor& tensor : program.tensors) taken.insert(tensor.name);
  for (const RunStep& step : program.steps) {
    for (const ProgramOperand* const operand : numbers_of(step)) {
      const std::string& name = operand->number->name;
      if (taken.contains(name)) {
        return invalid_argument("run --solve: " + in_quotes(name) +
                                " is a tensor, and a number is called so; rename the tensor");
      }
      values[name] = operand->value;
    }
  }
  return values;
}

StatusOr<SolvedOutcome> run_placed(const Request& request, const tessera::Program& placed,
                                   const std::map<std::string, Array>& values) {
  SolvedOutcome outcome;
  outcome.moves.resize(static_cast<std::size_t>(placed.ranks));
  std::mutex mutex;  // of what is left
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", request.device));
  WorldOptions options{.threads_per_rank = 1};
  TSR_ASSIGN_OR_RETURN(options.allocator, memory_of_devices(device));
  TSR_RETURN_IF_ERROR(run_ranks(static_cast<int>(placed.ranks), options, [&](World& world) {
    Runtime runtime(world);
    if (request.add_ops) throw_if_error(request.add_ops(runtime.ops()));
    const auto run = value_or_throw(ProgramRun::make(runtime, placed));
    ProgramTensors given;
    for (const WantedValue& wanted : run->wanted()) {
      const auto value = values.find(wanted.name);
      if (value == values.end()) {
        throw Error(invalid_argument("run --solve: the steps read " + in_quotes(wanted.name) +
                                     ", a tensor that no input is; make it an input"));
      }
      given[wanted.name] =
          distribute(runtime, to_device(runtime.kernels(), value->second), wanted.spec);
    }
    TrafficLog log(runtime);
    const ProgramTensors left = run->run(std::move(given), log.listener());
    outcome.moves[static_cast<std::size_t>(world.rank())] = log.moves();
    for (const auto& [name, tensor] : left) {
      const Array whole = to_host(full_tensor(tensor, Site()));
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) outcome.left.push_back({name, tensor.spec(), whole});
    }
  }));
  return outcome;
}

/// What `out` names, and gradients, in the order of the document. Errors: FailedPrecondition for
/// one that is not there at the end.
StatusOr<std::vector<RunResult>> named_by(const Program& program,
                                          const std::vector<RunResult>& left) {
  std::vector<RunResult> named;
  const auto add = [&](const std::string& name) -> Status {
    const auto found = std::ranges::find(left, name, &RunResult::name);
    if (found == left.end()) {
      return failed_precondition("run --solve --save: " + in_quotes(name) +
                                 " is not there at the end");
    }
    named.push_back(*found);
    return absl::OkStatus();
  };
  const auto name_of = [&](int slot) {
    return program.tensors[static_cast<std::size_t>(slot)].name;
  };
  for (const int slot : program.results) TSR_RETURN_IF_ERROR(add(name_of(slot)));
  for (const int slot : program.gradients) {
    TSR_RETURN_IF_ERROR(add(gradient_name(name_of(slot))));
  }
  return named;
}

Json to_json(const std::vector<MovedBytes>& moves) {
  Json::Array list;
  for (const MovedBytes& move : moves) {
    list.push_back(Json::object(
        {{"collective", move.collective},
         {"axes", move.axes},
         {"bytes", Json::object({{"max", move.bytes.max}, {"total", move.bytes.total}})}}));
  }
  return Json(std::move(list));
}

std::string to_text(const std::vector<MovedBytes>& moves) {
  std::string text;
  for (const MovedBytes& move : moves) {
    text += absl::StrFormat("%s%s over %s %d bytes", text.empty() ? "" : ", ", move.collective,
                            move.axes, move.bytes.total);
  }
  return text.empty() ? "nothing" : text;
}

std::int64_t total_of(const std::vector<StepTraffic>& steps,
                      std::vector<MovedBytes> StepTraffic::*side) {
  CheckedInt total = 0;
  for (const StepTraffic& step : steps) {
    for (const MovedBytes& move : step.*side) total += move.bytes.total;
  }
  return total.clamped();
}

Json json_of(const PropagatedProgram& solved, const SolvedOutcome& outcome,
             const std::vector<StepTraffic>& steps) {
  Json results{Json::Object()};
  for (const RunResult& left : outcome.left) {
    Json json = tessera::to_json(TensorType{left.spec.global_shape(), left.spec.dtype()});
    add_placements(json, left.spec);
    results.set(left.name, std::move(json));
  }
  Json::Array moves;
  for (const StepTraffic& step : steps) {
    moves.push_back(Json::object({{"step", step.place},
                                  {"what", step.what},
                                  {"predicted", to_json(step.predicted)},
                                  {"executed", to_json(step.executed)}}));
  }
  return Json::object({{"cost", solved.cost},
                       {"bound", solved.bound},
                       {"results", std::move(results)},
                       {"moves", Json(std::move(moves))},
                       {"predicted_bytes", total_of(steps, &StepTraffic::predicted)},
                       {"executed_bytes", total_of(steps, &StepTraffic::executed)}});
}

std::string text_of(const PropagatedProgram& solved, const SolvedOutcome& outcome,
                    const std::vector<StepTraffic>& steps) {
  std::string text;
  for (const PlacementChoice& choice : solved.choices) {
    text +=
        absl::StrFormat("%s  %s, %s\n", in_quotes(choice.value), choice.placements, choice.made_by);
  }
  for (const RunResult& left : outcome.left) {
    text += absl::StrFormat("left: %s  %s\n", in_quotes(left.name), left.spec.to_string());
  }
  for (const StepTraffic& step : steps) {
    text += absl::StrFormat("%s %s: predicted %s; executed %s%s\n", step.place, step.what,
                            to_text(step.predicted), to_text(step.executed),
                            step.as_predicted() ? "" : "  DIFFERS");
  }
  return text + absl::StrFormat("predicted %d bytes, executed %d\n",
                                total_of(steps, &StepTraffic::predicted),
                                total_of(steps, &StepTraffic::executed));
}

}  // namespace

StatusOr<Answer> run_solved(const Request& request, const Program& program, const OpTable& table,
                            const SafetensorsFile* file) {
  TSR_ASSIGN_OR_RETURN(const auto values, given_values(program, file));
  TSR_ASSIGN_OR_RETURN(const PropagatedProgram solved, solve(request, program, table));
  TSR_ASSIGN_OR_RETURN(const tessera::Program placed,
                       with_own_moves(solved.program, request.add_ops));
  TSR_ASSIGN_OR_RETURN(const SolvedOutcome outcome, run_placed(request, placed, values));
  TSR_ASSIGN_OR_RETURN(const std::vector<StepTraffic> steps, traffic_of(placed, outcome.moves));
  const bool as_predicted = std::ranges::all_of(steps, &StepTraffic::as_predicted);
  const std::vector<Failure> failures =
      check_all(program, outcome.left, ExpectedPlacements::kFound);
  const bool passed = as_predicted && failures.empty();
  if (!request.save.empty() && passed) {
    TSR_ASSIGN_OR_RETURN(const std::vector<RunResult> named, named_by(program, outcome.left));
    TSR_RETURN_IF_ERROR(save_results(request.save, named));
  }
  if (request.format == Format::kText) {
    return Answer{.text = text_of(solved, outcome, steps) + failures_text(program, failures),
                  .checks_passed = passed};
  }
  Json json = json_of(solved, outcome, steps);
  if (!program.expected.empty()) json.set("failures", audit::json_of(failures));
  return Answer{.text = json_line(json), .checks_passed = passed};
}

}  // namespace tessera::audit
