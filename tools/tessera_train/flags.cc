#include "tools/tessera_train/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "placement/status.h"
#include "placement/version.h"
#include "tools/command_line_error.h"

namespace tessera {
namespace {

/// The whole number that `text` is, if it is one from `least` to `most`.
template <typename Number>
std::optional<Number> number_in(const std::string& text, Number least, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < least || number > most) return std::nullopt;
  return number;
}

/// Anything but a whole number from `least` to `most` is refused as it was written.
template <typename Number, typename Field>
void add_number(CLI::App& app, const std::string& name, Field& field, Number least, Number most,
                const std::string& doc) {
  const auto read = [=, &field](const std::string& text) {
    const std::optional<Number> number = number_in(text, least, most);
    if (!number) {
      throw CLI::ValidationError(name, in_quotes(text) + ": whole numbers from " +
                                           std::to_string(least) + " to " + std::to_string(most) +
                                           " are allowed");
    }
    field = *number;
  };
  app.add_option_function<std::string>(name, read, doc)->type_name("INT");
}

void add_timeout(CLI::App& app, std::optional<std::int64_t>& seconds) {
  const auto read = [&seconds](const std::string& text) {
    seconds = number_in<std::int64_t>(text, 1, kMaxTimeoutSeconds);
    if (seconds || text == "never") return;
    throw CLI::ValidationError("--timeout", in_quotes(text) + ": seconds from 1 to " +
                                                std::to_string(kMaxTimeoutSeconds) +
                                                ", or never, are allowed");
  };
  app.add_option_function<std::string>(
         "--timeout", read,
         "seconds that a rank waits for another before the job ends (60), or never")
      ->type_name("INT|never");
}

/// What trains where, on what.
void add_job_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--config", flags.config, "model and recipe (JSON)")->required();
  app.add_option("--parallel", flags.parallel,
                 "degrees, e.g. {\"dp_shard\":2,\"tp\":2,\"ep\":2,\"sequence_parallel\":true}");
  app.add_option("--plan", flags.plan,
                 "a placed program of the step (placement-audit trace --train CONFIG --open, then "
                 "solve): steps run by it, on as many ranks as it has");
  add_number<std::int64_t>(
      app, "--ranks", flags.ranks, 1, kMaxProcesses,
      "number of ranks; the product of the degrees. Of processes: as many as are started");
  app.add_option(
      "--backend", flags.backend,
      "threads: ranks of this process; mpi: processes of mpirun; nccl: ranks with a card each, "
      "that "
      "move data by NCCL (with --device emulated: by NCCL emulated): processes of torchrun or "
      "mpirun, else of this process");
  app.add_option("--device", flags.device,
                 "where arrays lie and kernels run: cpu, cuda, or emulated: the kernels of cuda on "
                 "the processor");
  app.add_flag("--capture", flags.capture,
               "the second step becomes one piece of device work (on cuda a graph), which is done "
               "again for all later steps; needs a device, and dispatch without host reads");
  app.add_option("--data", flags.data, "text files, or one .safetensors file with tokens");
  app.add_option("--dtype", flags.dtype, "type of computation: F32, F64 or BF16");
  app.add_option(
      "--init", flags.init,
      "first weights: a safetensors file, a folder of them with an index, or a checkpoint");
  add_number<std::int64_t>(
      app, "--steps", flags.steps, 1, kMaxSteps,
      "steps to run; beyond the config's, the learning-rate schedule is stretched");
  add_number<std::uint64_t>(app, "--seed", flags.seed, 0, std::numeric_limits<std::uint64_t>::max(),
                            "of random weights");
  app.add_option("--log", flags.log, "one JSON line a step");
}

/// Saves, and what a run goes on from.
void add_checkpoint_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--save", flags.save, "folder of the run's checkpoint, replaced by each save");
  add_number<std::int64_t>(app, "--save-every", flags.save_every, 0, kMaxSteps,
                           "steps between saves; 0: after the last only");
  add_number<std::int64_t>(app, "--keep", flags.keep, 1, kMaxKept,
                           "saves that stay in the folder, the last one among them");
  app.add_flag("--verify", flags.verify,
               "read each save again from the disk before it replaces the one before");
  app.add_option("--load", flags.load, "folder of a checkpoint to go on from, of any mesh");
  app.add_flag("--resume", flags.resume,
               "go on from the checkpoint of --save, where there is one: for a job that is started "
               "again as it was, possibly on another number of ranks");
  add_number<std::int64_t>(app, "--generation", flags.generation, 1, kMaxGeneration,
                           "of --load: a save that --keep has kept; else the last");
}

/// Parsing `app` then fills `flags`.
void add_flags(CLI::App& app, TrainFlags& flags) {
  add_job_flags(app, flags);
  app.add_option("--recorder", flags.recorder,
                 "folder for the ranks' flight records, kept; else they are kept after a failure");
  app.add_option("--trace", flags.trace,
                 "what moved when, as a Chrome trace (JSON) for Perfetto or chrome://tracing");
  add_number<std::int64_t>(app, "--threads", flags.threads, 0, kMaxLibraryThreads,
                           "library threads of each rank; 0: cores / ranks");
  add_timeout(app, flags.timeout);
  app.add_flag("--show-schedule", flags.show_schedule,
               "print who runs which micro-batch when in the pipeline, and end");
  app.add_flag("--checked", flags.checked,
               "on MPI and NCCL: ranks compare their calls before data move");
  app.add_option("--reduce", flags.reduce,
                 "who forms sums: ordered: folds in order of rank, the same bits on every backend; "
                 "native: NCCL, in an order of its own");
  app.add_option("--exchange", flags.exchange,
                 "how boxes of a plan go over NCCL: messages: packed, sent and landed; windows: "
                 "packed straight into peers' memory, where NCCL maps it");
  app.add_option("--topology", flags.topology,
                 "what moves are planned by: host, node8, cluster, or a JSON file, such as "
                 "placement-audit measure writes; left out: host");
  add_checkpoint_flags(app, flags);
  app.add_flag("--placements", flags.placements,
               "print how each parameter lies on its mesh and end; starts no rank, needs no data");
  add_number<std::int64_t>(
      app, "--simulate", flags.simulate, 0, kMaxProcesses - 1,
      "print what this rank would move in a step under forced routing (the config's "
      "force_balance or forced_loads) and end; starts no rank");
  app.add_option("--format", flags.format, "of --placements: text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

}  // namespace

StatusOr<std::string> parse_flags(int argc, const char* const* argv, TrainFlags& flags) {
  CLI::App app("Trains a DeepSeek-V3-style mixture of experts on embedded ranks.", "tessera-train");
  app.set_version_flag("--version", "tessera-train " + std::string(version()));
  add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion&) {
    return app.version() + "\n";
  } catch (const CLI::ParseError& error) {
    return invalid_argument(command_line_error(app, error));
  }
  return std::string();
}

}  // namespace tessera
