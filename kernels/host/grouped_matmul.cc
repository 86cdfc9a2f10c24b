#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/matmul.h"
#include "kernels/matrix_product.h"
#include "kernels/parallel_tasks.h"
#include "kernels/product_checks.h"

namespace tessera::kernels {
namespace {

// Cuts of the work into tasks: fixed, so that the number of threads never changes a result.
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kBlockCols = 1024;
constexpr std::int64_t kBlockDepth = 512;
// Ragged row counts would each ask for a primitive of their own; those that need one are padded to
// a multiple.
constexpr std::int64_t kRowMultiple = 8;
constexpr std::int64_t kDepthMultiple = 16;

struct Group {
  std::int64_t expert, begin, rows;
};

std::vector<Group> read_groups(const char* op, const Array& counts_E, std::int64_t total_rows) {
  std::vector<Group> groups;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < counts_E.size(0); ++e) {
    const std::int64_t rows = counts_E.data<std::int64_t>()[e * counts_E.strides()[0]];
    if (rows < 0 || rows > total_rows - begin) {
      throw Error(bad_count(op, e, rows, begin, total_rows));
    }
    groups.push_back({e, begin, rows});
    begin += rows;
  }
  return groups;
}

/// A copy of rows [begin, begin + rows) of x with zero rows up to `padded_rows`, contiguous.
std::vector<std::byte> padded_rows(const Operand& x, std::int64_t rows, std::int64_t cols,
                                   std::int64_t padded_rows) {
  const std::int64_t line_bytes = cols * size_of(x.dtype);
  std::vector<std::byte> lines(static_cast<std::size_t>(padded_rows * line_bytes));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(x.at(row).data, line_bytes, lines.data() + row * line_bytes);
  }
  return lines;
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Array with_unit_lines(KernelContext& ctx, const Array& x) {
  const bool fits = (x.strides()[1] == 1 || x.size(1) == 1) && x.strides()[0] >= x.size(1);
  return fits ? x : contiguous(ctx, x);
}

/// x (rows x K) · w (K x N) into y, both row-major.
void multiply_rows(ProductCall call, const Operand& x, const Operand& w, const Operand& y) {
  const bool needs_primitive = x.dtype == DType::kBF16 || (x.dtype == DType::kF32 && call.m < 64);
  const std::int64_t padded = round_up(call.m, kRowMultiple);
  if (!needs_primitive || padded == call.m) {
    multiply(call, x, w, y);
    return;
  }
  std::vector<std::byte> in = padded_rows(x, call.m, call.k, padded);
  std::vector<std::byte> out(static_cast<std::size_t>(padded * call.n * size_of(y.dtype)));
  const std::int64_t rows = call.m;
  call.m = padded;
  multiply(call, {in.data(), call.k, 1, x.dtype}, w, {out.data(), call.n, 1, y.dtype});
  const std::int64_t line_bytes = call.n * size_of(y.dtype);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(out.data() + row * line_bytes, line_bytes, y.at(row).data);
  }
}

struct Block {
  std::int64_t expert, row, rows, col, cols;
};

std::vector<Block> cut_rows(const std::vector<Group>& groups, std::int64_t cols) {
  const std::int64_t col_blocks = std::max<std::int64_t>(1, (cols + kBlockCols - 1) / kBlockCols);
  const std::int64_t width = round_up((cols + col_blocks - 1) / col_blocks, 16);
  std::vector<Block> blocks;
  for (const Group& group : groups) {
    for (std::int64_t row = 0; row < group.rows; row += kBlockRows) {
      for (std::int64_t col = 0; col < cols; col += width) {
        blocks.push_back({group.expert, group.begin + row, std::min(kBlockRows, group.rows - row),
                          col, std::min(width, cols - col)});
      }
    }
  }
  return blocks;
}

/// c = or += xᵀ (K x rows) · g (rows x N) for one block of K, with c in F32 or F64.
void accumulate_group(ProductCall call, const Operand& x, const Operand& g, const Operand& c) {
  if (x.dtype != DType::kBF16) {
    multiply(call, x.transposed(), g, c);
    return;
  }
  const std::int64_t rows = call.k;
  for (std::int64_t row = 0; row < rows; row += kBlockDepth) {
    const std::int64_t used = std::min(kBlockDepth, rows - row);
    call.k = round_up(used, kDepthMultiple);
    call.target = row == 0 ? Target::kOverwrite : Target::kAccumulate;
    if (call.k == used) {
      multiply(call, x.at(row).transposed(), g.at(row), c);
      continue;
    }
    std::vector<std::byte> left = padded_rows(x.at(row), used, call.m, call.k);
    std::vector<std::byte> right = padded_rows(g.at(row), used, call.n, call.k);
    multiply(call, Operand{left.data(), call.m, 1, x.dtype}.transposed(),
             {right.data(), call.n, 1, g.dtype}, c);
  }
}

}  // namespace

void cpu::grouped_matmul(KernelContext& ctx, const Array& x_TK, const Array& w_EKN,
                         const Array& counts_E, const Array& out_TN) {
  check_grouped_shapes("grouped_matmul", x_TK, w_EKN, counts_E, out_TN);
  check_product_dtypes("grouped_matmul", x_TK, w_EKN, out_TN);
  if (x_TK.dtype() == DType::kF16) {
    const StagedOutput wide(ctx, out_TN, DType::kF32);
    cpu::grouped_matmul(ctx, as_dtype(ctx, x_TK, DType::kF32), as_dtype(ctx, w_EKN, DType::kF32),
                        counts_E, wide.array());
    return wide.finish(ctx);
  }
  const std::vector<Group> groups = read_groups("grouped_matmul", counts_E, x_TK.size(0));
  const std::int64_t used = groups.empty() ? 0 : groups.back().begin + groups.back().rows;
  const std::int64_t cols = out_TN.size(1), depth = x_TK.size(1);
  if (used < out_TN.size(0)) cpu::fill(ctx, 0.0, out_TN.slice(0, used, out_TN.size(0)));
  if (used == 0 || cols == 0) return;
  if (depth == 0) return cpu::fill(ctx, 0.0, out_TN);

  const Array x = with_unit_lines(ctx, x_TK);
  const Array w = takes_operand(depth, cols, Operand::of(w_EKN)) ? w_EKN : contiguous(ctx, w_EKN);
  const bool direct = out_TN.strides()[1] == 1 && out_TN.strides()[0] >= cols;
  const Array out = direct ? out_TN : Array::empty(out_TN.shape(), out_TN.dtype(), ctx.allocator);
  const std::vector<Block> blocks = cut_rows(groups, cols);
  const int threads = product_threads(ctx.threads, {used, cols, depth});
  parallel_tasks(threads, static_cast<std::int64_t>(blocks.size()), [&](std::int64_t index) {
    const Block& block = blocks[static_cast<std::size_t>(index)];
    multiply_rows(
        {.m = block.rows, .n = block.cols, .k = depth, .reuse = ProductCall::Reuse::kUnlikely},
        Operand::of(x).at(block.row),
        Operand::of(w, block.expert * w.strides()[0]).at(0, block.col),
        Operand::of(out).at(block.row, block.col));
  });
  if (!direct) cpu::copy(ctx, out.slice(0, 0, used), out_TN.slice(0, 0, used));
}

void cpu::grouped_matmul_weight_grad(KernelContext& ctx, const Array& x_TK, const Array& grad_TN,
                                     const Array& counts_E, const Array& grad_w_EKN) {
  check_grouped_shapes("grouped_matmul_weight_grad", x_TK, grad_w_EKN, counts_E, grad_TN);
  check_product_dtypes("grouped_matmul_weight_grad", x_TK, grad_TN, grad_w_EKN);
  if (x_TK.dtype() == DType::kF16) {
    const StagedOutput wide(ctx, grad_w_EKN, DType::kF32);
    cpu::grouped_matmul_weight_grad(ctx, as_dtype(ctx, x_TK, DType::kF32),
                                    as_dtype(ctx, grad_TN, DType::kF32), counts_E, wide.array());
    return wide.finish(ctx);
  }
  const std::vector<Group> groups =
      read_groups("grouped_matmul_weight_grad", counts_E, x_TK.size(0));
  const std::int64_t depth = x_TK.size(1), cols = grad_TN.size(1);
  if (grad_w_EKN.num_elements() == 0) return;

  const Array x = with_unit_lines(ctx, x_TK);
  const Array g = with_unit_lines(ctx, grad_TN);
  const bool direct =
      grad_w_EKN.dtype() != DType::kBF16 && takes_operand(depth, cols, Operand::of(grad_w_EKN));
  const std::int64_t blocks = (depth + kBlockDepth - 1) / kBlockDepth;
  const int threads = product_threads(ctx.threads, {x.size(0), depth, cols});
  const auto num_groups = static_cast<std::int64_t>(groups.size());
  parallel_tasks(threads, num_groups * blocks, [&](std::int64_t index) {
    const Group& group = groups[static_cast<std::size_t>(index / blocks)];
    const std::int64_t row = index % blocks * kBlockDepth;
    const std::int64_t rows = std::min(kBlockDepth, depth - row);
    const Array target =
        grad_w_EKN.slice(0, group.expert, group.expert + 1).slice(1, row, row + rows);
    KernelContext single;  // this thread's own
    if (group.rows == 0) return fill(single, 0.0, target);
    const DType sum_type = x.dtype() == DType::kBF16 ? DType::kF32 : x.dtype();
    const Array sum = direct ? target : Array::empty({1, rows, cols}, sum_type);
    accumulate_group(
        {.m = rows, .n = cols, .k = group.rows, .reuse = ProductCall::Reuse::kUnlikely},
        Operand::of(x).at(group.begin, row), Operand::of(g).at(group.begin), Operand::of(sum));
    if (!direct) copy(single, sum, target);
  });
}

}  // namespace tessera::kernels
