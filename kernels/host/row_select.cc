#include "kernels/row_select.h"

#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/index_functions.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/parallel_loop.h"
#include "kernels/row_ranks.h"
#include "kernels/select_keys.h"

namespace tessera::kernels {
namespace {

struct Entry {
  std::uint64_t key;
  std::int64_t index;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};
using Row = std::vector<Entry>;

template <class T>
bool is_nan(T value) {
  const auto wide = convert<ComputeType<T>>(value);
  return wide != wide;
}

/// Writes, for every row, the element that `pick` names: pick(entries in order of index, numbers
/// among them) → index.
template <class Pick>
void pick_each(KernelContext& ctx, const Array& x, const Array& values, const Array& indices,
               const Pick& pick) {
  const int last = x.ndim() - 1;
  const Shape kept = without_dim(x.shape(), last);
  check_row_select(kept, values, indices);
  const std::int64_t n = x.size(last);
  const std::int64_t stride = x.strides()[static_cast<std::size_t>(last)];
  const LineOffsets<3> lines(kept,
                             {without_dim(x.strides(), last), values.strides(), indices.strides()});
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_ranges(
        ctx.threads, lines.count(), 1, 8 * n, [&](std::int64_t begin, std::int64_t end) {
          Row row(static_cast<std::size_t>(n));
          for (std::int64_t line = begin; line < end; ++line) {
            const auto at = lines.at(line);
            const T* from = x.data<T>() + at[0];
            std::int64_t numbers = 0;
            for (std::int64_t i = 0; i < n; ++i) {
              const T value = from[i * stride];
              if (!is_nan(value)) ++numbers;
              row[static_cast<std::size_t>(i)] = {rank_key(value, Order::kDescending), i};
            }
            const std::int64_t chosen = pick(row, numbers);
            values.data<T>()[at[1]] = from[chosen * stride];
            indices.data<std::int64_t>()[at[2]] = chosen;
          }
        });
  });
}

std::int64_t index_of_rank(Row& row, std::int64_t rank) {
  std::nth_element(row.begin(), row.begin() + rank, row.end());
  return row[static_cast<std::size_t>(rank)].index;
}

/// The end of the first of the longest runs of equal keys.
std::int64_t index_of_mode(Row& row) {
  std::sort(row.begin(), row.end());
  std::size_t longest = 0, at = 0;
  for (std::size_t begin = 0; begin < row.size();) {
    std::size_t end = begin + 1;
    while (end < row.size() && row[end].key == row[begin].key) ++end;
    if (end - begin > longest) {
      longest = end - begin;
      at = end - 1;
    }
    begin = end;
  }
  return row[at].index;
}

}  // namespace

void cpu::kth_value(KernelContext& ctx, const Array& x, std::int64_t k, const Array& values,
                    const Array& indices) {
  pick_each(ctx, x, values, indices,
            [k](Row& row, std::int64_t) { return index_of_rank(row, k - 1); });
}

void cpu::median(KernelContext& ctx, NanRows nan, const Array& x, const Array& values,
                 const Array& indices) {
  pick_each(ctx, x, values, indices, [nan](Row& row, std::int64_t numbers) {
    return index_of_rank(row, median_rank(nan, numbers, std::ssize(row)));
  });
}

void cpu::mode(KernelContext& ctx, const Array& x, const Array& values, const Array& indices) {
  pick_each(ctx, x, values, indices, [](Row& row, std::int64_t) { return index_of_mode(row); });
}

void cpu::histogram(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  const Array dense = contiguous(ctx, x);
  const std::int64_t bins = out.size(0);
  const Bins equal(low, high, bins);
  std::vector<double> counts(static_cast<std::size_t>(bins), 0.0);
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = dense.data<T>();
    for (std::int64_t i = 0; i < dense.num_elements(); ++i) {
      const auto value = convert<double>(from[i]);
      if (equal.holds(value)) counts[static_cast<std::size_t>(equal.bin_of(value))] += 1.0;
    }
  });
  cpu::copy(ctx, Array::from_values({bins}, DType::kF64, counts), out);
}

}  // namespace tessera::kernels
