#include "kernels/index_check.h"

#include "absl/strings/str_format.h"
#include "kernels/kernel_table.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {
namespace {

template <class I>
bool all_within(const Array& index, std::int64_t low, std::int64_t high) {
  const StridedLoop loop("index", std::array{&index});
  const I* from = index.data<I>();
  const std::int64_t stride = loop.stride(0, 0);
  std::int64_t least = 0;
  std::int64_t most = -1;
  loop.for_rows(0, loop.total(), [&](const Offsets& offsets, std::int64_t n) {
    const I* row = from + offsets[0];
    if (stride == 1) {
#pragma omp simd reduction(min : least) reduction(max : most)
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t value = row[i];
        least = value < least ? value : least;
        most = value > most ? value : most;
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        least = std::min<std::int64_t>(least, row[i * stride]);
        most = std::max<std::int64_t>(most, row[i * stride]);
      }
    }
  });
  return least >= low && most < high;
}

template <class I>
[[noreturn]] void throw_first_outside(const Array& index, const IndexUse& use, std::int64_t low) {
  Shape coord(index.shape().size(), 0);
  for (std::int64_t position = 0;; ++position) {
    std::int64_t rest = position;
    std::int64_t offset = 0;
    for (std::size_t d = coord.size(); d-- > 0;) {
      coord[d] = rest % index.shape()[d];
      rest /= index.shape()[d];
      offset += coord[d] * index.strides()[d];
    }
    const std::int64_t value = index.data<I>()[offset];
    if (value >= low && value < use.size) continue;
    throw Error(index_outside(use, value, coord));
  }
}

}  // namespace

void check_index_dtype(const Array& index, const IndexUse& use) {
  if (!is_index(index.dtype())) throw_dtype(use.kernel, index.dtype(), "I64, I32 for an index");
}

Status index_outside(const IndexUse& use, std::int64_t value, const Shape& coord) {
  return out_of_range(absl::StrFormat("%s: index %d at position %s lies outside [0, %d)",
                                      to_absl(use.kernel), value, to_string(coord), use.size));
}

void check_index(const Array& index, const IndexUse& use) {
  check_index_dtype(index, use);
  const std::int64_t low = use.absent == Absent::kSkip ? -1 : 0;
  if (index.dtype() == DType::kI64) {
    if (!all_within<std::int64_t>(index, low, use.size)) {
      throw_first_outside<std::int64_t>(index, use, low);
    }
  } else if (!all_within<std::int32_t>(index, low, use.size)) {
    throw_first_outside<std::int32_t>(index, use, low);
  }
}

void cpu::check_indices(KernelContext&, const Array& index, const IndexUse& use) {
  check_index(index, use);
}

}  // namespace tessera::kernels
