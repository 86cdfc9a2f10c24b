#include "kernels/matrix_product.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/host/dnnl_product.h"
#include "kernels/host/gemm.h"
#include "kernels/parallel_tasks.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

template <class T>
MatrixView<const T> input_view(const Operand& m) {
  return {reinterpret_cast<const T*>(m.data), m.row_stride, m.col_stride};
}
template <class T>
MatrixView<T> output_view(const Operand& m) {
  return {reinterpret_cast<T*>(m.data), m.row_stride, m.col_stride};
}

void multiply_by_primitive(const ProductCall& call, const Operand& a, const Operand& b,
                           const Operand& c) {
  dnnl_product(
      {.m = call.m,
       .n = call.n,
       .k = call.k,
       .a_strides = {a.row_stride, a.col_stride},
       .b_strides = {b.row_stride, b.col_stride},
       .c_line_stride = c.row_stride,
       .in = a.dtype,
       .out = c.dtype,
       .accumulate = call.target == Target::kAccumulate ? Accumulate::kYes : Accumulate::kNo,
       .threads = call.threads},
      a.data, b.data, c.data);
}

/// F32 without a set-up: as fast as a primitive but for few rows against a large matrix.
bool prefers_plain_gemm(const ProductCall& call) {
  constexpr std::int64_t kFewRows = 64;
  constexpr std::int64_t kSmall = 48 * 48 * 48;
  if (call.m * call.n * call.k <= kSmall) return true;
  return call.reuse == ProductCall::Reuse::kUnlikely && call.m >= kFewRows;
}

bool is_line_major(std::int64_t rows, std::int64_t cols, const Operand& c) {
  return (c.col_stride == 1 || cols == 1) && (c.row_stride >= cols || rows == 1);
}

}  // namespace

Operand Operand::of(const Array& array, std::int64_t offset) {
  const auto ndim = array.strides().size();
  return {array.bytes() + offset * size_of(array.dtype()), array.strides()[ndim - 2],
          array.strides()[ndim - 1], array.dtype()};
}

bool takes_operand(std::int64_t rows, std::int64_t cols, const Operand& operand) noexcept {
  return operand.dtype == DType::kF64 ||
         is_dense_matrix(rows, cols, operand.row_stride, operand.col_stride);
}

void check_product_dtypes(const char* op, const Array& a, const Array& b, const Array& out) {
  const bool widened = is_half(a.dtype()) && out.dtype() == DType::kF32;
  if (is_floating(a.dtype()) && a.dtype() == b.dtype() && (out.dtype() == a.dtype() || widened)) {
    return;
  }
  throw Error(invalid_argument(
      absl::StrFormat("%s: operands %s and %s into %s; both must be of one floating dtype, and the "
                      "result of it, or "
                      "F32 for BF16 and F16 operands",
                      op, name_of(a.dtype()), name_of(b.dtype()), name_of(out.dtype()))));
}

void multiply(ProductCall call, Operand a, Operand b, Operand c) {
  if (call.m == 0 || call.n == 0) return;
  if (!is_line_major(call.m, call.n, c)) {  // cᵀ = bᵀ·aᵀ
    std::swap(a, b);
    a = a.transposed();
    b = b.transposed();
    c = c.transposed();
    std::swap(call.m, call.n);
  }
  call.threads = product_threads(call.threads, {call.m, call.n, call.k});
  const GemmCall plain{.m = call.m,
                       .n = call.n,
                       .k = call.k,
                       .beta = call.target == Target::kAccumulate ? 1.0 : 0.0,
                       .threads = call.threads};
  if (a.dtype == DType::kF64) {
    gemm(plain, input_view<double>(a), input_view<double>(b), output_view<double>(c));
  } else if (a.dtype == DType::kF32 && (prefers_plain_gemm(call) || call.k == 0)) {
    gemm(plain, input_view<float>(a), input_view<float>(b), output_view<float>(c));
  } else {
    multiply_by_primitive(call, a, b, c);
  }
}

}  // namespace tessera::kernels
