#include "runtime/recorder_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "placement/printable.h"

namespace tessera {
namespace {

using flight::Header;
using flight::Slot;
using State = RecordedCall::State;

// Far beyond any real job; keeps what a file can make the reader do in bounds.
constexpr std::int64_t kMaxWorld = std::int64_t{1} << 16;
constexpr std::uint32_t kMaxGroupWords = std::uint32_t{1} << 22;
constexpr std::size_t kMaxFileBytes =
    flight::kPageBytes + std::size_t{kMaxGroupWords} * 4 + sizeof(Slot) * flight::kSlots;
// 146 years: sums of two times stay in range.
constexpr std::int64_t kMaxTime = (std::int64_t{1} << 62) - 1;

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view source)
      : bytes_(bytes), source_(source) {}

  StatusOr<RankRecords> parse() {
    TSR_RETURN_IF_ERROR(parse_header());
    TSR_RETURN_IF_ERROR(parse_groups());
    TSR_RETURN_IF_ERROR(parse_slots());
    return std::move(records_);
  }

 private:
  Status refuse(const std::string& text) const {
    return invalid_argument(std::string(source_) + ": " + text);
  }
  Status refuse(std::string_view field, std::int64_t seen, const std::string& allowed) const {
    return refuse(absl::StrFormat("%s is %d; allowed: %s", std::string(field), seen, allowed));
  }
  Status check(std::string_view field, std::int64_t seen, std::int64_t low,
               std::int64_t high) const {
    if (seen >= low && seen <= high) return absl::OkStatus();
    return refuse(field, seen,
                  low == high ? std::to_string(low) : absl::StrFormat("%d to %d", low, high));
  }

  Status parse_header();
  Status check_form();
  Status parse_groups();
  Status parse_slots();
  Status parse_slot(std::uint32_t index, const Slot& slot);
  Status check_slot(const Slot& slot) const;
  Status parse_signature(const Slot& slot, RecordedCall& call) const;
  Status parse_time(std::string_view field, std::int64_t since_start, std::int64_t& time) const;

  std::span<const std::byte> bytes_;
  std::string_view source_;
  Header header_{};
  RankRecords records_;
};

Status Parser::check_form() {
  if (std::string_view(header_.magic, sizeof header_.magic) != flight::kMagic) {
    return refuse("not a flight record: it does not begin with " + printable(flight::kMagic));
  }
  if (header_.byte_order != flight::kByteOrder) {
    return refuse("written on a machine of another byte order");
  }
  TSR_RETURN_IF_ERROR(check("version", header_.version, flight::kVersion, flight::kVersion));
  TSR_RETURN_IF_ERROR(
      check("header bytes", header_.header_bytes, flight::kPageBytes, flight::kPageBytes));
  TSR_RETURN_IF_ERROR(check("slot bytes", header_.slot_bytes, sizeof(Slot), sizeof(Slot)));
  TSR_RETURN_IF_ERROR(check("slots", header_.num_slots, 1, flight::kSlots));
  if (!std::has_single_bit(header_.num_slots)) {
    return refuse("slots", header_.num_slots, "a power of two");
  }
  TSR_RETURN_IF_ERROR(check("kept slots", header_.kept_slots, 0, header_.num_slots));
  TSR_RETURN_IF_ERROR(check("room for groups", header_.group_words, 0, kMaxGroupWords));
  TSR_RETURN_IF_ERROR(check("groups", header_.num_groups, 0, header_.group_words));
  const std::size_t fixed = flight::kPageBytes + std::size_t{header_.group_words} * 4;
  const std::size_t least = fixed + sizeof(Slot) * header_.kept_slots;
  const std::size_t most = fixed + sizeof(Slot) * flight::kSlots;
  if (bytes_.size() >= least && bytes_.size() <= most) return absl::OkStatus();
  return refuse(absl::StrFormat("has %d bytes, but its header tells of %d to %d", bytes_.size(),
                                least, most));
}

Status Parser::parse_header() {
  if (bytes_.size() < flight::kPageBytes) {
    return refuse(absl::StrFormat("not a flight record: %d bytes, of at least %d", bytes_.size(),
                                  flight::kPageBytes));
  }
  std::memcpy(&header_, bytes_.data(), sizeof header_);
  TSR_RETURN_IF_ERROR(check_form());
  TSR_RETURN_IF_ERROR(check("world size", header_.world_size, 1, kMaxWorld));
  TSR_RETURN_IF_ERROR(check("rank", header_.rank, 0, header_.world_size - 1));
  TSR_RETURN_IF_ERROR(check("start time", header_.start_unix_ns, 0, kMaxTime));
  TSR_RETURN_IF_ERROR(
      check("end mark", header_.end, 0, static_cast<std::int64_t>(flight::End::kFailed)));
  TSR_RETURN_IF_ERROR(check("failure bytes", header_.failure_bytes, 0, flight::kMaxFailureBytes));
  records_.rank = header_.rank;
  records_.world_size = header_.world_size;
  records_.pid = header_.pid;
  records_.job = header_.job;
  records_.start_ns = header_.start_unix_ns;
  records_.end = static_cast<flight::End>(header_.end);
  if (records_.end != flight::End::kOpen) {
    TSR_RETURN_IF_ERROR(parse_time("end time", header_.end_ns, records_.end_ns));
  }
  if (records_.end == flight::End::kFailed) {
    records_.failure = printable({header_.failure, header_.failure_bytes});
  }
  records_.backend =
      printable({header_.backend, ::strnlen(header_.backend, sizeof header_.backend)});
  return absl::OkStatus();
}

Status Parser::parse_time(std::string_view field, std::int64_t since_start,
                          std::int64_t& time) const {
  TSR_RETURN_IF_ERROR(check(field, since_start, -kMaxTime, kMaxTime));
  time = header_.start_unix_ns + since_start;
  return absl::OkStatus();
}

Status Parser::parse_groups() {
  std::vector<std::uint32_t> words(header_.group_words);
  if (!words.empty()) {  // else there is nothing to copy to
    std::memcpy(words.data(), bytes_.data() + flight::kPageBytes, words.size() * 4);
  }
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < header_.num_groups; ++i) {
    const std::string name = "group " + std::to_string(i);
    if (at == words.size()) return refuse(name + " lies outside the room for groups");
    const std::uint32_t size = words[at++];
    const auto room = static_cast<std::int64_t>(words.size() - at);
    TSR_RETURN_IF_ERROR(check("size of " + name, size, 1, std::min(room, header_.world_size)));
    std::vector<std::int64_t> ranks(words.begin() + static_cast<std::ptrdiff_t>(at),
                                    words.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    std::vector<std::int64_t> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    TSR_RETURN_IF_ERROR(check("a rank of " + name, sorted.back(), 0, header_.world_size - 1));
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      return refuse(name + " repeats a rank");
    }
    if (!std::binary_search(sorted.begin(), sorted.end(), header_.rank)) {
      return refuse(name + " lacks the file's own rank");
    }
    records_.groups.push_back(std::move(ranks));
  }
  return absl::OkStatus();
}

Status Parser::check_slot(const Slot& slot) const {
  const auto most = [](auto last) { return static_cast<std::int64_t>(last); };
  TSR_RETURN_IF_ERROR(check("kind", slot.kind, 0, most(CollectiveCall::Kind::kExchange)));
  TSR_RETURN_IF_ERROR(check("dtype", slot.dtype, 0, most(kLastDType)));
  TSR_RETURN_IF_ERROR(check("reduce op", slot.reduce, 0, most(ReduceOp::kProd)));
  TSR_RETURN_IF_ERROR(check("fold", slot.fold, 0, 1));
  TSR_RETURN_IF_ERROR(check("state", slot.state, 0, most(State::kFailed)));
  TSR_RETURN_IF_ERROR(check("ndim", slot.ndim, 0, kMaxDims));
  TSR_RETURN_IF_ERROR(
      check("splits", slot.num_send + slot.num_recv, 0, std::int64_t{flight::kMaxSplits}));
  TSR_RETURN_IF_ERROR(check("tensor bytes", slot.tensor_bytes, 0, sizeof slot.tensor));
  TSR_RETURN_IF_ERROR(check("axes bytes", slot.axes_bytes, 0, sizeof slot.axes));
  TSR_RETURN_IF_ERROR(check("file bytes", slot.file_bytes, 0, sizeof slot.file));
  TSR_RETURN_IF_ERROR(
      check("cut", slot.cut, 0, flight::kCutSplits | flight::kCutTensor | flight::kCutAxes));
  if (slot.group == flight::kNoGroup) return absl::OkStatus();
  const auto num_groups = std::ssize(records_.groups);
  if (slot.group >= num_groups) {
    return refuse("group", slot.group, "less than " + std::to_string(num_groups));
  }
  return check("root", slot.root, 0, std::ssize(records_.groups[slot.group]) - 1);
}

Status Parser::parse_signature(const Slot& slot, RecordedCall& call) const {
  Signature& signature = call.signature;
  signature.kind = static_cast<CollectiveCall::Kind>(slot.kind);
  signature.sequence = slot.sequence;
  signature.dtype = static_cast<DType>(slot.dtype);
  signature.reduce = static_cast<ReduceOp>(slot.reduce);
  signature.root = slot.root;
  signature.fold = slot.fold == 1;
  signature.extra = slot.extra;
  if (slot.sequence > std::uint64_t{kMaxTime}) return refuse("its sequence is out of range");
  const std::size_t kept = std::min<std::size_t>(slot.ndim, flight::kMaxShape);
  signature.shape = to_shape({slot.shape, kept});
  for (const std::int64_t size : signature.shape) {
    TSR_RETURN_IF_ERROR(check("a dim's size", size, 0, kMaxTime));
  }
  const auto* splits = slot.splits;
  signature.send_splits.assign(splits, splits + slot.num_send);
  signature.recv_splits.assign(splits + slot.num_send, splits + slot.num_send + slot.num_recv);
  signature.tensor = printable({slot.tensor, slot.tensor_bytes});
  signature.axes = printable({slot.axes, slot.axes_bytes});
  if ((slot.cut & flight::kCutTensor) != 0) signature.tensor += "...";
  if ((slot.cut & flight::kCutAxes) != 0) signature.axes += "...";
  call.site = printable({slot.file, slot.file_bytes}) + ":" + std::to_string(slot.line);
  return absl::OkStatus();
}

Status Parser::parse_slot(std::uint32_t index, const Slot& slot) {
  if (slot.seal == 0) return absl::OkStatus();  // never written, or torn
  const std::string name = "slot " + std::to_string(index) + ": ";
  if ((slot.seal - 1) % header_.num_slots != index || slot.seal > std::uint64_t{1} << 62) {
    return refuse(name + "holds another slot's ticket");
  }
  const auto place = [&](const Status& status) {
    if (status.ok()) return status;
    return refuse(name + std::string(message_of(status).substr(source_.size() + 2)));
  };
  TSR_RETURN_IF_ERROR(place(check_slot(slot)));
  RecordedCall call;
  call.state = static_cast<State>(slot.state);
  call.ticket = slot.seal - 1;
  call.group = slot.group;
  call.ndim = slot.ndim;
  call.num_elements = slot.num_elements;
  call.send_hash = slot.send_hash;
  call.recv_hash = slot.recv_hash;
  call.cut = slot.cut;
  TSR_RETURN_IF_ERROR(place(parse_signature(slot, call)));
  TSR_RETURN_IF_ERROR(place(parse_time("start time", slot.start_ns, call.start_ns)));
  if (call.is_over()) {
    TSR_RETURN_IF_ERROR(place(parse_time("end time", slot.end_ns, call.end_ns)));
  }
  records_.calls.push_back(std::move(call));
  return absl::OkStatus();
}

Status Parser::parse_slots() {
  const std::byte* at = bytes_.data() + flight::kPageBytes + std::size_t{header_.group_words} * 4;
  for (std::uint32_t i = 0; i < header_.kept_slots; ++i, at += sizeof(Slot)) {
    Slot slot;
    std::memcpy(&slot, at, sizeof slot);
    TSR_RETURN_IF_ERROR(parse_slot(i, slot));
  }
  auto& calls = records_.calls;
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.ticket < b.ticket; });
  // The ring holds one stretch of tickets; only the one being written may be torn.
  if (calls.empty()) return absl::OkStatus();
  const std::uint64_t last = calls.back().ticket;
  const std::uint64_t first = last < header_.num_slots ? 0 : last - header_.num_slots + 1;
  if (calls.front().ticket < first || last - first + 1 > calls.size() + 1) {
    return refuse("its tickets have gaps");
  }
  records_.wrapped = calls.front().ticket > 0;
  return absl::OkStatus();
}

StatusOr<std::vector<std::byte>> read_bytes(int descriptor, const std::string& path) {
  const auto cannot_read = [&](int code) {
    return io_error(path + ": cannot read: " + std::strerror(code));
  };
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return cannot_read(errno);
  if (!S_ISREG(info.st_mode)) return invalid_argument(path + ": not a regular file");
  if (info.st_size > static_cast<off_t>(kMaxFileBytes)) {
    return invalid_argument(absl::StrFormat("%s: %d bytes, more than any flight record's %d", path,
                                            info.st_size, kMaxFileBytes));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  std::size_t read = 0;
  while (read < bytes.size()) {
    const ssize_t count =
        ::pread(descriptor, bytes.data() + read, bytes.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(errno);
    if (count == 0) break;  // cut meanwhile: the parser sees it
    read += static_cast<std::size_t>(count);
  }
  bytes.resize(read);
  return bytes;
}

// The same number for a pair however it is looked at: `rows` from group rank `from` to `to`.
std::uint64_t pair_hash(std::int64_t rows, std::int64_t from, std::int64_t to) {
  std::uint64_t hash = static_cast<std::uint64_t>(rows) +
                       static_cast<std::uint64_t>(from) * 0x9e3779b97f4a7c15 +
                       static_cast<std::uint64_t>(to) * 0xc2b2ae3d27d4eb4f + 0x165667b19e3779f9;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 29);
}

}  // namespace

namespace flight {

std::uint64_t split_hash(std::span<const std::int64_t> sends, std::int64_t from) {
  std::uint64_t sum = 0;
  for (std::int64_t to = 0; const std::int64_t rows : sends) sum += pair_hash(rows, from, to++);
  return sum;
}

std::uint64_t expected_split_hash(std::span<const std::int64_t> receives, std::int64_t to) {
  std::uint64_t sum = 0;
  for (std::int64_t from = 0; const std::int64_t rows : receives) {
    sum += pair_hash(rows, from++, to);
  }
  return sum;
}

std::string file_name_of(std::int64_t rank) { return absl::StrFormat("rank_%05d.tsrrec", rank); }

}  // namespace flight

std::string to_string(const RecordedCall& call) {
  return call_text(call.signature) + " (" + call.site + ")";
}

StatusOr<RankRecords> parse_records(std::span<const std::byte> bytes, std::string_view source) {
  return Parser(bytes, source).parse();
}

StatusOr<RankRecords> read_records(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) return io_error(path + ": cannot open: " + std::strerror(errno));
  const StatusOr<std::vector<std::byte>> bytes = read_bytes(descriptor, path);
  ::close(descriptor);
  if (!bytes.ok()) return bytes.status();
  return parse_records(*bytes, path);
}

}  // namespace tessera
