#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>

#include "runtime/recorder/verdict.h"
#include "tests/runtime/recorder_files.h"
#include "tests/support/flight_image.h"

namespace tessera {
namespace {

using flight::End;
using flight::Header;
using flight::Slot;
using testing::call_number;
using testing::Folder;
using testing::open_in;
using testing::Ranks;
using testing::read_ranks;

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Records of two ranks with every kind of field in use, small enough to be read 50,000 times.
struct Victim {
  explicit Victim(End end = End::kFailed) {
    for (const std::int64_t rank : {0, 1}) {
      auto recorder = open_in(folder.path(), rank);
      const std::uint32_t group = recorder->add_group(Ranks{0, 1});
      for (std::uint64_t i = 0; i < kNumCalls; ++i) {
        Signature call = call_number(i);
        call.kind = static_cast<CollectiveCall::Kind>(i % 5);
        call.send_splits = {1, 2};
        call.recv_splits = {1, 2};
        const std::uint64_t ticket = recorder->started(call, group);
        if (i < 5) recorder->finished(ticket);
      }
      if (end == End::kFailed) recorder->note_failure("disk on fire");
      if (end != End::kOpen) recorder->close(FlightRecorder::Leave::kKeep);
    }
    other = read_ranks(folder.path(), {1})[0];
    bytes = bytes_of(folder.path() + "/rank_00000.tsrrec");
    slots_at = bytes.size() - (end == End::kOpen ? flight::kFirstSlots : kNumCalls) * sizeof(Slot);
  }
  static constexpr std::size_t kNumCalls = 6;

  /// Everything that a reader gets to know; the error's text where it refuses.
  static std::string told(std::span<const char> bytes) {
    const auto records = parse_records(std::as_bytes(bytes), "victim");
    if (!records.ok()) return std::string(message_of(records.status()));
    std::string text = "read " + std::to_string(records->rank) +
                       std::to_string(records->world_size) + std::to_string(records->pid) + "/" +
                       std::to_string(records->job) + "/" + std::to_string(records->start_ns) +
                       "/" + std::to_string(records->end_ns) +
                       std::to_string(static_cast<int>(records->end)) + records->backend +
                       records->failure + (records->torn_ticket ? ", torn" : "");
    for (const Ranks& group : records->groups) text += list_ranks(group);
    for (const RecordedCall& call : records->calls) {
      text += "\n" + to_string(call) + std::to_string(static_cast<int>(call.state)) + "/" +
              std::to_string(call.ticket) + "/" + std::to_string(call.start_ns) + "/" +
              std::to_string(call.end_ns) + "/" + std::to_string(call.group);
    }
    return text;
  }
  /// How many bits of a range may change without a reader telling of it. What it does tell is an
  /// error, or that something is torn.
  std::size_t silent_bits(std::size_t begin, std::size_t end) const {
    const std::string sound = told(bytes);
    std::vector<char> changed = bytes;
    std::size_t count = 0;
    for (std::size_t bit = 8 * begin; bit < 8 * end; ++bit) {
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      const std::string seen = told(changed);
      const bool is_told = !seen.starts_with("read ") || seen.find(", torn") != std::string::npos;
      if (!is_told) {
        ++count;
        if (seen != sound) return ~std::size_t{0};  // other than what was written, and not told
      }
      changed[bit / 8] = bytes[bit / 8];
    }
    return count;
  }

  /// An error or a verdict; true for the latter.
  bool judged(std::span<const char> changed) const {
    auto records = parse_records(std::as_bytes(changed), "victim");
    if (!records.ok()) {
      if (records.status().code() != absl::StatusCode::kInvalidArgument)
        throw Error(records.status());
      return false;
    }
    std::vector<RankRecords> both;
    both.push_back(*std::move(records));
    if (both[0].rank == 0 && both[0].world_size == 4) both.push_back(other);
    judge(both);
    return true;
  }

  Folder folder;
  RankRecords other;
  std::vector<char> bytes;
  std::size_t slots_at = 0;
};

void seal(std::vector<char>& bytes) {
  testing::seal_image(std::as_writable_bytes(std::span(bytes)));
}

}  // namespace

TEST_CASE("no bit of a record can change unseen, but in what carries nothing",
          "[runtime][recorder]") {
  const End end = GENERATE(End::kOpen, End::kClean, End::kFailed);
  CAPTURE(static_cast<int>(end));
  const Victim victim(end);
  REQUIRE(Victim::told(victim.bytes).starts_with("read "));
  // Of an end that has not come nothing is read, of a failure its own bytes.
  const std::size_t told_bytes = end == End::kFailed ? 12 : 0;
  const std::size_t of_end =
      end == End::kOpen ? 8 * (offsetof(Header, failure) - offsetof(Header, end_check)) : 0;
  CHECK(victim.silent_bits(0, offsetof(Header, failure)) == of_end);
  CHECK(victim.silent_bits(offsetof(Header, failure), flight::kPageBytes) ==
        8 * (flight::kPageBytes - offsetof(Header, failure) - told_bytes));
  // One group: a count, two ranks, a check.
  CHECK(victim.silent_bits(flight::kPageBytes, flight::kPageBytes + 16) == 0);
  CHECK(victim.silent_bits(flight::kPageBytes + 16, flight::kPageBytes + 64) == 8 * 48);
  // Of each slot the splits that are not used, 12 of 16.
  for (std::size_t slot = 0; slot < Victim::kNumCalls; ++slot) {
    CAPTURE(slot);
    const std::size_t begin = victim.slots_at + slot * sizeof(Slot);
    CHECK(victim.silent_bits(begin, begin + sizeof(Slot)) == 8 * 48);
  }
}

TEST_CASE("a record that is cut short anywhere is an error", "[runtime][recorder]") {
  const End end = GENERATE(End::kOpen, End::kClean, End::kFailed);
  const Victim victim(end);
  std::size_t read = 0;
  for (std::size_t size = 0; size < victim.bytes.size(); ++size) {
    if (victim.judged(std::span(victim.bytes).first(size))) ++read;
  }
  CHECK(read == 0);
}

TEST_CASE("what a killed process was writing is told as torn, anything more is damage",
          "[runtime][recorder]") {
  const Victim open(End::kOpen);
  const auto slot_of = [&](std::size_t index) { return open.slots_at + index * sizeof(Slot); };
  const auto at = [](std::size_t begin, std::size_t member) { return begin + member; };
  std::vector<char> bytes = open.bytes;
  SECTION("the call after the last") {
    bytes[at(slot_of(6), offsetof(Slot, start_ns))] = 1;  // its seal is still 0
    const auto records = parse_records(std::as_bytes(std::span(bytes)), "f");
    REQUIRE(records.ok());
    CHECK(records->torn_ticket == 6u);
    CHECK(records->calls.size() == 6);
    CHECK(judge({&*records, 1}).last_calls[0].torn);
    CHECK_FALSE(judge({&*records, 1}).clean());
  }
  SECTION("what became of a call") {
    bytes[at(slot_of(2), offsetof(Slot, end_ns))] ^= 1;
    const auto records = parse_records(std::as_bytes(std::span(bytes)), "f");
    REQUIRE(records.ok());
    CHECK(records->torn_ticket == 2u);
    CHECK(records->calls[2].state == RecordedCall::State::kStarted);
  }
  SECTION("two of them") {
    bytes[at(slot_of(6), offsetof(Slot, start_ns))] = 1;
    bytes[at(slot_of(2), offsetof(Slot, end_ns))] ^= 1;
    CHECK(Victim::told(bytes) == "victim: damaged: the checksum of slot 6 is another");
  }
  SECTION("not in turn") {
    bytes[at(slot_of(7), offsetof(Slot, start_ns))] = 1;
    CHECK(Victim::told(bytes) == "victim: damaged: the checksum of slot 7 is another");
  }
  SECTION("in a record with an end") {
    const Victim victim(GENERATE(End::kClean, End::kFailed));
    bytes = victim.bytes;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(victim.slots_at) + 5 * sizeof(Slot),
                sizeof(Slot), '\0');
    CHECK(Victim::told(bytes) == "victim: damaged: the checksum of slot 5 is another");
    bytes = victim.bytes;
    bytes[victim.slots_at + offsetof(Slot, state)] ^= 1;
    CHECK(Victim::told(bytes) ==
          "victim: slot 0: damaged: the checksum of the call's outcome is another");
  }
}

TEST_CASE("20,000 mutations of a record are errors or verdicts", "[runtime][recorder]") {
  const Victim victim;
  std::mt19937_64 random(20'000);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t groups = flight::kPageBytes;
  const std::size_t slots = victim.slots_at;
  const std::array<std::pair<std::size_t, std::size_t>, 3> regions = {
      {{0, 128}, {groups, groups + 16}, {slots, victim.bytes.size()}}};
  int judged = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<char> changed = victim.bytes;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const auto [begin, end] = regions[below(100) < 10 ? below(2) : 2];
      const std::size_t at = begin + below(end - begin);
      const std::size_t count = std::min(end - at, std::size_t{1} << below(4));
      for (std::size_t i = 0; i < count; ++i) {
        const char choices[] = {static_cast<char>(random()), 0, '\xff', '\x1b'};
        changed[at + i] = choices[below(4)];
      }
    }
    if (below(20) == 0) changed.resize(below(changed.size()));
    if (below(8) != 0) seal(changed);  // else its checksums tell
    judged += victim.judged(changed) ? 1 : 0;
  }
  CHECK(judged > 1000);
  CHECK(judged < 19'000);
}

TEST_CASE("no record at all, and none that is whole, is an error that says so",
          "[runtime][recorder]") {
  const Victim victim;
  const auto text = [&](std::vector<char> bytes) {
    return std::string(message_of(parse_records(std::as_bytes(std::span(bytes)), "f").status()));
  };
  CHECK(text({}) == "f: not a flight record: 0 bytes, of at least 4096");
  CHECK(text(std::vector<char>(8192)) ==
        "f: not a flight record: it does not begin with TSRFLT\\x0d ");
  std::vector<char> bytes = victim.bytes;
  bytes.pop_back();
  CHECK_THAT(text(bytes), Catch::Contains(" bytes, but its header tells of "));
  bytes = victim.bytes;
  bytes[8] = 1;
  CHECK(text(bytes) == "f: version is 1; allowed: 2");
  bytes = victim.bytes;
  const std::size_t slot = bytes.size() - sizeof(Slot);
  bytes[slot + offsetof(Slot, kind)] = 99;
  CHECK(text(bytes) == "f: damaged: the checksum of slot 5 is another");
  seal(bytes);
  CHECK(text(bytes) == "f: slot 5: kind is 99; allowed: 0 to 9");
  CHECK(last_call_in(victim.folder.path(), 7).empty());
  CHECK_THAT(std::string(message_of(read_records("/nowhere/x").status())),
             Catch::StartsWith("/nowhere/x: cannot open: "));
}

TEST_CASE("a record without room for groups is whole", "[runtime][recorder]") {
  Header header{};
  flight::kMagic.copy(header.magic, sizeof header.magic);
  header.version = flight::kVersion;
  header.byte_order = flight::kByteOrder;
  header.header_bytes = flight::kPageBytes;
  header.slot_bytes = sizeof(Slot);
  header.num_slots.value = 4;
  header.world_size = 1;
  std::vector<std::byte> bytes(flight::kPageBytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  testing::seal_image(bytes);
  const StatusOr<RankRecords> records = parse_records(bytes, "record");
  INFO(records.status());
  REQUIRE(records.ok());
  CHECK(records->groups.empty());
  CHECK(judge({&*records, 1}).present == Ranks{0});
}

TEST_CASE("the latest times that a record may tell of are in range", "[runtime][recorder]") {
  Victim victim;
  Header header;
  std::memcpy(&header, victim.bytes.data(), sizeof header);
  header.start_unix_ns = INT64_MAX / 2;
  header.end_ns = INT64_MAX / 2;
  std::memcpy(victim.bytes.data(), &header, sizeof header);
  seal(victim.bytes);
  const auto records = parse_records(std::as_bytes(std::span(victim.bytes)), "record");
  INFO(records.status());
  REQUIRE(records.ok());
  CHECK(records->end_ns == INT64_MAX - 1);
  header.end_ns = INT64_MAX / 2 + 1;
  std::memcpy(victim.bytes.data(), &header, sizeof header);
  seal(victim.bytes);
  const auto refused = parse_records(std::as_bytes(std::span(victim.bytes)), "record");
  CHECK_THAT(std::string(message_of(refused.status())), Catch::Contains("end time"));
}

TEST_CASE("names cannot carry escape sequences to a terminal", "[runtime][recorder]") {
  const Folder folder;
  auto recorder = open_in(folder.path());
  Signature call = call_number(0);
  call.tensor = "\x1b[31mred\n\xe2\x80\xae";
  recorder->started(call, recorder->add_group(Ranks{0, 1}));
  recorder->note_failure("bell\a");
  recorder->close(FlightRecorder::Leave::kKeep);
  CHECK(last_call_in(folder.path(), 0) ==
        "all_reduce #0 of F32 [8, 4] by sum, tensor \\x1b[31mred \\u202e "
        "(moe/dispatch.cc:12)");
  CHECK(read_ranks(folder.path(), {0})[0].failure == "bell\\x07");
}

}  // namespace tessera
