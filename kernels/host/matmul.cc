#include "kernels/matmul.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/matrix_product.h"
#include "kernels/parallel_tasks.h"
#include "kernels/product_checks.h"
#include "kernels/product_plan.h"

namespace tessera::kernels {
namespace {

/// The products of all leading indices of `out`, each in `call`'s form.
class Batch {
 public:
  Batch(const Array& a, const Array& b, const Array& out)
      : a_(a),
        b_(b),
        out_(out),
        a_strides_(batch_strides(a, out)),
        b_strides_(batch_strides(b, out)) {
    for (int dim = 0; dim < out.ndim() - 2; ++dim) count_ *= out.size(dim);
  }
  void run(int threads) const {
    ProductCall call{.m = rows_of(a_), .n = cols_of(b_), .k = cols_of(a_), .threads = threads};
    // Whole products per thread where there are enough of them.
    const bool spread =
        count_ >= 2 * threads && product_threads(threads, {count_, call.m, call.n, call.k}) > 1;
    if (spread) call.threads = 1;
    parallel_tasks(spread ? threads : 1, count_, [&](std::int64_t index) { run_one(call, index); });
  }

 private:
  void run_one(const ProductCall& call, std::int64_t index) const {
    std::int64_t a_offset = 0, b_offset = 0, out_offset = 0;
    for (int dim = out_.ndim() - 3; dim >= 0; --dim) {
      const auto d = static_cast<std::size_t>(dim);
      const std::int64_t at = index % out_.size(dim);
      index /= out_.size(dim);
      a_offset += at * a_strides_[d];
      b_offset += at * b_strides_[d];
      out_offset += at * out_.strides()[d];
    }
    multiply(call, Operand::of(a_, a_offset), Operand::of(b_, b_offset),
             Operand::of(out_, out_offset));
  }

  const Array& a_;
  const Array& b_;
  const Array& out_;
  Shape a_strides_;
  Shape b_strides_;
  std::int64_t count_ = 1;
};

bool is_taken(const Array& x) { return takes_operand(rows_of(x), cols_of(x), Operand::of(x)); }

/// Leading dims of a and out as rows, where b is one matrix and their strides allow it.
bool collapse(Array& a, Array& b, Array& out) {
  if (a.ndim() == 2 && b.ndim() == 2) return true;
  for (int dim = 0; dim < b.ndim() - 2; ++dim) {
    if (b.size(dim) != 1) return false;
  }
  if (a.ndim() != out.ndim()) return false;
  for (int dim = 0; dim < a.ndim() - 2; ++dim) {
    if (a.size(dim) != out.size(dim)) return false;
  }
  const std::int64_t rows = num_elements({out.shape().data(), out.shape().size() - 1});
  const Array rows_a = a.try_view({rows, cols_of(a)});
  const Array rows_out = out.try_view({rows, cols_of(out)});
  const Array one_b = b.try_view({rows_of(b), cols_of(b)});
  if (rows_a.is_null() || rows_out.is_null() || one_b.is_null()) return false;
  // A single row is dense whatever lies between its elements, several are not.
  if (!is_taken(rows_a) || !is_taken(rows_out)) return false;
  a = rows_a;
  b = one_b;
  out = rows_out;
  return true;
}

void run_batch(KernelContext& ctx, Array a, Array b, Array out) {
  if (!collapse(a, b, out)) {
    Batch(a, b, out).run(ctx.threads);
    return;
  }
  multiply({.m = a.size(0), .n = b.size(1), .k = a.size(1), .threads = ctx.threads}, Operand::of(a),
           Operand::of(b), Operand::of(out));
}

}  // namespace

void cpu::matmul(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  check_product_dtypes("matmul", a, b, out);
  check_product_shapes(a, b, out);
  if (out.num_elements() == 0) return;
  if (cols_of(a) == 0) {
    cpu::fill(ctx, 0.0, out);
    return;
  }
  if (a.dtype() == DType::kF16) {  // the library's products of F16 need newer processors
    const StagedOutput wide(ctx, out, DType::kF32);
    cpu::matmul(ctx, as_dtype(ctx, a, DType::kF32), as_dtype(ctx, b, DType::kF32), wide.array());
    return wide.finish(ctx);
  }
  const Array ready_a = is_taken(a) ? a : contiguous(ctx, a);
  const Array ready_b = is_taken(b) ? b : contiguous(ctx, b);
  if (is_taken(out)) {
    run_batch(ctx, ready_a, ready_b, out);
    return;
  }
  const Array dense = Array::empty(out.shape(), out.dtype(), ctx.allocator);
  run_batch(ctx, ready_a, ready_b, dense);
  cpu::copy(ctx, dense, out);
}

}  // namespace tessera::kernels
