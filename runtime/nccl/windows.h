// runtime/nccl/windows.h: memory of a group's ranks that all of them read and write, by NCCL's
// windows, and rows and boxes that go through it. Vocabulary: a window has what comes for one rank:
// boxes, or the rows of its buffer, and for each a flag that somebody has put it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/peer_rows.h"
#include "runtime/call/prepared_call.h"
#include "runtime/nccl/link.h"

namespace tessera::nccl::TSR_CUDA {

/// Why ranks of one host do not reach each other's cards: the version of NCCL that is there, and
/// what is needed. Empty: they do.
std::string why_no_windows();

struct Meetings;  // windows.cu

/// One rank's window, and where its peers' lie. Every rank has as much, and asks for more in the
/// same calls. Thread-safety: its rank's thread only.
class PeerWindow {
 public:
  /// `link`: of the group, outlives this; connected before has() is asked.
  PeerWindow(CudaDevice& device, Link& link, const GroupPlace& group)
      : device_(device), link_(link), group_(group) {}
  PeerWindow(const PeerWindow&) = delete;
  PeerWindow& operator=(const PeerWindow&) = delete;
  /// Waits for the link's stream.
  ~PeerWindow();

  /// What a call puts into each window: bytes, and flags of so many rows.
  struct Room {
    const char* call = "";
    std::int64_t bytes = 0, rows = 0;
  };
  /// Whether windows have the room; else goes on getting them, and never blocks for a peer.
  /// Collective: all ranks ask for the same in the same order. Errors: throws FailedPrecondition
  /// where a capture would have to wait for windows; what NCCL refuses.
  bool has(const Room& room);
  /// Once they have: Unimplemented where NCCL does not map all ranks' memory, on all of them.
  Status mapped() const;

  // Once there is room. Where a meeting is broken off, no window is touched any more.
  /// Gives the link's stream the call (kPeerRows), of buffers with so many rows by rank.
  void give(const CollectiveCall& call, std::span<const std::int64_t> rows);
  /// Windows may be written from here on, until the call's last meeting.
  void open();
  /// What the stream has from here on comes after what all ranks' streams had before.
  void meet();
  /// Not 0 once a meeting was broken off; of the device's.
  const std::int64_t* broken_off() const;
  std::byte* at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

 private:
  enum class Phase : std::uint8_t { kNone, kRegistering, kThere };
  /// Memory and its registration.
  struct Block {
    std::byte* memory = nullptr;
    ncclWindow_t window = nullptr;
  };
  bool fits(const Room& room) const;
  void ask_for(const Room& room);
  /// Once NCCL has it: where all ranks' windows lie.
  void find_peers();
  void release(Block& block) noexcept;
  std::byte* flags_of(std::byte* window) const { return window + row_bytes_; }
  /// Behind the flags.
  Meetings* meetings() const;
  std::vector<kernels::PeerBuffer> buffers(std::span<const std::int64_t> rows,
                                           std::byte* own) const;
  /// Sets the flags of what was put.
  void mark(const CollectiveCall& call, std::span<const std::int64_t> rows);
  /// Rows of the buffer: into the window, or from it, those that have a flag.
  void copy_in(const Array& buffer);
  void land(const Array& buffer);

  CudaDevice& device_;
  Link& link_;
  GroupPlace group_;
  Phase phase_ = Phase::kNone;
  Block block_;
  std::vector<Block> kept_;        ///< that captured work uses
  std::vector<std::byte*> peers_;  ///< windows by rank
  std::int64_t row_bytes_ = 0;     ///< of all rows or boxes; flags of rows come behind
  std::int64_t most_rows_ = 0;
  int num_mapped_ = 0;      ///< ranks whose memory NCCL maps
  bool has_flags_ = false;  ///< they are cleared
  bool is_in_capture_ = false;
};

}  // namespace tessera::nccl::TSR_CUDA
