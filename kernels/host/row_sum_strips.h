// kernels/host/row_sum_strips.h: sums of rows that a list names, token by token, on the processor:
// those of one array, or of several ranks'.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/array.h"
#include "kernels/dtype_switch.h"
#include "kernels/host/row_order.h"
#include "kernels/host/simd.h"
#include "kernels/stream_row.h"

namespace tessera::kernels {

inline constexpr std::int64_t kStrip = 512;  // columns whose sums stay in the first cache

/// A row of a token: its elements, its weight, and a row to bring near while it is read.
template <class T, class Sum>
struct Term {
  const T* row;
  Sum weight;
  const T* later;  ///< null: none
};

/// Sums of a few vectors of neighbouring columns. Members, not an array: they stay in registers.
template <class T, class Sum>
class BlockSums {
 public:
  static constexpr std::int64_t kColumns = 4 * kLanes<Sum>;
  [[gnu::always_inline]] void add(Sum weight, const T* row) {
    a_ += weight * load_vec(row);
    b_ += weight * load_vec(row + kLanes<Sum>);
    c_ += weight * load_vec(row + 2 * kLanes<Sum>);
    d_ += weight * load_vec(row + 3 * kLanes<Sum>);
  }
  [[gnu::always_inline]] void store(Sum* to) const {
    store_vec(to, a_);
    store_vec(to + kLanes<Sum>, b_);
    store_vec(to + 2 * kLanes<Sum>, c_);
    store_vec(to + 3 * kLanes<Sum>, d_);
  }

 private:
  Vec<Sum> a_ = {}, b_ = {}, c_ = {}, d_ = {};
};

/// Pairs of BF16 are words: of columns 2i and 2i + 1, each is in F32 where the other half is
/// cleared. So even columns and odd ones are summed apart.
template <>
class BlockSums<BFloat16, float> {
 public:
  static constexpr std::int64_t kColumns = 4 * kLanes<float>;
  [[gnu::always_inline]] void add(float weight, const BFloat16* row) {
    add_pairs(weight, row, even_a_, odd_a_);
    add_pairs(weight, row + kColumns / 2, even_b_, odd_b_);
  }
  [[gnu::always_inline]] void store(float* to) const {
    store_pairs(even_a_, odd_a_, to);
    store_pairs(even_b_, odd_b_, to + kColumns / 2);
  }

 private:
  [[gnu::always_inline]] static void add_pairs(float weight, const BFloat16* row, Vec<float>& even,
                                               Vec<float>& odd) {
    Vec<std::uint32_t> pairs;
    std::memcpy(&pairs, row, sizeof pairs);
    even += weight * reinterpret_cast<Vec<float>>(pairs << 16);
    odd += weight * reinterpret_cast<Vec<float>>(pairs & 0xffff0000U);
  }
  [[gnu::always_inline]] static void store_pairs(const Vec<float>& even, const Vec<float>& odd,
                                                 float* to) {
    const Vec<float> first =
        __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Vec<float> second = __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                      28, 13, 29, 14, 30, 15, 31);
    store_vec(to, first);
    store_vec(to + kLanes<float>, second);
  }

  Vec<float> even_a_ = {}, odd_a_ = {}, even_b_ = {}, odd_b_ = {};
};

/// What is left of a strip, and all of one in F16: converting that takes longer than reading it.
template <class T, class Sum>
void sum_columns(std::span<const Term<T, Sum>> terms, std::int64_t first, std::int64_t width,
                 Sum* acc) {
  std::fill_n(acc, width, Sum{0});
  for (const Term<T, Sum>& term : terms) {
    const T* from = term.row + first;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) acc[c] += term.weight * static_cast<Sum>(from[c]);
  }
}

/// acc = Σ weight · row over columns [first, first + width), in the terms' order. All rows advance
/// together, which keeps several reads of memory going.
template <class T, class Sum>
void sum_strip(std::span<const Term<T, Sum>> terms, std::int64_t first, std::int64_t width,
               Sum* acc) {
  std::int64_t done = 0;
  if constexpr (!std::is_same_v<T, Float16>) {
    constexpr std::int64_t kBlock = BlockSums<T, Sum>::kColumns;
    for (; done + kBlock <= width; done += kBlock) {
      BlockSums<T, Sum> sums;
      for (const Term<T, Sum>& term : terms) {
        if (term.later != nullptr) {
          bring_near(term.later + first + done, kBlock * static_cast<std::int64_t>(sizeof(T)));
        }
        sums.add(term.weight, term.row + first + done);
      }
      sums.store(acc + done);
    }
  }
  if (done < width) sum_columns(terms, first + done, width - done, acc + done);
}

/// Σ row · token, and to = weight · token where `to` is given.
template <bool kPuts, class T, class In>
ComputeType<T> dot_and_put(const T* row, const In* token, std::int64_t dim, ComputeType<T> weight,
                           T* to) {
  using Sum = ComputeType<T>;
  Sum dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < dim; ++c) {
    const Sum g = static_cast<Sum>(token[c]);
    if constexpr (kPuts) to[c] = convert<T>(weight * g);
    dot += static_cast<Sum>(row[c]) * g;
  }
  return dot;
}
template <class T, class In>
ComputeType<T> row_dot(const T* row, const In* token, std::int64_t dim) {
  return dot_and_put<false, T, In>(row, token, dim, ComputeType<T>{0}, nullptr);
}

/// Rows of one array.
template <class T>
struct OneBuffer {
  const T* rows;
  std::int64_t dim, num_bytes;
  /// What a thread needs beside.
  struct Scratch {};
  Scratch scratch(std::int64_t) const { return {}; }
  const T* at(std::int64_t place, std::int64_t, Scratch&) const { return rows + place * dim; }
  /// A row to come, as far as it is cheap to tell.
  const T* later(std::int64_t place) const { return rows + place * dim; }
};

/// Sums of tokens, one thread's share at a time. `Rows`: as OneBuffer.
template <class T, class Out, class Rows>
class RowSums {
 public:
  using Sum = ComputeType<T>;
  RowSums(const Rows& rows, const Array& weights, const Array& places, const Array& out)
      : rows_(rows),
        weight_(weights.is_null() ? nullptr : weights.data<Sum>()),
        place_(places.data<std::int64_t>()),
        out_(out.data<Out>()),
        dim_(out.size(1)),
        top_k_(places.size(1)),
        ahead_(ahead_for(rows.num_bytes)),
        stores_(stores_for(out.num_bytes())) {}

  void sum_range(std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kTokensAhead = 2;
    std::vector<Term<T, Sum>> terms;
    terms.reserve(static_cast<std::size_t>(top_k_));
    auto scratch = rows_.scratch(top_k_);
    for (std::int64_t t = begin; t < end; ++t) {
      terms.clear();
      const std::int64_t later = std::min(t + kTokensAhead, end - 1);
      for (std::int64_t k = 0; k < top_k_; ++k) {
        const std::int64_t place = place_[t * top_k_ + k];
        if (place < 0) continue;
        const std::int64_t next = place_[later * top_k_ + k];
        const bool brings = ahead_ == Ahead::kNextRows && next >= 0;
        terms.push_back({rows_.at(place, k, scratch),
                         weight_ == nullptr ? Sum{1} : weight_[t * top_k_ + k],
                         brings ? rows_.later(next) : nullptr});
      }
      for (std::int64_t first = 0; first < dim_; first += kStrip) {
        put_strip(terms, first, std::min(kStrip, dim_ - first), out_ + t * dim_ + first);
      }
    }
    finish_streams();
  }

 private:
  void put_strip(std::span<const Term<T, Sum>> terms, std::int64_t first, std::int64_t width,
                 Out* to) const {
    alignas(64) std::array<Sum, kStrip> acc;
    alignas(64) std::array<Out, kStrip> line;
    sum_strip(terms, first, width, acc.data());
    const bool streams = stores_ == Stores::kStreamed;
    Out* strip = streams ? line.data() : to;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) strip[c] = convert<Out>(acc[c]);
    if (!streams) return;
    stream_bytes(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(strip),
                 static_cast<std::size_t>(width) * sizeof(Out));
  }

  const Rows& rows_;
  const Sum* weight_;
  const std::int64_t* place_;
  Out* out_;
  std::int64_t dim_, top_k_;
  Ahead ahead_;
  Stores stores_;
};

}  // namespace tessera::kernels
