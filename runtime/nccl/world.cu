#include <omp.h>

#include <thread>
#include <vector>

#include "runtime/call/transport_world.h"
#include "runtime/nccl/transport.h"
#include "runtime/nccl_world.h"

namespace tessera {
namespace nccl::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr DeviceId::Kind kKind = DeviceId::Kind::kCuda;
#else
constexpr DeviceId::Kind kKind = DeviceId::Kind::kEmulated;
#endif

/// The first error of any rank, the same on all.
Status agree(const ExchangeTexts& exchange, const Status& own) {
  const std::string complaint = first_complaint(exchange, own);
  return complaint.empty() ? absl::OkStatus() : invalid_argument(complaint);
}

StatusOr<std::shared_ptr<Allocator>> memory_of(const WorldOptions& options, std::int64_t rank) {
  std::shared_ptr<Allocator> memory;
  try {
    if (options.allocator) memory = options.allocator(rank);
  } catch (...) {
    return status_of(std::current_exception());
  }
  if (memory != nullptr && memory->device().id().kind == kKind) return memory;
  return invalid_argument("the NCCL backend moves arrays of cards, this rank's lie on " +
                          (memory == nullptr ? "the host" : to_string(memory->device().id())) +
                          "; give each rank memory of a card (WorldOptions::allocator)");
}

/// What a rank knows before its World.
struct Place {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::unique_ptr<HostMail> mail;
  ExchangeTexts exchange;
};

Status run_rank(Place place, const WorldOptions& options, const std::function<void(World&)>& body) {
  using Clock = RankClock;
  const StatusOr<std::shared_ptr<Allocator>> memory = memory_of(options, place.rank);
  TSR_RETURN_IF_ERROR(agree(place.exchange, memory.status()));
  TSR_ASSIGN_OR_RETURN(std::unique_ptr<ControlChannel> control,
                       ControlChannel::open({place.rank, place.size}, {}, place.exchange));
  RecorderOptions records{.dir = options.recorder_dir,
                          .file = RecorderFile::kIfPossible,
                          .rank = place.rank,
                          .world_size = place.size,
                          .backend = "nccl"};
  StatusOr<std::unique_ptr<FlightRecorder>> recorder = FlightRecorder::open(records);
  TSR_RETURN_IF_ERROR(agree(place.exchange, recorder.status()));
  // The clock of one host is the same to all its ranks.
  const auto now = Clock::now().time_since_epoch().count();
  const Clock::duration zero(std::stoll(place.exchange(std::to_string(now))[0]));
  const std::shared_ptr<FlightRecorder> record = *std::move(recorder);
  auto made =
      std::make_unique<Transport>(Transport::Parts{.control = std::move(control),
                                                   .mail = std::move(place.mail),
                                                   .device = (*memory)->device().shared_from_this(),
                                                   .rank = place.rank,
                                                   .size = place.size,
                                                   .checks = options.checks,
                                                   .reduce = options.reduce,
                                                   .start = Clock::time_point(zero)});
  Transport& transport = *made;
  const int threads = library_threads(options.threads_per_rank, static_cast<int>(place.size));
  omp_set_num_threads(threads);
  TransportWorld world({.transport = std::move(made),
                        .recorder = record,
                        .timeout = options.timeout,
                        .threads_per_rank = threads,
                        .allocator = *memory});
  const auto end = [&] {
    const Status failure = transport.control().first_failure();
    if (!failure.ok()) record->note_failure(message_of(failure));
    record->close(FlightRecorder::Leave::kKeep);
  };
  return run_body(
      world, [&] { body(world); }, [&] { return transport.leave(end); });
}

Status run_threads(int num_ranks, const WorldOptions& options,
                   const std::function<void(World&)>& body) {
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
        status.Update(run_rank(
            {.rank = rank,
             .size = num_ranks,
             .mail = mail.end_of(rank),
             .exchange = [&mail,
                          rank](const std::string& own) { return mail.exchange(rank, own); }},
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

}  // namespace
}  // namespace nccl::TSR_CUDA

#ifdef __CUDACC__
Status run_nccl_ranks(int num_ranks, const WorldOptions& options,
                      const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_threads(num_ranks, options, body);
}
#else
Status run_emulated_nccl_ranks(int num_ranks, const WorldOptions& options,
                               const std::function<void(World&)>& body) {
  return nccl::TSR_CUDA::run_threads(num_ranks, options, body);
}
#endif

}  // namespace tessera
