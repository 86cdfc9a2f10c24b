#include "moe/train/verify_dispatcher.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/json.h"
#include "moe/layer/dispatcher_table.h"
#include "moe/train/simulate.h"
#include "runtime/world.h"

namespace tessera {
namespace {

using Verdict = DispatcherCheck::Verdict;

constexpr std::int64_t kSteps = 3;
constexpr double kTolerance = 1e-9;
/// A dispatcher that waits for ever is wrong.
const WorldOptions kRanks{.timeout = std::chrono::milliseconds(60'000), .threads_per_rank = 1};

/// Two layers whose six experts do not divide by four.
ModelConfig small_config() {
  ModelConfig config;
  config.dim = 16;
  config.n_layers = 2;
  config.n_dense_layers = 1;
  config.n_heads = 2;
  config.kv_lora_rank = 8;
  config.qk_nope_head_dim = 4;
  config.rope_dim = 2;
  config.v_head_dim = 4;
  config.dense_hidden_dim = 16;
  config.moe_hidden_dim = 8;
  config.num_experts = 6;
  config.num_shared_experts = 1;
  config.router_top_k = 2;
  config.route_norm = true;
  config.bias_coeff = 0.001;
  config.vocab = 64;
  config.seq = 16;
  config.batch = 4;
  config.steps = kSteps;
  config.lr = 1e-2;
  return config;
}

/// Tokens as a generator of Lehmer's kind gives them.
TokenData tokens_for(const ModelConfig& config) {
  RecordedTokens recorded;
  std::uint64_t state = 20'090'703;
  for (std::int64_t i = 0; i < config.steps * config.batch * (config.seq + 1); ++i) {
    state = state * 48'271 % 2'147'483'647;
    recorded.tokens.push_back(
        static_cast<std::int32_t>(state % static_cast<std::uint64_t>(config.vocab)));
  }
  return value_or_throw(TokenData::of(std::move(recorded), config));
}

struct Setting {
  std::string name;
  ParallelConfig parallel;
  bool pads = false;   ///< experts to their capacity
  bool plain = false;  ///< without options
  int num_ranks() const { return static_cast<int>(parallel.dp_shard * parallel.tp); }
};

std::vector<Setting> settings_of(const std::string& dispatcher) {
  struct Meshed {
    const char* name;
    ParallelConfig parallel;
  };
  const Meshed meshes[] = {
      {"dp_shard 2, ep 2", {.dp_shard = 2, .ep = 2}},
      {"dp_shard 4, ep 4", {.dp_shard = 4, .ep = 4}},
      {"dp_shard 2, tp 2, ep 4", {.dp_shard = 2, .tp = 2, .ep = 4}},
      {"dp_shard 2, tp 2, ep 2, etp 2", {.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2}}};
  std::vector<Setting> settings;
  for (const Meshed& mesh : meshes) {
    const auto add = [&](const char* option, DispatchConfig dispatch, bool pads = false) {
      dispatch.dispatcher = dispatcher;
      dispatch.ranks_per_node = 2;
      Setting setting{absl::StrFormat("%s: %s", mesh.name, option), mesh.parallel, pads};
      setting.parallel.dispatch = dispatch;
      settings.push_back(std::move(setting));
    };
    add("exact sizes", {});
    settings.back().plain = true;
    add("dispatch_chunks 2, expert_alignment 4", {.expert_alignment = 4, .chunks = 2});
    add("rows_bound 1024", {.rows_bound = 1024});
    add("pad_to_capacity", {}, true);
  }
  return settings;
}

/// Whose capacity drops nothing, so that it trains as the model without one.
ModelConfig config_of(const Setting& setting) {
  ModelConfig config = small_config();
  if (!setting.pads) return config;
  config.routing.capacity_factor =
      static_cast<double>(config.num_experts) / static_cast<double>(config.router_top_k);
  config.routing.pad_to_capacity = true;
  return config;
}

/// What rank 0 of a run reports, which is what all do.
StatusOr<std::vector<StepReport>> train(int num_ranks, const ParallelConfig& parallel,
                                        const ModelConfig& config) {
  const TokenData data = tokens_for(config);
  std::vector<StepReport> reports;
  TSR_RETURN_IF_ERROR(run_ranks(num_ranks, kRanks, [&](World& world) {
    Runtime runtime(world);
    Model model(runtime, value_or_throw(MeshViews::make(parallel, world.size())), config,
                DType::kF64);
    model.parameters().initialize(7);
    Trainer trainer(model, data);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      StepReport report = trainer.step(step);
      if (world.rank() == 0) reports.push_back(std::move(report));
    }
  }));
  return reports;
}

/// The first thing in which a run is not `one`, one rank's; "" where there is none.
std::string difference_of(const std::vector<StepReport>& run, const std::vector<StepReport>& one) {
  for (std::size_t step = 0; step < one.size(); ++step) {
    const auto near = [](double a, double b) { return std::abs(a - b) <= kTolerance; };
    if (!near(run[step].loss, one[step].loss)) {
      return absl::StrFormat("the loss of step %d is %.12g, one rank's %.12g", step, run[step].loss,
                             one[step].loss);
    }
    if (!near(run[step].grad_norm, one[step].grad_norm)) {
      return absl::StrFormat("the gradient norm of step %d is %.12g, one rank's %.12g", step,
                             run[step].grad_norm, one[step].grad_norm);
    }
    if (run[step].tokens_per_expert != one[step].tokens_per_expert) {
      return absl::StrFormat("experts of step %d got other numbers of tokens than on one rank",
                             step);
    }
  }
  return "";
}

/// On each rank: a step under forced balance, and what its simulation says of it.
StatusOr<std::string> difference_of_simulation(const Setting& setting) {
  ModelConfig config = config_of(setting);
  config.routing.force_balance = true;
  const TokenData data = tokens_for(config);
  std::vector<std::string> differences(static_cast<std::size_t>(setting.num_ranks()));
  TSR_RETURN_IF_ERROR(run_ranks(setting.num_ranks(), kRanks, [&](World& world) {
    Runtime runtime(world);
    differences[static_cast<std::size_t>(world.rank())] =
        difference_from_simulation(runtime, config, setting.parallel, data, DType::kF64);
  }));
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    return absl::StrFormat("rank %d, simulated: %s", rank, differences[rank]);
  }
  return std::string();
}

/// What is declined is so on every rank: "rank 3: " says only which was first.
std::string without_rank(std::string_view text) {
  const std::size_t end = text.find(": ");
  return std::string(text.starts_with("rank ") && end != text.npos ? text.substr(end + 2) : text);
}

DispatcherCheck judged(const Setting& setting, const std::vector<StepReport>& one) {
  DispatcherCheck check{.setting = setting.name};
  const auto fail = [&](const Status& status) {
    const bool declines = status.code() == absl::StatusCode::kUnimplemented && !setting.plain;
    check.verdict = declines ? Verdict::kDeclined : Verdict::kWrong;
    check.why = declines ? without_rank(message_of(status)) : std::string(message_of(status));
    return check;
  };
  const StatusOr<std::vector<StepReport>> run =
      train(setting.num_ranks(), setting.parallel, config_of(setting));
  if (!run.ok()) return fail(run.status());
  check.why = difference_of(*run, one);
  if (check.why.empty()) {
    const StatusOr<std::string> moved = difference_of_simulation(setting);
    if (!moved.ok()) return fail(moved.status());
    check.why = *moved;
  }
  if (!check.why.empty()) check.verdict = Verdict::kWrong;
  return check;
}

const char* word_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kDeclined:
      return "declined";
    case Verdict::kWrong:
      return "WRONG";
  }
  return "";
}

}  // namespace

std::int64_t DispatcherReport::count(DispatcherCheck::Verdict verdict) const {
  return std::ranges::count(checks, verdict, &DispatcherCheck::verdict);
}

StatusOr<DispatcherReport> verify_dispatcher(std::string_view name) {
  if (find_dispatcher(name) == nullptr) {
    return invalid_argument(absl::StrFormat("dispatcher %s is none of %s", in_quotes(name),
                                            absl::StrJoin(dispatcher_names(), ", ")));
  }
  DispatcherReport report{.dispatcher = std::string(name)};
  TSR_ASSIGN_OR_RETURN(const std::vector<StepReport> one, train(1, {}, small_config()));
  for (const Setting& setting : settings_of(report.dispatcher)) {
    report.checks.push_back(judged(setting, one));
  }
  return report;
}

std::string to_text(const DispatcherReport& report) {
  std::string text;
  for (const DispatcherCheck& check : report.checks) {
    text += absl::StrFormat("%-70s %s\n", check.setting, word_for(check.verdict));
    if (!check.why.empty()) text += absl::StrFormat("  %s\n", check.why);
  }
  text += absl::StrFormat("dispatcher %s: %d settings right, %d declined, %d wrong\n",
                          report.dispatcher, report.count(Verdict::kRight),
                          report.count(Verdict::kDeclined), report.count(Verdict::kWrong));
  return text;
}

}  // namespace tessera
