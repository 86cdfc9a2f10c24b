// tessera-train: trains the reference mixture of experts on embedded ranks and shows what moved.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "io/exit_code.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "moe/report.h"
#include "moe/trainer.h"
#include "moe/weights.h"
#include "tools/tessera_train/options.h"

namespace tessera {
namespace {

/// The JSONL log: opened by rank 0 once every check has passed, one flushed line a step.
class StepLog {
 public:
  explicit StepLog(const std::string& path) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "w"));
    if (!file_)
      throw Error(io_error("--log " + in_quotes(path) + ": cannot be opened for writing"));
  }
  void write(const StepReport& report) {
    if (!file_) return;
    const std::string line = to_json_line(report) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
        std::fflush(file_.get()) != 0) {
      throw Error(io_error("--log: a line could not be written"));
    }
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

void print_header(const TrainPlan& plan, Model& model) {
  const ModelConfig& c = plan.config;
  std::printf("model: %lld parameters in %zu tensors, %lld layers, %lld experts, %s\n",
              static_cast<long long>(model.parameters().num_elements()),
              model.parameters().all().size(), static_cast<long long>(c.n_layers),
              static_cast<long long>(c.num_experts), std::string(name_of(plan.dtype)).c_str());
  std::printf("ranks: dense mesh %s, sparse mesh %s, sequence parallel %s\n",
              plan.views.dense().to_string().c_str(), plan.views.sparse().to_string().c_str(),
              plan.views.uses_sequence_parallel() ? "on" : "off");
  std::fflush(stdout);
}

void print_step(const StepReport& report, std::int64_t num_steps) {
  std::printf("step %3lld/%lld  loss %.6f  grad_norm %.4f  lr %.2e  %.0f tokens/s\n",
              static_cast<long long>(report.step + 1), static_cast<long long>(num_steps),
              report.loss, report.grad_norm, report.lr,
              static_cast<double>(report.num_tokens) / report.seconds);
  std::fflush(stdout);
}

/// What one rank leaves for the end of the run.
struct RankOutcome {
  std::vector<EventLog::Total> totals;
  std::string parameters;
  std::vector<double> losses;
};

void train_rank(World& world, const TrainFlags& flags, const TrainPlan& plan,
                RankOutcome& outcome) {
  Runtime runtime(world);
  runtime.events().summarize_only();
  Model model(runtime, plan.views, plan.config, plan.dtype);
  if (flags.init.empty()) {
    model.parameters().initialize(flags.seed);
  } else {
    const SafetensorsFile file = value_or_throw(SafetensorsFile::open(flags.init));
    throw_if_error(check_weights(file, model));
    load_weights(file, model);
  }
  const bool speaks = world.rank() == 0;
  StepLog log(speaks ? flags.log : std::string());
  if (speaks) print_header(plan, model);
  Trainer trainer(model, plan.data);
  for (std::int64_t step = 0; step < plan.num_steps; ++step) {
    const StepReport report = trainer.step(step);
    outcome.losses.push_back(report.loss);
    if (!speaks) continue;
    print_step(report, plan.num_steps);
    log.write(report);
  }
  outcome.totals = runtime.events().totals();
  if (speaks) outcome.parameters = describe_parameters(model, -1);
}

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void print_summary(const std::vector<RankOutcome>& outcomes) {
  const std::span<const double> losses = outcomes[0].losses;
  constexpr std::size_t kWindow = 5;
  if (losses.size() >= 2 * kWindow) {
    const double first = mean_of(losses.first(kWindow));
    const double last = mean_of(losses.last(kWindow));
    std::printf("mean loss of the first %zu steps %.4f, of the last %zu %.4f: %.4f lower\n",
                kWindow, first, kWindow, last, first - last);
  }
  std::vector<std::vector<EventLog::Total>> totals;
  for (const RankOutcome& outcome : outcomes) totals.push_back(outcome.totals);
  std::printf("\n%s\n%s", describe_moves(totals).c_str(), outcomes[0].parameters.c_str());
}

Status run(const TrainFlags& flags) {
  TSR_ASSIGN_OR_RETURN(const TrainPlan plan, make_train_plan(flags));
  std::vector<RankOutcome> outcomes(static_cast<std::size_t>(flags.ranks));
  const WorldOptions options = {.threads_per_rank = static_cast<int>(flags.threads)};
  const auto body = [&](World& world) {
    train_rank(world, flags, plan, outcomes[static_cast<std::size_t>(world.rank())]);
  };
  TSR_RETURN_IF_ERROR(run_ranks(static_cast<int>(flags.ranks), options, body));
  print_summary(outcomes);
  return absl::OkStatus();
}

void add_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--config", flags.config, "model and recipe (JSON)")->required();
  app.add_option("--parallel", flags.parallel,
                 "degrees, e.g. {\"dp_shard\":2,\"tp\":2,\"ep\":2,\"sequence_parallel\":true}");
  app.add_option("--ranks", flags.ranks, "number of ranks; the product of the degrees");
  app.add_option("--backend", flags.backend, "threads (mpi and nccl: not in this version)");
  app.add_option("--data", flags.data, "text files, or one .safetensors file with tokens")
      ->required();
  app.add_option("--dtype", flags.dtype, "type of computation: F32, F64 or BF16");
  app.add_option("--init", flags.init, "weights (safetensors); else random ones");
  app.add_option("--steps", flags.steps,
                 "steps to run; beyond the config's, the learning-rate schedule is stretched");
  app.add_option("--seed", flags.seed, "of random weights");
  app.add_option("--log", flags.log, "one JSON line a step");
  app.add_option("--threads", flags.threads, "library threads of each rank; 0: cores / ranks");
  app.add_option("--save", flags.save, "not in this version");
  app.add_option("--load", flags.load, "not in this version");
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::ExitCode;
  tessera::TrainFlags flags;
  CLI::App app("Trains a DeepSeek-V3-style mixture of experts on embedded ranks.", "tessera-train");
  tessera::add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tessera-train: %s\n", error.what());
    return static_cast<int>(ExitCode::kUsage);
  }
  tessera::Status status;
  try {
    status = tessera::run(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera-train: %s\n", error.what());
    return static_cast<int>(ExitCode::kDefect);
  }
  if (status.ok()) return static_cast<int>(ExitCode::kFine);
  std::fprintf(stderr, "tessera-train: %s\n", std::string(tessera::message_of(status)).c_str());
  return static_cast<int>(tessera::exit_code_for(status));
}
