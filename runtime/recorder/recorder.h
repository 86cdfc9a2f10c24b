// runtime/recorder/recorder.h: the flight recorder: each rank's last 4,096 collectives in a file
// that outlives the process, however it ends. A ticket is the number of a call on its rank; see
// `placement-audit recorder` for what the files of a job say together.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "placement/api.h"
#include "placement/status.h"
#include "runtime/call/signature.h"
#include "runtime/recorder/file.h"

namespace tessera TSR_API {

/// Whether a rank may go on with records in memory only, where no file can be made.
enum class RecorderFile : std::uint8_t { kIfPossible, kRequired };

struct RecorderOptions {
  std::string dir = {};  ///< empty: in memory only
  RecorderFile file = RecorderFile::kRequired;
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string_view backend = "threads";
  /// The same on all ranks of a job, unlike that of any other; 0 where there is none.
  std::uint64_t job = 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Thread-safety: its rank's thread only.
class FlightRecorder {
 public:
  /// Makes `dir` and dir/rank_00003.tsrrec, anew where there is one. Errors: io_error naming the
  /// path and what the system said; never with RecorderFile::kIfPossible.
  static StatusOr<std::unique_ptr<FlightRecorder>> open(const RecorderOptions& options);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();  ///< keeps the file

  /// Once per group; for started(). Units: world ranks, by group rank.
  std::uint32_t add_group(std::span<const std::int64_t> ranks);

  /// Returns the call's ticket. Cost: less than 100 ns, and a nanosecond for each split beyond
  /// what a slot holds. Group rank is this rank's, for splits.
  std::uint64_t started(const Signature& signature, std::uint32_t group) noexcept;
  void matched(std::uint64_t ticket) noexcept;  ///< all parties were seen, where a backend knows
  void finished(std::uint64_t ticket) noexcept;
  void failed(std::uint64_t ticket) noexcept;

  /// The rank has failed with this text; the first one stays.
  void note_failure(std::string_view text) noexcept;
  /// The rank has come to its end: clean, unless a failure was noted.
  void note_end() noexcept;

  enum class Leave : std::uint8_t { kKeep, kRemove };
  /// The rank's end, as above; removes the file (and its folder, where empty) or keeps it, cut to
  /// what is used. Calls after this are not recorded.
  void close(Leave leave) noexcept;

  bool is_empty() const noexcept { return next_ == 0; }
  const std::string& path() const noexcept { return path_; }  ///< empty: in memory only
  std::string dir() const { return path_.substr(0, path_.empty() ? 0 : path_.rfind('/')); }

 private:
  FlightRecorder() = default;
  /// Of the file, or of memory alone (-1). Returns an errno.
  int map(int descriptor);
  Status open_file(const RecorderOptions& options);
  void write_header(const RecorderOptions& options);
  /// Doubles the ring; where the disk has no room for that it stays as it is.
  void grow() noexcept;
  flight::Slot* slot_of(std::uint64_t ticket) noexcept;
  void finish(std::uint64_t ticket, RecordedCall::State state) noexcept;
  bool is_open() const noexcept;  ///< neither failed nor come to its end
  void end_as(flight::End end) noexcept;
  /// Slots beyond are no part of the file. Returns how many are.
  std::uint64_t keep_what_is_used() noexcept;
  std::int64_t now_ns() const noexcept;

  std::string path_;
  std::chrono::steady_clock::time_point start_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  flight::Header* header_ = nullptr;
  std::uint32_t* groups_ = nullptr;
  flight::Slot* slots_ = nullptr;
  std::uint64_t next_ = 0;
  std::uint64_t num_slots_ = flight::kFirstSlots;
  std::uint64_t grows_at_ = flight::kFirstSlots;
  std::uint32_t group_words_used_ = 0;
  std::vector<std::int64_t> group_ranks_;  ///< own place in each group
};

/// The folder for a job's records: `asked`, made where it is missing; or where that is empty a
/// fresh one below $TESSERA_RECORDER_DIR, else below the system's folder for temporary files.
/// Errors: io_error naming the path and what the system said.
StatusOr<std::string> make_recorder_dir(const std::string& asked);

/// "all_to_all #812 of F32 [8, 4], tensor moe.dispatch (moe/dispatch.cc:12)": the last unfinished,
/// else the last, call in a rank's file; "" where there is none to be read.
std::string last_call_in(const std::string& dir, std::int64_t rank);

}  // namespace tessera
