#include "runtime/recorder/file.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "placement/printable.h"
#include "placement/reduce_op.h"

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

  Status damaged(const std::string& part) const {
    return refuse("damaged: the checksum of " + part + " is another");
  }
  Status read(const flight::Checked& field, const std::string& name, std::uint32_t& value) const;

  Status parse_header();
  Status check_form();
  Status check_sizes();
  Status parse_end();
  Status parse_groups();
  Status parse_slots();
  Status parse_slot(std::uint32_t index, const Slot& slot);
  bool is_closed() const;
  bool may_be_torn() const;
  Status note_torn_slot(std::uint32_t index);
  Status parse_outcome(const Slot& slot, RecordedCall& call);
  Status place_torn_slot();
  Status check_slot(const Slot& slot) const;
  Status parse_signature(const Slot& slot, RecordedCall& call) const;
  Status parse_time(std::string_view field, std::int64_t since_start, std::int64_t& time) const;

  std::span<const std::byte> bytes_;
  std::string_view source_;
  Header header_{};
  std::uint32_t num_slots_ = 0, kept_slots_ = 0, num_groups_ = 0;
  std::optional<std::uint32_t> torn_slot_;  ///< whose call was being written
  RankRecords records_;
};

Status Parser::read(const flight::Checked& field, const std::string& name,
                    std::uint32_t& value) const {
  value = field.value;
  return field.check == flight::checked(value).check ? absl::OkStatus() : damaged(name);
}

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
  return header_.check == flight::check_of(header_) ? absl::OkStatus() : damaged("the header");
}

Status Parser::check_sizes() {
  TSR_RETURN_IF_ERROR(read(header_.num_slots, "the number of slots", num_slots_));
  TSR_RETURN_IF_ERROR(read(header_.kept_slots, "the number of kept slots", kept_slots_));
  TSR_RETURN_IF_ERROR(read(header_.num_groups, "the number of groups", num_groups_));
  TSR_RETURN_IF_ERROR(check("slots", num_slots_, 1, flight::kSlots));
  if (!std::has_single_bit(num_slots_)) return refuse("slots", num_slots_, "a power of two");
  TSR_RETURN_IF_ERROR(check("kept slots", kept_slots_, 0, num_slots_));
  if (header_.group_words > kMaxGroupWords) {
    return refuse(absl::StrFormat("room for groups is %d; allowed: 0 to %d", header_.group_words,
                                  kMaxGroupWords));
  }
  const auto group_words = static_cast<std::int64_t>(header_.group_words);
  TSR_RETURN_IF_ERROR(check("groups", num_groups_, 0, group_words));
  const std::size_t fixed = flight::kPageBytes + header_.group_words * 4;
  const std::size_t least = fixed + sizeof(Slot) * kept_slots_;
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
  TSR_RETURN_IF_ERROR(check_sizes());
  TSR_RETURN_IF_ERROR(check("world size", header_.world_size, 1, kMaxWorld));
  TSR_RETURN_IF_ERROR(check("rank", header_.rank, 0, header_.world_size - 1));
  TSR_RETURN_IF_ERROR(check("start time", header_.start_unix_ns, 0, kMaxTime));
  records_.rank = header_.rank;
  records_.world_size = header_.world_size;
  records_.pid = header_.pid;
  records_.job = header_.job;
  records_.start_ns = header_.start_unix_ns;
  records_.backend =
      printable({header_.backend, ::strnlen(header_.backend, sizeof header_.backend)});
  return parse_end();
}

Status Parser::parse_end() {
  std::uint32_t end = 0;
  TSR_RETURN_IF_ERROR(read(header_.end, "the end mark", end));
  TSR_RETURN_IF_ERROR(check("end mark", end, 0, static_cast<std::int64_t>(flight::End::kFailed)));
  records_.end = static_cast<flight::End>(end);
  if (records_.end == flight::End::kOpen) return absl::OkStatus();
  if (header_.failure_bytes > flight::kMaxFailureBytes) {
    return refuse(absl::StrFormat("failure bytes is %d; allowed: 0 to %d", header_.failure_bytes,
                                  flight::kMaxFailureBytes));
  }
  if (header_.end_check != flight::check_of_end(header_, records_.end)) return damaged("the end");
  TSR_RETURN_IF_ERROR(parse_time("end time", header_.end_ns, records_.end_ns));
  if (records_.end == flight::End::kFailed) {
    records_.failure = printable({header_.failure, header_.failure_bytes});
  }
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
  for (std::uint32_t i = 0; i < num_groups_; ++i) {
    const std::string name = "group " + std::to_string(i);
    if (words.size() - at < 2) return refuse(name + " lies outside the room for groups");
    const std::uint32_t size = words[at];
    const auto room = static_cast<std::int64_t>(words.size() - at - 2);
    TSR_RETURN_IF_ERROR(check("size of " + name, size, 1, std::min(room, header_.world_size)));
    const auto listed = std::span(words).subspan(at, size + std::size_t{1});
    const std::vector<std::int64_t> ranks(listed.begin() + 1, listed.end());
    at += listed.size();
    if (words[at++] != flight::check_of_group(listed)) return damaged(name);
    std::vector<std::int64_t> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    TSR_RETURN_IF_ERROR(check("a rank of " + name, sorted.back(), 0, header_.world_size - 1));
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      return refuse(name + " repeats a rank");
    }
    if (!std::binary_search(sorted.begin(), sorted.end(), header_.rank)) {
      return refuse(name + " lacks the file's own rank");
    }
    records_.groups.push_back(ranks);
  }
  return absl::OkStatus();
}

Status Parser::check_slot(const Slot& slot) const {
  const auto most = [](auto last) { return static_cast<std::int64_t>(last); };
  TSR_RETURN_IF_ERROR(check("kind", slot.kind, 0, most(CollectiveCall::kLastKind)));
  TSR_RETURN_IF_ERROR(check("dtype", slot.dtype, 0, most(kLastDType)));
  TSR_RETURN_IF_ERROR(check("reduce op", slot.reduce, 0, most(kLastReduceOp)));
  TSR_RETURN_IF_ERROR(check("fold", slot.fold, 0, 1));
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

// Then every kept slot holds a call. A rank that has failed may have made calls after that.
bool Parser::is_closed() const {
  return records_.end == flight::End::kClean ||
         (records_.end == flight::End::kFailed && kept_slots_ < num_slots_);
}

// One thing may, of a record that was not closed.
bool Parser::may_be_torn() const { return !is_closed() && !torn_slot_ && !records_.torn_ticket; }

Status Parser::note_torn_slot(std::uint32_t index) {
  if (!may_be_torn()) return damaged("slot " + std::to_string(index));
  torn_slot_ = index;
  return absl::OkStatus();
}

Status Parser::parse_outcome(const Slot& slot, RecordedCall& call) {
  if (slot.outcome_check != flight::check_of_outcome(slot, slot.seal)) {
    if (!may_be_torn()) return damaged("the call's outcome");
    records_.torn_ticket = call.ticket;
    return absl::OkStatus();
  }
  constexpr auto kLast = static_cast<std::uint64_t>(State::kFailed);
  if (slot.state > kLast) {
    return refuse(absl::StrFormat("state is %d; allowed: 0 to %d", slot.state, kLast));
  }
  call.state = static_cast<State>(slot.state);
  return call.is_over() ? parse_time("end time", slot.end_ns, call.end_ns) : absl::OkStatus();
}

Status Parser::parse_slot(std::uint32_t index, const Slot& slot) {
  if (slot.seal == 0) {
    const auto bytes = std::as_bytes(std::span(&slot, 1));
    const bool unwritten =
        std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
    return unwritten && !is_closed() ? absl::OkStatus() : note_torn_slot(index);
  }
  const std::string name = "slot " + std::to_string(index) + ": ";
  const auto place = [&](const Status& status) {
    if (status.ok()) return status;
    return refuse(name + std::string(message_of(status).substr(source_.size() + 2)));
  };
  if (slot.num_send + slot.num_recv > flight::kMaxSplits ||
      slot.check != flight::check_of(slot, slot.seal)) {
    return note_torn_slot(index);
  }
  if ((slot.seal - 1) % num_slots_ != index || slot.seal > std::uint64_t{1} << 62) {
    return refuse(name + "holds another slot's ticket");
  }
  RecordedCall call;
  call.ticket = slot.seal - 1;
  TSR_RETURN_IF_ERROR(place(check_slot(slot)));
  TSR_RETURN_IF_ERROR(place(parse_outcome(slot, call)));
  call.group = slot.group;
  call.ndim = slot.ndim;
  call.num_elements = slot.num_elements;
  call.send_hash = slot.send_hash;
  call.recv_hash = slot.recv_hash;
  call.cut = slot.cut;
  TSR_RETURN_IF_ERROR(place(parse_signature(slot, call)));
  TSR_RETURN_IF_ERROR(place(parse_time("start time", slot.start_ns, call.start_ns)));
  records_.calls.push_back(std::move(call));
  return absl::OkStatus();
}

// Slots are written in turn: what is torn is the call after the last, in its place.
Status Parser::place_torn_slot() {
  if (!torn_slot_) return absl::OkStatus();
  const std::uint64_t next = records_.calls.empty() ? 0 : records_.calls.back().ticket + 1;
  if (next % num_slots_ != *torn_slot_) return damaged("slot " + std::to_string(*torn_slot_));
  records_.torn_ticket = next;
  return absl::OkStatus();
}

Status Parser::parse_slots() {
  const std::byte* at = bytes_.data() + flight::kPageBytes + header_.group_words * 4;
  for (std::uint32_t i = 0; i < kept_slots_; ++i, at += sizeof(Slot)) {
    Slot slot;
    std::memcpy(&slot, at, sizeof slot);
    TSR_RETURN_IF_ERROR(parse_slot(i, slot));
  }
  auto& calls = records_.calls;
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.ticket < b.ticket; });
  TSR_RETURN_IF_ERROR(place_torn_slot());
  if (calls.empty()) return absl::OkStatus();
  // The ring holds one stretch of tickets, without the oldest where that is being overwritten.
  const std::uint64_t newest = calls.back().ticket + (records_.lacks_last_call() ? 1 : 0);
  const std::uint64_t first = newest < num_slots_ ? 0 : newest - num_slots_ + 1;
  if (calls.front().ticket != first || calls.back().ticket - first + 1 != calls.size()) {
    return refuse("its tickets have gaps");
  }
  records_.wrapped = first > 0;
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

Checked checked(std::uint32_t value) noexcept {
  return {value, static_cast<std::uint32_t>(XXH3_64bits(&value, sizeof value))};
}

std::uint64_t check_of(const Header& header) noexcept {
  return XXH3_64bits(&header, offsetof(Header, check));
}

std::uint64_t check_of_end(const Header& header, End end) noexcept {
  constexpr std::size_t kBegin = offsetof(Header, end_ns);
  const auto* bytes = reinterpret_cast<const std::byte*>(&header) + kBegin;
  return XXH3_64bits_withSeed(bytes, offsetof(Header, failure) - kBegin + header.failure_bytes,
                              static_cast<std::uint64_t>(end));
}

std::uint32_t check_of_group(std::span<const std::uint32_t> words) noexcept {
  return static_cast<std::uint32_t>(XXH3_64bits(words.data(), words.size_bytes()));
}

std::uint64_t check_of(const Slot& slot, std::uint64_t seal) noexcept {
  constexpr std::size_t kBegin = offsetof(Slot, sequence), kEnd = offsetof(Slot, splits);
  static_assert(kEnd - kBegin <= XXH3_MIDSIZE_MAX);  // hashed in a few ns
  const auto* bytes = reinterpret_cast<const std::byte*>(&slot) + kBegin;
  const std::uint64_t call = XXH3_64bits_withSeed(bytes, kEnd - kBegin, seal);
  const std::size_t num_splits = std::size_t{slot.num_send} + slot.num_recv;
  return num_splits == 0 ? call : XXH3_64bits_withSeed(slot.splits, 4 * num_splits, call);
}

std::uint64_t check_of_outcome(const Slot& slot, std::uint64_t seal) noexcept {
  static_assert(offsetof(Slot, state) == offsetof(Slot, end_ns) + sizeof slot.end_ns);
  return XXH3_64bits_withSeed(&slot.end_ns, sizeof slot.end_ns + sizeof slot.state, seal);
}

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
