#include "kernels/host/dim_lines.h"

namespace tessera::kernels {

DimLines::DimLines(int dim, std::initializer_list<const Array*> arrays)
    : operands_(static_cast<int>(arrays.size())) {
  const Array& first = **arrays.begin();
  for (int d = first.ndim() - 1; d >= 0; --d) {
    if (d == dim) continue;
    size_[ndim_] = first.size(d);
    count_ *= first.size(d);
    int k = 0;
    for (const Array* array : arrays) stride_[k++][ndim_] = array->strides()[d];
    ++ndim_;
  }
  int k = 0;
  for (const Array* array : arrays) {
    line_stride_[k++] = array->strides()[dim];
    line_elements_ = std::max(line_elements_, array->size(dim));
  }
}

}  // namespace tessera::kernels
