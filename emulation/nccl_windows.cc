// Windows: the n-th registration of each rank meets its peers' n-th. Memory lives as long as it is
// allocated, or a window of any rank has it, as cards count it.
#include "emulation/nccl_windows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

#include "emulation/block.h"
#include "emulation/device_state.h"
#include "emulation/nccl_cliques.h"
#include "emulation/nccl_office.h"

namespace tessera::emulation {
namespace {

constexpr const char* kName = "tessera-nccl";

/// What ncclMemAlloc() gave, by where it begins.
struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, std::shared_ptr<NcclMemory>> all;
};
Allocations& allocations() {
  static Allocations& known = *new Allocations();
  return known;
}

std::shared_ptr<NcclMemory> memory_at(const std::byte* at) {
  const std::lock_guard lock(allocations().mutex);
  const auto after = allocations().all.upper_bound(at);
  if (after == allocations().all.begin()) return nullptr;
  const std::shared_ptr<NcclMemory>& memory = std::prev(after)->second;
  return at < memory->end() ? memory : nullptr;
}

}  // namespace

// ---- NcclMemory

std::shared_ptr<NcclMemory> NcclMemory::make(std::size_t bytes, int device) {
  const int file = ::memfd_create(kName, MFD_CLOEXEC);
  if (file < 0) return nullptr;
  std::shared_ptr<NcclMemory> memory(new NcclMemory(file, bytes, device));
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0 || !memory->open()) return nullptr;
  std::memset(memory->begin(), kPoison, bytes);
  return memory;
}

// Under another numbering of processes the path is somebody else's file: its name tells.
std::shared_ptr<NcclMemory> NcclMemory::map(const std::string& address, int device) {
  std::istringstream text(address);
  std::string process, number;
  std::size_t bytes = 0;
  text >> process >> number >> bytes;
  const std::string path = "/proc/" + process + "/fd/" + number;
  char link[64] = {};
  if (::readlink(path.c_str(), link, sizeof link - 1) < 0 ||
      !std::string(link).starts_with(std::string("/memfd:") + kName)) {
    return nullptr;
  }
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  std::shared_ptr<NcclMemory> memory(new NcclMemory(file, bytes, device));
  const bool fits = ::lseek(file, 0, SEEK_END) == static_cast<off_t>(bytes);
  return fits && memory->open() ? memory : nullptr;
}

bool NcclMemory::open() {
  void* const made = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (made == MAP_FAILED) return false;
  begin_ = static_cast<std::byte*>(made);
  if (note_shared_block(begin_, bytes_, device_) == cudaSuccess) return true;
  ::munmap(std::exchange(begin_, nullptr), bytes_);
  return false;
}

NcclMemory::~NcclMemory() {
  if (begin_ != nullptr) {
    forget_shared_block(begin_);
    ::munmap(begin_, bytes_);
  }
  ::close(file_);
}

std::string NcclMemory::address() const {
  return std::to_string(::getpid()) + " " + std::to_string(file_) + " " + std::to_string(bytes_);
}

std::string text_of(const NcclWindowPart& part) {
  return std::to_string(part.begin - part.memory->begin()) + " " + part.memory->address();
}

NcclWindowPart read_part(const std::string& text, std::size_t bytes, int device) {
  std::size_t behind = 0;
  const std::size_t offset = std::stoull(text, &behind);
  std::shared_ptr<NcclMemory> memory = NcclMemory::map(text.substr(behind), device);
  std::byte* const begin = memory == nullptr ? nullptr : memory->begin() + offset;
  return {std::move(memory), begin, bytes};
}

// ---- registrations

NcclRefusal NcclRegistration::refusal() const {
  for (const auto& [rank, part] : parts) {
    if (part.bytes != parts.begin()->second.bytes) {
      return {ncclInvalidUsage, "a window of " + std::to_string(part.bytes) + " bytes on rank " +
                                    std::to_string(rank) + ", of " +
                                    std::to_string(parts.begin()->second.bytes) + " on rank 0"};
    }
    if (part.memory == nullptr) {
      return {ncclSystemError, "the window of rank " + std::to_string(rank) + " cannot be mapped"};
    }
  }
  return {};
}

std::shared_ptr<NcclRegistration> NcclClique::bring(std::size_t number, int rank,
                                                    NcclWindowPart part) {
  std::shared_ptr<NcclRegistration>& registration = registrations[number];
  if (registration == nullptr) registration = std::make_shared<NcclRegistration>();
  registration->parts[rank] = std::move(part);
  changed.notify_all();
  return registration;
}

bool NcclComm::registers() {
  const std::lock_guard lock(clique_->mutex);
  return awaited_ != nullptr;
}

ncclResult_t NcclComm::register_window(void* memory, std::size_t bytes, ncclWindow_t* made) {
  *made = nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const std::shared_ptr<NcclMemory> of = memory_at(begin);
  if (of == nullptr || bytes == 0 || bytes > static_cast<std::size_t>(of->end() - begin)) {
    return refuse(ncclInvalidArgument, "a window's memory must come from ncclMemAlloc()");
  }
  if (of->device() != device_) {
    return refuse(ncclInvalidArgument, "a window's memory lies on device " +
                                           std::to_string(of->device()) + ", the communicator on " +
                                           std::to_string(device_));
  }
  if (reinterpret_cast<std::uintptr_t>(begin) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return refuse(ncclInvalidArgument, "a window must begin at a multiple of 4096");
  }
  const std::size_t number = next_registration_++;
  std::unique_lock lock(clique_->mutex);
  const NcclWindowPart part{of, begin, bytes};
  const std::set<std::string> others = clique_->others();
  registration_ = clique_->bring(number, rank_, part);
  awaited_ = made;
  lock.unlock();
  for (const std::string& process : others) {
    NcclSlip slip = slip_of(*clique_, NcclSlip::Kind::kWindow, {});
    slip.from = rank_;
    slip.peer = device_;
    slip.number = number;
    slip.count = bytes;
    const std::string text = text_of(part);
    tell(process, slip, text.size(), text.data());
  }
  if (!blocking) return ncclInProgress;
  lock.lock();
  const bool came = wait(lock, [&] { return registration_state() != ncclInProgress; });
  const ncclResult_t result = came ? registration_state() : refuse(ncclInternalError, "aborted");
  if (result != ncclSuccess) awaited_ = nullptr;
  return result;
}

// What is refused stays so. Once all have come each rank of this process holds the registration.
ncclResult_t NcclComm::registration_state() {
  if (awaited_ == nullptr) return ncclSuccess;
  if (static_cast<int>(registration_->parts.size()) < clique_->size) {
    for (int rank = 0; rank < clique_->size; ++rank) {
      if (!registration_->parts.contains(rank) && clique_->is_lost(rank)) return ncclRemoteError;
    }
    return ncclInProgress;
  }
  const NcclRefusal refusal = registration_->refusal();
  if (refusal.result != ncclSuccess) return refuse(refusal.result, refusal.text);
  std::erase_if(clique_->registrations,
                [&](const auto& each) { return each.second == registration_; });
  windows_.push_back(std::make_unique<NcclWindow>(NcclWindow{std::move(registration_)}));
  *std::exchange(awaited_, nullptr) = windows_.back().get();
  return ncclSuccess;
}

ncclResult_t NcclComm::drop_window(ncclWindow_t window) {
  const std::lock_guard lock(clique_->mutex);
  const auto is_it = [&](const auto& each) { return each.get() == window; };
  if (std::erase_if(windows_, is_it) > 0) return ncclSuccess;
  return refuse(ncclInvalidArgument, "a window of another communicator, or of none");
}

// ---- calls

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  *memory = nullptr;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || is_forbidden_by_capture()) {
    return refuse(ncclUnhandledCudaError, "no memory in a capture, or without a device");
  }
  std::shared_ptr<NcclMemory> made = bytes == 0 ? nullptr : NcclMemory::make(bytes, device);
  if (made == nullptr) {
    return refuse(ncclUnhandledCudaError, "no memory of " + std::to_string(bytes) + " bytes");
  }
  *memory = made->begin();
  const std::lock_guard lock(allocations().mutex);
  allocations().all[made->begin()] = std::move(made);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  if (memory == nullptr) return ncclSuccess;
  std::shared_ptr<NcclMemory> freed;
  {
    const std::lock_guard lock(allocations().mutex);
    const auto at = allocations().all.find(static_cast<const std::byte*>(memory));
    if (at == allocations().all.end()) {
      return refuse(ncclInvalidArgument, "memory that ncclMemAlloc() did not give");
    }
    freed = std::move(at->second);
    allocations().all.erase(at);
  }
  wait_for_streams(freed->device());
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (flags != NCCL_WIN_COLL_SYMMETRIC) return refuse(ncclInvalidArgument, "flags of a window");
  if (comm->is_revoked()) return refuse(ncclInvalidUsage, "the communicator was revoked");
  if (!comm->is_whole() || comm->registers()) {
    return refuse(ncclInvalidUsage, "the communicator is not ready");
  }
  return comm->register_window(memory, bytes, window);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  return window == nullptr ? ncclSuccess : comm->drop_window(window);
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  const char* const asked = std::getenv("TESSERA_EMULATED_NCCL_LSA");
  const int most = asked == nullptr ? comm->clique().ranks_a_host() : std::atoi(asked);
  const int size = most > 0 && comm->size() % most == 0 ? most : 1;
  return {size, comm->rank() % size, 1};
}

void* ncclGetLsaPointer(ncclWindow_t window, std::size_t offset, int peer) {
  return window->of->parts.at(peer).begin + offset;
}

}  // namespace tessera::emulation
