#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "moe/layer/dispatcher_table.h"
#include "moe/train/config.h"
#include "moe/train/config_forms.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxDegree = 1 << 14;
constexpr std::int64_t kMaxMicroBatches = 1 << 20;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;

/// Left to the mesh where absent.
struct OptionalFlagForm {
  Status read(const JsonView& at, std::optional<bool>& field) const {
    TSR_ASSIGN_OR_RETURN(field, at.boolean());
    return absl::OkStatus();
  }
};

struct PrefetchForm {
  Status read(const JsonView& at, Prefetch& field) const {
    TSR_ASSIGN_OR_RETURN(const bool prefetch, at.boolean());
    field = prefetch ? Prefetch::kNext : Prefetch::kOff;
    return absl::OkStatus();
  }
};

/// The number of layers of each stage.
struct StageLayersForm {
  Status read(const JsonView& at, std::vector<std::int64_t>& field) const {
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> stages, at.items());
    if (stages.empty()) return at.error("is empty; it lists the number of layers of each stage");
    for (const JsonView& stage : stages) {
      TSR_ASSIGN_OR_RETURN(const std::int64_t layers, stage.integer_in(1, kMaxDegree));
      field.push_back(layers);
    }
    return absl::OkStatus();
  }
};

/// A dispatcher of the table.
struct DispatcherForm {
  Status read(const JsonView& at, std::string& field) const {
    const std::vector<std::string> names = dispatcher_names();
    std::vector<std::pair<std::string_view, std::string>> choices;
    for (const std::string& name : names) choices.emplace_back(name, name);
    return read_choice<std::string>(at, choices, field);
  }
};

// Every key, once: visit(key, field, form), as in config.cc.
template <class Visit>
void visit_degrees(ParallelConfig& c, Visit& visit) {
  const IntegerForm degree{-1, kMaxDegree};
  visit("dp_replicate", c.dp_replicate, degree);
  visit("dp_shard", c.dp_shard, degree);
  visit("cp", c.cp, degree);
  visit("tp", c.tp, degree);
  visit("ep", c.ep, degree);
  visit("etp", c.etp, degree);
  visit("pp", c.pp, degree);
}

template <class Visit>
void visit_pipeline(ParallelConfig& c, Visit& visit) {
  visit("pp_schedule", c.pp_schedule,
        ChoiceForm<PipelineOrder>{{{"1f1b", PipelineOrder::k1F1B},
                                   {"interleaved_1f1b", PipelineOrder::kInterleaved1F1B}}});
  visit("pp_microbatches", c.pp_microbatches, IntegerForm{1, kMaxMicroBatches});
  visit("pp_stages_per_rank", c.pp_stages_per_rank, IntegerForm{1, kMaxDegree});
  visit("pp_layers", c.pp_layers, StageLayersForm{});
}

template <class Visit>
void visit_layers(ParallelConfig& c, Visit& visit) {
  visit("sequence_parallel", c.sequence_parallel, OptionalFlagForm{});
  visit("strict_even", c.strict_even, FlagForm{});
  visit("cp_method", c.cp_method,
        ChoiceForm<ContextMethod>{
            {{"all_gather", ContextMethod::kAllGather}, {"ring", ContextMethod::kRing}}});
  visit("cp_load_balance", c.cp_load_balance, FlagForm{});
  visit("reshard_after_forward", c.fsdp.reshard,
        ChoiceForm<ReshardAfterForward>{{{"default", ReshardAfterForward::kDefault},
                                         {"always", ReshardAfterForward::kAlways},
                                         {"never", ReshardAfterForward::kNever}}});
  visit("gradient_reduction", c.fsdp.gradients,
        ChoiceForm<GradientPolicy>{{{"each_micro_batch", GradientPolicy::kEachMicroBatch},
                                    {"last_micro_batch", GradientPolicy::kLastMicroBatch}}});
  visit("fsdp_prefetch", c.fsdp.prefetch, PrefetchForm{});
  visit("recompute", c.recompute,
        ChoiceForm<Recompute>{{{"none", Recompute::kNone},
                               {"full", Recompute::kFull},
                               {"selective", Recompute::kSelective}}});
}

template <class Visit>
void visit_dispatch(DispatchConfig& c, Visit& visit) {
  visit("dispatcher", c.dispatcher, DispatcherForm{});
  visit("ranks_per_node", c.ranks_per_node, IntegerForm{1, kMaxRows});
  visit("rows_bound", c.rows_bound, IntegerForm{1, kMaxRows});
  visit("expert_alignment", c.expert_alignment, IntegerForm{1, kMaxMicroBatches});
  visit("dispatch_chunks", c.chunks, IntegerForm{1, kMaxDegree});
}

template <class Visit>
void visit_all(ParallelConfig& config, Visit& visit) {
  visit_degrees(config, visit);
  visit_pipeline(config, visit);
  visit_layers(config, visit);
  visit_dispatch(config.dispatch, visit);
}

}  // namespace

StatusOr<ParallelConfig> parse_parallel_config(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source));
  const JsonView object = document.root();
  ParallelConfig config;
  std::vector<std::string_view> keys;
  const auto list = [&](std::string_view key, const auto&, const auto&) { keys.push_back(key); };
  visit_all(config, list);
  TSR_RETURN_IF_ERROR(object.check_keys({}, keys));
  Status status;
  const auto read = [&](std::string_view key, auto& field, const auto& form) {
    const std::optional<JsonView> at = object.find(key);
    if (status.ok() && at) status = form.read(*at, field);
  };
  visit_all(config, read);
  TSR_RETURN_IF_ERROR(status);
  return config;
}

}  // namespace tessera
