#include "kernels/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "kernels/fold_functions.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

using namespace folds;  // NOLINT(google-build-using-namespace)

// Elements folded at a time: accumulators and a source's piece stay in the first-level cache.
constexpr std::int64_t kBlock = 1024;
// Bytes folded at a time where the result goes on from the first-level cache.
constexpr std::int64_t kPieceBytes = 4096;

template <class E>
void load(const std::byte* src, typename E::Acc* acc, std::int64_t n) {
  const auto* from = reinterpret_cast<const typename E::T*>(src);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) acc[i] = E::widen(from[i]);
}

template <class E, class Op>
void combine_into(typename E::Acc* acc, const std::byte* src, std::int64_t n) {
  const auto* from = reinterpret_cast<const typename E::T*>(src);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) acc[i] = Op::of(acc[i], E::widen(from[i]));
}

template <class E>
void divide(typename E::Acc* acc, std::int64_t divisor, std::int64_t n) {
  if constexpr (std::is_floating_point_v<typename E::Acc>) {
    const auto by = static_cast<typename E::Acc>(divisor);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) acc[i] /= by;
  }
}

template <class E>
void store_from(const typename E::Acc* acc, std::byte* dst, std::int64_t n) {
  auto* to = reinterpret_cast<typename E::T*>(dst);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = E::narrow(acc[i]);
}

// The usual few sources in one pass over registers; the order is that of the sources.
template <class E, class Op, int kSources>
void fold_few(const std::byte* const* srcs, std::byte* dst, std::int64_t n) {
  using T = typename E::T;
  using Acc = typename E::Acc;
  const T* from[kSources];
  for (int s = 0; s < kSources; ++s) from[s] = reinterpret_cast<const T*>(srcs[s]);
  T* to = reinterpret_cast<T*>(dst);
  // Every element is read before it is written, so dst may be one of the sources.
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    Acc value = E::widen(from[0][i]);
    for (int s = 1; s < kSources; ++s) value = Op::of(value, E::widen(from[s][i]));
    to[i] = E::narrow(value);
  }
}

constexpr std::int64_t kLine = 64;

// The same past the caches to several targets, all on cache lines: a line at a time, in registers.
template <class E, class Op, int kSources>
void stream_few(const std::byte* const* srcs, std::span<std::byte* const> targets,
                std::int64_t lines) {
  using T = typename E::T;
  using Acc = typename E::Acc;
  constexpr auto kElements = kLine / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t at = 0; at < lines * kLine; at += kLine) {
    const T* from[kSources];
    for (int s = 0; s < kSources; ++s) from[s] = reinterpret_cast<const T*>(srcs[s] + at);
    alignas(kLine) T line[kElements];
#pragma omp simd
    for (std::int64_t i = 0; i < kElements; ++i) {
      Acc value = E::widen(from[0][i]);
      for (int s = 1; s < kSources; ++s) value = Op::of(value, E::widen(from[s][i]));
      line[i] = E::narrow(value);
    }
    for (std::byte* target : targets) {
      kernels::stream_lines(target + at, reinterpret_cast<const std::byte*>(line), kLine);
    }
  }
}

template <class E, class Op>
void stream_sums(std::span<const std::byte* const> srcs, std::span<std::byte* const> targets,
                 std::int64_t lines) {
  if (srcs.size() == 2) return stream_few<E, Op, 2>(srcs.data(), targets, lines);
  if (srcs.size() == 3) return stream_few<E, Op, 3>(srcs.data(), targets, lines);
  stream_few<E, Op, 4>(srcs.data(), targets, lines);
}

template <class E, class Op>
void fold_blocks(const Fold& how, std::span<const std::byte* const> srcs, std::byte* dst,
                 std::int64_t n) {
  if (how.divisor == 1) {
    if (srcs.size() == 2) return fold_few<E, Op, 2>(srcs.data(), dst, n);
    if (srcs.size() == 3) return fold_few<E, Op, 3>(srcs.data(), dst, n);
    if (srcs.size() == 4) return fold_few<E, Op, 4>(srcs.data(), dst, n);
  }
  alignas(64) typename E::Acc acc[kBlock];
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename E::T));
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, n - begin);
    const std::int64_t at = begin * kSize;
    load<E>(srcs[0] + at, acc, size);
    for (std::size_t s = 1; s < srcs.size(); ++s) combine_into<E, Op>(acc, srcs[s] + at, size);
    if (how.divisor != 1) divide<E>(acc, how.divisor, size);
    store_from<E>(acc, dst + at, size);
  }
}

}  // namespace

Status check_fold(DType dtype, ReduceOp op) {
  if (!facts_of(op).has_fractions || is_floating(dtype)) return absl::OkStatus();
  return invalid_argument(std::string(name_of(op)) + " of " + std::string(name_of(dtype)) +
                          ": allowed for floating types; reduce by " +
                          std::string(name_of(folded_by(op))));
}

Fold fold_by(ReduceOp op, std::int64_t divisor) noexcept {
  return {folded_by(op), divides(op) ? divisor : 1};
}

void fold(DType dtype, const Fold& how, std::span<const std::byte* const> srcs, std::byte* dst,
          std::int64_t n) {
  if (n == 0) return;
  if (srcs.size() == 1 && how.divisor == 1) {
    if (srcs[0] != dst) std::memcpy(dst, srcs[0], static_cast<std::size_t>(n * size_of(dtype)));
    return;
  }
  with_element(dtype, [&]<class E>(E) {
    with_op(how.op, [&]<class Op>(Op) { fold_blocks<E, Op>(how, srcs, dst, n); });
  });
}

namespace {

/// A few sources into targets on cache lines go straight through registers.
bool goes_in_lines(const Fold& how, std::size_t num_srcs, const FoldTargets& to) {
  if (to.stores != kernels::Stores::kStreamed || how.divisor != 1) return false;
  if (num_srcs < 2 || num_srcs > 4) return false;
  return std::ranges::all_of(to.targets, [](const std::byte* target) {
    return reinterpret_cast<std::uintptr_t>(target) % kLine == 0;
  });
}

/// Whole lines that can be taken so; what they leave is done in pieces. Units: elements.
std::int64_t fold_lines(DType dtype, const Fold& how, std::span<const std::byte* const> srcs,
                        const FoldTargets& to) {
  if (!goes_in_lines(how, srcs.size(), to)) return 0;
  const std::int64_t lines = to.elements * size_of(dtype) / kLine;
  with_element(dtype, [&]<class E>(E) {
    with_op(how.op, [&]<class Op>(Op) { stream_sums<E, Op>(srcs, to.targets, lines); });
  });
  return lines * kLine / size_of(dtype);
}

}  // namespace

void fold_to(DType dtype, const Fold& how, std::span<const std::byte* const> srcs,
             const FoldTargets& to) {
  const bool streams = to.stores == kernels::Stores::kStreamed;
  if (to.targets.size() == 1 && !streams) {
    fold(dtype, how, srcs, to.targets[0], to.elements);
    return;
  }
  // No target is written before all sources of a piece have been read.
  alignas(64) std::byte piece[kPieceBytes];
  const std::int64_t element = size_of(dtype), step = kPieceBytes / element;
  const std::int64_t done = fold_lines(dtype, how, srcs, to);
  absl::InlinedVector<const std::byte*, 8> at(srcs.begin(), srcs.end());
  for (const std::byte*& src : at) src += done * element;
  for (std::int64_t begin = done; begin < to.elements; begin += step) {
    const std::int64_t size = std::min(step, to.elements - begin);
    fold(dtype, how, at, piece, size);
    for (std::byte* target : to.targets) {
      const auto bytes = static_cast<std::size_t>(size * element);
      if (streams) {
        kernels::stream_bytes(target + begin * element, piece, bytes);
      } else {
        std::memcpy(target + begin * element, piece, bytes);
      }
    }
    for (const std::byte*& src : at) src += size * element;
  }
}

std::int64_t accumulator_size(DType dtype) noexcept {
  return is_half(dtype) || dtype == DType::kU8 ? 4 : size_of(dtype);
}

void fill_identity(DType dtype, const Fold& how, std::byte* accumulator, std::int64_t n) {
  with_element(dtype, [&]<class E>(E) {
    using Acc = typename E::Acc;
    std::fill_n(reinterpret_cast<Acc*>(accumulator), n, identity_of<Acc>(how.op));
  });
}

void combine(DType dtype, const Fold& how, std::byte* accumulator, const std::byte* src,
             std::int64_t n) {
  with_element(dtype, [&]<class E>(E) {
    auto* acc = reinterpret_cast<typename E::Acc*>(accumulator);
    with_op(how.op, [&]<class Op>(Op) { combine_into<E, Op>(acc, src, n); });
  });
}

void store(DType dtype, const Fold& how, const std::byte* accumulator, std::byte* dst,
           std::int64_t n) {
  with_element(dtype, [&]<class E>(E) {
    using Acc = typename E::Acc;
    const auto* from = reinterpret_cast<const Acc*>(accumulator);
    alignas(64) Acc acc[kBlock];
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      const std::int64_t size = std::min(kBlock, n - begin);
      std::copy_n(from + begin, size, acc);
      if (how.divisor != 1) divide<E>(acc, how.divisor, size);
      store_from<E>(acc, dst + begin * static_cast<std::int64_t>(sizeof(typename E::T)), size);
    }
  });
}

void fill_identity_elements(DType dtype, ReduceOp op, std::byte* dst, std::int64_t n) {
  with_element(dtype, [&]<class E>(E) {
    const typename E::T value = E::narrow(identity_of<typename E::Acc>(op));
    std::fill_n(reinterpret_cast<typename E::T*>(dst), n, value);
  });
}

}  // namespace tessera
