#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>

#include "runtime/recorder_verdict.h"
#include "tests/runtime/recorder_files.h"

namespace tessera {
namespace {

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
  Victim() {
    for (const std::int64_t rank : {0, 1}) {
      auto recorder = open_in(folder.path(), rank);
      const std::uint32_t group = recorder->add_group(Ranks{0, 1});
      for (std::uint64_t i = 0; i < 6; ++i) {
        Signature call = call_number(i);
        call.kind = static_cast<CollectiveCall::Kind>(i % 5);
        call.send_splits = {1, 2};
        call.recv_splits = {1, 2};
        const std::uint64_t ticket = recorder->started(call, group);
        if (i < 5) recorder->finished(ticket);
      }
      recorder->note_failure("disk on fire");
      recorder->close(FlightRecorder::Leave::kKeep);
    }
    other = read_ranks(folder.path(), {1})[0];
    bytes = bytes_of(folder.path() + "/rank_00000.tsrrec");
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
};

}  // namespace

TEST_CASE("a record with any byte of its header changed is an error or a verdict",
          "[runtime][recorder]") {
  const Victim victim;
  REQUIRE(victim.judged(victim.bytes));
  int refused = 0;
  for (std::size_t at = 0; at < sizeof(flight::Header); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::vector<char> changed = victim.bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const bool judged = victim.judged(changed);
      refused += judged ? 0 : 1;
      // The magic, version, byte order, sizes.
      if (at < offsetof(flight::Header, kept_slots)) CHECK_FALSE(judged);
    }
  }
  CHECK(refused > 3 * 28);
}

TEST_CASE("20,000 mutations of a record are errors or verdicts", "[runtime][recorder]") {
  const Victim victim;
  std::mt19937_64 random(20'000);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t groups = flight::kPageBytes;
  const std::size_t slots = victim.bytes.size() - 6 * sizeof(flight::Slot);
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
  bytes[8] = 2;
  CHECK(text(bytes) == "f: version is 2; allowed: 1");
  bytes = victim.bytes;
  const std::size_t slot = bytes.size() - sizeof(flight::Slot);
  bytes[slot + offsetof(flight::Slot, kind)] = 99;
  CHECK(text(bytes) == "f: slot 5: kind is 99; allowed: 0 to 8");
  for (std::size_t size = 0; size < victim.bytes.size(); size += 97) {
    CHECK_FALSE(victim.judged(std::span(victim.bytes).first(size)));
  }
  CHECK(last_call_in(victim.folder.path(), 7).empty());
  CHECK_THAT(std::string(message_of(read_records("/nowhere/x").status())),
             Catch::StartsWith("/nowhere/x: cannot open: "));
}

TEST_CASE("a record without room for groups is whole", "[runtime][recorder]") {
  flight::Header header{};
  flight::kMagic.copy(header.magic, sizeof header.magic);
  header.version = flight::kVersion;
  header.byte_order = flight::kByteOrder;
  header.header_bytes = flight::kPageBytes;
  header.slot_bytes = sizeof(flight::Slot);
  header.num_slots = 4;
  header.world_size = 1;
  std::vector<std::byte> bytes(flight::kPageBytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  const StatusOr<RankRecords> records = parse_records(bytes, "record");
  INFO(records.status());
  REQUIRE(records.ok());
  CHECK(records->groups.empty());
  CHECK(judge({&*records, 1}).present == Ranks{0});
}

TEST_CASE("the latest times that a record may tell of are in range", "[runtime][recorder]") {
  Victim victim;
  flight::Header header;
  std::memcpy(&header, victim.bytes.data(), sizeof header);
  header.start_unix_ns = INT64_MAX / 2;
  header.end_ns = INT64_MAX / 2;
  std::memcpy(victim.bytes.data(), &header, sizeof header);
  const auto records = parse_records(std::as_bytes(std::span(victim.bytes)), "record");
  INFO(records.status());
  REQUIRE(records.ok());
  CHECK(records->end_ns == INT64_MAX - 1);
  header.end_ns = INT64_MAX / 2 + 1;
  std::memcpy(victim.bytes.data(), &header, sizeof header);
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
