#include "kernels/row_sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/row_order.h"
#include "kernels/row_sums_checks.h"
#include "kernels/simd.h"
#include "kernels/stream_row.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kStrip = 512;  // columns whose sums stay in the first cache

void check_places(const char* kernel, const Array& places, std::int64_t limit) {
  check_place_list(kernel, places);
  const auto* place = places.data<std::int64_t>();
  for (std::int64_t i = 0; i < places.num_elements(); ++i) {
    if (place[i] < -1 || place[i] >= limit) throw Error(place_outside(kernel, place[i], i, limit));
  }
}

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

/// Sums of tokens, one thread's share at a time.
template <class T, class Out>
class RowSums {
 public:
  using Sum = ComputeType<T>;
  RowSums(const Array& rows, const Array& weights, const Array& places, const Array& out)
      : rows_(rows.data<T>()),
        weight_(weights.is_null() ? nullptr : weights.data<Sum>()),
        place_(places.data<std::int64_t>()),
        out_(out.data<Out>()),
        dim_(rows.size(1)),
        top_k_(places.size(1)),
        ahead_(ahead_for(rows.num_bytes())),
        stores_(stores_for(out.num_bytes())) {}

  void sum_range(std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kTokensAhead = 2;
    std::vector<Term<T, Sum>> terms;
    terms.reserve(static_cast<std::size_t>(top_k_));
    for (std::int64_t t = begin; t < end; ++t) {
      terms.clear();
      const std::int64_t later = std::min(t + kTokensAhead, end - 1);
      for (std::int64_t k = 0; k < top_k_; ++k) {
        const std::int64_t place = place_[t * top_k_ + k];
        if (place < 0) continue;
        const std::int64_t next = place_[later * top_k_ + k];
        const bool brings = ahead_ == Ahead::kNextRows && next >= 0;
        terms.push_back({rows_ + place * dim_,
                         weight_ == nullptr ? Sum{1} : weight_[t * top_k_ + k],
                         brings ? rows_ + next * dim_ : nullptr});
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

  const T* rows_;
  const Sum* weight_;
  const std::int64_t* place_;
  Out* out_;
  std::int64_t dim_, top_k_;
  Ahead ahead_;
  Stores stores_;
};

template <class T, class Out>
void sum_rows(KernelContext& ctx, const Array& rows, const Array& weights, const Array& places,
              const Array& out) {
  const RowSums<T, Out> sums(rows, weights, places, out);
  parallel_ranges(ctx.threads, out.size(0), 1, places.size(1) * rows.size(1),
                  [&](std::int64_t begin, std::int64_t end) { sums.sum_range(begin, end); });
}

template <class T, class Grad>
void grad_rows(KernelContext& ctx, const Array& rows, const Array& weights, const Array& slots,
               const Array& grad, const RowSumGrads& grads) {
  using Sum = ComputeType<T>;
  const std::int64_t dim = rows.size(1), top_k = weights.size(1);
  parallel_ranges(ctx.threads, rows.size(0), 1, dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t slot = slots.data<std::int64_t>()[n];
      T* to = grads.rows_ND.data<T>() + n * dim;
      if (slot < 0) {
        std::fill_n(to, dim, T{});
        continue;
      }
      const T* row = rows.data<T>() + n * dim;
      const Grad* token = grad.data<Grad>() + slot / top_k * dim;
      const Sum w = weights.data<Sum>()[slot];
      Sum dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t c = 0; c < dim; ++c) {
        const Sum g = static_cast<Sum>(token[c]);
        to[c] = convert<T>(w * g);
        dot += static_cast<Sum>(row[c]) * g;
      }
      grads.weights_TK.data<Sum>()[slot] = dot;
    }
  });
}

}  // namespace

void cpu::weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& place_TK, const Array& out_TD) {
  check_row_sum_operands("weighted_row_sum", rows_ND, weights_TK, out_TD);
  check_places("weighted_row_sum", place_TK, rows_ND.size(0));
  check_row_sum_places(weights_TK, place_TK, out_TD);
  visit_row_sum_types("weighted_row_sum", rows_ND.dtype(), out_TD.dtype(), [&](auto row, auto out) {
    sum_rows<typename decltype(row)::type, typename decltype(out)::type>(ctx, rows_ND, weights_TK,
                                                                         place_TK, out_TD);
  });
}

void cpu::weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                                const Array& slot_N, const Array& grad_TD,
                                const RowSumGrads& grads) {
  check_row_sum_operands("weighted_row_sum_grad", rows_ND, weights_TK, grad_TD);
  check_places("weighted_row_sum_grad", slot_N, weights_TK.num_elements());
  check_row_sum_grads(rows_ND, weights_TK, slot_N, grads);
  cpu::fill(ctx, 0.0, grads.weights_TK);
  visit_row_sum_types("weighted_row_sum_grad", rows_ND.dtype(), grad_TD.dtype(),
                      [&](auto row, auto grad) {
                        grad_rows<typename decltype(row)::type, typename decltype(grad)::type>(
                            ctx, rows_ND, weights_TK, slot_N, grad_TD, grads);
                      });
}

}  // namespace tessera::kernels
