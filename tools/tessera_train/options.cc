#include "tools/tessera_train/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/load.h"
#include "devices/devices.h"
#include "io/file.h"
#include "io/json.h"
#include "io/plan_json.h"
#include "moe/layer/capacity.h"
#include "moe/train/plan_trainer.h"
#include "moe/train/stages.h"
#include "program/program_json.h"

namespace tessera {
namespace {

Status check_backend(const TrainFlags& flags) {
  if (flags.backend == "threads" || flags.backend == "mpi") return absl::OkStatus();
  if (flags.backend != "nccl") {
    return invalid_argument("--backend " + in_quotes(flags.backend) +
                            " is unknown; threads, mpi and nccl are allowed");
  }
  if (flags.device != "cpu") return absl::OkStatus();
  return invalid_argument(
      "--backend nccl goes with --device cuda, or emulated, where NCCL is emulated too, not with "
      "--device cpu");
}

/// A choice of two, of which the second is NCCL's.
Status check_choice(const TrainFlags& flags, const std::string& flag, const std::string& chosen,
                    const std::string& any, const std::string& of_nccl) {
  if (chosen == any) return absl::OkStatus();
  if (chosen != of_nccl) {
    return invalid_argument(flag + " " + in_quotes(chosen) + " is unknown; " + any + " and " +
                            of_nccl + " are allowed");
  }
  if (flags.backend == "nccl") return absl::OkStatus();
  return invalid_argument(flag + " " + of_nccl + " goes with --backend nccl, not with --backend " +
                          flags.backend);
}

Status check_device(const TrainFlags& flags) {
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind kind, parse_device_kind("--device", flags.device));
  const bool captures = kind != DeviceId::Kind::kCpu && flags.backend != "mpi";
  if (!flags.capture || captures) return absl::OkStatus();
  return invalid_argument(
      "--capture: goes with --device cuda or emulated and --backend threads or nccl; the processor "
      "does its work at once, and calls of MPI cannot be captured");
}

/// `status`, with the flag before its text.
Status at_flag(std::string_view flag, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), to_absl(absl::StrFormat("%s %s", std::string(flag),
                                                       std::string(message_of(status)))));
}

/// What --load names is a checkpoint with steps left to do.
Status check_load(const TrainFlags& flags, std::int64_t num_steps) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> files,
                       open_folder(flags.load, MissingFolder::kError));
  TSR_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(*files, flags.generation));
  const Json* step = manifest.values.find("step");
  if (step == nullptr || step->if_integer() == nullptr || *step->if_integer() < num_steps) {
    return absl::OkStatus();  // loading says what is missing
  }
  if (is_resumed(flags)) return absl::OkStatus();  // it came to its end before it was started again
  return invalid_argument(
      absl::StrFormat("%s: the checkpoint is of step %d; a run of %d steps has none left",
                      flags.load, *step->if_integer(), num_steps));
}

Status check_folders(const TrainFlags& flags, std::int64_t num_steps) {
  if (!flags.load.empty()) TSR_RETURN_IF_ERROR(at_flag("--load", check_load(flags, num_steps)));
  if (flags.save.empty()) return absl::OkStatus();
  return at_flag("--save", open_folder(flags.save, MissingFolder::kMake).status());
}

Status check_checkpoints(const TrainFlags& flags) {
  if (flags.save_every > 0 && flags.save.empty()) {
    return invalid_argument(absl::StrFormat("--save-every %d: goes with --save", flags.save_every));
  }
  if (flags.keep > 1 && flags.save.empty()) {
    return invalid_argument(absl::StrFormat("--keep %d: goes with --save", flags.keep));
  }
  if (flags.resume && flags.save.empty()) return invalid_argument("--resume: goes with --save");
  if (flags.verify && flags.save.empty()) return invalid_argument("--verify: goes with --save");
  if (flags.generation && flags.load.empty()) {
    return invalid_argument(
        absl::StrFormat("--generation %d: goes with --load", *flags.generation));
  }
  if (!flags.load.empty() && !flags.init.empty()) {
    return invalid_argument("--load and --init: a run begins from one of them");
  }
  return absl::OkStatus();
}

/// A program has its placements, and no checkpoints are made of it.
Status check_plan_flags(const TrainFlags& flags) {
  if (flags.plan.empty()) return absl::OkStatus();
  const std::pair<const char*, bool> others[] = {{"--parallel", flags.parallel != "{}"},
                                                 {"--capture", flags.capture},
                                                 {"--save", !flags.save.empty()},
                                                 {"--load", !flags.load.empty()},
                                                 {"--simulate", flags.simulate.has_value()},
                                                 {"--placements", flags.placements},
                                                 {"--show-schedule", flags.show_schedule}};
  for (const auto& [name, given] : others) {
    if (!given) continue;
    return invalid_argument(absl::StrFormat(
        "--plan and %s do not go together: the plan says how the step runs, and its run is neither "
        "captured nor saved",
        name));
  }
  return absl::OkStatus();
}

StatusOr<Program> read_plan(const std::string& path) {
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxProgramTextBytes));
  OpTable ops;
  add_builtin_ops(ops);
  return read_program(text, path, ops);
}

/// Ranks are the plan's; a run on another number is refused before anything else.
Status take_plan(const TrainFlags& flags, TrainPlan& plan) {
  TSR_ASSIGN_OR_RETURN(plan.program, read_plan(flags.plan));
  const std::int64_t ranks = flags.ranks.value_or(1);
  if (plan.program->ranks != ranks) {
    return invalid_argument(
        absl::StrFormat("--plan %s: it is a plan of %d ranks, and the run has %d; give --ranks %d, "
                        "or start as many "
                        "processes",
                        flags.plan, plan.program->ranks, ranks, plan.program->ranks));
  }
  return at_flag("--plan", check_plan(*plan.program, plan.config, plan.dtype));
}

StatusOr<DType> computation_dtype(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    if (name_of(dtype) == name) return dtype;
  }
  return invalid_argument("--dtype " + in_quotes(name) + ": F32, F64 and BF16 are allowed");
}

/// What the layers refuse on each rank is refused before there are any.
Status check_layers(const ModelConfig& config, const MeshViews& views) {
  TSR_RETURN_IF_ERROR(views.check_heads("model", config.n_heads));
  if (config.n_dense_layers == config.n_layers) return absl::OkStatus();
  return views.check_experts("model", config.num_experts);
}

Status check_ranks(const TrainFlags& flags) {
  const std::int64_t ranks = flags.ranks.value_or(1);
  const std::int64_t most = flags.backend == "mpi" || flags.simulate ? kMaxProcesses : kMaxThreads;
  if (ranks >= 1 && ranks <= most) return absl::OkStatus();
  return invalid_argument(absl::StrFormat("--ranks %d: 1 to %d are allowed", ranks, most));
}

}  // namespace

Status check_flags(const TrainFlags& flags) {
  if (!flags.placements && flags.data.empty()) return invalid_argument("--data is required");
  TSR_RETURN_IF_ERROR(check_backend(flags));
  TSR_RETURN_IF_ERROR(check_choice(flags, "--reduce", flags.reduce, "ordered", "native"));
  TSR_RETURN_IF_ERROR(check_choice(flags, "--exchange", flags.exchange, "messages", "windows"));
  TSR_RETURN_IF_ERROR(check_device(flags));
  TSR_RETURN_IF_ERROR(check_checkpoints(flags));
  TSR_RETURN_IF_ERROR(check_plan_flags(flags));
  TSR_RETURN_IF_ERROR(computation_dtype(flags.dtype).status());
  return check_ranks(flags);
}

StatusOr<std::optional<Topology>> topology_of(const TrainFlags& flags) {
  if (flags.topology.empty()) return std::optional<Topology>();
  StatusOr<Topology> topology = topology_from(flags.topology);
  if (!topology.ok()) return at_flag("--topology", topology.status());
  return std::optional(*std::move(topology));
}

StatusOr<TrainPlan> make_train_plan(const TrainFlags& flags) {
  const std::int64_t ranks = flags.ranks.value_or(1);
  TrainPlan plan;
  TSR_ASSIGN_OR_RETURN(plan.dtype, computation_dtype(flags.dtype));
  TSR_ASSIGN_OR_RETURN(plan.topology, topology_of(flags));
  TSR_ASSIGN_OR_RETURN(plan.config, read_model_config(flags.config));
  if (!flags.parallel.starts_with('{')) {
    return invalid_argument("--parallel " + in_quotes(flags.parallel) +
                            ": degrees are a JSON object such as {\"dp_shard\":2,\"tp\":2}");
  }
  TSR_ASSIGN_OR_RETURN(const ParallelConfig parallel,
                       parse_parallel_config(flags.parallel, "--parallel"));
  if (!flags.plan.empty()) TSR_RETURN_IF_ERROR(take_plan(flags, plan));
  TSR_ASSIGN_OR_RETURN(plan.views, MeshViews::make(parallel, plan.program ? 1 : ranks));
  TSR_RETURN_IF_ERROR(check_layers(plan.config, plan.views));
  TSR_RETURN_IF_ERROR(check_padding_to_capacity(plan.config.routing, plan.views.config().dispatch));
  plan.num_steps = flags.steps == 0 ? plan.config.steps : flags.steps;
  plan.config.steps = std::max(plan.config.steps, plan.num_steps);
  TSR_RETURN_IF_ERROR(at_flag("--steps", check_run_size(plan.config)));
  TSR_RETURN_IF_ERROR(plan_pipeline(plan.config, plan.views.config()).status());
  TSR_ASSIGN_OR_RETURN(plan.data, TokenData::read(flags.data, plan.config));
  TSR_RETURN_IF_ERROR(check_folders(flags, plan.num_steps));
  return plan;
}

Status check_launch(TrainFlags& flags, std::string_view launcher, std::int64_t num_processes) {
  if (!flags.ranks) flags.ranks = num_processes;
  if (flags.ranks == num_processes) return absl::OkStatus();
  const std::string remedy =
      launcher == "mpirun" ? absl::StrFormat(" (mpirun -n %d)", *flags.ranks) : "";
  return invalid_argument(absl::StrFormat(
      "--ranks %d, but %s has started %d processes; start as many as there are ranks%s, or leave "
      "--ranks out",
      *flags.ranks, std::string(launcher), num_processes, remedy));
}

}  // namespace tessera
