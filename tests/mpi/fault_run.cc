// A training run in which one rank meets with a fault at its n-th call: it is killed, stopped, or
// throws. Every other rank writes what its calls then returned, and when, to a file of its own.
//   fault_run BACKEND RANKS KIND RANK CALL FOLDER SLOWED
// BACKEND: threads|mpi. KIND: kill|stop|throw|launcher|kill_moving|kill_sending; with the last two
// long arrays are gathered, exchanged and reduced instead, with kill_sending those of emulated
// devices. SLOWED: ms that every other survivor takes to tell of its end.
#include "tests/mpi/fault_run.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "kernels/cuda_device.h"
#include "moe/train/trainer.h"
#include "moe/train/weights.h"
#include "runtime/mpi_world.h"

namespace tessera {
namespace {

using testing::FaultKind;
using testing::FaultPlan;

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void write_line(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text << "\n" << std::flush;
}

/// Counts this rank's calls in all groups; at the planned one the fault happens.
class Fault {
 public:
  Fault(const FaultPlan& plan, std::int64_t rank) : plan_(plan), rank_(rank) {}
  void before_call() {
    if (rank_ != plan_.rank || num_calls_++ != plan_.call) return;
    const char* job = std::getenv("PMIX_NAMESPACE");
    write_line(plan_.folder + "/fault",
               std::to_string(now_ms()) + "\n" + (job == nullptr ? "" : job));
    switch (plan_.kind) {
      case FaultKind::kKill:
        raise(SIGKILL);
        break;
      case FaultKind::kStop:
        raise(SIGSTOP);
        break;
      case FaultKind::kThrow:
        throw Error(absl::ResourceExhaustedError("a planned fault"));
      case FaultKind::kLauncher:
        ::kill(::getppid(), SIGKILL);
        break;
      case FaultKind::kKillMoving:
      case FaultKind::kKillSending:
        std::thread([delay = std::chrono::microseconds(plan_.call * 397 % 9000)] {
          std::this_thread::sleep_for(delay);
          raise(SIGKILL);
        }).detach();
        break;
    }
  }

 private:
  const FaultPlan& plan_;
  std::int64_t rank_;
  std::int64_t num_calls_ = 0;
};

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(Communicator& inner, Fault& fault) : inner_(inner), fault_(fault) {}
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  std::int64_t world_rank(int group_rank) const override { return inner_.world_rank(group_rank); }
  std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) override {
    fault_.before_call();
    return inner_.start(std::move(call), info);
  }

 private:
  Communicator& inner_;
  Fault& fault_;
};

/// A rank's World whose calls pass by the fault.
class WatchedWorld final : public World {
 public:
  WatchedWorld(World& inner, const FaultPlan& plan) : inner_(inner), fault_(plan, inner.rank()) {
    allocator_ = inner.allocator();
  }
  std::int64_t rank() const noexcept override { return inner_.rank(); }
  std::int64_t size() const noexcept override { return inner_.size(); }
  int threads_per_rank() const noexcept override { return inner_.threads_per_rank(); }
  void poison(const Status& status) override { inner_.poison(status); }
  double now_us() const override { return inner_.now_us(); }
  StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) override {
    TSR_ASSIGN_OR_RETURN(Communicator * group, inner_.group(ranks));
    std::unique_ptr<WatchedCommunicator>& watched = groups_[group];
    if (watched == nullptr) watched = std::make_unique<WatchedCommunicator>(*group, fault_);
    return watched.get();
  }

 private:
  World& inner_;
  Fault fault_;
  std::map<Communicator*, std::unique_ptr<WatchedCommunicator>> groups_;
};

void train(World& world) {
  const std::string folder = TSR_TEST_DATA "/parity/softmax/";
  ModelConfig config = value_or_throw(read_model_config(TSR_CONFIGS "/parity_softmax.json"));
  const TokenData data =
      value_or_throw(TokenData::read(std::vector{folder + "tokens.safetensors"}, config));
  const bool eight = world.size() == 8;
  const ParallelConfig parallel = value_or_throw(parse_parallel_config(
      eight ? R"({"dp_shard":4,"tp":2,"ep":2})" : R"({"dp_shard":2,"tp":2,"ep":2})", "parallel"));
  Runtime runtime(world);
  Model model(runtime, value_or_throw(MeshViews::make(parallel, world.size())), config,
              DType::kF32);
  load_weights(value_or_throw(WeightFiles::open(folder + "init.safetensors")), model);
  Trainer trainer(model, data);
  for (int round = 0; round < 100; ++round) {
    for (std::int64_t step = 0; step < config.steps; ++step) trainer.step(step);
  }
}

void move_long_arrays(World& world) {
  const std::vector<std::int64_t> ranks = testing::ranks_below(world.size());
  Communicator& group = *value_or_throw(world.group(ranks));
  const bool on_host = world.allocator()->device().id() == DeviceId{};
  const std::int64_t part = std::int64_t{1} << (on_host ? 20 : 14);
  const Array own = Array::zeros({part}, DType::kF32, world.allocator());
  const Array all = Array::zeros({part * world.size()}, DType::kF32, world.allocator());
  const Array other = Array::zeros({part * world.size()}, DType::kF32, world.allocator());
  const std::vector<std::int64_t> splits(ranks.size(), part);
  for (int round = 0; round < 100'000; ++round) {
    group.all_gather(own, all);
    group.all_to_all(all, other, splits, splits);
    group.all_reduce(other, other, ReduceOp::kMax);
    group.reduce_scatter(other, own, ReduceOp::kMax);
  }
}

/// What a call made after the failure returns.
Status later_call(World& world) {
  try {
    const std::vector<std::int64_t> ranks = testing::ranks_below(world.size());
    value_or_throw(world.group(ranks))->barrier();
  } catch (const Error& error) {
    return error.status();
  }
  return absl::OkStatus();
}

void run_rank(World& inner, const FaultPlan& plan) {
  WatchedWorld world(inner, plan);
  try {
    if (plan.kind == FaultKind::kKillMoving || plan.kind == FaultKind::kKillSending) {
      move_long_arrays(world);
    } else {
      train(world);
    }
  } catch (const Error& error) {
    if (world.rank() == plan.rank) throw;
    const double at_ms = now_ms();
    const Status later = later_call(inner);
    const bool slow = (world.rank() + plan.rank) % 2 == 0;  // the others are done at once
    std::this_thread::sleep_for(std::chrono::milliseconds(slow ? plan.slowed : 0));
    write_line(plan.folder + "/rank_" + std::to_string(world.rank()),
               std::to_string(at_ms) + "\n" + error.status().ToString() + "\n" + later.ToString());
    throw;
  }
}

int run(const FaultPlan& plan) {
  const bool stops = plan.kind == FaultKind::kStop;
  const WorldOptions options = {
      .timeout = std::chrono::milliseconds(stops ? testing::kFaultTimeoutMs : 60'000),
      .threads_per_rank = 1,
      .recorder_dir = plan.folder + "/records"};
  const auto body = [&](World& world) { run_rank(world, plan); };
  if (plan.backend == "threads") return run_ranks(plan.num_ranks, options, body).ok() ? 0 : 1;
  const auto session = value_or_throw(MpiSession::start());
  MpiOptions mpi{.world = options};
  if (plan.kind == FaultKind::kKillSending) {
    mpi.device_pointers = DevicePointers::kOn;
    mpi.world.allocator = [](std::int64_t rank) {
      return value_or_throw(make_emulated_device(static_cast<int>(rank % 8)))->make_allocator();
    };
  }
  const Status status = run_mpi_rank(mpi, body);
  if (!status.ok()) session->abort(1);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::testing::FaultKind;
  if (argc != 8) return 2;
  const std::string kind = argv[3];
  return tessera::run({.backend = argv[1],
                       .num_ranks = std::atoi(argv[2]),
                       .kind = kind == "kill"           ? FaultKind::kKill
                               : kind == "launcher"     ? FaultKind::kLauncher
                               : kind == "stop"         ? FaultKind::kStop
                               : kind == "kill_moving"  ? FaultKind::kKillMoving
                               : kind == "kill_sending" ? FaultKind::kKillSending
                                                        : FaultKind::kThrow,
                       .rank = std::atoi(argv[4]),
                       .call = std::atoi(argv[5]),
                       .slowed = std::atoi(argv[7]),
                       .folder = argv[6]});
}
