#include "runtime/recorder/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

namespace tessera {
namespace {

using flight::Header;
using flight::Slot;

// Room for groups: some hundred of the usual size, bounded for worlds of any size.
std::uint32_t group_words_for(std::int64_t world_size) {
  constexpr std::int64_t kPageWords = flight::kPageBytes / 4;
  const std::int64_t words = 4 * kPageWords + 16 * std::min<std::int64_t>(world_size, 1 << 16);
  return static_cast<std::uint32_t>((words + kPageWords - 1) / kPageWords * kPageWords);
}

std::size_t slots_offset(std::int64_t world_size) {
  return flight::kPageBytes + std::size_t{group_words_for(world_size)} * 4;
}

std::size_t bytes_of(std::int64_t world_size, std::uint64_t num_slots) {
  return slots_offset(world_size) + sizeof(Slot) * num_slots;
}

Status cannot(std::string_view doing, const std::string& path, int code) {
  return io_error(path + ": cannot " + std::string(doing) + ": " + std::strerror(code));
}

// Lengthens the file from `begin` to `end` by zeros, for which the disk then has room: a mapped
// page that cannot be written back would end the process. Written zeros are cheaper to take back
// than allocated blocks: a short job's never reach the disk. Returns an errno.
int make_room(int descriptor, std::size_t begin, std::size_t end) {
  // Beyond the limit on a file's size the kernel sends a signal.
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end) return EFBIG;
  const std::vector<std::byte> zeros(std::min<std::size_t>(end - begin, 256 * 1024));
  while (begin < end) {
    const ssize_t written = ::pwrite(descriptor, zeros.data(), std::min(zeros.size(), end - begin),
                                     static_cast<off_t>(begin));
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) begin += static_cast<std::size_t>(written);
  }
  return 0;
}

// An open file of that many bytes.
StatusOr<int> make_file(const std::string& path, std::size_t bytes) {
  // Not over an old file: another process may have it mapped.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return cannot("replace the flight record", path, errno);
  }
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return cannot("make the flight record", path, errno);
  const int code = make_room(descriptor, 0, bytes);
  if (code == 0) return descriptor;
  ::close(descriptor);
  ::unlink(path.c_str());
  return cannot("make room for the flight record", path, code);
}

// The last two parts of the path.
std::string_view short_path(std::string_view path) {
  const auto* begin = static_cast<const void*>(path.data());
  const auto* slash = static_cast<const char*>(::memrchr(begin, '/', path.size()));
  if (slash == nullptr || slash == path.data()) return path;
  slash = static_cast<const char*>(
      ::memrchr(begin, '/', static_cast<std::size_t>(slash - path.data())));
  if (slash != nullptr) path.remove_prefix(static_cast<std::size_t>(slash + 1 - path.data()));
  return path;
}

template <std::size_t N>
std::uint8_t put(char (&to)[N], std::string_view text) {
  static_assert(N < 256);
  const std::size_t size = std::min(N, text.size());
  std::memcpy(to, text.data(), size);
  return static_cast<std::uint8_t>(size);
}

void put_splits(Slot& slot, const Signature& signature, std::int64_t place) {
  const auto& send = signature.send_splits;
  const auto& recv = signature.recv_splits;
  bool fits = send.size() + recv.size() <= flight::kMaxSplits;
  for (const auto* list : {&send, &recv}) {
    for (std::size_t i = 0; fits && i < list->size(); ++i) {
      const std::int64_t rows = (*list)[i];
      fits = rows >= 0 && rows <= 0xffffffff;
      slot.splits[(list == &recv ? send.size() : 0) + i] = static_cast<std::uint32_t>(rows);
    }
  }
  slot.num_send = fits ? static_cast<std::uint8_t>(send.size()) : 0;
  slot.num_recv = fits ? static_cast<std::uint8_t>(recv.size()) : 0;
  if (fits) return;
  // Row counts of the other kinds are the same list on every rank.
  const bool pairs = signature.kind == CollectiveCall::Kind::kAllToAll;
  slot.cut |= flight::kCutSplits;
  slot.send_hash = flight::split_hash(send, pairs ? place : 0);
  slot.recv_hash = flight::expected_split_hash(recv, pairs ? place : 0);
}

void put_signature(Slot& slot, const Signature& signature) {
  slot.sequence = signature.sequence;
  slot.extra = signature.extra;
  slot.root = signature.root;
  slot.kind = static_cast<std::uint8_t>(signature.kind);
  slot.dtype = static_cast<std::uint8_t>(signature.dtype);
  slot.reduce = static_cast<std::uint8_t>(signature.reduce);
  slot.fold = signature.fold ? 1 : 0;
  slot.ndim = static_cast<std::uint8_t>(std::min<std::size_t>(signature.shape.size(), kMaxDims));
  slot.num_elements = num_elements(signature.shape);
  for (std::size_t i = 0; i < std::min(signature.shape.size(), flight::kMaxShape); ++i) {
    slot.shape[i] = signature.shape[i];
  }
  slot.tensor_bytes = put(slot.tensor, signature.tensor);
  slot.axes_bytes = put(slot.axes, signature.axes);
  slot.cut = static_cast<std::uint8_t>(
      (slot.tensor_bytes < signature.tensor.size() ? flight::kCutTensor : 0) |
      (slot.axes_bytes < signature.axes.size() ? flight::kCutAxes : 0));
  std::string_view file = short_path(signature.site.file);
  if (file.size() > sizeof slot.file) file.remove_prefix(file.size() - sizeof slot.file);
  slot.file_bytes = put(slot.file, file);
  slot.line = signature.site.line;
}

void put_state(Slot& slot, RecordedCall::State state, std::uint64_t seal) noexcept {
  slot.state = static_cast<std::uint64_t>(state);
  slot.outcome_check = flight::check_of_outcome(slot, seal);
}

std::string folder_for_temporary_files() {
  for (const char* name : {"TESSERA_RECORDER_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "/tmp";
}

void store(flight::Checked& field, std::uint32_t value) noexcept {
  std::atomic_ref(reinterpret_cast<std::uint64_t&>(field))
      .store(std::bit_cast<std::uint64_t>(flight::checked(value)), std::memory_order_release);
}

Status make_folder(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  return code ? cannot("make the folder", path, code.value()) : absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::open(const RecorderOptions& options) {
  std::unique_ptr<FlightRecorder> recorder(new FlightRecorder);
  recorder->bytes_ = bytes_of(options.world_size, flight::kSlots);
  if (!options.dir.empty()) {
    const Status status = recorder->open_file(options);
    if (!status.ok() && options.file == RecorderFile::kRequired) return status;
  }
  if (recorder->base_ == nullptr && recorder->map(-1) != 0) throw std::bad_alloc();
  recorder->start_ = options.start;
  recorder->write_header(options);
  return recorder;
}

Status FlightRecorder::open_file(const RecorderOptions& options) {
  const std::size_t first_bytes = bytes_of(options.world_size, flight::kFirstSlots);
  const std::string path = options.dir + "/" + flight::file_name_of(options.rank);
  StatusOr<int> file = make_file(path, first_bytes);
  if (!file.ok() && make_folder(options.dir).ok()) file = make_file(path, first_bytes);
  if (!file.ok()) return file.status();
  const int code = map(*file);
  ::close(*file);
  if (code == 0) {
    path_ = path;
    return absl::OkStatus();
  }
  ::unlink(path.c_str());
  return cannot("map the flight record", path, code);
}

int FlightRecorder::map(int descriptor) {
  const int how = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, how, descriptor, 0);
  if (mapped == MAP_FAILED) return errno;
  base_ = static_cast<std::byte*>(mapped);
  return 0;
}

void FlightRecorder::write_header(const RecorderOptions& options) {
  header_ = reinterpret_cast<Header*>(base_);
  groups_ = reinterpret_cast<std::uint32_t*>(base_ + flight::kPageBytes);
  slots_ = reinterpret_cast<Slot*>(base_ + slots_offset(options.world_size));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  header_->version = flight::kVersion;
  header_->byte_order = flight::kByteOrder;
  header_->header_bytes = flight::kPageBytes;
  header_->slot_bytes = sizeof(Slot);
  store(header_->num_slots, flight::kFirstSlots);
  store(header_->kept_slots, flight::kFirstSlots);
  store(header_->num_groups, 0);
  store(header_->end, static_cast<std::uint32_t>(flight::End::kOpen));
  header_->group_words = group_words_for(options.world_size);
  header_->rank = options.rank;
  header_->world_size = options.world_size;
  header_->pid = ::getpid();
  header_->job = options.job;
  header_->start_unix_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - now_ns();
  std::memcpy(header_->backend, options.backend.data(),
              std::min(sizeof header_->backend, options.backend.size()));
  Header whole = *header_;
  flight::kMagic.copy(whole.magic, sizeof whole.magic);
  header_->check = flight::check_of(whole);
  std::atomic_thread_fence(std::memory_order_release);
  flight::kMagic.copy(header_->magic, sizeof header_->magic);
}

FlightRecorder::~FlightRecorder() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

std::int64_t FlightRecorder::now_ns() const noexcept {
  const auto since = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

std::uint32_t FlightRecorder::add_group(std::span<const std::int64_t> ranks) {
  const std::size_t used = group_words_used_ + 2 + ranks.size();
  if (base_ == nullptr || used > header_->group_words) return flight::kNoGroup;
  std::uint32_t* const begin = groups_ + group_words_used_;
  std::uint32_t* at = begin;
  *at = static_cast<std::uint32_t>(ranks.size());
  for (const std::int64_t rank : ranks) *++at = static_cast<std::uint32_t>(rank);
  *++at = flight::check_of_group({begin, 1 + ranks.size()});
  group_words_used_ = static_cast<std::uint32_t>(used);
  const auto own = std::find(ranks.begin(), ranks.end(), header_->rank) - ranks.begin();
  group_ranks_.push_back(own);
  store(header_->num_groups, header_->num_groups.value + 1);
  return header_->num_groups.value - 1;
}

void FlightRecorder::grow() noexcept {
  const std::uint64_t num_slots = 2 * num_slots_;
  if (!path_.empty()) {
    const int descriptor = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return;
    const int code = make_room(descriptor, bytes_of(header_->world_size, num_slots_),
                               bytes_of(header_->world_size, num_slots));
    ::close(descriptor);
    if (code != 0) return;
  }
  // So far each slot holds the call of its own number: in the larger ring, too.
  num_slots_ = num_slots;
  grows_at_ = num_slots < flight::kSlots ? num_slots : 0;
  store(header_->num_slots, static_cast<std::uint32_t>(num_slots));
  store(header_->kept_slots, static_cast<std::uint32_t>(num_slots));
}

Slot* FlightRecorder::slot_of(std::uint64_t ticket) noexcept {
  if (base_ == nullptr) return nullptr;
  Slot& slot = slots_[ticket & (num_slots_ - 1)];
  return slot.seal == ticket + 1 ? &slot : nullptr;  // else the ring has gone round
}

std::uint64_t FlightRecorder::started(const Signature& signature, std::uint32_t group) noexcept {
  const std::uint64_t ticket = next_++;
  if (base_ == nullptr) return ticket;
  if (ticket == grows_at_) grow();
  Slot& slot = slots_[ticket & (num_slots_ - 1)];
  std::atomic_ref(slot.seal).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.start_ns = now_ns();
  slot.end_ns = 0;
  slot.group = group;
  put_signature(slot, signature);
  put_splits(slot, signature, group < group_ranks_.size() ? group_ranks_[group] : 0);
  slot.check = flight::check_of(slot, ticket + 1);
  put_state(slot, RecordedCall::State::kStarted, ticket + 1);
  std::atomic_ref(slot.seal).store(ticket + 1, std::memory_order_release);
  const char* next = reinterpret_cast<const char*>(&slots_[next_ & (num_slots_ - 1)]);
  for (std::size_t at = 0; at < sizeof(Slot); at += 64) __builtin_prefetch(next + at, 1);
  return ticket;
}

void FlightRecorder::matched(std::uint64_t ticket) noexcept {
  Slot* slot = slot_of(ticket);
  if (slot != nullptr) put_state(*slot, RecordedCall::State::kMatched, slot->seal);
}

void FlightRecorder::finish(std::uint64_t ticket, RecordedCall::State state) noexcept {
  Slot* slot = slot_of(ticket);
  if (slot == nullptr) return;
  slot->end_ns = now_ns();
  put_state(*slot, state, slot->seal);
}

void FlightRecorder::finished(std::uint64_t ticket) noexcept {
  finish(ticket, RecordedCall::State::kFinished);
}

void FlightRecorder::failed(std::uint64_t ticket) noexcept {
  finish(ticket, RecordedCall::State::kFailed);
}

void FlightRecorder::note_failure(std::string_view text) noexcept {
  if (!is_open()) return;
  const std::size_t size = std::min(text.size(), flight::kMaxFailureBytes);
  std::memcpy(header_->failure, text.data(), size);
  header_->failure_bytes = size;
  end_as(flight::End::kFailed);
}

void FlightRecorder::note_end() noexcept {
  if (!is_open()) return;
  keep_what_is_used();
  end_as(flight::End::kClean);
}

bool FlightRecorder::is_open() const noexcept {
  return base_ != nullptr && header_->end.value == static_cast<std::uint32_t>(flight::End::kOpen);
}

void FlightRecorder::end_as(flight::End end) noexcept {
  header_->end_ns = now_ns();
  header_->end_check = flight::check_of_end(*header_, end);
  store(header_->end, static_cast<std::uint32_t>(end));
}

std::uint64_t FlightRecorder::keep_what_is_used() noexcept {
  const std::uint64_t used = std::min(next_, num_slots_);
  store(header_->kept_slots, static_cast<std::uint32_t>(used));
  return used;
}

void FlightRecorder::close(Leave leave) noexcept {
  if (base_ == nullptr) return;
  note_end();
  const std::size_t kept_bytes = bytes_of(header_->world_size, keep_what_is_used());
  ::munmap(base_, bytes_);
  base_ = nullptr;
  if (path_.empty()) return;
  if (leave == Leave::kKeep) {
    // Where this fails the file is only longer.
    [[maybe_unused]] const int cut = ::truncate(path_.c_str(), static_cast<off_t>(kept_bytes));
    return;
  }
  ::unlink(path_.c_str());
  ::rmdir(dir().c_str());
}

StatusOr<std::string> make_recorder_dir(const std::string& asked) {
  const std::string parent = asked.empty() ? folder_for_temporary_files() : asked;
  TSR_RETURN_IF_ERROR(make_folder(parent));
  if (!asked.empty()) return asked;
  std::string path = parent + "/tessera_flight_" + std::to_string(::getpid()) + "_XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return cannot("make the folder", path, errno);
  return path;
}

std::string last_call_in(const std::string& dir, std::int64_t rank) {
  const StatusOr<RankRecords> records = read_records(dir + "/" + flight::file_name_of(rank));
  if (!records.ok() || records->calls.empty()) return "";
  const auto& calls = records->calls;
  const auto open =
      std::find_if(calls.rbegin(), calls.rend(), [](const auto& call) { return !call.is_over(); });
  return to_string(open == calls.rend() ? calls.back() : *open);
}

}  // namespace tessera
