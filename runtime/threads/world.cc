#include "runtime/threads/world.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/threads/transport.h"

namespace tessera {
namespace {

/// What the threads of one job share.
struct Job {
  std::shared_ptr<ThreadsHub> hub;
  int threads_per_rank = 1;
  std::function<std::shared_ptr<Allocator>(std::int64_t rank)> allocator = nullptr;
  RecorderOptions records;
  std::vector<std::shared_ptr<FlightRecorder>> recorders;  ///< by rank; null until its thread runs
};

void run_rank(Job& job, std::int64_t rank, const std::function<void(World&)>& body) {
  std::shared_ptr<FlightRecorder>& recorder = job.recorders[static_cast<std::size_t>(rank)];
  try {
    RecorderOptions records = job.records;
    records.rank = rank;
    recorder = value_or_throw(FlightRecorder::open(records));
    ThreadsWorld world({.hub = job.hub,
                        .rank = rank,
                        .threads_per_rank = job.threads_per_rank,
                        .allocator = job.allocator ? job.allocator(rank) : nullptr},
                       recorder);
    body(world);
    world.finish();
  } catch (...) {
    const Status status = status_of(std::current_exception());
    if (recorder != nullptr) recorder->note_failure(message_of(status));
    job.hub->poison(rank, status);
  }
  if (recorder != nullptr) recorder->note_end();
  job.hub->leave(rank);
}

// A folder that was asked for must be there; else records may stay in memory.
StatusOr<RecorderOptions> records_of(const WorldOptions& options, int num_ranks) {
  const bool asked = !options.recorder_dir.empty();
  const StatusOr<std::string> dir = make_recorder_dir(options.recorder_dir);
  if (asked && !dir.ok()) return dir.status();
  return RecorderOptions{.dir = dir.ok() ? *dir : "",
                         .file = asked ? RecorderFile::kRequired : RecorderFile::kIfPossible,
                         .world_size = num_ranks,
                         .job = std::random_device()() | (std::uint64_t{1} << 32)};
}

void close_records(const Job& job, FlightRecorder::Leave leave) {
  for (const auto& recorder : job.recorders) {
    if (recorder != nullptr) recorder->close(leave);
  }
  // Left over where no rank could make its file.
  if (leave == FlightRecorder::Leave::kRemove) ::rmdir(job.records.dir.c_str());
}

}  // namespace

ThreadsWorld::ThreadsWorld(Place place, std::shared_ptr<FlightRecorder> recorder)
    : TransportWorld({.transport = std::make_unique<ThreadsTransport>(
                          place.hub, ThreadsTransport::Own{place.rank, place.threads_per_rank}),
                      .recorder = std::move(recorder),
                      .timeout = place.hub->timeout(),
                      .threads_per_rank = place.threads_per_rank,
                      .allocator = std::move(place.allocator)}),
      hub_(std::move(place.hub)) {
  omp_set_num_threads(place.threads_per_rank);
}

StatusOr<std::vector<Mark>> ThreadsWorld::share_marks(const Mark& own) {
  const bool is_on_host = &allocator_->device() == &cpu_device();
  if (is_on_host) return unimplemented("share_marks: this world's arrays lie on the host");
  hub_->mark_of(rank()) = own;
  everyone(*this).barrier({});
  std::vector<Mark> marks;
  for (std::int64_t rank = 0; rank < size(); ++rank) marks.push_back(hub_->mark_of(rank));
  everyone(*this).barrier({});  // before anyone sets another
  return marks;
}

std::unique_ptr<World> make_single_world(const WorldOptions& options) {
  auto recorder = value_or_throw(FlightRecorder::open({.dir = options.recorder_dir}));
  const auto close = [](FlightRecorder* open) {
    open->close(FlightRecorder::Leave::kKeep);
    delete open;
  };
  return std::make_unique<ThreadsWorld>(
      ThreadsWorld::Place{.hub = std::make_shared<ThreadsHub>(1, options.timeout),
                          .threads_per_rank = library_threads(options.threads_per_rank, 1),
                          .allocator = options.allocator ? options.allocator(0) : nullptr},
      std::shared_ptr<FlightRecorder>(recorder.release(), close));
}

Status run_ranks(int num_ranks, const WorldOptions& options,
                 const std::function<void(World&)>& body) {
  if (num_ranks < 1) {
    return invalid_argument("run_ranks: " + std::to_string(num_ranks) +
                            " ranks; allowed: 1 or more");
  }
  Job job{.hub = std::make_shared<ThreadsHub>(num_ranks, options.timeout),
          .threads_per_rank = library_threads(options.threads_per_rank, num_ranks),
          .allocator = options.allocator};
  TSR_ASSIGN_OR_RETURN(job.records, records_of(options, num_ranks));
  job.recorders.resize(static_cast<std::size_t>(num_ranks));
  std::vector<Thread> threads;
  threads.reserve(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    try {
      threads.emplace_back([&job, &body, rank] { run_rank(job, rank, body); });
    } catch (const std::system_error& error) {
      job.hub->poison(rank, absl::ResourceExhaustedError(
                                to_absl(std::string("cannot start its thread: ") + error.what())));
      break;
    }
  }
  for (Thread& thread : threads) thread.join();
  Status failure = job.hub->first_failure();
  // A job that failed before its first call leaves nothing worth keeping.
  const bool any = std::ranges::any_of(
      job.recorders, [](const auto& each) { return each != nullptr && !each->is_empty(); });
  const bool keep = (!failure.ok() && any) || !options.recorder_dir.empty();
  close_records(job, keep ? FlightRecorder::Leave::kKeep : FlightRecorder::Leave::kRemove);
  return failure;
}

}  // namespace tessera
