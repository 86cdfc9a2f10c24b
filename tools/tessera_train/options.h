// tools/tessera_train/options.h: the command line of tessera-train, read and checked before any
// rank starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "moe/train/config.h"
#include "moe/train/data.h"
#include "placement/topology.h"
#include "program/program.h"

namespace tessera {

constexpr std::int64_t kMaxThreads = 256;         ///< ranks as threads
constexpr std::int64_t kMaxProcesses = 65'536;    ///< ranks of mpirun or torchrun
constexpr std::int64_t kMaxLibraryThreads = 256;  ///< of one rank
constexpr std::int64_t kMaxSteps = 1'000'000'000;
constexpr std::int64_t kMaxKept = 1'000;                 ///< generations of a checkpoint
constexpr std::int64_t kMaxTimeoutSeconds = 31'536'000;  ///< a year

/// Flags as written.
struct TrainFlags {
  std::string config;
  std::string parallel = "{}";
  std::string plan;  ///< a placed program by which steps run; empty: the model's own form
  std::optional<std::int64_t> ranks = {};  ///< none: one thread, or all processes launched
  std::string backend = "threads";
  std::string device = "cpu";  ///< where arrays lie and kernels run
  bool capture = false;        ///< the second step is captured, and done again
  std::vector<std::string> data;
  std::string dtype = "F32";
  std::string init;
  std::int64_t steps = 0;  ///< 0: the config's
  std::uint64_t seed = 42;
  std::string log;
  std::string recorder;  ///< folder of the flight records; empty: see WorldOptions
  std::string trace;
  std::string save, load;
  bool resume = false;                          ///< from what --save has, where it has something
  std::int64_t save_every = 0;                  ///< Units: steps; 0: after the last only
  std::int64_t keep = 1;                        ///< generations of --save that stay
  bool verify = false;                          ///< each save is read back
  std::optional<std::int64_t> generation = {};  ///< of --load; none: the last
  std::optional<std::int64_t> timeout = 60;     ///< Units: seconds; none: for ever
  bool checked = false;
  std::string reduce = "ordered";
  std::string exchange = "messages";
  std::string topology;  ///< a preset or a file; empty: moves are planned as on one host
  bool show_schedule = false;
  std::optional<std::int64_t> simulate = {};  ///< the rank whose moves to print instead of training
  bool placements = false;      ///< print the parameters' placements instead of training
  std::string format = "text";  ///< of that: text or json
  std::int64_t threads = 0;     ///< library threads per rank; 0: cores / ranks
};

/// The run goes on from what its --save held, see resume_from_save().
inline bool is_resumed(const TrainFlags& flags) {
  return flags.resume && !flags.save.empty() && flags.load == flags.save;
}

/// What is wrong whatever the files hold: usage, as CLI11's own errors are. Errors:
/// InvalidArgument, and Unimplemented, naming the flag, what was seen and what is allowed.
Status check_flags(const TrainFlags& flags);

/// Everything a run needs, checked.
struct TrainPlan {
  ModelConfig config;
  MeshViews views;
  DType dtype = DType::kF32;
  TokenData data;
  std::int64_t num_steps = 0;
  std::optional<Topology> topology;     ///< none: as on one host
  std::optional<Program> program = {};  ///< of --plan; `views` are then of one rank
};
/// That of --topology. Errors: InvalidArgument naming the flag.
StatusOr<std::optional<Topology>> topology_of(const TrainFlags& flags);
/// Requires flags that check_flags() finds right. Errors: InvalidArgument or io_error naming the
/// flag or file; Unimplemented for what this version does not have.
StatusOr<TrainPlan> make_train_plan(const TrainFlags& flags);

/// Completes and checks --ranks against the number of processes that a launcher has started.
Status check_launch(TrainFlags& flags, std::string_view launcher, std::int64_t num_processes);

}  // namespace tessera
