#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {
namespace {

/// Whether every number is far from the ends of the integers that hold To.
template <class To, class From>
bool all_fit(const From* from, std::int64_t n) {
  using Number = ComputeType<From>;
  constexpr Number kEnd = sizeof(To) == 8 ? Number(0x1p62) : Number(0x1p30);
  int fit = 1;
#pragma omp simd reduction(& : fit)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = convert<Number>(from[i]);
    fit &= (value > -kEnd) & (value < kEnd);
  }
  return fit != 0;
}

/// Adjacent elements. Numbers that integers hold, which is most often all, need no care for the
/// others: pieces that stay in the first-level cache are looked over first.
template <class To, class From>
void convert_row(const From* from, To* to, std::int64_t n) {
  constexpr bool kIsCutOff = std::is_integral_v<To> && !std::is_same_v<To, bool> &&
                             std::is_floating_point_v<ComputeType<From>>;
  constexpr std::int64_t kPiece = 1024;
  using Whole = std::conditional_t<sizeof(To) == 8, std::int64_t, std::int32_t>;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t end = std::min(n, begin + kPiece);
    if constexpr (kIsCutOff) {
      if (all_fit<To>(from + begin, end - begin)) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          to[i] = static_cast<To>(static_cast<Whole>(convert<ComputeType<From>>(from[i])));
        }
        continue;
      }
    }
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
  }
}

template <class To, class From>
void copy_row(const From* from, std::int64_t from_stride, To* to, std::int64_t to_stride,
              std::int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    } else {
      convert_row(from, to, n);
    }
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, n, convert<To>(from[0]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
  }
}

/// Operand 0 is the target.
template <class To, class From>
void copy_rows(const StridedLoop& loop, int threads, const From* from, To* to) {
  parallel_ranges(threads, loop.total(), 8192, 1, [=, &loop](std::int64_t begin, std::int64_t end) {
    loop.for_rows(begin, end, [=, &loop](const Offsets& offsets, std::int64_t n) {
      copy_row(from + offsets[1], loop.stride(1, 0), to + offsets[0], loop.stride(0, 0), n);
    });
  });
}

/// The dim along which the source is dense where the target's inner dim is not the source's; 0 if
/// none.
int transposed_dim(const StridedLoop& loop) {
  if (loop.stride(0, 0) != 1 || loop.stride(1, 0) == 1 || loop.size(0) < 8) return 0;
  for (int d = 1; d < loop.ndim(); ++d) {
    if (loop.stride(1, d) == 1 && loop.size(d) >= 8) return d;
  }
  return 0;
}

/// One tile: `rows` steps along the transposed dim, `columns` along the inner one.
struct Tile {
  std::int64_t rows, columns, to_step, from_step;
};

constexpr std::int64_t kTileSide = 32;

/// Turns a 4 x 4 piece of one tile into another: small enough to stay in registers.
template <class T>
void turn_piece(const T* from, std::int64_t from_step, T* to, std::int64_t to_step) {
  T piece[4][4];
  for (int r = 0; r < 4; ++r) std::memcpy(piece[r], from + r * from_step, sizeof(piece[r]));
  T turned[4][4];
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) turned[r][c] = piece[c][r];
  }
  for (int r = 0; r < 4; ++r) std::memcpy(to + r * to_step, turned[r], sizeof(turned[r]));
}

/// Turns the tile in a small block: memory is read and written in whole lines, whatever the
/// strides.
template <class T>
void copy_full_tile(const T* from, T* to, const Tile& tile) {
  alignas(64) T block[kTileSide][kTileSide];
  for (std::int64_t c = 0; c < kTileSide; c += 4) {
    for (std::int64_t r = 0; r < kTileSide; r += 4) {
      turn_piece(from + c * tile.from_step + r, tile.from_step, &block[r][c], kTileSide);
    }
  }
  for (std::int64_t r = 0; r < kTileSide; ++r) {
    std::memcpy(to + r * tile.to_step, block[r], sizeof(block[r]));
  }
}

template <class T>
void copy_tile(const T* from, T* to, const Tile& tile) {
  if (tile.rows == kTileSide && tile.columns == kTileSide) return copy_full_tile(from, to, tile);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for (std::int64_t c = 0; c < tile.columns; ++c) {
      to[r * tile.to_step + c] = from[c * tile.from_step + r];
    }
  }
}

template <class T>
void copy_transposed(const StridedLoop& loop, int across, int threads, const T* from, T* to) {
  const std::int64_t inner = loop.size(0);
  const std::int64_t rows = loop.size(across);
  const std::int64_t strips = (rows + kTileSide - 1) / kTileSide;
  const std::int64_t planes = loop.total() / (inner * rows);
  const auto copy_strip = [=, &loop](std::int64_t index) {
    const std::int64_t first_row = index % strips * kTileSide;
    std::int64_t to_offset = first_row * loop.stride(0, across);
    std::int64_t from_offset = first_row;
    std::int64_t rest = index / strips;
    for (int d = 1; d < loop.ndim(); ++d) {
      if (d == across) continue;
      to_offset += rest % loop.size(d) * loop.stride(0, d);
      from_offset += rest % loop.size(d) * loop.stride(1, d);
      rest /= loop.size(d);
    }
    for (std::int64_t c = 0; c < inner; c += kTileSide) {
      copy_tile(from + from_offset + c * loop.stride(1, 0), to + to_offset + c,
                Tile{std::min(kTileSide, rows - first_row), std::min(kTileSide, inner - c),
                     loop.stride(0, across), loop.stride(1, 0)});
    }
  };
  parallel_ranges(threads, planes * strips, 1, inner * kTileSide,
                  [copy_strip](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) copy_strip(i);
                  });
}

template <class T>
void copy_words(KernelContext& ctx, const Array& src, const Array& dst) {
  const StridedLoop loop("copy", std::array{&dst, &src});
  const T* from = reinterpret_cast<const T*>(src.bytes());
  T* to = reinterpret_cast<T*>(dst.bytes());
  if (const int across = transposed_dim(loop); across != 0 && loop.total() > 0) {
    copy_transposed(loop, across, ctx.threads, from, to);
  } else {
    copy_rows(loop, ctx.threads, from, to);
  }
}

}  // namespace

void cpu::copy(KernelContext& ctx, const Array& src, const Array& dst) {
  if (src.dtype() == dst.dtype()) {
    if (src.num_elements() < kParallelElements && same_dense(src, dst)) {
      std::memcpy(dst.bytes(), src.bytes(), static_cast<std::size_t>(src.num_bytes()));
      return;
    }
    visit_word(size_of(src.dtype()), [&]<class T>(TypeTag<T>) { copy_words<T>(ctx, src, dst); });
    return;
  }
  const StridedLoop loop("copy", std::array{&dst, &src});
  visit_dtype(src.dtype(), [&]<class From>(TypeTag<From>) {
    visit_dtype(dst.dtype(), [&]<class To>(TypeTag<To>) {
      copy_rows(loop, ctx.threads, src.data<From>(), dst.data<To>());
    });
  });
}

void cpu::fill(KernelContext& ctx, double value, const Array& out) {
  const StridedLoop loop("fill", std::array{&out});
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    const T filler = convert<T>(value);
    T* to = out.data<T>();
    parallel_ranges(ctx.threads, loop.total(), 8192, 1, [&](std::int64_t begin, std::int64_t end) {
      loop.for_rows(begin, end, [&](const Offsets& offsets, std::int64_t n) {
        copy_row(&filler, 0, to + offsets[0], loop.stride(0, 0), n);
      });
    });
  });
}

void cpu::arange(KernelContext& ctx, double start, double step, const Array& out) {
  if (out.ndim() != 1) {
    throw Error(invalid_argument("arange: the output has shape " + to_string(out.shape()) +
                                 ", expected one dim"));
  }
  const std::int64_t stride = out.strides()[0];
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    parallel_ranges(ctx.threads, out.size(0), 8192, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i * stride] = convert<T>(start + step * static_cast<double>(i));
      }
    });
  });
}

}  // namespace tessera::kernels
