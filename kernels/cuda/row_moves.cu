#include <cstring>
#include <limits>

#include "kernels/cuda/rows.h"
#include "kernels/elementwise.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

template <class Word>
__global__ void move_rows(RowGrid grid, RowPair rows, PositionReader positions, Word otherwise) {
  Word* const to = reinterpret_cast<Word*>(rows.row.operands[0].data);
  const Word* const from = reinterpret_cast<const Word*>(rows.row.operands[1].data);
  for_each_piece(grid, [&](std::int64_t row, std::int64_t first) {
    const std::int64_t position = positions.read(row);
    // All are read before the first is written.
    Word words[kPieces];
    std::int64_t offsets[kPieces][2];
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t at = first + std::int64_t{p} * grid.lanes;
      if (at >= grid.packs) continue;
      offsets_of(rows.row, at, offsets[p]);
      words[p] = position < 0 ? otherwise : from[position * rows.from_step + offsets[p][1]];
    }
    for (int p = 0; p < kPieces; ++p) {
      if (first + std::int64_t{p} * grid.lanes >= grid.packs) continue;
      to[row * rows.to_step + offsets[p][0]] = words[p];
    }
  });
}

/// Which entries take which row, as a chain a row: chains[row] is the last, next[entry] the one
/// before it, -1 the end. Their order does not matter.
struct RowChains {
  std::int32_t* chains;
  std::int32_t* next;
};

__global__ void chain_rows(PositionReader positions, std::int64_t count, RowChains to) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) {
    const std::int64_t row = positions.read(i);
    if (row >= 0) to.next[i] = atomicExch(to.chains + row, static_cast<std::int32_t>(i));
  }
}

/// Rows that many entries take are read once. Entries without a row are left as they are.
template <class Word>
__global__ void spread_rows(RowGrid grid, RowPair rows, RowChains chains) {
  Word* const to = reinterpret_cast<Word*>(rows.row.operands[0].data);
  const Word* const from = reinterpret_cast<const Word*>(rows.row.operands[1].data);
  for_each_piece(grid, [&](std::int64_t row, std::int64_t first) {
    std::int32_t entry = chains.chains[row];
    if (entry < 0) return;
    Word words[kPieces];
    TSR_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t at = first + std::int64_t{p} * grid.lanes;
      if (at < grid.packs) words[p] = from[row * rows.from_step + at];
    }
    while (entry >= 0) {
      const std::int32_t before = chains.next[entry];
      TSR_UNROLL
      for (int p = 0; p < kPieces; ++p) {
        const std::int64_t at = first + std::int64_t{p} * grid.lanes;
        if (at < grid.packs) to[entry * rows.to_step + at] = words[p];
      }
      entry = before;
    }
  });
}

/// What a card's cache does not hold until the next entry asks for it.
#ifdef __CUDACC__
constexpr std::int64_t kMuchBytes = std::int64_t{16} << 20, kLongRow = 512;
#else
constexpr std::int64_t kMuchBytes = 256, kLongRow = 16;
#endif
/// Whether rows are better read once and written to all that take them, than read by each.
bool spreads(const Array& x, int dim, std::int64_t count, const PositionReader& positions) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t rows = x.size(dim);
  return !positions.may_skip && rows > 0 && count >= 2 * rows && count < kMost &&
         x.num_bytes() >= kMuchBytes && x.num_bytes() / rows >= kLongRow;
}

/// Operands: out, the index, x.
template <class Word>
__global__ void move_elements(MapLayout<3> layout, std::int64_t step, PositionReader positions,
                              Word otherwise) {
  Word* const to = reinterpret_cast<Word*>(layout.operands[0].data);
  const Word* const from = reinterpret_cast<const Word*>(layout.operands[2].data);
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    const std::int64_t position = positions.read(layout.operands[1].data, offsets[1]);
    to[offsets[0]] = position < 0 ? otherwise : from[offsets[2] + position * step];
  });
}

/// The first `bytes` (8 at most) of `word`, over and over.
template <class Word>
Word repeated(std::uint64_t word, std::int64_t bytes) {
  Word all;
  const std::size_t each = std::min(static_cast<std::size_t>(bytes), sizeof(word));
  for (std::size_t at = 0; at < sizeof(Word); at += each) {
    std::memcpy(reinterpret_cast<std::byte*>(&all) + at, &word, each);
  }
  return all;
}

template <class F>
cudaError_t visit_row_word(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 16:
      return f(uint4{});
    case 8:
      return f(std::uint64_t{});
    case 4:
      return f(std::uint32_t{});
    case 2:
      return f(std::uint16_t{});
    default:
      return f(std::uint8_t{});
  }
}

}  // namespace

bool cut_into_packs(RowPair& rows, int count) {
  MapLayout<2>& row = rows.row;
  const std::int64_t inner = row.ndim == 0 ? row.total : row.sizes[0];
  bool fits = inner % count == 0 && rows.to_step % count == 0 && rows.from_step % count == 0;
  for (const MapOperand& operand : row.operands) {
    const std::int64_t bytes = size_of(operand.dtype) * count;
    fits = fits &&
           reinterpret_cast<std::uintptr_t>(operand.data) % static_cast<std::size_t>(bytes) == 0;
    if (row.ndim > 0) fits = fits && operand.strides[0] == 1;
    for (int d = 1; d < row.ndim; ++d) fits = fits && operand.strides[d] % count == 0;
  }
  if (!fits) return false;
  row.total /= count;
  row.sizes[0] /= count;
  for (MapOperand& operand : row.operands) {
    for (int d = 1; d < row.ndim; ++d) operand.strides[d] /= count;
  }
  rows.to_step /= count;
  rows.from_step /= count;
  return true;
}

std::uint64_t word_of(double value, DType dtype) {
  std::uint64_t word = 0;
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    const T element = convert<T>(value);
    std::memcpy(&word, &element, sizeof element);
  });
  return word;
}

Array line_starts(KernelContext& ctx, const Array& x, int dim, Shape shape) {
  shape[static_cast<std::size_t>(dim)] = 1;
  if (x.num_elements() > 0 || num_elements(shape) == 0) {
    return x.as_strided(shape, x.strides(), x.offset());
  }
  const Array stand_in = Array::empty({1}, x.dtype(), ctx.allocator);
  return stand_in.as_strided(shape, Shape(shape.size(), 0), 0);
}

void take_elements(KernelContext& ctx, const char* name, const Array& x, std::int64_t step,
                   const Positions& positions, std::uint64_t otherwise, const Array& out) {
  const std::int64_t bytes = size_of(out.dtype());
  run_layouts<3>(ctx, name, {&out, &positions.index, &x}, [&](const MapLayout<3>& layout) {
    return visit_row_word(bytes, [&]<class Word>(Word) {
      return launch<move_elements<Word>>(grid_for(layout.total), stream_of(ctx), layout, step,
                                         positions.reader, repeated<Word>(otherwise, bytes));
    });
  });
}

void take_rows(KernelContext& ctx, const char* name, const Array& x, int dim,
               const Positions& positions, std::uint64_t otherwise, const Array& out) {
  const std::int64_t count = out.size(dim), bytes = size_of(out.dtype());
  const std::int64_t to_step = out.strides()[static_cast<std::size_t>(dim)],
                     from_step = x.strides()[static_cast<std::size_t>(dim)];
  const Array to = first_elements(ctx, out, dim), from = first_elements(ctx, x, dim);
  if (to.num_elements() == 0) return read_positions(ctx, positions.reader, count);
  if (count == 0) return;
  if (to_step == 1 && to.num_elements() > 1) {  // memory is read along the dim, not along rows
    Shape steps(out.shape().size(), 0);
    steps[static_cast<std::size_t>(dim)] = 1;
    const Positions everywhere{
        positions.index.as_strided(out.shape(), steps, positions.index.offset()), positions.reader};
    return take_elements(ctx, name, line_starts(ctx, x, dim, x.shape()), from_step, everywhere,
                         otherwise, out);
  }
  run_layouts<2>(ctx, name, {&to, &from}, [&](const MapLayout<2>& layout) {
    RowPair rows{layout, to_step, from_step};
    auto pack = static_cast<int>(kPackBytes / bytes);
    while (pack > 1 && !cut_into_packs(rows, pack)) pack /= 2;
    if (rows.row.ndim == 0 && spreads(x, dim, count, positions.reader)) {
      const Array chains = Array::empty({x.size(dim)}, DType::kI32, ctx.allocator),
                  next = Array::empty({count}, DType::kI32, ctx.allocator);
      const RowChains of{device_data<std::int32_t>(chains), device_data<std::int32_t>(next)};
      check(cudaMemsetAsync(of.chains, 0xff, static_cast<std::size_t>(chains.num_bytes()),
                            stream_of(ctx)),
            *ctx.device, name);
      check(launch<chain_rows>(grid_for(count), stream_of(ctx), positions.reader, count, of),
            *ctx.device, name);
      const RowGrid grid = row_grid(x.size(dim), rows.row.total);
      return visit_row_word(bytes * pack, [&]<class Word>(Word) {
        return launch<spread_rows<Word>>(grid_for(grid.threads()), stream_of(ctx), grid, rows, of);
      });
    }
    const RowGrid grid = row_grid(count, rows.row.total);
    return visit_row_word(bytes * pack, [&]<class Word>(Word) {
      return launch<move_rows<Word>>(grid_for(grid.threads()), stream_of(ctx), grid, rows,
                                     positions.reader, repeated<Word>(otherwise, bytes));
    });
  });
}

}  // namespace tessera::kernels::TSR_CUDA
