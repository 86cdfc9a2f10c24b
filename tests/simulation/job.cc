#include "tests/simulation/job.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "checkpoint/save.h"
#include "runtime/mpi_world.h"
#include "tests/checkpoint/state.h"
#include "tests/simulation/player.h"

namespace tessera::seeded {
namespace {

using std::chrono::milliseconds;
using testing::FaultFs;

constexpr milliseconds kLimit{2'000};

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
