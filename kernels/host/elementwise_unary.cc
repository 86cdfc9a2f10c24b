#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/elementwise_ops.h"
#include "kernels/host/block_map.h"
#include "kernels/host/vector_sqrt.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

using namespace functions;

template <class C>
using UnaryBlock = void (*)(const C* const* in, C* const* out, std::int64_t n);

template <class C, class Op>
void apply_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* x = in[0];
  C* to = out[0];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = Op::apply(x[i]);
}

template <class C>
void sqrt_block(const C* const* in, C* const* out, std::int64_t n) {
  square_roots(in[0], out[0], n);
}

template <class C>
void rsqrt_block(const C* const* in, C* const* out, std::int64_t n) {
  constexpr std::int64_t kCached = 1024;
  for (std::int64_t begin = 0; begin < n; begin += kCached) {
    const std::int64_t count = std::min(kCached, n - begin);
    C* to = out[0] + begin;
    square_roots(in[0] + begin, to, count);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = C{1} / to[i];
  }
}

template <class C>
UnaryBlock<C> block_of(Unary op) {
  return visit_unary<C>(op, []<class Op>(Op) -> UnaryBlock<C> {
    if constexpr (std::is_same_v<Op, Sqrt>)
      return sqrt_block<C>;
    else if constexpr (std::is_same_v<Op, Rsqrt>)
      return rsqrt_block<C>;
    else
      return apply_block<C, Op>;
  });
}

}  // namespace

void cpu::unary(KernelContext& ctx, Unary op, const Array& x, const Array& out) {
  visit_compute_type(compute_dtype(op, x.dtype(), out.dtype()), [&]<class C>(TypeTag<C>) {
    const UnaryBlock<C> block = block_of<C>(op);
    if (out.dtype() == dtype_of<C>() && same_dense(x, out)) {
      parallel_ranges_inlined(ctx.threads, out.num_elements(), 8192, 1,
                              [&](std::int64_t begin, std::int64_t end) {
                                const C* in[] = {x.data<C>() + begin};
                                C* to[] = {out.data<C>() + begin};
                                block(in, to, end - begin);
                              });
      return;
    }
    BlockMap<C, 1, 1>(name_of(op), {&out, &x}).run(ctx.threads, block);
  });
}

}  // namespace tessera::kernels
