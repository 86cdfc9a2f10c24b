#include <vector>

#include "runtime/call/signature.h"
#include "runtime/nccl/rank_parts.h"
#include "runtime/nccl/version_text.h"
#ifdef __CUDACC__
#include "devices/nccl/library.h"
#endif

namespace tessera::nccl::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr DeviceId::Kind kKind = DeviceId::Kind::kCuda;
Status library_status() { return nccl_library_status(); }
#else
constexpr DeviceId::Kind kKind = DeviceId::Kind::kEmulated;
Status library_status() { return absl::OkStatus(); }
#endif

StatusOr<std::shared_ptr<Allocator>> memory_of(const WorldOptions& options, std::int64_t card) {
  std::shared_ptr<Allocator> memory;
  try {
    if (options.allocator) memory = options.allocator(card);
  } catch (...) {
    return status_of(std::current_exception());
  }
  if (memory != nullptr && memory->device().id().kind == kKind) return memory;
  return invalid_argument("the NCCL backend moves arrays of cards, this rank's lie on " +
                          (memory == nullptr ? "the host" : to_string(memory->device().id())) +
                          "; give each rank memory of a card (WorldOptions::allocator)");
}

Status check_comm(ncclComm_t comm, const ControlPlace& place, const DeviceId& card) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &state), comm, "ncclCommGetAsyncError");
  if (state != ncclSuccess) {
    return invalid_argument(std::string("the ncclComm_t given is not ready: ") +
                            ncclGetErrorString(state));
  }
  int size = 0, rank = 0, device = 0;
  check(ncclCommCount(comm, &size), comm, "ncclCommCount");
  check(ncclCommUserRank(comm, &rank), comm, "ncclCommUserRank");
  check(ncclCommCuDevice(comm, &device), comm, "ncclCommCuDevice");
  const auto seen = [](std::int64_t of, std::int64_t all, int on) {
    return "rank " + std::to_string(of) + " of " + std::to_string(all) + " on card " +
           std::to_string(on);
  };
  if (size == place.size && rank == place.rank && device == card.ordinal) return absl::OkStatus();
  return invalid_argument("the ncclComm_t given says " + seen(rank, size, device) + ", the job " +
                          seen(place.rank, place.size, card.ordinal));
}

StatusOr<OwnHandles> handles_of(const NcclOptions& options, const ControlPlace& place,
                                const DeviceId& card) {
  if (!options.handles) return OwnHandles{};
  try {
    const NcclHandles given = options.handles(place.rank);
    const OwnHandles own{static_cast<ncclComm_t>(given.comm),
                         static_cast<cudaStream_t>(given.stream)};
    if (own.comm != nullptr) TSR_RETURN_IF_ERROR(check_comm(own.comm, place, card));
    return own;
  } catch (...) {
    return status_of(std::current_exception());
  }
}

Status all_or_none(bool has_comm, const ExchangeTexts& exchange) {
  const std::vector<std::string> texts = exchange(has_comm ? "has one" : "");
  std::vector<std::int64_t> with, without;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    (texts[rank].empty() ? without : with).push_back(static_cast<std::int64_t>(rank));
  }
  if (with.empty() || without.empty()) return absl::OkStatus();
  return invalid_argument("an ncclComm_t comes from " + list_ranks(with) + ", none from " +
                          list_ranks(without) + "; allowed: from all or none");
}

}  // namespace

StatusOr<std::string> nccl_version() {
  TSR_RETURN_IF_ERROR(library_status());
  int version = 0;
  check(ncclGetVersion(&version), nullptr, "ncclGetVersion");
  return nccl_version_text(version);
}

StatusOr<RankParts> open_rank_parts(const NcclOptions& options, const ControlPlace& place,
                                    std::int64_t card, const ExchangeTexts& exchange,
                                    Status (*memory_error)(std::string_view text)) {
  TSR_RETURN_IF_ERROR(first_error_as(unavailable, exchange, library_status()));
  StatusOr<std::shared_ptr<Allocator>> memory = memory_of(options.world, card);
  TSR_RETURN_IF_ERROR(first_error_as(memory_error, exchange, memory.status()));
  const StatusOr<OwnHandles> handles = handles_of(options, place, (*memory)->device().id());
  TSR_RETURN_IF_ERROR(first_error_as(invalid_argument, exchange, handles.status()));
  TSR_RETURN_IF_ERROR(all_or_none(handles->comm != nullptr, exchange));
  return RankParts{*std::move(memory), *handles};
}

}  // namespace tessera::nccl::TSR_CUDA
