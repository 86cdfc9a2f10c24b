// tessera-train: trains the reference mixture of experts on embedded ranks and shows what moved.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "devices/nccl/ranks.h"
#include "io/exit_code.h"
#include "io/json.h"
#include "moe/train/optimizer_config.h"
#include "moe/train/plan_trainer.h"
#include "moe/train/report.h"
#include "moe/train/trainer.h"
#include "moe/train/weights.h"
#include "placement/printable.h"
#include "runtime/control/launch.h"
#include "runtime/mpi_world.h"
#include "tools/tessera_train/checkpoints.h"
#include "tools/tessera_train/emulated_program.h"
#include "tools/tessera_train/flags.h"
#include "tools/tessera_train/options.h"
#include "tools/tessera_train/placements.h"
#include "tools/tessera_train/signals.h"
#include "tools/tessera_train/trace_file.h"

namespace tessera {
namespace {

void print_error(std::string_view text) {
  std::fprintf(stderr, "tessera-train: %s\n", printable(text).c_str());
}

/// The JSONL log: opened by rank 0 once every check has passed, one flushed line a step.
class StepLog {
 public:
  /// `mode`: fopen()'s.
  StepLog(const std::string& path, const char* mode) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), mode));
    if (!file_) {
      throw Error(io_error("--log " + in_quotes(path) + ": cannot be opened for writing: " +
                           std::generic_category().message(errno)));
    }
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

/// Of all pipeline stages.
struct ModelSize {
  std::int64_t elements = 0;
  std::int64_t tensors = 0;
};
ModelSize size_of_all_stages(Model& model) {
  std::array<double, 2> sums = {static_cast<double>(model.parameters().num_elements()),
                                static_cast<double>(model.parameters().all().size())};
  model.stage_group().all_reduce(sums, ReduceOp::kSum, "num_parameters");
  return {static_cast<std::int64_t>(sums[0]), static_cast<std::int64_t>(sums[1])};
}

void print_header(World& world, const TrainPlan& plan, const Model& model, const ModelSize& size) {
  const ModelConfig& c = plan.config;
  const Device& device = world.allocator()->device();
  if (&device != &cpu_device()) std::printf("device: %s\n", to_string(device.id()).c_str());
  std::printf("model: %lld parameters in %lld tensors, %lld layers, %lld experts, %s\n",
              static_cast<long long>(size.elements), static_cast<long long>(size.tensors),
              static_cast<long long>(c.n_layers), static_cast<long long>(c.num_experts),
              std::string(name_of(plan.dtype)).c_str());
  std::printf("ranks: dense mesh %s, sparse mesh %s, sequence parallel %s\n",
              plan.views.dense().to_string().c_str(), plan.views.sparse().to_string().c_str(),
              plan.views.uses_sequence_parallel() ? "on" : "off");
  const PipelineShape& shape = model.plan().shape;
  if (shape.ranks > 1) {
    std::printf("pipeline: %lld stages on %lld blocks of ranks, %lld micro-batches a step\n",
                static_cast<long long>(shape.num_stages()), static_cast<long long>(shape.ranks),
                static_cast<long long>(shape.micro_batches));
  }
  std::fflush(stdout);
}

void print_step(const StepReport& report, std::int64_t num_steps) {
  std::printf("step %3lld/%lld  loss %.6f  grad_norm %.4f  lr %.2e  %.0f tokens/s\n",
              static_cast<long long>(report.step + 1), static_cast<long long>(num_steps),
              report.loss, report.grad_norm, report.lr,
              static_cast<double>(report.num_tokens) / report.seconds);
  std::fflush(stdout);
}

void print_resumed(const TrainFlags& flags, const TrainProgress& progress) {
  std::printf("resumed from %s: %lld steps are done\n", in_quotes(flags.load).c_str(),
              static_cast<long long>(progress.step));
  for (const std::string& change : progress.changes) {
    std::printf("changed since it was saved: %s\n", change.c_str());
  }
  std::fflush(stdout);
}

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void print_losses(std::span<const double> losses) {
  constexpr std::size_t kWindow = 5;
  if (losses.size() < 2 * kWindow) return;
  const double first = mean_of(losses.first(kWindow));
  const double last = mean_of(losses.last(kWindow));
  std::printf("mean loss of the first %zu steps %.4f, of the last %zu %.4f: %.4f lower\n", kWindow,
              first, kWindow, last, first - last);
}

/// First weights: random, of files, or of a checkpoint. Collective: yes.
void initialize(World& world, const TrainFlags& flags, Model& model) {
  if (!flags.load.empty()) return;
  if (flags.init.empty()) return model.parameters().initialize(flags.seed);
  if (std::filesystem::exists(flags.init + "/" + std::string(kManifestName))) {
    const std::unique_ptr<FileSystem> files =
        open_checkpoints(world, "--init", flags.init, MissingFolder::kError);
    return load_initial_weights(*files, model);
  }
  const WeightFiles files = value_or_throw(WeightFiles::open(flags.init));
  throw_if_error(check_weights(files, model));
  load_weights(files, model);
}

/// How far the run of --load was; else its beginning. Collective: yes.
TrainProgress begin_of(World& world, const TrainFlags& flags, Model& model, Trainer& trainer) {
  if (flags.load.empty()) return {.step = 0, .seed = flags.seed};
  const std::unique_ptr<FileSystem> files =
      open_checkpoints(world, "--load", flags.load, MissingFolder::kError);
  return load_train_state(*files, model, trainer, flags.generation);
}

void print_ended(int signal, std::int64_t step, std::int64_t num_steps) {
  std::printf("ended by signal %d after step %lld of %lld\n", signal, static_cast<long long>(step),
              static_cast<long long>(num_steps));
}

/// The same as train_rank(), by a placed program.
int train_by_plan(Runtime& runtime, const TrainFlags& flags, const TrainPlan& plan,
                  Signals& signals) {
  World& world = runtime.world();
  PlanTrainer trainer(runtime, *plan.program, plan.config, plan.data, plan.dtype);
  if (flags.init.empty()) {
    trainer.initialize(flags.seed);
  } else {
    trainer.load(value_or_throw(WeightFiles::open(flags.init)));
  }
  const bool speaks = world.rank() == 0;
  StepLog log(speaks ? flags.log : std::string(), "w");
  if (speaks) {
    std::printf("plan: %s, %zu steps, %lld ranks, %s\n", in_quotes(plan.program->name).c_str(),
                plan.program->steps.size(), static_cast<long long>(plan.program->ranks),
                std::string(name_of(plan.dtype)).c_str());
  }
  std::vector<double> losses;
  std::int64_t step = 0;
  int signal = 0;
  signals.note_training(true);
  while (step < plan.num_steps && (signal = asked_to_end(world, signals)) == 0) {
    const StepReport report = trainer.step(step++);
    losses.push_back(report.loss);
    if (!speaks) continue;
    print_step(report, plan.num_steps);
    log.write(report);
  }
  signals.note_training(false);
  const std::vector<std::vector<EventLog::Total>> totals = gather_totals(world);
  const std::string memory = describe_memory(world);
  if (signal != 0) signals.keep_records();
  if (!speaks) return signal;
  if (signal != 0) print_ended(signal, step, plan.num_steps);
  print_losses(losses);
  std::printf("\n%s\n%s", describe_moves(totals).c_str(), memory.c_str());
  std::fflush(stdout);
  return signal;
}

/// Returns the signal that ended the run before its time, or 0.
int train_rank(World& world, const TrainFlags& flags, const TrainPlan& plan, Signals& signals) {
  if (!world.recorder_dir().empty()) signals.watch(world.recorder_dir(), world.rank());
  Runtime runtime(world, plan.topology);
  if (!runtime.events().is_tracing()) runtime.events().summarize_only();
  if (plan.program) return train_by_plan(runtime, flags, plan, signals);
  Model model(runtime, plan.views, plan.config, plan.dtype);
  initialize(world, flags, model);
  Trainer trainer(model, plan.data, flags.capture ? StepMode::kCaptured : StepMode::kEach);
  TrainProgress progress = begin_of(world, flags, model, trainer);
  Saver saver(world, flags);
  const bool speaks = world.rank() == 0;
  StepLog log(speaks ? flags.log : std::string(), is_resumed(flags) ? "a" : "w");
  const ModelSize size = size_of_all_stages(model);
  if (speaks) print_header(world, plan, model, size);
  if (speaks && progress.step > 0) print_resumed(flags, progress);
  const std::optional<std::string> cut_short = learning_rate_of(plan.config).warning();
  if (speaks && cut_short) print_error("warning: " + *cut_short);
  std::vector<double> losses;
  int signal = 0;
  signals.note_training(true);
  while (progress.step < plan.num_steps && (signal = asked_to_end(world, signals)) == 0) {
    const StepReport report = trainer.step(progress.step++);
    losses.push_back(report.loss);
    saver.after_step(model, trainer, progress);
    if (!speaks) continue;
    print_step(report, plan.num_steps);
    log.write(report);
  }
  signals.note_training(false);
  saver.finish(model, trainer, progress);
  const std::vector<std::vector<EventLog::Total>> totals = gather_totals(world);
  const std::string memory = describe_memory(world);
  if (signal != 0) signals.keep_records();
  if (!speaks) return signal;
  if (signal != 0) print_ended(signal, progress.step, plan.num_steps);
  print_losses(losses);
  std::printf("\n%s\n%s\n%s", describe_moves(totals).c_str(), memory.c_str(),
              describe_parameters(model, -1).c_str());
  std::fflush(stdout);
  return signal;
}

/// The mesh whose coords a trace shows of this rank: that of its pipeline stage.
Mesh mesh_of_rank(const TrainPlan& plan, const World& world) {
  if (plan.program && !plan.program->meshes.empty()) return plan.program->meshes[0].mesh;
  return value_or_throw(plan.views.at_stage(plan.views.stage_of(world.rank()))).dense();
}

WorldOptions world_options(const TrainFlags& flags) {
  return {.timeout = std::chrono::seconds(flags.timeout.value_or(-1)),
          .threads_per_rank = static_cast<int>(flags.threads),
          .checks = flags.checked ? CallChecks::kOn : CallChecks::kOff,
          .reduce = flags.reduce == "native" ? ReduceBy::kNative : ReduceBy::kOrdered,
          .recorder_dir = flags.recorder};
}

NcclOptions nccl_options(const TrainFlags& flags, WorldOptions world) {
  return {.world = std::move(world),
          .exchange = flags.exchange == "windows" ? ExchangeBy::kWindows : ExchangeBy::kMessages};
}

/// What a run needs beside its flags, and what is known of it at its end.
struct Job {
  Signals& signals;
  std::string records = {};     ///< folder of the flight records
  std::atomic<int> signal = 0;  ///< that ended it before its time
};

Status run_on_threads(TrainFlags& flags, Job& job) {
  const std::int64_t ranks = flags.ranks.value_or(1);
  resume_from_save(flags);
  TSR_ASSIGN_OR_RETURN(const TrainPlan plan, make_train_plan(flags));
  WorldOptions options = world_options(flags);
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", flags.device));
  std::optional<TraceFile> trace;
  if (!flags.trace.empty()) {
    TSR_ASSIGN_OR_RETURN(trace, TraceFile::create(flags.trace));
  }
  std::vector<std::string> parts(static_cast<std::size_t>(ranks));
  const auto train_here = [&](World& world) {
    if (world.rank() == 0) job.records = world.recorder_dir();
    const auto train = [&] { job.signal = train_rank(world, flags, plan, job.signals); };
    if (!trace) return train();
    run_traced(world, mesh_of_rank(plan, world), parts[static_cast<std::size_t>(world.rank())],
               train);
  };
  Status status;
  if (flags.backend == "nccl") {
    status = run_nccl_ranks_on(device, static_cast<int>(ranks),
                               nccl_options(flags, std::move(options)), train_here);
  } else {
    TSR_ASSIGN_OR_RETURN(options.allocator, memory_of_devices(device));
    status = run_ranks(static_cast<int>(ranks), options, train_here);
  }
  const Status written = trace ? write_trace(*trace, parts) : absl::OkStatus();
  return status.ok() ? written : status;
}

/// Tells of a failure, and where the flight records lie.
using Report = std::function<void(const Status& failure, const std::string& records)>;

// Each process reads the files; one that cannot ends the others' run.
void train_process(World& world, TrainFlags flags, Job& job) {
  job.records = world.recorder_dir();
  resume_from_save(world, flags);
  const TrainPlan plan = value_or_throw(make_train_plan(flags));
  const auto train = [&] { job.signal = train_rank(world, flags, plan, job.signals); };
  if (flags.trace.empty()) return train();
  run_traced_process(world, mesh_of_rank(plan, world), flags.trace, train);
}

Status run_on_mpi(const TrainFlags& flags, const Report& report, Job& job) {
  MpiOptions options = {.world = world_options(flags),
                        .on_failure = [&](const Status& failure) { report(failure, job.records); }};
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", flags.device));
  if (device != DeviceId::Kind::kCpu) {  // where one process has none, all ranks refuse
    options.world.allocator = [device](std::int64_t rank) {
      return value_or_throw(memory_of_devices(device))(rank);
    };
  }
  return run_mpi_rank(options, [&](World& world) { train_process(world, flags, job); });
}

Status run_on_nccl(const TrainFlags& flags, const Launch& launch, const Report& report, Job& job) {
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", flags.device));
  NcclOptions options = nccl_options(flags, world_options(flags));
  options.on_failure = [&](const Status& failure) { report(failure, job.records); };
  return run_nccl_process_on(device, launch, std::move(options),
                             [&](World& world) { train_process(world, flags, job); });
}

Status show_schedule(const TrainFlags& flags, bool speaks) {
  TSR_ASSIGN_OR_RETURN(const TrainPlan plan, make_train_plan(flags));
  const ParallelConfig& parallel = plan.views.config();
  TSR_ASSIGN_OR_RETURN(const PipelinePlan pipeline, plan_pipeline(plan.config, parallel));
  TSR_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                       make_schedule(parallel.pp_schedule, pipeline.shape));
  TSR_ASSIGN_OR_RETURN(const std::string text, describe_schedule(schedule));
  if (speaks) std::printf("%s", text.c_str());
  return absl::OkStatus();
}

// What all ranks know is said once; of a lost rank each survivor tells.
void report_failure(const Status& failure, const std::string& records, std::int64_t rank) {
  const bool lost = absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure);
  if (rank != 0 && !lost) return;
  print_error(message_of(failure));
  if (!records.empty() && std::filesystem::exists(records)) {
    std::fprintf(stderr, "flight records: %s\n", printable(records).c_str());
  }
  std::fflush(nullptr);
}

int exit_code_of(const Job& job) { return job.signal == 0 ? 0 : 128 + job.signal; }

/// As one of MPI's processes. After a failure MPI cannot be finalised, as ranks may be dead: the
/// first to abort ends the others, so all have said before what they had to.
int run_process(TrainFlags& flags, MpiSession& session, Signals& signals) {
  Job job{signals};
  bool told = false;
  const Report report = [&](const Status& failure, const std::string& records) {
    told = true;
    signals.note_training(false);
    report_failure(failure, records, session.rank());
  };
  Status status = check_launch(flags, "mpirun", session.size());
  if (status.ok()) status = run_on_mpi(flags, report, job);
  if (status.ok()) return exit_code_of(job);
  if (!told) {  // no World was made
    report(status, "");
    session.wait_for_all(std::chrono::seconds(2));
  }
  const auto code = static_cast<int>(exit_code_for(status));
  session.abort(code);
  return code;  // GCC does not see that abort() never returns
}

/// As one of a launcher's processes, without MPI. All have said what they had to before any ends.
int run_process(TrainFlags& flags, const Launch& launch, Signals& signals) {
  Job job{signals};
  bool told = false;
  const Report report = [&](const Status& failure, const std::string& records) {
    told = true;
    signals.note_training(false);
    report_failure(failure, records, launch.rank);
  };
  const Status fits = check_launch(flags, launch.launcher, launch.size);
  if (!fits.ok()) {
    report(fits, "");
    return static_cast<int>(ExitCode::kUsage);
  }
  const Status status = run_on_nccl(flags, launch, report, job);
  if (status.ok()) return exit_code_of(job);
  if (!told) report(status, job.records);
  return static_cast<int>(exit_code_for(status));
}

/// Where ranks are processes, what has started them.
struct Launchers {
  std::unique_ptr<MpiSession> mpi;
  std::optional<Launch> other;
  std::int64_t rank() const { return mpi ? mpi->rank() : other ? other->rank : 0; }
};

int run(TrainFlags& flags, const Launchers& launchers, Signals& signals) {
  if (flags.show_schedule) {
    const Status status = show_schedule(flags, launchers.rank() == 0);
    if (!status.ok()) report_failure(status, "", launchers.rank());
    return static_cast<int>(exit_code_for(status));
  }
  if (launchers.mpi) return run_process(flags, *launchers.mpi, signals);
  if (launchers.other) return run_process(flags, *launchers.other, signals);
  Job job{signals};
  const Status status = run_on_threads(flags, job);
  if (status.ok()) return exit_code_of(job);
  report_failure(status, job.records, 0);
  return static_cast<int>(exit_code_for(status));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::ExitCode;
  tessera::TrainFlags flags;
  const tessera::StatusOr<std::string> said = tessera::parse_flags(argc, argv, flags);
  if (!said.ok()) {
    tessera::print_error(tessera::message_of(said.status()));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (!said->empty()) {
    std::fputs(said->c_str(), stdout);
    return static_cast<int>(ExitCode::kFine);
  }
  if (const tessera::Status status = tessera::check_flags(flags); !status.ok()) {
    tessera::print_error(tessera::message_of(status));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (flags.device == "emulated" && !tessera::has_emulated_devices()) {
    const tessera::Status status = tessera::become_emulated_program(argv);
    tessera::print_error(tessera::message_of(status));
    return static_cast<int>(tessera::exit_code_for(status));
  }
  tessera::Launchers launchers;
  if (flags.backend == "nccl") {
    tessera::StatusOr<std::optional<tessera::Launch>> launch = tessera::read_launch();
    if (!launch.ok()) {
      tessera::print_error(tessera::message_of(launch.status()));
      return static_cast<int>(ExitCode::kUsage);
    }
    launchers.other = *std::move(launch);
  }
  try {
    if (flags.placements) {
      tessera::print_placements(flags);
      return static_cast<int>(ExitCode::kFine);
    }
    if (flags.simulate) {
      tessera::print_simulation(flags);
      return static_cast<int>(ExitCode::kFine);
    }
    tessera::Signals signals;  // before MPI's threads
    if (flags.backend == "mpi") {
      launchers.mpi = tessera::value_or_throw(tessera::MpiSession::start());
    }
    return tessera::run(flags, launchers, signals);
  } catch (const tessera::Error& error) {
    tessera::print_error(error.what());
    return static_cast<int>(tessera::exit_code_for(error.status()));
  } catch (const std::bad_alloc&) {
    tessera::print_error("out of memory");
    return static_cast<int>(ExitCode::kInputOutput);
  } catch (const std::exception& error) {
    tessera::print_error(error.what());
    return static_cast<int>(ExitCode::kDefect);
  }
}
