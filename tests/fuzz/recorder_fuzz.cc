// Two flight records of one job: what is accepted is printable, in order and in range, and a
// verdict over it is reached. An image is a page of header and what follows; the input gives the
// header's fields and the start of its failure text, then everything after the page. Each is read
// as it is and with its checksums put right.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "placement/printable.h"
#include "runtime/recorder/file.h"
#include "runtime/recorder/verdict.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/flight_image.h"

namespace tessera {
namespace {

constexpr std::size_t kFailureGiven = 24;
constexpr std::size_t kHeaderGiven = offsetof(flight::Header, failure) + kFailureGiven;

std::vector<std::byte> image_of(std::span<const std::uint8_t> given) {
  const std::size_t header = std::min(given.size(), kHeaderGiven);
  std::vector<std::byte> image(flight::kPageBytes + given.size() - header);
  std::memcpy(image.data(), given.data(), header);
  if (given.size() > header) {
    std::memcpy(image.data() + flight::kPageBytes, given.data() + header, given.size() - header);
  }
  return image;
}

void check_printable(std::string_view text) {
  TSR_CHECK(printable(text, text.size()) == text, std::string(text));
}

void check_records(const RankRecords& records) {
  TSR_CHECK(records.rank >= 0 && records.rank < records.world_size, "rank");
  check_printable(records.backend);
  check_printable(records.failure);
  for (const auto& group : records.groups) {
    TSR_CHECK(std::find(group.begin(), group.end(), records.rank) != group.end(), "group");
    for (const std::int64_t rank : group) {
      TSR_CHECK(rank >= 0 && rank < records.world_size, std::to_string(rank));
    }
  }
  for (std::size_t i = 0; i < records.calls.size(); ++i) {
    const RecordedCall& call = records.calls[i];
    TSR_CHECK(i == 0 || records.calls[i - 1].ticket < call.ticket, to_string(call));
    TSR_CHECK(call.group == flight::kNoGroup || call.group < records.groups.size(),
              to_string(call));
    check_printable(to_string(call));
  }
}

void check_verdict(std::span<const RankRecords> records) {
  const RecordsVerdict verdict = judge(records);
  TSR_CHECK(verdict.present.size() == records.size(), "present");
  TSR_CHECK(static_cast<std::int64_t>(verdict.present.size() + verdict.missing.size()) ==
                verdict.world_size,
            "missing");
  for (const RecordsFinding& finding : verdict.findings) check_printable(finding.text);
  for (const RecordsVerdict::Last& last : verdict.last_calls) check_printable(last.call);
}

StatusOr<RankRecords> read(std::span<const std::byte> image) {
  StatusOr<RankRecords> records = parse_records(image, "record");
  testing::check_text(records.status(), "record: ");
  if (records.ok()) check_records(*records);
  return records;
}

StatusOr<RankRecords> read_sealed(std::span<const std::uint8_t> given) {
  std::vector<std::byte> image = image_of(given);
  static_cast<void>(read(image));
  testing::seal_image(image);
  return read(image);
}

void try_recorder(std::span<const std::uint8_t> input) {
  testing::Bytes in(input);
  const std::size_t first = std::size_t{in.next()} * 256 + in.next();
  const StatusOr<RankRecords> a = read_sealed(in.take(first));
  const StatusOr<RankRecords> b = read_sealed(in.take(input.size()));
  for (const auto& records : {a, b}) {
    if (records.ok()) check_verdict({&*records, 1});
  }
  if (!a.ok() || !b.ok() || a->rank >= b->rank) return;
  if (a->job != b->job || a->world_size != b->world_size) return;
  const RankRecords both[] = {*a, *b};
  check_verdict(both);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_recorder({data, size});
  return 0;
}
