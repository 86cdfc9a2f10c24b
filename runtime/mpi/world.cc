#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/call/transport_world.h"
#include "runtime/control/process_job.h"
#include "runtime/mpi/clock.h"
#include "runtime/mpi/device_pointers.h"
#include "runtime/mpi/host_memory.h"
#include "runtime/mpi/session.h"
#include "runtime/mpi/transport.h"
#include "runtime/mpi_world.h"
#include "runtime/recorder/recorder.h"

namespace tessera {
namespace {

/// A duplicate of the caller's communicator whose errors are returned.
StatusOr<MPI_Comm> duplicate(const std::optional<int>& handle) {
  const MPI_Comm given = handle ? MPI_Comm_f2c(*handle) : MPI_COMM_WORLD;
  if (given == MPI_COMM_NULL) {
    return invalid_argument("make_mpi_world: the communicator is MPI_COMM_NULL");
  }
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  TSR_RETURN_IF_ERROR(finish(MPI_Comm_idup(given, &comm, &request), request, "MPI_Comm_idup"));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

/// What a rank tells at once: most texts are short, and need no second call.
struct Told {
  int length = 0;
  std::array<char, 252> start{};
};

std::vector<std::string> exchange_texts(MPI_Comm comm, const std::string& own) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  std::vector<Told> told(static_cast<std::size_t>(size));
  Told mine{.length = static_cast<int>(own.size())};
  own.copy(mine.start.data(), mine.start.size());
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, told.data(), sizeof mine, MPI_BYTE, comm,
                            &request);
  throw_if_error(finish(code, request, "MPI_Iallgather"));

  std::vector<int> lengths, offsets;
  int total = 0, longest = 0;
  for (const Told& each : told) {
    lengths.push_back(each.length);
    offsets.push_back(total);
    total += each.length;
    longest = std::max(longest, each.length);
  }
  std::vector<std::string> texts;
  if (longest <= std::ssize(mine.start)) {
    for (const Told& each : told) {
      texts.emplace_back(each.start.data(), static_cast<std::size_t>(each.length));
    }
    return texts;
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  code = MPI_Iallgatherv(own.data(), mine.length, MPI_CHAR, all.data(), lengths.data(),
                         offsets.data(), MPI_CHAR, comm, &request);
  throw_if_error(finish(code, request, "MPI_Iallgatherv"));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

HostMemory::Use use_of_host_memory(const MpiOptions& options) {
  const char* asked = std::getenv("TESSERA_MPI_PEER_MEMORY");
  const bool off = asked != nullptr && std::string_view(asked) == "off";
  return off || options.peer_memory == PeerMemory::kOff ? HostMemory::Use::kNone
                                                        : HostMemory::Use::kShared;
}

/// What the caller has this rank's arrays come from; null where it has not said.
StatusOr<std::shared_ptr<Allocator>> memory_of_caller(const MpiLink& link,
                                                      const WorldOptions& options,
                                                      const ExchangeTexts& exchange) {
  std::shared_ptr<Allocator> memory;
  Status status;
  try {
    if (options.allocator) memory = options.allocator(link.rank());
  } catch (...) {
    status = status_of(std::current_exception());
  }
  TSR_RETURN_IF_ERROR(first_error_as(io_error, exchange, status));
  return memory;
}

class MpiWorld final : public TransportWorld {
 public:
  struct Parts {
    std::unique_ptr<MpiTransport> transport;
    std::shared_ptr<FlightRecorder> recorder;
    std::shared_ptr<Allocator> memory;
    int threads_per_rank = 1;
  };
  MpiWorld(Parts parts, const MpiOptions& options)
      : MpiWorld(*parts.transport, *parts.recorder, std::move(parts), options) {}
  ~MpiWorld() override { static_cast<void>(leave()); }

  /// Says goodbye and waits for the others; returns the job's first failure.
  Status leave();

 private:
  MpiWorld(MpiTransport& transport, FlightRecorder& recorder, Parts&& parts,
           const MpiOptions& options)
      : TransportWorld({.transport = std::move(parts.transport),
                        .recorder = std::move(parts.recorder),
                        .timeout = options.world.timeout,
                        .threads_per_rank = parts.threads_per_rank,
                        .allocator = std::move(parts.memory)}),
        transport_(transport),
        recorder_(recorder),
        keeps_record_(!options.world.recorder_dir.empty()),
        on_failure_(options.on_failure) {
    transport_.set_host_memory(host_allocator());
    omp_set_num_threads(threads_per_rank());
  }
  void end();

  MpiTransport& transport_;
  FlightRecorder& recorder_;
  bool keeps_record_;
  std::function<void(const Status&)> on_failure_;
  bool has_left_ = false;
};

void MpiWorld::end() {
  const Status failure = transport_.control().first_failure();
  if (!failure.ok()) {
    transport_.link().abandon();
    recorder_.note_failure(message_of(failure));
  }
  const bool keep = keeps_record_ || (!failure.ok() && has_begun());
  recorder_.close(keep ? FlightRecorder::Leave::kKeep : FlightRecorder::Leave::kRemove);
  if (!failure.ok() && on_failure_) on_failure_(failure);
}

Status MpiWorld::leave() {
  if (std::exchange(has_left_, true)) return transport_.control().first_failure();
  return transport_.leave([this] { end(); });
}

StatusOr<std::unique_ptr<MpiWorld>> make_world(const MpiOptions& options) {
  TSR_RETURN_IF_ERROR(check_mpi_is_usable());
  TSR_ASSIGN_OR_RETURN(const MPI_Comm comm, duplicate(options.comm));
  MpiTransport::Parts ends{.checks = options.world.checks};
  MpiWorld::Parts parts;
  ends.link = std::make_unique<MpiLink>(comm, options.max_message_elements);
  const ControlPlace place{ends.link->rank(), ends.link->size()};
  const ExchangeTexts exchange = [comm](const std::string& own) {
    return exchange_texts(comm, own);
  };
  TSR_ASSIGN_OR_RETURN(ends.device_path, agree_on_device_path(options.device_pointers, exchange));
  TSR_ASSIGN_OR_RETURN(ends.control, ControlChannel::open(place, options.control, exchange));
  TSR_ASSIGN_OR_RETURN(parts.memory, memory_of_caller(*ends.link, options.world, exchange));
  TSR_ASSIGN_OR_RETURN(parts.recorder,
                       open_job_records(place, {.dir = options.world.recorder_dir}, exchange));
  // Before the exchanges below: no rank makes a call until all have come so far.
  describe_dead_by(*parts.recorder, *ends.control);
  ends.host = std::make_unique<HostMemory>(place, use_of_host_memory(options), exchange);
  // Arrays lie where near ranks can read them, unless the caller has them elsewhere.
  if (parts.memory == nullptr) parts.memory = ends.host->allocator();
  TSR_ASSIGN_OR_RETURN(const AgreedStart start, agree_on_start(comm, exchange));
  ends.start = start.zero;
  parts.threads_per_rank =
      library_threads(options.world.threads_per_rank, ranks_on_these_processors(exchange));
  parts.transport = std::make_unique<MpiTransport>(std::move(ends));
  return std::make_unique<MpiWorld>(std::move(parts), options);
}

}  // namespace

StatusOr<std::unique_ptr<World>> make_mpi_world(const MpiOptions& options) {
  TSR_ASSIGN_OR_RETURN(std::unique_ptr<MpiWorld> world, make_world(options));
  return std::unique_ptr<World>(std::move(world));
}

Status run_mpi_rank(const MpiOptions& options, const std::function<void(World&)>& body) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<MpiWorld> world, make_world(options));
  return run_body(
      *world, [&] { body(*world); }, [&] { return world->leave(); });
}

}  // namespace tessera
