// The toolkit's own folder is none of the system's to nvcc.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nccl_device.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lists.h"
#include "kernels/peer_rows_checks.h"
#include "runtime/call/peer_rows.h"
#include "runtime/nccl/version_text.h"
#include "runtime/nccl/windows.h"

namespace tessera::nccl::TSR_CUDA {
namespace {

using kernels::kMostPeers;
using kernels::launch;
using kernels::PeerBuffer;
using kernels::TSR_CUDA::grid_for;
using kernels::TSR_CUDA::kLanes;
using kernels::TSR_CUDA::list_threads;
using Way = PeerRows::Way;

constexpr int kLeastVersion = 22803;       // the device interface
constexpr std::int64_t kGrain = 64 << 10;  // sizes are multiples of

const kernels::Grid kOneThread{1, 1, 0};

std::int64_t in_grains(std::int64_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

// ---- device code

}  // namespace

/// All ranks send their stamp in a meeting: who has not got all of them was let go by an abort.
struct Meetings {
  std::int64_t broken_off = 0;
  std::int64_t stamp = 1;
  std::int64_t seen[kMostPeers] = {};  ///< by rank
  std::byte* peers[kMostPeers] = {};   ///< where their windows begin
};

namespace {

/// One thread. The first of a window's kernels.
__global__ void find_windows(ncclWindow_t window, int num_ranks, Meetings* meetings) {
  *meetings = Meetings{};
  for (int rank = 0; rank < num_ranks; ++rank) {
    meetings->peers[rank] = static_cast<std::byte*>(ncclGetLsaPointer(window, 0, rank));
  }
}

/// One thread.
__global__ void note_meeting(Meetings* meetings, int num_ranks) {
  bool met = true;
  for (int rank = 0; rank < num_ranks; ++rank) {
    met = met && meetings->seen[rank] == meetings->stamp;
  }
  if (!met) meetings->broken_off = 1;
  ++meetings->stamp;
}

/// The rows that a rank has put into its peers' windows.
struct PutMarks {
  const std::int64_t* places;
  const std::int64_t* broken_off;
  std::int64_t slots, copies, count, own;
  PeerBuffer flags[kMostPeers] = {};
};

__global__ void mark_put_rows(const __grid_constant__ PutMarks of) {
  if (*of.broken_off != 0) return;
  for (auto [slot, step] = list_threads(); slot < of.slots; slot += step) {
    const std::int64_t place = of.places[slot];
    if (place < 0 || !kernels::is_in(place, of.flags, of.count, of.copies)) continue;
    for (std::int64_t copy = 0; copy < of.copies; ++copy) {
      const std::int64_t peer = kernels::peer_of(place) + copy;
      if (peer != of.own) of.flags[peer].data[kernels::row_of(place)] = std::byte{1};
    }
  }
}

struct RowCopies {
  const std::int64_t* broken_off;
  std::byte* flags =
      nullptr;  // all rows; else those with a flag, which is cleared for the next time
  std::int64_t rows = 0, words = 0;
};

/// A warp a row.
template <class Word>
__global__ void copy_rows(RowCopies of, const Word* from, Word* to) {
  if (*of.broken_off != 0) return;
  const auto [thread, threads] = list_threads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (std::int64_t row = thread / kLanes; row < of.rows; row += threads / kLanes) {
    const bool has_flag = of.flags == nullptr || of.flags[row] != std::byte{0};
    __syncwarp();
    if (!has_flag) continue;
    for (std::int64_t w = lane; w < of.words; w += kLanes) {
      to[row * of.words + w] = from[row * of.words + w];
    }
    if (lane == 0 && of.flags != nullptr) of.flags[row] = std::byte{0};
  }
}

/// f(a value of the widest word of which all of `multiple` is a multiple).
template <class F>
cudaError_t visit_words(std::uintptr_t multiple, F&& f) {
  if (multiple % 16 == 0) return f(uint4{});
  if (multiple % 8 == 0) return f(std::uint64_t{});
  if (multiple % 4 == 0) return f(std::uint32_t{});
  return f(std::uint16_t{});
}

cudaError_t launch_copy(RowCopies of, std::int64_t row_bytes, const std::byte* from, std::byte* to,
                        cudaStream_t stream) {
  const std::uintptr_t multiple = reinterpret_cast<std::uintptr_t>(from) |
                                  reinterpret_cast<std::uintptr_t>(to) |
                                  static_cast<std::uintptr_t>(row_bytes);
  return visit_words(multiple, [&]<class Word>(Word) {
    of.words = row_bytes / static_cast<std::int64_t>(sizeof(Word));
    return launch<copy_rows<Word>>(grid_for(of.rows * kLanes), stream, of,
                                   reinterpret_cast<const Word*>(from),
                                   reinterpret_cast<Word*>(to));
  });
}

}  // namespace

std::string why_no_windows() {
  int version = 0;
  check(ncclGetVersion(&version), nullptr, "ncclGetVersion");
  if (version >= kLeastVersion) return {};
  return "NCCL " + nccl_version_text(version) + " is there, windows that kernels reach need " +
         nccl_version_text(kLeastVersion) + " or later";
}

// ---- PeerWindow

PeerWindow::~PeerWindow() {
  if (block_.memory == nullptr && kept_.empty()) return;
  const Current current(device_);
  static_cast<void>(cudaStreamSynchronize(link_.stream().handle()));
  release(block_);
  for (Block& block : kept_) release(block);
}

// An aborted communicator ends what it has registered by itself.
void PeerWindow::release(Block& block) noexcept {
  if (block.window != nullptr) {
    try {
      link_.use([&](ncclComm_t comm) {
        static_cast<void>(ncclCommWindowDeregister(comm, block.window));
      });
    } catch (const Error&) {
    }
  }
  const Current current(device_);
  if (block.memory != nullptr) static_cast<void>(ncclMemFree(block.memory));
  block = {};
}

bool PeerWindow::fits(const Room& room) const {
  return room.rows <= most_rows_ && room.bytes <= row_bytes_;
}

bool PeerWindow::has(const Room& room) {
  if (group_.size == 1) return true;
  if (phase_ == Phase::kThere && (fits(room) || !mapped().ok())) return true;
  if (device_.is_capturing()) {
    const auto of = [](std::int64_t bytes, std::int64_t rows) {
      return std::to_string(bytes) + " bytes and " + std::to_string(rows) + " rows";
    };
    throw Error(failed_precondition("capture: " + std::string(room.call) + " needs windows of " +
                                    of(room.bytes, room.rows) + ", its ranks have those of " +
                                    of(row_bytes_, most_rows_) +
                                    ": run the work once by calls before it is captured"));
  }
  if (phase_ == Phase::kThere) {
    // What is done here has passed the meeting that ends a call: no peer uses this window either.
    if (is_in_capture_) {
      kept_.push_back(std::exchange(block_, {}));
    } else {
      if (!link_.is_done()) return false;
      release(block_);
    }
    phase_ = Phase::kNone;
  }
  if (phase_ == Phase::kNone) ask_for(room);
  if (!link_.is_settled("ncclCommWindowRegister")) return false;
  find_peers();
  return true;
}

// Half as much again as there was, so that sizes which creep up are not asked for one by one.
void PeerWindow::ask_for(const Room& room) {
  const auto more = [](std::int64_t wanted, std::int64_t had) {
    return wanted <= had && had > 0 ? had : in_grains(std::max({wanted, had + had / 2, kGrain}));
  };
  row_bytes_ = more(room.bytes, row_bytes_);
  most_rows_ = more(room.rows, most_rows_);
  const auto bytes = static_cast<std::size_t>(row_bytes_ + most_rows_ + kGrain);
  void* memory = nullptr;
  {
    const Current current(device_);
    check(ncclMemAlloc(&memory, bytes), nullptr, "ncclMemAlloc");
  }
  block_.memory = static_cast<std::byte*>(memory);
  phase_ = Phase::kRegistering;
  link_.use([&](ncclComm_t comm) {
    check(ncclCommWindowRegister(comm, memory, bytes, &block_.window, NCCL_WIN_COLL_SYMMETRIC),
          comm, "ncclCommWindowRegister");
  });
}

void PeerWindow::find_peers() {
  ncclTeam_t team{};
  link_.use([&](ncclComm_t comm) { team = ncclTeamLsa(comm); });
  phase_ = Phase::kThere;
  num_mapped_ = block_.window == nullptr ? 1 : std::max(team.nRanks, 1);
  if (num_mapped_ != group_.size) return;
  const Current current(device_);
  const cudaStream_t stream = link_.stream().handle();
  std::vector<std::byte*> peers(static_cast<std::size_t>(group_.size));
  kernels::TSR_CUDA::check(
      launch<find_windows>(kOneThread, stream, block_.window, group_.size, meetings()), device_,
      "peer_rows");
  kernels::TSR_CUDA::check(
      cudaMemcpyAsync(peers.data(), meetings()->peers, peers.size() * sizeof(std::byte*),
                      cudaMemcpyDeviceToHost, stream),
      device_, "cudaMemcpyAsync");
  kernels::TSR_CUDA::check(cudaStreamSynchronize(stream), device_, "cudaStreamSynchronize");
  for (const std::byte* peer : peers) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, peer) == cudaSuccess &&
        attributes.type == cudaMemoryTypeDevice) {
      continue;
    }
    throw Error(internal_error("peer_rows: NCCL's windows do not lie where its header says"));
  }
  peers_ = std::move(peers);
  has_flags_ = is_in_capture_ = false;
}

Status PeerWindow::mapped() const {
  if (group_.size == 1 || num_mapped_ == group_.size) return absl::OkStatus();
  return unimplemented("NCCL maps the memory of " + std::to_string(num_mapped_) + " of these " +
                       std::to_string(group_.size) +
                       " ranks; allowed: groups whose cards all reach one another, with "
                       "NCCL_CUMEM_ENABLE");
}

std::vector<PeerBuffer> PeerWindow::buffers(std::span<const std::int64_t> rows,
                                            std::byte* own) const {
  std::vector<PeerBuffer> all;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const bool is_own = static_cast<int>(rank) == group_.rank;
    all.push_back({is_own ? own : peers_[rank], rows[rank]});
  }
  return all;
}

Meetings* PeerWindow::meetings() const {
  static_assert(sizeof(Meetings) <= kGrain);
  return reinterpret_cast<Meetings*>(flags_of(block_.memory) + most_rows_);
}

const std::int64_t* PeerWindow::broken_off() const { return &meetings()->broken_off; }

void PeerWindow::open() {
  is_in_capture_ = is_in_capture_ || device_.is_capturing();
  if (has_flags_) return;
  device_.clear(flags_of(block_.memory), static_cast<std::size_t>(most_rows_), link_.stream());
  meet();
  has_flags_ = true;
}

void PeerWindow::meet() {
  Meetings* const at = meetings();
  link_.give([&](ncclComm_t comm) {
    check(ncclAllGather(&at->stamp, at->seen, sizeof at->stamp, ncclUint8, comm,
                        link_.stream().handle()),
          comm, "ncclAllGather");
  });
  const Current current(device_);
  kernels::TSR_CUDA::check(
      launch<note_meeting>(kOneThread, link_.stream().handle(), at, group_.size), device_,
      "peer_rows");
}

// Windows are free when a call begins: the last meeting of the one before is behind all ranks'
// last use.
void PeerWindow::give(const CollectiveCall& call, std::span<const std::int64_t> rows) {
  const bool puts = call.as<PeerRowsCall>().rows->way == Way::kPut;
  const Array& buffer = peer_buffer(call);
  KernelContext ctx{.device = &device_};
  CudaStream& stream = link_.stream();
  const std::vector<PeerBuffer> all = buffers(rows, buffer.bytes());
  if (group_.size == 1) return move_peer_rows(ctx, call, all, stream);
  open();
  if (!puts) {
    copy_in(buffer);
    meet();
  }
  move_peer_rows(ctx, call, all, stream, broken_off());
  if (puts) {
    mark(call, rows);
    meet();
    land(buffer);
  }
  meet();
}

void PeerWindow::mark(const CollectiveCall& call, std::span<const std::int64_t> rows) {
  const PeerRows& list = *call.as<PeerRowsCall>().rows;
  PutMarks marks{.places = reinterpret_cast<const std::int64_t*>(list.place_TK.bytes()),
                 .broken_off = broken_off(),
                 .slots = list.place_TK.num_elements(),
                 .copies = list.copies,
                 .count = group_.size,
                 .own = group_.rank};
  if (marks.slots == 0) return;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    marks.flags[rank] = {flags_of(peers_[rank]), rows[rank]};
  }
  const Current current(device_);
  kernels::TSR_CUDA::check(
      launch<mark_put_rows>(grid_for(marks.slots), link_.stream().handle(), marks), device_,
      "put_peer_rows");
}

void PeerWindow::copy_in(const Array& buffer) {
  if (buffer.num_bytes() == 0) return;
  const Current current(device_);
  kernels::TSR_CUDA::check(
      launch_copy({.broken_off = broken_off(), .rows = buffer.size(0)}, row_bytes(buffer),
                  buffer.bytes(), block_.memory, link_.stream().handle()),
      device_, "peer_rows");
}

void PeerWindow::land(const Array& buffer) {
  if (buffer.num_bytes() == 0) return;
  const Current current(device_);
  kernels::TSR_CUDA::check(
      launch_copy(
          {.broken_off = broken_off(), .flags = flags_of(block_.memory), .rows = buffer.size(0)},
          row_bytes(buffer), block_.memory, buffer.bytes(), link_.stream().handle()),
      device_, "put_peer_rows");
}

}  // namespace tessera::nccl::TSR_CUDA
