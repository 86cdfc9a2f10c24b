#include "kernels/peer_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/host/row_sum_strips.h"
#include "kernels/kernel_table.h"
#include "kernels/key_counts.h"
#include "kernels/parallel_loop.h"
#include "kernels/peer_rows_checks.h"

namespace tessera::kernels {
namespace {

void check_places(const char* kernel, const Array& place_TK, const PeerBuffers& buffers) {
  const auto* place = place_TK.data<std::int64_t>();
  const std::int64_t peers = std::ssize(buffers.peers);
  for (std::int64_t i = 0; i < place_TK.num_elements(); ++i) {
    if (place[i] == -1) continue;
    if (place[i] < 0 || !is_in(place[i], buffers.peers.data(), peers, buffers.copies)) {
      throw Error(peer_place_outside(kernel, place[i], i));
    }
  }
}

/// Rows of several buffers; copies of one are added up first.
template <class T>
struct ManyBuffers {
  const PeerBuffers& buffers;
  std::int64_t dim;
  std::int64_t num_bytes;
  using Scratch = std::vector<T>;  // a row for each choice of a token
  Scratch scratch(std::int64_t top_k) const {
    return Scratch(buffers.copies == 1 ? 0 : static_cast<std::size_t>(top_k * dim));
  }
  const T* first(std::int64_t place, std::int64_t copy = 0) const {
    const auto peer = static_cast<std::size_t>(peer_of(place) + copy);
    return reinterpret_cast<const T*>(buffers.peers[peer].data) + row_of(place) * dim;
  }
  const T* at(std::int64_t place, std::int64_t k, Scratch& scratch) const {
    if (buffers.copies == 1) return first(place);
    using Sum = ComputeType<T>;
    T* const folded = scratch.data() + k * dim;
    for (std::int64_t c = 0; c < dim; ++c) {
      Sum sum = static_cast<Sum>(first(place)[c]);
      for (std::int64_t copy = 1; copy < buffers.copies; ++copy) {
        sum += static_cast<Sum>(first(place, copy)[c]);
      }
      folded[c] = convert<T>(sum);
    }
    return folded;
  }
  const T* later(std::int64_t place) const { return first(place); }
};
template <class T>
ManyBuffers<T> many_buffers(const PeerBuffers& buffers, std::int64_t dim) {
  std::int64_t rows = 0;
  for (const PeerBuffer& peer : buffers.peers) rows += peer.rows;
  return {buffers, dim, rows * dim * static_cast<std::int64_t>(sizeof(T))};
}

/// to = weight · token, rounded once.
template <class T, class In>
void put_row(const In* token, const ComputeType<T>* weight, T* to, std::int64_t dim) {
  if constexpr (std::is_same_v<T, In>) {
    if (weight == nullptr) {
      std::memcpy(to, token, static_cast<std::size_t>(dim) * sizeof(T));
      return;
    }
  }
  using Sum = ComputeType<T>;
  const Sum w = weight == nullptr ? Sum{1} : *weight;
#pragma omp simd
  for (std::int64_t c = 0; c < dim; ++c) to[c] = convert<T>(w * static_cast<Sum>(token[c]));
}

template <class T, class In>
void put_rows(KernelContext& ctx, const Array& tokens, const Array& weights, const Array& places,
              const PeerBuffers& to) {
  const std::int64_t dim = tokens.size(1), top_k = places.size(1);
  const auto* place = places.data<std::int64_t>();
  const auto* weight = weights.is_null() ? nullptr : weights.data<ComputeType<T>>();
  const auto put = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin * top_k; slot < end * top_k; ++slot) {
      for (std::int64_t copy = 0; place[slot] >= 0 && copy < to.copies; ++copy) {
        const PeerBuffer& peer = to.peers[static_cast<std::size_t>(peer_of(place[slot]) + copy)];
        put_row<T, In>(tokens.data<In>() + slot / top_k * dim,
                       weight == nullptr ? nullptr : weight + slot,
                       reinterpret_cast<T*>(peer.data) + row_of(place[slot]) * dim, dim);
      }
    }
  };
  parallel_ranges(ctx.threads, tokens.size(0), 1, top_k * dim, put);
}

template <class T, class In>
void take_rows(KernelContext& ctx, const PutTaker& from, const Array& out) {
  const std::int64_t dim = out.size(1);
  for (const PutSource& source : from.sources) {
    const auto* tokens = reinterpret_cast<const In*>(source.tokens_TD);
    const auto* weight = reinterpret_cast<const ComputeType<T>*>(source.weights_TK);
    const auto take = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin * from.top_k; slot < end * from.top_k; ++slot) {
        const std::int64_t place = source.place_TK[slot];
        const std::int64_t copy = place < 0 ? -1 : from.own - peer_of(place);
        if (copy < 0 || copy >= from.copies) continue;
        put_row<T, In>(tokens + slot / from.top_k * dim,
                       weight == nullptr ? nullptr : weight + slot,
                       out.data<T>() + row_of(place) * dim, dim);
      }
    };
    parallel_ranges(ctx.threads, source.tokens, 1, from.top_k * dim, take);
  }
}

template <class T, class In>
void dot_rows(KernelContext& ctx, const PeerBuffers& from, const Array& tokens, const Array& places,
              const Array& out) {
  using Sum = ComputeType<T>;
  const std::int64_t dim = tokens.size(1), top_k = places.size(1);
  const ManyBuffers<T> rows = many_buffers<T>(from, dim);
  const auto* place = places.data<std::int64_t>();
  parallel_ranges(ctx.threads, tokens.size(0), 1, top_k * dim,
                  [&](std::int64_t begin, std::int64_t end) {
                    auto scratch = rows.scratch(top_k);
                    for (std::int64_t slot = begin * top_k; slot < end * top_k; ++slot) {
                      Sum dot = 0;
                      if (place[slot] >= 0) {
                        dot = row_dot(rows.at(place[slot], slot % top_k, scratch),
                                      tokens.data<In>() + slot / top_k * dim, dim);
                      }
                      out.data<Sum>()[slot] = dot;
                    }
                  });
}

KeyCounts counts_of(const PeerLayout& layout) {
  return key_counts(layout.counts_PSE, layout.counts_PSE.data<std::int64_t>());
}

/// Where the rows of each expert begin with its peer, and how many there are.
struct Blocks {
  std::vector<std::int64_t> begin, size, held;
};
Blocks blocks_of(const PeerLayout& layout) {
  const KeyCounts counts = counts_of(layout);
  Blocks blocks;
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < counts.keys; ++expert) {
    std::int64_t held = 0;
    for (std::int64_t s = 0; s < counts.parts; ++s) held += counts.of(s, expert);
    if (!layout.size.has_room(held)) {
      throw Error(too_many_expert_rows(expert, held, layout.size.rows));
    }
    if (expert % layout.experts_per_peer == 0) next = 0;
    blocks.begin.push_back(next);
    blocks.held.push_back(held);
    blocks.size.push_back(layout.size.of(held));
    next += blocks.size.back();
  }
  return blocks;
}

void place_slots(const PeerLayout& layout, const Blocks& blocks, const Array& slots_N,
                 const Array& place_S) {
  const KeyCounts counts = counts_of(layout);
  const auto* slot = slots_N.data<std::int64_t>();
  const auto* const end = slot + slots_N.num_elements();
  auto* place = place_S.data<std::int64_t>();
  std::fill_n(place, place_S.num_elements(), -1);
  for (std::int64_t expert = 0; expert < counts.keys; ++expert) {
    std::int64_t row = blocks.begin[static_cast<std::size_t>(expert)];
    for (std::int64_t s = 0; s < layout.sender; ++s) row += counts.of(s, expert);
    const std::int64_t peer = expert / layout.experts_per_peer * layout.copies;
    for (std::int64_t n = counts.of(layout.sender, expert); n > 0 && slot != end; --n, ++row) {
      const bool fits = layout.room == kAnyNumber || row < layout.room;
      place[*slot++] = fits ? peer_place(peer, row) : -1;
    }
  }
}

}  // namespace

void cpu::put_peer_rows(KernelContext& ctx, const Array& tokens_TD, const Array& weights_TK,
                        const Array& place_TK, const PeerBuffers& to, Stream&) {
  check_peer_rows("put_peer_rows", to, tokens_TD, weights_TK, place_TK);
  check_places("put_peer_rows", place_TK, to);
  visit_row_sum_types("put_peer_rows", to.dtype, tokens_TD.dtype(), [&](auto row, auto token) {
    put_rows<typename decltype(row)::type, typename decltype(token)::type>(
        ctx, tokens_TD, weights_TK, place_TK, to);
  });
}

void cpu::sum_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& weights_TK,
                        const Array& place_TK, const Array& out_TD, Stream&) {
  check_peer_rows("sum_peer_rows", from, out_TD, weights_TK, place_TK);
  check_places("sum_peer_rows", place_TK, from);
  visit_row_sum_types("sum_peer_rows", from.dtype, out_TD.dtype(), [&](auto row, auto out) {
    using T = typename decltype(row)::type;
    using Out = typename decltype(out)::type;
    const ManyBuffers<T> rows = many_buffers<T>(from, out_TD.size(1));
    const RowSums<T, Out, ManyBuffers<T>> sums(rows, weights_TK, place_TK, out_TD);
    parallel_ranges(ctx.threads, out_TD.size(0), 1, place_TK.size(1) * out_TD.size(1),
                    [&](std::int64_t begin, std::int64_t end) { sums.sum_range(begin, end); });
  });
}

void cpu::dot_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& tokens_TD,
                        const Array& place_TK, const Array& out_TK, Stream&) {
  check_peer_rows("dot_peer_rows", from, tokens_TD, {}, place_TK);
  check_dots(from, place_TK, out_TK);
  check_places("dot_peer_rows", place_TK, from);
  visit_row_sum_types("dot_peer_rows", from.dtype, tokens_TD.dtype(), [&](auto row, auto token) {
    dot_rows<typename decltype(row)::type, typename decltype(token)::type>(ctx, from, tokens_TD,
                                                                           place_TK, out_TK);
  });
}

void cpu::lay_out_peers(KernelContext&, const PeerLayout& layout, const Array& slots_N,
                        const PeerLists& out) {
  check_peer_layout(layout, slots_N, out);
  const Blocks blocks = blocks_of(layout);
  std::int64_t came = 0;
  for (std::int64_t i = 0; i < out.counts_e.num_elements(); ++i) {
    const auto at = static_cast<std::size_t>(layout.own * layout.experts_per_peer + i);
    const std::int64_t begin = blocks.begin[at];
    out.counts_e.data<std::int64_t>()[i] = rows_with_room(layout.room, begin, blocks.size[at]);
    out.filled_e.data<std::int64_t>()[i] = rows_with_room(layout.room, begin, blocks.held[at]);
    came += blocks.held[at];
  }
  *out.came_1.data<std::int64_t>() = came;
  place_slots(layout, blocks, slots_N, out.place_S);
}

void cpu::clear_unfilled_rows(KernelContext&, const Array& counts_e, const Array& filled_e,
                              const Array& out_RD) {
  check_unfilled_rows(counts_e, filled_e, out_RD);
  const std::int64_t row = out_RD.size(1) * size_of(out_RD.dtype());
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end) {
      std::memset(out_RD.bytes() + begin * row, 0, static_cast<std::size_t>((end - begin) * row));
    }
  };
  std::int64_t next = 0;
  for (std::int64_t e = 0; e < counts_e.num_elements(); ++e) {
    const std::int64_t count = counts_e.data<std::int64_t>()[e];
    clear(next + filled_e.data<std::int64_t>()[e], next + count);
    next += count;
  }
  clear(next, out_RD.size(0));
}

void take_put_rows(KernelContext& ctx, const PutTaker& from, const Array& out_RD) {
  for (const PutSource& source : from.sources) {
    for (std::int64_t i = 0; i < source.tokens * from.top_k; ++i) {
      const std::int64_t place = source.place_TK[i];
      if (place == -1) continue;
      const std::int64_t peer = peer_of(place);
      const bool is_own = peer <= from.own && from.own < peer + from.copies;
      if (place >= 0 && peer + from.copies <= std::ssize(from.sources) &&
          (!is_own || row_of(place) < out_RD.size(0))) {
        continue;
      }
      throw Error(peer_place_outside("put_peer_rows", place, i));
    }
  }
  visit_row_sum_types("put_peer_rows", out_RD.dtype(), from.tokens, [&](auto row, auto token) {
    take_rows<typename decltype(row)::type, typename decltype(token)::type>(ctx, from, out_RD);
  });
}

}  // namespace tessera::kernels
