#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "moe/config.h"
#include "moe/dispatcher_table.h"
#include "moe/read_choice.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxDegree = 1 << 14;
constexpr std::int64_t kMaxMicroBatches = 1 << 20;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;

Status read_fsdp_policy(const JsonView& object, FsdpPolicy& policy) {
  TSR_RETURN_IF_ERROR(read_choice(object, "reshard_after_forward",
                                  {{"default", ReshardAfterForward::kDefault},
                                   {"always", ReshardAfterForward::kAlways},
                                   {"never", ReshardAfterForward::kNever}},
                                  policy.reshard));
  TSR_RETURN_IF_ERROR(read_choice(object, "gradient_reduction",
                                  {{"each_micro_batch", GradientPolicy::kEachMicroBatch},
                                   {"last_micro_batch", GradientPolicy::kLastMicroBatch}},
                                  policy.gradients));
  if (const std::optional<JsonView> at = object.find("fsdp_prefetch")) {
    TSR_ASSIGN_OR_RETURN(const bool prefetch, at->boolean());
    policy.prefetch = prefetch ? Prefetch::kNext : Prefetch::kOff;
  }
  return absl::OkStatus();
}

Status read_dispatch(const JsonView& object, DispatchConfig& config) {
  if (const std::optional<JsonView> at = object.find("dispatcher")) {
    const std::vector<std::string> names = dispatcher_names();
    std::vector<std::pair<std::string_view, std::string>> choices;
    for (const std::string& name : names) choices.emplace_back(name, name);
    TSR_RETURN_IF_ERROR(read_choice<std::string>(*at, choices, config.dispatcher));
  }
  struct Size {
    std::string_view key;
    std::int64_t* field;
    std::int64_t most;
  };
  const Size sizes[] = {{"ranks_per_node", &config.ranks_per_node, kMaxRows},
                        {"rows_bound", &config.rows_bound, kMaxRows},
                        {"expert_alignment", &config.expert_alignment, kMaxMicroBatches},
                        {"dispatch_chunks", &config.chunks, kMaxDegree}};
  for (const auto& [key, field, most] : sizes) {
    if (const std::optional<JsonView> at = object.find(key)) {
      TSR_ASSIGN_OR_RETURN(*field, at->integer_in(1, most));
    }
  }
  return absl::OkStatus();
}

Status read_pipeline(const JsonView& object, ParallelConfig& config) {
  TSR_RETURN_IF_ERROR(read_choice(
      object, "pp_schedule",
      {{"1f1b", PipelineOrder::k1F1B}, {"interleaved_1f1b", PipelineOrder::kInterleaved1F1B}},
      config.pp_schedule));
  if (const std::optional<JsonView> at = object.find("pp_microbatches")) {
    TSR_ASSIGN_OR_RETURN(config.pp_microbatches, at->integer_in(1, kMaxMicroBatches));
  }
  if (const std::optional<JsonView> at = object.find("pp_stages_per_rank")) {
    TSR_ASSIGN_OR_RETURN(config.pp_stages_per_rank, at->integer_in(1, kMaxDegree));
  }
  if (const std::optional<JsonView> at = object.find("pp_layers")) {
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> stages, at->items());
    if (stages.empty()) return at->error("is empty; it lists the number of layers of each stage");
    for (const JsonView& stage : stages) {
      TSR_ASSIGN_OR_RETURN(const std::int64_t layers, stage.integer_in(1, kMaxDegree));
      config.pp_layers.push_back(layers);
    }
  }
  return absl::OkStatus();
}

Status read_flags(const JsonView& object, ParallelConfig& config) {
  if (const std::optional<JsonView> at = object.find("sequence_parallel")) {
    TSR_ASSIGN_OR_RETURN(config.sequence_parallel, at->boolean());
  }
  if (const std::optional<JsonView> at = object.find("strict_even")) {
    TSR_ASSIGN_OR_RETURN(config.strict_even, at->boolean());
  }
  if (const std::optional<JsonView> at = object.find("cp_load_balance")) {
    TSR_ASSIGN_OR_RETURN(config.cp_load_balance, at->boolean());
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ParallelConfig> parse_parallel_config(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source));
  const JsonView object = document.root();
  TSR_RETURN_IF_ERROR(object.check_keys({}, {"dp_replicate",
                                             "dp_shard",
                                             "cp",
                                             "tp",
                                             "ep",
                                             "etp",
                                             "pp",
                                             "pp_schedule",
                                             "pp_microbatches",
                                             "pp_stages_per_rank",
                                             "pp_layers",
                                             "sequence_parallel",
                                             "strict_even",
                                             "cp_method",
                                             "cp_load_balance",
                                             "reshard_after_forward",
                                             "gradient_reduction",
                                             "fsdp_prefetch",
                                             "recompute",
                                             "dispatcher",
                                             "ranks_per_node",
                                             "rows_bound",
                                             "expert_alignment",
                                             "dispatch_chunks"}));
  ParallelConfig config;
  const std::array<std::pair<std::string_view, std::int64_t*>, 7> degrees = {
      {{"dp_replicate", &config.dp_replicate},
       {"dp_shard", &config.dp_shard},
       {"cp", &config.cp},
       {"tp", &config.tp},
       {"ep", &config.ep},
       {"etp", &config.etp},
       {"pp", &config.pp}}};
  for (const auto& [key, field] : degrees) {
    if (const std::optional<JsonView> at = object.find(key)) {
      TSR_ASSIGN_OR_RETURN(*field, at->integer_in(-1, kMaxDegree));
    }
  }
  TSR_RETURN_IF_ERROR(read_pipeline(object, config));
  TSR_RETURN_IF_ERROR(read_flags(object, config));
  TSR_RETURN_IF_ERROR(
      read_choice(object, "cp_method",
                  {{"all_gather", ContextMethod::kAllGather}, {"ring", ContextMethod::kRing}},
                  config.cp_method));
  TSR_RETURN_IF_ERROR(read_choice(object, "recompute",
                                  {{"none", Recompute::kNone},
                                   {"full", Recompute::kFull},
                                   {"selective", Recompute::kSelective}},
                                  config.recompute));
  TSR_RETURN_IF_ERROR(read_fsdp_policy(object, config.fsdp));
  TSR_RETURN_IF_ERROR(read_dispatch(object, config.dispatch));
  return config;
}

}  // namespace tessera
