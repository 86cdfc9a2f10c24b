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

std::string text_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::int64_t in_grains(std::int64_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

// ---- device code

__global__ void find_windows(ncclWindow_t window, int num_ranks, std::byte** found) {
  for (auto [rank, step] = list_threads(); rank < num_ranks; rank += step) {
    found[rank] = static_cast<std::byte*>(ncclGetLsaPointer(window, 0, static_cast<int>(rank)));
  }
}

/// The rows that a rank has put into its peers' windows.
struct PutMarks {
  const std::int64_t* places;
  std::int64_t slots, copies, count, own;
  PeerBuffer flags[kMostPeers] = {};
};

__global__ void mark_put_rows(const __grid_constant__ PutMarks of) {
  for (auto [slot, step] = list_threads(); slot < of.slots; slot += step) {
    const std::int64_t place = of.places[slot];
    if (place < 0 || !kernels::is_in(place, of.flags, of.count, of.copies)) continue;
    for (std::int64_t copy = 0; copy < of.copies; ++copy) {
      const std::int64_t peer = kernels::peer_of(place) + copy;
      if (peer != of.own) of.flags[peer].data[kernels::row_of(place)] = std::byte{1};
    }
  }
}

/// A warp a row: rows that peers have put, whose flags are cleared for the next time.
template <class Word>
__global__ void land_put_rows(const Word* from, std::byte* flags, std::int64_t rows,
                              std::int64_t words, Word* to) {
  const auto [thread, threads] = list_threads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (std::int64_t row = thread / kLanes; row < rows; row += threads / kLanes) {
    const bool was_put = flags[row] != std::byte{0};
    __syncwarp();
    if (!was_put) continue;
    for (std::int64_t w = lane; w < words; w += kLanes) to[row * words + w] = from[row * words + w];
    if (lane == 0) flags[row] = std::byte{0};
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

}  // namespace

std::string why_no_windows() {
  int version = 0;
  check(ncclGetVersion(&version), nullptr, "ncclGetVersion");
  if (version >= kLeastVersion) return {};
  return "NCCL " + text_of(version) + " is there, windows that kernels reach need " +
         text_of(kLeastVersion) + " or later";
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
  return room.rows <= most_rows_ && room.rows * room.row_bytes <= row_bytes_;
}

bool PeerWindow::has(const Room& room) {
  if (group_.size == 1) return true;
  if (phase_ == Phase::kThere && fits(room)) return true;
  if (device_.is_capturing()) {
    throw Error(failed_precondition(
        "capture: peer_rows needs windows of " + std::to_string(room.rows) + " rows of " +
        std::to_string(room.row_bytes) + " bytes, its ranks have " + std::to_string(row_bytes_) +
        " bytes: run the work once by calls before it is captured"));
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
  row_bytes_ = more(room.rows * room.row_bytes, row_bytes_);
  most_rows_ = more(room.rows, most_rows_);
  const auto bytes = static_cast<std::size_t>(row_bytes_ + most_rows_);
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
  if (block_.window == nullptr || team.nRanks != group_.size) {
    throw Error(unimplemented(
        "peer_rows: NCCL maps the memory of " + std::to_string(std::max(team.nRanks, 1)) +
        " of these " + std::to_string(group_.size) +
        " ranks; allowed: groups whose cards all reach one another, with NCCL_CUMEM_ENABLE"));
  }
  const Current current(device_);
  const cudaStream_t stream = link_.stream().handle();
  auto** const found = reinterpret_cast<std::byte**>(block_.memory);
  std::vector<std::byte*> peers(static_cast<std::size_t>(group_.size));
  kernels::TSR_CUDA::check(
      launch<find_windows>(grid_for(group_.size), stream, block_.window, group_.size, found),
      device_, "peer_rows");
  kernels::TSR_CUDA::check(cudaMemcpyAsync(peers.data(), found, peers.size() * sizeof(std::byte*),
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
  phase_ = Phase::kThere;
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

void PeerWindow::meet(std::byte* bytes) {
  link_.give([&](ncclComm_t comm) {
    check(ncclAllGather(bytes, bytes + 1, 1, ncclUint8, comm, link_.stream().handle()), comm,
          "ncclAllGather");
  });
}

// Windows are free when a call begins: the last meeting of the one before is behind all ranks'
// last use.
void PeerWindow::give(const CollectiveCall& call, std::span<const std::int64_t> rows,
                      DeviceSide& side) {
  const bool puts = call.as<PeerRowsCall>().rows.way == Way::kPut;
  std::byte* const own = peer_buffer(call).bytes();
  KernelContext ctx{.device = &device_};
  CudaStream& stream = link_.stream();
  if (group_.size == 1) return move_peer_rows(ctx, call, buffers(rows, own), stream);
  is_in_capture_ = is_in_capture_ || device_.is_capturing();
  std::byte* const met = side.take(1 + group_.size);
  if (!has_flags_) {
    device_.clear(flags_of(block_.memory), static_cast<std::size_t>(most_rows_), stream);
    meet(met);
    has_flags_ = true;
  }
  if (puts) {
    move_peer_rows(ctx, call, buffers(rows, own), stream);
    put(call, rows);
    meet(met);
    land(call.out());
  } else {
    const std::int64_t bytes = call.in().num_bytes();
    if (bytes > 0) side.copy(block_.memory, own, bytes);
    meet(met);
    move_peer_rows(ctx, call, buffers(rows, own), stream);
  }
  meet(met);
}

void PeerWindow::put(const CollectiveCall& call, std::span<const std::int64_t> rows) {
  const PeerRows& list = call.as<PeerRowsCall>().rows;
  PutMarks marks{.places = reinterpret_cast<const std::int64_t*>(list.place_TK.bytes()),
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

void PeerWindow::land(const Array& out) {
  if (out.num_bytes() == 0) return;
  const std::int64_t bytes = row_bytes(out);
  const auto multiple =
      reinterpret_cast<std::uintptr_t>(out.bytes()) | static_cast<std::uintptr_t>(bytes);
  const Current current(device_);
  kernels::TSR_CUDA::check(
      visit_words(multiple,
                  [&]<class Word>(Word) {
                    const std::int64_t words = bytes / static_cast<std::int64_t>(sizeof(Word));
                    return launch<land_put_rows<Word>>(
                        grid_for(out.size(0) * kLanes), link_.stream().handle(),
                        reinterpret_cast<const Word*>(block_.memory), flags_of(block_.memory),
                        out.size(0), words, reinterpret_cast<Word*>(out.bytes()));
                  }),
      device_, "put_peer_rows");
}

}  // namespace tessera::nccl::TSR_CUDA
