// runtime/recorder/file.h: the flight record of one rank as a file: its form, and a reader that
// trusts nothing in it. A ticket is a call's number on its rank; a slot keeps the call whose ticket
// is the slot's number modulo the number of slots. Whatever a reader believes has a check beside it
// (of XXH3), so that damage is told from what was written; torn is what its process had no time to
// write to the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/status.h"
#include "runtime/call/signature.h"

namespace tessera {
namespace flight {

// One header page, then the groups (each a count, its world ranks and a check, 32 bits each), then
// the slots.
inline constexpr std::string_view kMagic{"TSRFLT\r\n", 8};
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kByteOrder = 0x01020304;
inline constexpr std::uint32_t kSlots = 4096;
inline constexpr std::uint32_t kFirstSlots = 256;  ///< a file grows as it fills
inline constexpr std::uint32_t kPageBytes = 4096;
inline constexpr std::uint32_t kNoGroup = 0xffffffff;
inline constexpr std::size_t kMaxFailureBytes = 3072;
inline constexpr std::size_t kMaxShape = 6;
inline constexpr std::size_t kMaxSplits = 16;

enum class End : std::uint32_t { kOpen, kClean, kFailed };

/// A number and its check, written by one store: never half of it is in the file.
struct Checked {
  std::uint32_t value;
  std::uint32_t check;
};
static_assert(sizeof(Checked) == sizeof(std::uint64_t));
Checked checked(std::uint32_t value) noexcept;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t byte_order;
  std::uint32_t header_bytes;
  std::uint32_t slot_bytes;
  std::uint64_t group_words;  ///< room for groups
  std::int64_t rank;
  std::int64_t world_size;
  std::int64_t pid;
  std::uint64_t job;
  std::int64_t start_unix_ns;  ///< time zero of the slots
  char backend[16];
  std::uint64_t check;  ///< of all above
  Checked num_slots;    ///< a power of two
  Checked kept_slots;   ///< in the file; fewer than num_slots once the rank has ended
  Checked num_groups;
  Checked end;              ///< an End; what follows is written before it
  std::uint64_t end_check;  ///< of the end, its time and text
  std::int64_t end_ns;
  std::uint64_t failure_bytes;
  char failure[kMaxFailureBytes];
};
static_assert(sizeof(Header) <= kPageBytes);
std::uint64_t check_of(const Header& header) noexcept;
/// Requires failure_bytes in range.
std::uint64_t check_of_end(const Header& header, End end) noexcept;
/// Of a group's count and ranks.
std::uint32_t check_of_group(std::span<const std::uint32_t> words) noexcept;

/// A seal is written last: 0 while a slot is being written, else its ticket + 1.
struct Slot {
  std::uint64_t seal;
  std::uint64_t check;          ///< of the call: everything but the outcome
  std::uint64_t outcome_check;  ///< of the next two
  std::int64_t end_ns;          ///< 0 until the call is over
  std::uint64_t state;          ///< a RecordedCall::State
  std::uint64_t sequence;       ///< from here on: the call
  std::int64_t start_ns;
  std::uint64_t extra;
  std::uint64_t send_hash;  ///< of splits that do not fit; see split_hash()
  std::uint64_t recv_hash;
  std::int64_t shape[kMaxShape];
  std::int64_t num_elements;
  std::uint32_t group;  ///< a row of the file's groups
  std::int32_t root;
  std::uint32_t line;
  std::uint8_t kind, dtype, reduce, fold;
  std::uint8_t ndim;
  std::uint8_t num_send, num_recv;  ///< entries of `splits`, one list after the other
  std::uint8_t tensor_bytes, axes_bytes, file_bytes;
  std::uint8_t cut;  ///< bits of Cut: what was too long
  std::uint8_t unused;
  char tensor[56];
  char axes[24];
  char file[40];
  std::uint32_t splits[kMaxSplits];
};
static_assert(sizeof(Slot) == 344);
/// The checks of the call of this seal, and of what became of it.
std::uint64_t check_of(const Slot& slot, std::uint64_t seal) noexcept;
std::uint64_t check_of_outcome(const Slot& slot, std::uint64_t seal) noexcept;

enum Cut : std::uint8_t { kCutSplits = 1, kCutTensor = 2, kCutAxes = 4 };

/// Splits as a sum over entries, so that what ranks send can be held against what their peers
/// expect: entry j of what group rank i sends counts as (i, j).
std::uint64_t split_hash(std::span<const std::int64_t> sends, std::int64_t from);
std::uint64_t expected_split_hash(std::span<const std::int64_t> receives, std::int64_t to);

/// "rank_00003.tsrrec"
std::string file_name_of(std::int64_t rank);

}  // namespace flight

/// One call, read back. Names and places are printable ASCII, whatever the file held.
struct RecordedCall {
  enum class State : std::uint8_t { kStarted, kMatched, kFinished, kFailed };
  State state = State::kStarted;
  std::uint64_t ticket = 0;
  std::uint32_t group = flight::kNoGroup;
  Signature signature;  ///< its site is empty; splits are there only where they fitted
  std::string site;     ///< "moe/dispatch.cc:12"
  int ndim = 0;         ///< more than signature.shape holds where the slot had no room
  std::int64_t num_elements = 1;
  std::uint64_t send_hash = 0, recv_hash = 0;
  std::uint8_t cut = 0;
  std::int64_t start_ns = 0, end_ns = 0;  ///< since 1970

  bool is_over() const noexcept { return state == State::kFinished || state == State::kFailed; }
};
/// "all_to_all #812 of F32 [8, 4], tensor moe.dispatch (moe/dispatch.cc:12)"
std::string to_string(const RecordedCall& call);

struct RankRecords {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t pid = 0;
  std::uint64_t job = 0;
  std::int64_t start_ns = 0;  ///< since 1970
  flight::End end = flight::End::kOpen;
  std::int64_t end_ns = 0;  ///< since 1970; 0 where it never ended
  std::string backend;
  std::string failure;
  std::vector<std::vector<std::int64_t>> groups;
  std::vector<RecordedCall> calls;  ///< by ticket, as far back as the ring goes
  bool wrapped = false;             ///< earlier calls are unknown
  /// What the process was writing as it was killed, or as a file still in use was read: the call
  /// after the last of `calls`, or what became of one of them, which is then kStarted.
  std::optional<std::uint64_t> torn_ticket;

  /// The rank began one more call, of which nothing is known.
  bool lacks_last_call() const {
    return torn_ticket && (calls.empty() || *torn_ticket > calls.back().ticket);
  }
};

/// Errors: InvalidArgument "source: …" for what is no such file, of another version, cut short,
/// damaged, or holds a value that no recorder writes. Cost: O(bytes).
StatusOr<RankRecords> parse_records(std::span<const std::byte> bytes, std::string_view source);
/// The same of a file, read whole: later changes to it do no harm. Errors: io_error; as above.
StatusOr<RankRecords> read_records(const std::string& path);

}  // namespace tessera
