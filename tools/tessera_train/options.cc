#include "tools/tessera_train/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxRanks = 256;

Status check_backend(const TrainFlags& flags) {
  if (flags.backend == "mpi" || flags.backend == "nccl") {
    return unimplemented(
        "--backend " + flags.backend +
        ": this version runs ranks as threads of one process; use --backend threads");
  }
  if (flags.backend != "threads") {
    return invalid_argument("--backend " + in_quotes(flags.backend) +
                            " is unknown; threads is allowed");
  }
  if (!flags.save.empty() || !flags.load.empty()) {
    return unimplemented(
        "--save and --load: this version writes no checkpoints; use --init for weights");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<TrainPlan> make_train_plan(const TrainFlags& flags) {
  TSR_RETURN_IF_ERROR(check_backend(flags));
  if (flags.ranks < 1 || flags.ranks > kMaxRanks) {
    return invalid_argument(
        absl::StrFormat("--ranks %d: 1 to %d are allowed", flags.ranks, kMaxRanks));
  }
  if (flags.steps < 0) {
    return invalid_argument(absl::StrFormat("--steps %d: at least 1 is allowed", flags.steps));
  }
  TrainPlan plan;
  TSR_ASSIGN_OR_RETURN(plan.dtype, parse_dtype(flags.dtype));
  if (!is_floating(plan.dtype)) {
    return invalid_argument("--dtype " + flags.dtype + ": F32, F64 and BF16 are allowed");
  }
  TSR_ASSIGN_OR_RETURN(plan.config, read_model_config(flags.config));
  TSR_ASSIGN_OR_RETURN(const ParallelConfig parallel,
                       parse_parallel_config(flags.parallel, "--parallel"));
  TSR_ASSIGN_OR_RETURN(plan.views, MeshViews::make(parallel, flags.ranks));
  plan.num_steps = flags.steps == 0 ? plan.config.steps : flags.steps;
  plan.config.steps = std::max(plan.config.steps, plan.num_steps);
  TSR_ASSIGN_OR_RETURN(plan.data, TokenData::read(flags.data, plan.config));
  return plan;
}

}  // namespace tessera
