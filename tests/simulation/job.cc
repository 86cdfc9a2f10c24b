#include "tests/simulation/job.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "dtensor/runtime.h"
#include "runtime/execute.h"
#include "runtime/mpi_world.h"
#include "tests/checkpoint/fault_fs.h"
#include "tests/checkpoint/state.h"

namespace tessera::seeded {
namespace {

using Kind = Action::Kind;
using std::chrono::milliseconds;
using testing::Call;
using testing::FaultFs;

constexpr milliseconds kLimit{2'000};
constexpr Duration kLate = milliseconds(1'200);
constexpr Duration kAway = milliseconds(30'000);

/// Fails the k-th allocation, spoils what is released, and knows what was not.
class FailingAllocator final : public Allocator {
 public:
  explicit FailingAllocator(std::uint64_t fails_at) : fails_at_(fails_at) {}
  void* allocate(std::size_t bytes) override {
    if (++count_ == fails_at_) {
      throw Error(absl::ResourceExhaustedError("allocate: no memory for a buffer"));
    }
    used_ += static_cast<std::int64_t>(bytes);
    return plain_allocator()->allocate(bytes);
  }
  void release(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0xa5, bytes);  // whoever reads it later finds that
    used_ -= static_cast<std::int64_t>(bytes);
    plain_allocator()->release(data, bytes);
  }
  std::uint64_t count() const noexcept { return count_; }
  std::int64_t used() const noexcept { return used_; }

 private:
  std::uint64_t fails_at_;
  std::uint64_t count_ = 0;
  std::int64_t used_ = 0;
};

/// A save of version `version` as the log of changes sees it.
struct Save {
  int version = 0;
  std::size_t begin = 0;
  std::optional<std::size_t> end;  ///< once it is complete
  std::string failure;
};

struct Report {
  Status status;
  std::vector<std::string> wrong;
  std::vector<std::string> failures;  ///< of saves and loads
  bool has_returned = false;
  bool was_told = false;     ///< of the job's failure, before any rank ended
  bool ended_alone = false;  ///< others that live had not been told by then
  std::uint64_t hash = 0;
};

struct Job {
  const Plan plan;
  FaultFs files;
  std::vector<Save> saves;
  std::vector<Report> reports;
  std::vector<std::shared_ptr<FailingAllocator>> allocators;
  bool disk_failed = false;

  explicit Job(const Plan& plan_) : plan(plan_) {
    const auto num_ranks = static_cast<std::size_t>(plan.program.num_ranks);
    reports.resize(num_ranks);
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      const bool fails = plan.fault == Fault::kAllocation && static_cast<int>(rank) == plan.rank;
      allocators.push_back(std::make_shared<FailingAllocator>(fails ? plan.count : 0));
    }
    files.set_fault([this](std::int64_t number, Call call) { return disk_error(number, call); });
  }
  int disk_error(std::int64_t number, Call call) {
    Simulation& simulation = Simulation::current();
    const int process = simulation.process();
    const auto count = static_cast<std::int64_t>(plan.count);
    if (plan.fault == Fault::kKilledAtDisk && process == plan.rank && number >= count) {
      const bool just_died = !simulation.is_dead(process);
      if (just_died) simulation.die();
      if (just_died && plan.full) return 0;  // it dies once the call is through
    }
    if (simulation.is_dead(process)) return EIO;  // it is no part of the world any more
    if (plan.fault != Fault::kDisk) return 0;
    const bool takes_room =
        call == Call::kWrite || call == Call::kCreate || call == Call::kMakeFolder;
    const bool fails = plan.full ? number >= count && takes_room : number == count;
    if (fails) disk_failed = true;
    return fails ? plan.disk_error : 0;
  }
  Save& save(std::size_t index) {
    while (saves.size() <= index) {
      saves.push_back({.version = static_cast<int>(saves.size()), .begin = files.num_ops()});
    }
    return saves[index];
  }
};

// ---- what a rank does

Array array_of(World& world, const Shape& shape, DType dtype, const Values& values) {
  const Array made = Array::empty(shape, dtype, world.allocator());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) {
      made.data<float>()[i] = static_cast<float>(values[i]);
    } else if (dtype == DType::kF64) {
      made.data<double>()[i] = values[i];
    } else {
      made.data<std::int64_t>()[i] = static_cast<std::int64_t>(values[i]);
    }
  }
  return made;
}

class Player {
 public:
  Player(World& world, Job& job)
      : world_(world),
        job_(job),
        report_(job.reports[static_cast<std::size_t>(world.rank())]),
        order_(job.plan.schedule + static_cast<std::uint64_t>(world.rank())) {}

  void play() {
    const std::vector<Action>& actions = job_.plan.program.actions;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (job_.plan.rank == world_.rank() && job_.plan.action == i && !go_wrong(actions[i])) return;
      take(actions[i]);
    }
    wait_for_all();
  }

 private:
  struct Pending {
    std::shared_ptr<Work> work;
    Array result;
    Values expected;
    std::string what;
  };

  /// False where the rank returns.
  bool go_wrong(const Action& action) {
    switch (job_.plan.fault) {
      case Fault::kThrow:
        throw Error(not_found("no shard of it"));
      case Fault::kReturn:
        return false;
      case Fault::kOtherCall: {
        if (!action.is_call() || !action.has(world_.rank())) return true;
        const Array other = Array::zeros({7919}, DType::kF64, world_.allocator());
        group_of(action).all_reduce(other, other, ReduceOp::kMax);
        return true;
      }
      case Fault::kLate:
        Simulation::current().pause(kLate);
        return true;
      case Fault::kAway:
        Simulation::current().pause(kAway);
        return true;
      default:
        return true;
    }
  }

  void take(const Action& action) {
    if (action.kind == Kind::kPause) {
      const auto most = static_cast<std::uint64_t>(action.pause.count()) + 1;
      Simulation::current().pause(Duration(order_.below(most)));
    } else if (action.kind == Kind::kRedistribute) {
      redistribute(job_.plan.program.redistributions[action.redistribution]);
    } else if (action.kind == Kind::kSave) {
      guarded([&] { save(action); });
    } else if (action.kind == Kind::kLoad) {
      guarded([&] { load(); });
    } else if (action.has(world_.rank())) {
      begin(action);
      if (!action.later) wait_for(pending_.size() - 1);
    }
  }

  Communicator& group_of(const Action& action) {
    return *value_or_throw(world_.group(action.group));
  }

  void begin(const Action& action) {
    Communicator& group = group_of(action);
    const int own = group.rank();
    const auto at = static_cast<std::size_t>(own);
    const Values operand = operand_of(action, own);
    const Values expected = result_of(action, own);
    const auto shape_of = [&](std::size_t elements) {
      return Shape{static_cast<std::int64_t>(elements) / action.width, action.width};
    };
    const Array in = array_of(world_, shape_of(operand.size()), action.dtype, operand);
    const Array out = Array::empty(shape_of(expected.size()), action.dtype, world_.allocator());
    Pending pending{.result = out, .expected = expected, .what = "an action"};
    switch (action.kind) {
      case Kind::kAllReduce:
        pending.work = group.all_reduce_async(in, out, action.op);
        break;
      case Kind::kAllGather:
        pending.work = group.all_gather_async(in, out, action.rows[0]);
        break;
      case Kind::kReduceScatter:
        pending.work = group.reduce_scatter_async(in, out, action.op, action.rows[0]);
        break;
      case Kind::kAllToAll: {
        Ranks from;
        for (const Ranks& rows : action.rows) from.push_back(rows[at]);
        pending.work = group.all_to_all_async(in, out, action.rows[at], from);
        break;
      }
      case Kind::kBroadcast:
        pending.result = in;
        pending.work = group.broadcast_async(in, action.root);
        break;
      case Kind::kPair:
        pending.work = own == 0 ? group.send_async(in, 1) : group.recv_async(out, 0);
        break;
      default:
        pending.work = group.start(CollectiveCall{}, {});
        break;
    }
    pending.what = "call " + std::to_string(num_calls_++) + " of kind " +
                   std::to_string(static_cast<int>(action.kind));
    pending_.push_back(std::move(pending));
  }

  void wait_for(std::size_t index) {
    Pending pending = std::move(pending_[index]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
    pending.work->wait();
    check(pending.what, pending.result.to_vector(), pending.expected);
  }
  /// In an order of this rank's own.
  void wait_for_all() {
    while (!pending_.empty()) wait_for(order_.below(pending_.size()));
  }

  void check(const std::string& what, const Values& seen, const Values& expected) {
    std::uint64_t hash = std::hash<std::string>()(what);
    for (const double value : seen) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 1099511628211U;
    }
    report_.hash += hash;  // calls end in another order under another schedule
    if (seen != expected) report_.wrong.push_back(what + " gave other values");
  }

  void redistribute(const judge::Expected& expected) {
    const Array before = judge::array_before(expected, world_.rank());
    Array local;
    if (!before.is_null()) {
      local = array_of(world_, before.shape(), before.dtype(), before.to_vector());
    }
    const Array result = execute(world_, expected.plan, local);
    const std::string flaw = judge::flaw_of(expected, world_.rank(), result);
    if (!flaw.empty()) report_.wrong.push_back("a redistribution: " + flaw);
    if (!result.is_null()) {
      const Values values = result.to_vector();
      check("a redistribution", values, values);
    }
  }

  // ---- checkpoints

  /// What the disk refuses is no end of the program.
  template <class F>
  void guarded(const F& part) {
    wait_for_all();
    try {
      part();
    } catch (const Error& error) {
      if (error.status().code() != absl::StatusCode::kDataLoss || !job_.disk_failed) throw;
      report_.failures.push_back(std::string(message_of(error.status())));
    }
  }
  Runtime& runtime() {
    if (runtime_ == nullptr) runtime_ = std::make_unique<Runtime>(world_);
    return *runtime_;
  }
  testing::Placed placed() const { return {{world_.size()}, {"S(0)"}}; }

  void save(const Action& action) {
    const std::size_t index = num_saves_++;
    const int version = job_.save(index).version;
    const auto state = testing::make_state(runtime(), placed(), version);
    const Json values = Json::object({{"version", version}});
    const SaveOptions options{.chunk_bytes = 64};
    if (action.later) {
      AsyncSave saving(world_, job_.files, state, values, options);
      saving.finish();
    } else {
      save_checkpoint(world_, job_.files, state, values, options);
    }
    Save& save = job_.save(index);
    if (!save.end) save.end = job_.files.num_ops();
  }

  void load() {
    const auto state = testing::make_state(runtime(), placed(), -1);
    const Loaded loaded = load_checkpoint(world_, job_.files, state);
    const auto version = static_cast<int>(*loaded.values.find("version")->if_integer());
    const auto expected = testing::make_state(runtime(), placed(), version);
    for (std::size_t i = 0; i < state.size(); ++i) {
      check("a load", state[i].tensor.local().to_vector(), expected[i].tensor.local().to_vector());
    }
    const bool is_newest = job_.disk_failed || version + 1 == static_cast<int>(num_saves_);
    if (!is_newest) report_.wrong.push_back("a load gave version " + std::to_string(version));
  }

  World& world_;
  Job& job_;
  Report& report_;
  Draw order_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Pending> pending_;
  std::size_t num_saves_ = 0;
  int num_calls_ = 0;
};

void play(World& world, Job& job) {
  try {
    Player(world, job).play();
    job.reports[static_cast<std::size_t>(world.rank())].has_returned = true;
  } catch (const Error& error) {
    job.reports[static_cast<std::size_t>(world.rank())].status = error.status();
    throw;
  }
}

// ---- both backends

WorldOptions options_of(Job& job) {
  return {.timeout = kLimit,
          .threads_per_rank = 1,
          .checks = CallChecks::kOn,
          .allocator = [&job](std::int64_t rank) {
            return job.allocators[static_cast<std::size_t>(rank)];
          }};
}

/// What the job ended with on each rank.
std::vector<Status> run_on_threads(Simulation& simulation, Job& job, std::string& hangs) {
  std::vector<Status> firsts(job.reports.size());
  simulation.add_process([&] {
    const Status first = run_ranks(job.plan.program.num_ranks, options_of(job),
                                   [&](World& world) { play(world, job); });
    std::fill(firsts.begin(), firsts.end(), first);
  });
  hangs = simulation.run();
  return firsts;
}

std::vector<Status> run_on_messages(Simulation& simulation, Job& job, std::string& hangs) {
  std::vector<Status> firsts(job.reports.size());
  for (Status& first : firsts) {
    simulation.add_process([&] {
      Report& report = job.reports[static_cast<std::size_t>(simulation.process())];
      const MpiOptions options{.world = options_of(job),
                               .peer_memory = PeerMemory::kOff,
                               .on_failure = [&](const Status&) { report.was_told = true; }};
      first = run_mpi_rank(options, [&](World& world) {
        simulation.arm();
        play(world, job);
      });
      if (first.ok()) return;
      for (std::size_t rank = 0; rank < job.reports.size(); ++rank) {
        // Who has returned before has nothing to tell.
        const bool tells =
            !simulation.is_dead(static_cast<int>(rank)) && !job.reports[rank].has_returned;
        report.ended_alone |= tells && !job.reports[rank].was_told;
      }
    });
  }
  const Plan& plan = job.plan;
  const Freeze freeze{.process = plan.rank, .step = plan.count};
  if (plan.fault == Fault::kKilled) simulation.plan(freeze);
  if (plan.fault == Fault::kStopped) simulation.plan({plan.rank, plan.count, kAway});
  if (plan.fault == Fault::kPaused) simulation.plan({plan.rank, plan.count, kLate});
  hangs = simulation.run();
  return firsts;
}

// ---- the verdict

bool names(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string_view::npos;
}

/// Why this is no right end of a job in which the rank at fault went wrong; "" where it is one.
std::string flaw_of_failure(const Plan& plan, const Status& first) {
  const std::string rank = "rank " + std::to_string(plan.rank);
  const auto is = [&](absl::StatusCode code, const std::string& text) {
    if (first.code() == code && names(first, text)) return std::string();
    return "not an error with \"" + text + "\": " + first.ToString();
  };
  switch (plan.fault) {
    case Fault::kThrow:
      return is(absl::StatusCode::kNotFound, rank + ": no shard of it");
    case Fault::kReturn:
      return is(absl::StatusCode::kFailedPrecondition, rank);
    case Fault::kOtherCall:
      return is(absl::StatusCode::kFailedPrecondition, rank);
    case Fault::kStopped:
      if (names(first, "rank 0 does not answer") && plan.rank == 0) return "";
      [[fallthrough]];
    case Fault::kAway:
      return is(absl::StatusCode::kDeadlineExceeded, "timed out after 2000 ms in ");
    case Fault::kAllocation:
      return is(absl::StatusCode::kResourceExhausted, rank + ": ");
    case Fault::kKilled:
    case Fault::kKilledAtDisk:
      return is(absl::StatusCode::kUnavailable, rank + " died");
    default:
      return "an error without a fault: " + first.ToString();
  }
}

/// Versions that a load may give after a crash that followed `num_ops` changes.
bool may_be_there(const Job& job, int version, std::size_t num_ops) {
  int newest = -1;
  bool is_under_way = false;
  for (const Save& save : job.saves) {
    if (save.end && *save.end <= num_ops) newest = save.version;
    if (save.begin <= num_ops && save.version == version) is_under_way = true;
  }
  return version == newest || (version > newest && is_under_way);
}

std::string flaw_of_folder(const Job& job, FaultFs& files, std::size_t num_ops) {
  if (job.saves.empty()) return "";
  std::string error;
  const int version = testing::loaded_version(files, {{1}, {"R"}}, &error);
  if (may_be_there(job, version, num_ops)) return "";
  return "the folder gives version " + std::to_string(version) + " after " +
         std::to_string(num_ops) + " of " + std::to_string(job.files.num_ops()) + " changes" +
         (error.empty() ? "" : ": " + error);
}

/// The folder as it is, and as a crash of the machine at some moment would have left it.
std::string flaw_of_folders(Job& job) {
  Draw draw(job.plan.crash);
  job.files.set_fault(nullptr);
  const std::size_t prefix = draw.below(job.files.num_ops() + 1);
  const auto crashed = job.files.after_crash(
      prefix, [&](std::size_t) { return static_cast<FaultFs::Fate>(draw.below(3)); });
  if (std::string flaw = flaw_of_folder(job, *crashed, prefix); !flaw.empty()) return flaw;
  return flaw_of_folder(job, job.files, job.files.num_ops());
}

/// Of the ranks that live.
struct Living {
  std::vector<std::size_t> ranks;
  Status first;
};

std::string flaw_of_ranks(const Job& job, const std::vector<Status>& firsts, const Living& living) {
  const Plan& plan = job.plan;
  // A hub that stands still cannot choose among the failures of those that wait for it.
  const bool may_differ =
      plan.backend == Backend::kMessages && plan.fault == Fault::kStopped && plan.rank == 0;
  for (const std::size_t rank : living.ranks) {
    const Status& first = firsts[rank];
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (first != living.first && !may_differ) {
      return who + first.ToString() + " but elsewhere " + living.first.ToString();
    }
    if (!first.ok()) {
      if (const std::string flaw = flaw_of_failure(plan, first); !flaw.empty()) return who + flaw;
    }
    const Report& report = job.reports[rank];
    if (!report.wrong.empty()) return who + report.wrong.front();
    // Who is away for longer than 10 s is not waited for.
    const bool is_away = plan.fault == Fault::kStopped || plan.fault == Fault::kAway;
    if (report.ended_alone && !is_away) {
      return who + "ended before all others were told of the failure";
    }
    if (first.ok() && !report.status.ok()) return who + "threw " + report.status.ToString();
    if (first.ok() && report.failures != job.reports[living.ranks[0]].failures) {
      return who + "was told otherwise of saves and loads";
    }
  }
  return "";
}

std::string flaw_of_leaks(const Job& job, const Simulation& simulation, const Status& first) {
  // After a failure MPI may still write into buffers, which are kept on purpose.
  if (job.plan.backend == Backend::kThreads || first.ok()) {
    for (const auto& allocator : job.allocators) {
      if (allocator->used() != 0) return std::to_string(allocator->used()) + " bytes are left";
    }
  }
  const int sockets = simulation.num_open_sockets();
  return sockets == 0 ? "" : std::to_string(sockets) + " sockets are left open";
}

/// Ranks that are awaited wake their waiters: nobody sleeps until it looks by itself.
std::string flaw_of_sleep(const Plan& plan, const Simulation& simulation) {
  Duration pauses{};
  for (const Action& action : plan.program.actions) pauses += action.pause;
  const bool is_smooth = plan.backend == Backend::kThreads && plan.fault == Fault::kNone;
  if (!is_smooth || pauses > milliseconds(50) || simulation.num_timeouts() == 0) return "";
  return std::to_string(simulation.num_timeouts()) + " sleeps were ended by no wake-up";
}

bool has_happened(const Job& job, const Simulation& simulation, const Status& first) {
  const Plan& plan = job.plan;
  if (plan.fault == Fault::kKilled || plan.fault == Fault::kKilledAtDisk) {
    return simulation.is_dead(plan.rank);
  }
  if (plan.fault == Fault::kDisk) return job.disk_failed;
  if (plan.fault == Fault::kAllocation) {
    return job.allocators[static_cast<std::size_t>(plan.rank)]->count() >= plan.count;
  }
  return plan.fault != Fault::kNone && !first.ok();
}

}  // namespace

std::string_view name_of(Fault fault) noexcept {
  constexpr std::string_view kNames[kNumFaults] = {
      "nothing",          "a rank throws",  "a rank returns",    "another call",
      "a late rank",      "an absent rank", "no memory",         "the disk",
      "a killed process", "a killed saver", "a stopped process", "a paused process"};
  return kNames[static_cast<int>(fault)];
}

Plan make_plan(std::uint64_t seed) {
  Draw draw(seed);
  Plan plan{.schedule = draw.below(~std::uint64_t{0})};
  plan.backend = draw.once_in(2) ? Backend::kThreads : Backend::kMessages;
  const int num_ranks = draw.between(plan.backend == Backend::kThreads ? 1 : 2, 4);
  plan.program = make_program(draw, num_ranks);
  const int num_faults =
      plan.backend == Backend::kThreads ? static_cast<int>(Fault::kKilled) : kNumFaults;
  if (!draw.once_in(4)) plan.fault = static_cast<Fault>(draw.between(1, num_faults - 1));
  plan.rank = draw.between(0, num_ranks - 1);
  plan.action = draw.below(plan.program.actions.size());
  plan.full = draw.once_in(2);
  plan.disk_error = std::vector{ENOSPC, EIO, EDQUOT, EINTR}[draw.below(4)];
  if (plan.disk_error == EINTR) plan.full = false;
  plan.crash = draw.below(~std::uint64_t{0});
  const bool counts_calls = plan.fault == Fault::kDisk || plan.fault == Fault::kKilledAtDisk;
  const std::uint64_t most = plan.fault == Fault::kAllocation ? 6 : counts_calls ? 7 : 12;
  plan.count = 1 + draw.below(std::uint64_t{1} << draw.below(most + 1));
  return plan;
}

Outcome run_plan(const Plan& plan, Simulation::Trace trace) {
  const auto simulation = Simulation::make(plan.schedule, trace);
  auto job = std::make_shared<Job>(plan);
  Outcome outcome;
  const std::vector<Status> firsts = plan.backend == Backend::kThreads
                                         ? run_on_threads(*simulation, *job, outcome.flaw)
                                         : run_on_messages(*simulation, *job, outcome.flaw);
  outcome.trace_hash = simulation->trace_hash();
  outcome.num_steps = simulation->num_steps();
  outcome.trace = simulation->trace();
  if (!outcome.flaw.empty()) {
    new std::shared_ptr<Job>(job);  // threads that hang still use it
    return outcome;
  }
  Living living;
  for (std::size_t rank = 0; rank < firsts.size(); ++rank) {
    outcome.values_hash = outcome.values_hash * 31 + job->reports[rank].hash;
    const bool is_dead =
        plan.backend == Backend::kMessages && simulation->is_dead(static_cast<int>(rank));
    if (!is_dead) living.ranks.push_back(rank);
  }
  living.first = outcome.first = firsts[living.ranks[0]];
  outcome.happened = has_happened(*job, *simulation, outcome.first);
  outcome.num_allocations = job->allocators[static_cast<std::size_t>(plan.rank)]->count();
  outcome.flaw = flaw_of_ranks(*job, firsts, living);
  if (outcome.flaw.empty()) outcome.flaw = flaw_of_leaks(*job, *simulation, outcome.first);
  if (outcome.flaw.empty()) outcome.flaw = flaw_of_sleep(plan, *simulation);
  if (outcome.flaw.empty()) outcome.flaw = flaw_of_folders(*job);
  return outcome;
}

}  // namespace tessera::seeded
