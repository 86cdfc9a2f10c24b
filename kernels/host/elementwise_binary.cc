#include <cmath>
#include <string>

#include "kernels/elementwise.h"
#include "kernels/elementwise_ops.h"
#include "kernels/host/block_map.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

using namespace functions;

template <class C>
using BinaryBlock = void (*)(const C* const* in, C* const* out, std::int64_t n);

template <class C, class Op>
void apply_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* a = in[0];
  const C* b = in[1];
  C* to = out[0];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = Op::apply(a[i], b[i]);
}

template <class C, class Op>
void divide_integer_block(const C* const* in, C* const* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (in[1][i] == 0) {
      throw_division_by_zero(Op::kName);
    }
    out[0][i] = Op::apply(in[0][i], in[1][i]);
  }
}

template <class C>
BinaryBlock<C> block_of(Binary op) {
  return visit_binary<C>(op, []<class Op>(Op) -> BinaryBlock<C> {
    if constexpr (kIsInteger<C> && kDividesBy<Op>)
      return divide_integer_block<C, Op>;
    else
      return apply_block<C, Op>;
  });
}

/// Integer division by zero throws, which must not happen inside a parallel region.
int threads_for(const KernelContext& ctx, Binary op, DType compute) {
  const bool may_throw =
      (op == Binary::kFloorDivide || op == Binary::kRemainder) && !is_floating(compute);
  return may_throw ? 1 : ctx.threads;
}

}  // namespace

Array integers_as(KernelContext& ctx, const Array& x, DType dtype) {
  if (is_floating(x.dtype())) return x;
  const Array cast = Array::empty(x.shape(), dtype, ctx.allocator);
  copy(ctx, x, cast);
  return cast;
}

void cpu::binary(KernelContext& ctx, Binary op, const Array& a, const Array& b, const Array& out) {
  const DType promoted = promote(a.dtype(), b.dtype());
  const bool mixed = is_floating(a.dtype()) != is_floating(b.dtype());
  if (mixed && size_of(promoted) == 2) {  // computed in F32, which holds more integers
    return cpu::binary(ctx, op, integers_as(ctx, a, promoted), integers_as(ctx, b, promoted), out);
  }
  const DType compute = compute_dtype(op, promoted, out.dtype());
  const int threads = threads_for(ctx, op, compute);
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    const BinaryBlock<C> block = block_of<C>(op);
    if (out.dtype() == dtype_of<C>() && same_dense(a, out) && same_dense(b, out)) {
      parallel_ranges_inlined(threads, out.num_elements(), 8192, 1,
                              [&](std::int64_t begin, std::int64_t end) {
                                const C* in[] = {a.data<C>() + begin, b.data<C>() + begin};
                                C* to[] = {out.data<C>() + begin};
                                block(in, to, end - begin);
                              });
      return;
    }
    BlockMap<C, 1, 2>(name_of(op), {&out, &a, &b}).run(threads, block);
  });
}

void cpu::binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out) {
  const DType compute = scalar_compute_dtype(op, a.dtype(), b, out.dtype());
  const int threads = threads_for(ctx, op, compute);
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    const BinaryBlock<C> block = block_of<C>(op);
    alignas(64) C scalars[kStagedElements];
    std::fill_n(scalars, std::min(kStagedElements, out.num_elements()), static_cast<C>(b));
    const auto run_block = [&](const C* const* in, C* const* to, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += kStagedElements) {
        const C* inputs[] = {in[0] + i, scalars};
        C* outputs[] = {to[0] + i};
        block(inputs, outputs, std::min(kStagedElements, n - i));
      }
    };
    BlockMap<C, 1, 1>(name_of(op), {&out, &a}).run(threads, run_block);
  });
}

}  // namespace tessera::kernels
