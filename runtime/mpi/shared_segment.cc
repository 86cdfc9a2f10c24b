#include "runtime/mpi/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/control/host_identity.h"

namespace tessera {
namespace {

// Of a process's addresses (2^47), for all segments together.
constexpr std::int64_t kMostAddresses = std::int64_t{1} << 45;
constexpr const char* kName = "tessera";

/// What a segment begins with, so that nobody takes another file for it.
using Token = std::array<std::uint64_t, 2>;

std::string text_of(const Token& token) {
  return absl::StrFormat("%016x%016x", token[0], token[1]);
}

std::int64_t segment_bytes(std::int64_t num_ranks) {
  const std::int64_t memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  rlimit files{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  std::int64_t bytes = std::min(memory, kMostAddresses / num_ranks);
  // A longer file would be a signal, not an error.
  if (limited) bytes = std::min(bytes, static_cast<std::int64_t>(files.rlim_cur));
  return bytes / kHugePage * kHugePage;
}

}  // namespace

// ---- Mapping

Mapping::Mapping(int file, std::int64_t bytes, Access access) noexcept {
  // Huge pages need addresses that are multiples of their size.
  const std::size_t size = static_cast<std::size_t>(bytes + kHugePage);
  void* reserved =
      ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return;
  reserved_ = reserved;
  reserved_bytes_ = size;
  const auto begin = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = ::mmap(reinterpret_cast<void*>(aligned), static_cast<std::size_t>(bytes), protection,
                      MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  if (data == MAP_FAILED) return;
  // Advice only. A child would share, not copy, what it writes to.
  static_cast<void>(::madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE));
  static_cast<void>(::madvise(data, static_cast<std::size_t>(bytes), MADV_DONTFORK));
  static_cast<void>(::madvise(data, static_cast<std::size_t>(bytes), MADV_DONTDUMP));
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
}

Mapping::~Mapping() {
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

// ---- SharedSegment

std::shared_ptr<SharedSegment> SharedSegment::make(std::int64_t num_ranks) {
  const std::int64_t bytes = segment_bytes(std::max<std::int64_t>(1, num_ranks));
  const std::string boot = boot_id();
  if (bytes < kHugePage || boot.empty()) return nullptr;
  const int file = ::memfd_create(kName, MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (::ftruncate(file, bytes) != 0) {
    ::close(file);
    return nullptr;
  }
  auto segment = std::make_shared<SharedSegment>(file, bytes);
  return segment->data() != nullptr && segment->sign() ? segment : nullptr;
}

SharedSegment::SharedSegment(int file, std::int64_t bytes)
    : file_(file), mapping_(file, bytes, Mapping::Access::kReadWrite) {}

SharedSegment::~SharedSegment() { close_file(); }

bool SharedSegment::sign() {
  Token token;
  if (::getrandom(token.data(), sizeof token, 0) != sizeof token) return false;
  std::memcpy(data(), token.data(), sizeof token);
  address_ =
      absl::StrFormat("%s %d %d %d %s", boot_id(), ::getpid(), file_, bytes(), text_of(token));
  return true;
}

bool SharedSegment::holds(const void* data) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping_.data());
  return at >= begin && at - begin < static_cast<std::uintptr_t>(mapping_.bytes());
}

void SharedSegment::close_file() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

std::unique_ptr<Mapping> open_segment(const std::string& address) {
  std::istringstream text(address);
  std::string boot, token;
  std::int64_t process = 0, file = 0, bytes = 0;
  if (!(text >> boot >> process >> file >> bytes >> token) || boot != boot_id()) return nullptr;
  const std::string path = absl::StrFormat("/proc/%d/fd/%d", process, file);
  // Under another numbering of processes the path is somebody else's file: it is not even opened
  // unless its name is that of a segment.
  char link[64] = {};
  const std::string name = std::string("/memfd:") + kName;
  if (::readlink(path.c_str(), link, sizeof link - 1) < 0 || !std::string(link).starts_with(name)) {
    return nullptr;
  }
  const int opened = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return nullptr;
  Token found{};
  std::unique_ptr<Mapping> mapping;
  if (::lseek(opened, 0, SEEK_END) == bytes &&
      ::pread(opened, &found, sizeof found, 0) == static_cast<ssize_t>(sizeof found) &&
      text_of(found) == token) {
    mapping = std::make_unique<Mapping>(opened, bytes, Mapping::Access::kRead);
  }
  ::close(opened);
  return mapping != nullptr && mapping->data() != nullptr ? std::move(mapping) : nullptr;
}

}  // namespace tessera
