// Rows to and from the memory of other ranks' devices, each straight to its place, and how those
// places are laid out: experts by one block of threads, then each slot finds its own.
#include <array>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lists.h"
#include "kernels/cuda/row_sums.h"
#include "kernels/key_counts.h"
#include "kernels/peer_rows.h"
#include "kernels/peer_rows_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// A list of places, in buffers that the launch's arguments name: these end at 4 KiB.
struct PeerPlaces {
  const std::int64_t* list;
  FaultWord fault = {};
  std::int64_t copies, count;
  const std::int64_t* broken_off;
  PeerBuffer peers[kMostPeers] = {};

  __device__ std::int64_t read(std::int64_t slot) const { return judged(slot, list[slot]); }
  __device__ std::int64_t judged(std::int64_t slot, std::int64_t place) const {
    if (broken_off != nullptr && *broken_off != 0) return -1;
    if (place >= 0 && is_in(place, peers, count, copies)) return place;
    if (place != -1) fault.note(slot);
    return -1;
  }
};

template <class Row>
struct PeerRows {
  using T = Row;
  PeerPlaces places;
  std::int64_t dim;

  __device__ std::int64_t listed(std::int64_t slot) const { return places.list[slot]; }
  __device__ std::int64_t place(std::int64_t slot, std::int64_t listed) const {
    return places.judged(slot, listed);
  }
  template <int kCount>
  __device__ Pack<T, kCount>& at(std::int64_t place, std::int64_t copy, std::int64_t pack) const {
    T* const rows = reinterpret_cast<T*>(places.peers[peer_of(place) + copy].data);
    return reinterpret_cast<Pack<T, kCount>*>(rows + row_of(place) * dim)[pack];
  }
  template <int kCount>
  __device__ Pack<T, kCount> load(std::int64_t place, std::int64_t pack) const {
    using Sum = ComputeType<T>;
    Pack<T, kCount> row = at<kCount>(place, 0, pack);
    if (places.copies == 1) return row;
    Sum sums[kCount];
    for (int c = 0; c < kCount; ++c) sums[c] = static_cast<Sum>(row.of[c]);
    for (std::int64_t copy = 1; copy < places.copies; ++copy) {
      row = at<kCount>(place, copy, pack);
      for (int c = 0; c < kCount; ++c) sums[c] += static_cast<Sum>(row.of[c]);
    }
    for (int c = 0; c < kCount; ++c) row.of[c] = convert<T>(sums[c]);
    return row;
  }
};
static_assert(sizeof(SumOperands<PeerRows<float>, float>) <= 4000);

/// Where there is nothing of a row to move.
__global__ void read_peer_places(const __grid_constant__ PeerPlaces places, std::int64_t slots) {
  for (auto [slot, step] = list_threads(); slot < slots; slot += step) places.read(slot);
}

template <class T, class In>
struct PutOperands {
  PeerRows<T> rows;
  const In* tokens;
  const ComputeType<T>* weights;  // null: all 1
  std::int64_t top_k;
};

/// What becomes of a token as it is put.
template <class T, int kCount, class In>
__device__ Pack<T, kCount> as_rows(const Pack<In, kCount>& token) {
  Pack<T, kCount> row;
  for (int c = 0; c < kCount; ++c) row.of[c] = convert<T>(token.of[c]);
  return row;
}
template <class T, int kCount, class In>
__device__ Pack<T, kCount> weighted(const Pack<In, kCount>& token, ComputeType<T> weight) {
  Pack<T, kCount> row;
  for (int c = 0; c < kCount; ++c) {
    row.of[c] = convert<T>(weight * static_cast<ComputeType<T>>(token.of[c]));
  }
  return row;
}

template <int kCount, class T, class In>
__global__ void put_rows(RowGrid grid, const __grid_constant__ PutOperands<T, In> of) {
  for_each_piece(grid, [&](std::int64_t token, std::int64_t first) {
    const auto* from = reinterpret_cast<const Pack<In, kCount>*>(of.tokens + token * of.rows.dim);
    Pack<In, kCount> packs[kPieces];
    TSR_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t pack = first + std::int64_t{p} * grid.lanes;
      if (pack < grid.packs) packs[p] = from[pack];
    }
    for (std::int64_t slot = token * of.top_k; slot < (token + 1) * of.top_k; ++slot) {
      const std::int64_t place = of.rows.places.read(slot);
      if (place < 0) continue;
      const bool weighs = of.weights != nullptr;
      const ComputeType<T> weight = weighs ? of.weights[slot] : 0;
      TSR_UNROLL
      for (int p = 0; p < kPieces; ++p) {
        const std::int64_t pack = first + std::int64_t{p} * grid.lanes;
        if (pack >= grid.packs) continue;
        const Pack<T, kCount> row = weighs ? weighted<T>(packs[p], weight) : as_rows<T>(packs[p]);
        for (std::int64_t copy = 0; copy < of.rows.places.copies; ++copy) {
          of.rows.template at<kCount>(place, copy, pack) = row;
        }
      }
    }
  });
}

template <class T, class In>
struct DotOperands {
  PeerRows<T> rows;
  const In* tokens;
  std::int64_t slots, top_k;
  ComputeType<T>* out;
};

/// Σ over this lane's columns of a row and a token. The order is that of grad_of_rows.
template <int kCount, class T, class In>
__device__ ComputeType<T> lane_dot(const DotOperands<T, In>& of, std::int64_t place,
                                   const In* token, int lane) {
  using Sum = ComputeType<T>;
  constexpr int kAhead = 4;  // packs that are read before the first is added
  const std::int64_t packs = of.rows.dim / kCount;
  Sum dot = 0;
  for (std::int64_t first = lane; first < packs; first += std::int64_t{kAhead} * kLanes) {
    Pack<T, kCount> rows[kAhead];
    Pack<In, kCount> tokens[kAhead];
    TSR_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const std::int64_t pack = first + std::int64_t{a} * kLanes;
      if (pack >= packs) continue;
      rows[a] = of.rows.template load<kCount>(place, pack);
      tokens[a] = reinterpret_cast<const Pack<In, kCount>*>(token)[pack];
    }
    TSR_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (first + std::int64_t{a} * kLanes >= packs) continue;
      for (int c = 0; c < kCount; ++c) {
        const Sum g = static_cast<Sum>(tokens[a].of[c]);
        dot += static_cast<Sum>(rows[a].of[c]) * g;
      }
    }
  }
  return dot;
}

/// A warp a slot.
template <int kCount, class T, class In>
__global__ void dot_rows(const __grid_constant__ DotOperands<T, In> of) {
  const auto [thread, threads] = list_threads();
  const int lane = threadIdx.x % kLanes;
  for (std::int64_t slot = thread / kLanes; slot < of.slots; slot += threads / kLanes) {
    const std::int64_t place = of.rows.places.read(slot);
    ComputeType<T> dot = 0;
    if (place >= 0) {
      dot = lane_dot<kCount>(of, place, of.tokens + slot / of.top_k * of.rows.dim, lane);
    }
    dot = warp_sum(dot);
    if (lane == 0) of.out[slot] = dot;
  }
}

PeerPlaces places_among(KernelContext& ctx, const char* kernel, const PeerBuffers& buffers,
                        const Array& place_TK) {
  PeerPlaces places = {.list = list_data(place_TK),
                       .copies = buffers.copies,
                       .count = std::ssize(buffers.peers),
                       .broken_off = buffers.broken_off};
  if (places.count > kMostPeers) {
    throw Error(
        invalid_argument(absl::StrFormat("%s: %d peers; a device's kernel is told of %d at most",
                                         kernel, places.count, kMostPeers)));
  }
  std::copy(buffers.peers.begin(), buffers.peers.end(), places.peers);
  places.fault = device_of(ctx).next_fault_word([kernel, place_TK](std::int64_t slot) {
    return peer_place_outside(kernel, integer_at(place_TK, slot), slot);
  });
  return places;
}
cudaError_t launch_reads(const PeerPlaces& places, std::int64_t slots, cudaStream_t stream) {
  if (slots == 0) return cudaSuccess;
  return launch<read_peer_places>(grid_for(slots), stream, places, slots);
}

/// Where tokens and all buffers begin; the rest is null.
std::array<const void*, kMostPeers + 1> beginnings(const PeerPlaces& places, const void* tokens) {
  std::array<const void*, kMostPeers + 1> all = {tokens};
  for (std::int64_t peer = 0; peer < places.count; ++peer) {
    all[static_cast<std::size_t>(peer) + 1] = places.peers[peer].data;
  }
  return all;
}

cudaStream_t stream_handle(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace

void put_peer_rows(KernelContext& ctx, const Array& tokens_TD, const Array& weights_TK,
                   const Array& place_TK, const PeerBuffers& to, Stream& stream) {
  constexpr const char* kName = "put_peer_rows";
  check_peer_rows(kName, to, tokens_TD, weights_TK, place_TK);
  const PeerPlaces places = places_among(ctx, kName, to, place_TK);
  const cudaStream_t handle = stream_handle(stream);
  const Current current(*ctx.device);
  visit_row_sum_types(kName, to.dtype, tokens_TD.dtype(), [&](auto row_tag, auto token_tag) {
    using T = typename decltype(row_tag)::type;
    using In = typename decltype(token_tag)::type;
    const std::int64_t slots = place_TK.num_elements(), dim = tokens_TD.size(1);
    if (slots == 0 || dim == 0) {
      return check(launch_reads(places, slots, handle), *ctx.device, kName);
    }
    const PutOperands<T, In> of{
        .rows = {.places = places, .dim = dim},
        .tokens = device_data<In>(tokens_TD),
        .weights = weights_TK.is_null() ? nullptr : device_data<ComputeType<T>>(weights_TK),
        .top_k = place_TK.size(1)};
    check(visit_pack<T>(dim, beginnings(places, of.tokens),
                        [&]<int kCount>(std::integral_constant<int, kCount>) {
                          const RowGrid grid = row_grid(tokens_TD.size(0), dim / kCount);
                          return launch<put_rows<kCount, T, In>>(grid_for(grid.threads()), handle,
                                                                 grid, of);
                        }),
          *ctx.device, kName);
  });
}

void sum_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& weights_TK,
                   const Array& place_TK, const Array& out_TD, Stream& stream) {
  constexpr const char* kName = "sum_peer_rows";
  check_peer_rows(kName, from, out_TD, weights_TK, place_TK);
  const PeerPlaces places = places_among(ctx, kName, from, place_TK);
  const cudaStream_t handle = stream_handle(stream);
  const Current current(*ctx.device);
  visit_row_sum_types(kName, from.dtype, out_TD.dtype(), [&](auto row_tag, auto out_tag) {
    using T = typename decltype(row_tag)::type;
    using Out = typename decltype(out_tag)::type;
    if (out_TD.num_elements() == 0) {
      return check(launch_reads(places, place_TK.num_elements(), handle), *ctx.device, kName);
    }
    const SumOperands<PeerRows<T>, Out> of{
        .rows = {.places = places, .dim = out_TD.size(1)},
        .weights = weights_TK.is_null() ? nullptr : device_data<ComputeType<T>>(weights_TK),
        .top_k = place_TK.size(1),
        .out = device_data<Out>(out_TD)};
    check(launch_row_sums(of, out_TD.size(0), beginnings(places, of.out), handle), *ctx.device,
          kName);
  });
}

void dot_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& tokens_TD,
                   const Array& place_TK, const Array& out_TK, Stream& stream) {
  constexpr const char* kName = "dot_peer_rows";
  check_peer_rows(kName, from, tokens_TD, {}, place_TK);
  check_dots(from, place_TK, out_TK);
  const PeerPlaces places = places_among(ctx, kName, from, place_TK);
  const Current current(*ctx.device);
  visit_row_sum_types(kName, from.dtype, tokens_TD.dtype(), [&](auto row_tag, auto token_tag) {
    using T = typename decltype(row_tag)::type;
    using In = typename decltype(token_tag)::type;
    const std::int64_t slots = place_TK.num_elements(), dim = tokens_TD.size(1);
    if (slots == 0) return;
    const DotOperands<T, In> of{.rows = {.places = places, .dim = dim},
                                .tokens = device_data<In>(tokens_TD),
                                .slots = slots,
                                .top_k = place_TK.size(1),
                                .out = device_data<ComputeType<T>>(out_TK)};
    check(visit_pack<T>(dim, beginnings(places, of.tokens),
                        [&]<int kCount>(std::integral_constant<int, kCount>) {
                          return launch<dot_rows<kCount, T, In>>(grid_for(slots * kLanes),
                                                                 stream_handle(stream), of);
                        }),
          *ctx.device, kName);
  });
}

namespace {

#ifdef __CUDACC__
constexpr unsigned kExpertThreads = 1024;
#else
constexpr unsigned kExpertThreads = 64;
#endif

/// Who sends how much to each expert, and tables of that.
struct PeerBlocks {
  KeyCounts counts;
  std::int64_t senders, experts;
  std::int64_t sender, experts_per_peer, copies, room;
  KeySize size;
  std::int64_t* begin;       // [expert], the last: their end; as if one peer had all
  std::int64_t* slot_begin;  // likewise, of this sender's slots
  std::int64_t* first;       // [expert]: this sender's first row, with the expert's peer
  std::int64_t* held;        // [expert]

  /// The expert's first row with its peer.
  __device__ std::int64_t begin_there(std::int64_t expert) const {
    return begin[expert] - begin[expert / experts_per_peer * experts_per_peer];
  }
};
/// Of this rank's own experts, from `first` on.
struct OwnRows {
  std::int64_t first, experts;
  std::int64_t *counts, *filled, *came;
};

/// Senders are split among neighbouring threads.
__device__ void count_experts(const PeerBlocks& blocks, FaultWord fault) {
  constexpr int kTeam = 8;
  const std::int64_t own = threadIdx.x / kTeam, member = threadIdx.x % kTeam;
  for (std::int64_t base = 0; base < blocks.experts; base += blockDim.x / kTeam) {
    const std::int64_t expert = base + own;
    std::int64_t held = 0, before = 0;
    if (expert < blocks.experts) {
      for (std::int64_t from = member; from < blocks.senders; from += kTeam) {
        const std::int64_t count = blocks.counts.of(from, expert);
        held += count;
        if (from < blocks.sender) before += count;
      }
    }
    held = warp_sum(held, kTeam);
    before = warp_sum(before, kTeam);
    if (expert >= blocks.experts || member != 0) continue;
    if (!blocks.size.has_room(held)) fault.note(expert);
    blocks.begin[expert] = blocks.size.of(held);
    blocks.slot_begin[expert] = blocks.counts.of(blocks.sender, expert);
    blocks.first[expert] = before;
    blocks.held[expert] = held;
  }
}

/// By a warp.
__device__ void count_own(const PeerBlocks& blocks, const OwnRows& own, int lane) {
  std::int64_t held = 0;
  for (std::int64_t i = lane; i < own.experts; i += kLanes) {
    const std::int64_t expert = own.first + i, begin = blocks.begin_there(expert);
    own.counts[i] =
        rows_with_room(blocks.room, begin, blocks.begin[expert + 1] - blocks.begin[expert]);
    own.filled[i] = rows_with_room(blocks.room, begin, blocks.held[expert]);
    held += blocks.held[expert];
  }
  held = warp_sum(held);
  if (lane == 0) *own.came = held;
}

/// One block. Positions of faults: an expert with too many rows.
__global__ void lay_out_experts(PeerBlocks blocks, OwnRows own, FaultWord fault) {
  count_experts(blocks, fault);
  __syncthreads();
  sum_before(blocks.begin, blocks.experts);
  sum_before(blocks.slot_begin, blocks.experts);
  __syncthreads();
  for (std::int64_t expert = threadIdx.x; expert < blocks.experts; expert += blockDim.x) {
    blocks.first[expert] += blocks.begin_there(expert);
  }
  if (threadIdx.x < kLanes) count_own(blocks, own, static_cast<int>(threadIdx.x));
}

__global__ void place_slots(PeerBlocks blocks, const std::int64_t* slots, std::int64_t total,
                            std::int64_t* place) {
  const std::int64_t sent = blocks.slot_begin[blocks.experts];
  for (auto [i, step] = list_threads(); i < total && i < sent; i += step) {
    const std::int64_t expert = last_not_above(blocks.slot_begin, blocks.experts, i);
    const std::int64_t row = blocks.first[expert] + i - blocks.slot_begin[expert];
    const std::int64_t peer = expert / blocks.experts_per_peer * blocks.copies;
    if (blocks.room < 0 || row < blocks.room) place[slots[i]] = peer_place(peer, row);
  }
}

/// A warp a row. Rows that nobody fills are numbered across all experts, and fall to warps in turn.
template <class Word>
__global__ void clear_unfilled(const std::int64_t* counts, const std::int64_t* filled,
                               std::int64_t experts, RowGrid grid, Word* out) {
  const auto [thread, threads] = list_threads();
  const int lane = threadIdx.x % kLanes;
  std::int64_t next = thread / kLanes, before = 0, begin = 0;
  for (std::int64_t e = 0; e <= experts; ++e) {
    const std::int64_t first = begin + (e < experts ? filled[e] : 0);
    const std::int64_t end =
        e < experts && begin + counts[e] < grid.rows ? begin + counts[e] : grid.rows;
    const std::int64_t after = first < end ? before + end - first : before;
    for (; next < after; next += threads / kLanes) {
      Word* const row = out + (first + next - before) * grid.packs;
      for (std::int64_t w = lane; w < grid.packs; w += kLanes) row[w] = Word{};
    }
    before = after;
    begin = end;
  }
}

/// Calls f(a zero of the widest word of which all of `multiple` is a multiple).
template <class F>
cudaError_t visit_word(std::uintptr_t multiple, F&& f) {
  if (multiple % 16 == 0) return f(uint4{});
  if (multiple % 8 == 0) return f(std::uint64_t{});
  if (multiple % 4 == 0) return f(std::uint32_t{});
  if (multiple % 2 == 0) return f(std::uint16_t{});
  return f(std::uint8_t{});
}

}  // namespace

void lay_out_peers(KernelContext& ctx, const PeerLayout& layout, const Array& slots_N,
                   const PeerLists& out) {
  constexpr const char* kName = "lay_out_peers";
  check_peer_layout(layout, slots_N, out);
  const KeyCounts counts = key_counts(layout.counts_PSE, list_data(layout.counts_PSE));
  const std::int64_t experts = counts.keys, slots = slots_N.num_elements();
  const Array tables = list_scratch(ctx, 4 * experts + 2);
  std::int64_t* const table = list_data(tables);
  const PeerBlocks blocks = {.counts = counts,
                             .senders = counts.parts,
                             .experts = experts,
                             .sender = layout.sender,
                             .experts_per_peer = layout.experts_per_peer,
                             .copies = layout.copies,
                             .room = layout.room,
                             .size = layout.size,
                             .begin = table,
                             .slot_begin = table + experts + 1,
                             .first = table + 2 * experts + 2,
                             .held = table + 3 * experts + 2};
  const OwnRows own = {.first = layout.own * layout.experts_per_peer,
                       .experts = out.counts_e.num_elements(),
                       .counts = list_data(out.counts_e),
                       .filled = list_data(out.filled_e),
                       .came = list_data(out.came_1)};
  const FaultWord fault = device_of(ctx).next_fault_word(
      [tables, held = 3 * experts + 2, most = layout.size.rows](std::int64_t expert) {
        return too_many_expert_rows(expert, integer_at(tables, held + expert), most);
      });
  const Current current(*ctx.device);
  check(launch<lay_out_experts>({1, kExpertThreads, 0}, stream_of(ctx), blocks, own, fault),
        *ctx.device, kName);
  if (out.place_S.num_elements() > 0) fill(ctx, -1.0, out.place_S);
  if (slots == 0) return;
  check(launch<place_slots>(grid_for(slots), stream_of(ctx), blocks, list_data(slots_N), slots,
                            list_data(out.place_S)),
        *ctx.device, kName);
}

void clear_unfilled_rows(KernelContext& ctx, const Array& counts_e, const Array& filled_e,
                         const Array& out_RD) {
  constexpr const char* kName = "clear_unfilled_rows";
  check_unfilled_rows(counts_e, filled_e, out_RD);
  if (out_RD.num_elements() == 0) return;
  const std::int64_t row_bytes = out_RD.size(1) * size_of(out_RD.dtype());
  const auto begin = reinterpret_cast<std::uintptr_t>(out_RD.bytes());
  const Current current(*ctx.device);
  check(visit_word(begin | static_cast<std::uintptr_t>(row_bytes),
                   [&]<class Word>(Word) {
                     const RowGrid grid = {
                         .rows = out_RD.size(0),
                         .packs = row_bytes / static_cast<std::int64_t>(sizeof(Word)),
                         .pieces = 1,
                         .lanes = kLanes};
                     Grid all = grid_for(grid.threads());
                     // Each thread reads all counts; more blocks would do it one after another.
                     all.blocks.x = std::min(all.blocks.x, 1024U);
                     return launch<clear_unfilled<Word>>(
                         all, stream_of(ctx), list_data(counts_e), list_data(filled_e),
                         counts_e.num_elements(), grid, device_data<Word>(out_RD));
                   }),
        *ctx.device, kName);
}

}  // namespace tessera::kernels::TSR_CUDA
