#include <omp.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/call/transport_world.h"
#include "runtime/control/rendezvous.h"
#include "runtime/nccl/place.h"
#include "runtime/nccl/rank_parts.h"
#include "runtime/nccl/transport.h"
#include "runtime/nccl_world.h"

namespace tessera {
namespace nccl::TSR_CUDA {
namespace {

using Body = std::function<void(World&)>;

/// `end`: called once with the job's first failure, or OK, before this rank is heard to leave.
Status run_rank(const ControlPlace& at, NcclPlace place, const RankParts& parts,
                const NcclOptions& options, const Body& body,
                const std::function<void(const Status&, FlightRecorder&)>& end) {
  auto made = std::make_unique<Transport>(
      Transport::Parts{.control = std::move(place.control),
                       .mail = std::move(place.mail),
                       .device = parts.memory->device().shared_from_this(),
                       .rank = at.rank,
                       .size = at.size,
                       .checks = options.world.checks,
                       .reduce = options.world.reduce,
                       .exchange = options.exchange,
                       .handles = parts.handles,
                       .no_windows = why_no_windows(),
                       .hosts = std::move(place.hosts),
                       .start = place.start});
  Transport& transport = *made;
  omp_set_num_threads(place.threads_per_rank);
  TransportWorld world({.transport = std::move(made),
                        .recorder = place.recorder,
                        .timeout = options.world.timeout,
                        .threads_per_rank = place.threads_per_rank,
                        .allocator = parts.memory});
  const auto leave = [&] {
    return transport.leave([&] {
      const Status failure = transport.control().first_failure();
      if (!failure.ok()) place.recorder->note_failure(message_of(failure));
      end(failure, *place.recorder);
    });
  };
  return run_body(
      world, [&] { body(world); }, leave);
}

Status run_thread(const NcclMeeting& meeting, const NcclOptions& options, const Body& body) {
  TSR_ASSIGN_OR_RETURN(const RankParts parts,
                       open_rank_parts(options, meeting.place, meeting.place.rank, meeting.exchange,
                                       invalid_argument));
  TSR_ASSIGN_OR_RETURN(NcclPlace place, open_nccl_place(meeting, options.world));
  return run_rank(
      meeting.place, std::move(place), parts, options, body,
      [](const Status&, FlightRecorder& record) { record.close(FlightRecorder::Leave::kKeep); });
}

Status run_threads(int num_ranks, const NcclOptions& options, const Body& body) {
  if (num_ranks < 1) {
    return invalid_argument("run_nccl_ranks: " + std::to_string(num_ranks) +
                            " ranks; allowed: 1 or more");
  }
  ThreadsMail mail(num_ranks);
  std::vector<Status> first(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Status& status = first[static_cast<std::size_t>(rank)];
      try {
        status.Update(run_thread(
            {.place = {rank, num_ranks},
             .exchange = [&mail, rank](const std::string& own) { return mail.exchange(rank, own); },
             .mail = &mail},
            options, body));
      } catch (...) {
        status.Update(status_of(std::current_exception()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : first) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---- processes

struct Opened {
  RankParts parts;
  NcclPlace place;
};
StatusOr<Opened> open_process(const NcclMeeting& meeting, const Launch& launch,
                              const NcclOptions& options) {
  try {
    TSR_ASSIGN_OR_RETURN(RankParts parts, open_rank_parts(options, meeting.place, launch.local_rank,
                                                          meeting.exchange, unavailable));
    TSR_ASSIGN_OR_RETURN(NcclPlace place, open_nccl_place(meeting, options.world));
    return Opened{std::move(parts), std::move(place)};
  } catch (...) {
    return status_of(std::current_exception());
  }
}

Status run_process(const Launch& launch, const NcclOptions& options, const Body& body) {
  const auto tell = [&](const Status& failure) {
    if (options.on_failure) options.on_failure(failure);
  };
  const StatusOr<std::string> version = nccl_version();
  TSR_ASSIGN_OR_RETURN(
      std::unique_ptr<Rendezvous> rendezvous,
      Rendezvous::meet(launch, {.timeout = options.world.timeout,
                                .alike = {{"NCCL version", version.value_or("none")}},
                                .on_failure = options.on_failure}));
  const NcclMeeting meeting{
      .place = {launch.rank, launch.size},
      .exchange = [&](const std::string& own) { return rendezvous->exchange(own); },
      .token = rendezvous->token()};
  StatusOr<Opened> opened = open_process(meeting, launch, options);
  if (!opened.ok()) {
    tell(opened.status());
    try {
      rendezvous->exchange("has told");
    } catch (const Error&) {  // the others hear no more of this one
    }
    return opened.status();
  }
  rendezvous.reset();
  const bool keeps_record = !options.world.recorder_dir.empty();
  const auto end = [&](const Status& failure, FlightRecorder& record) {
    const bool keep = keeps_record || (!failure.ok() && !record.is_empty());
    record.close(keep ? FlightRecorder::Leave::kKeep : FlightRecorder::Leave::kRemove);
    if (!failure.ok()) tell(failure);
  };
  return run_rank(meeting.place, std::move(opened->place), opened->parts, options, body, end);
}

}  // namespace
}  // namespace nccl::TSR_CUDA

#ifdef __CUDACC__
Status run_nccl_ranks(int num_ranks, const NcclOptions& options,
                      const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_threads(num_ranks, options, body);
}
Status run_nccl_process(const Launch& launch, const NcclOptions& options,
                        const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_process(launch, options, body);
}
#else
Status run_emulated_nccl_ranks(int num_ranks, const NcclOptions& options,
                               const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_threads(num_ranks, options, body);
}
Status run_emulated_nccl_process(const Launch& launch, const NcclOptions& options,
                                 const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_process(launch, options, body);
}
#endif

}  // namespace tessera
