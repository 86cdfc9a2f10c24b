// kernels/pool.h: maxima and averages over sliding windows of the last two dims; in one dim with a
// height of 1. x (…, H, W) of a floating dtype, out (…, OH, OW). Positions outside x do not take
// part.
#pragma once

#include "kernels/array.h"
#include "kernels/window.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// The largest element of each window, and where it stands: row · W + column of the whole input,
/// the first of equals; NaN counts as largest. `indices` (I64) may be null.
void max_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Array& out,
              const Array& indices);
/// grad_x = each window's cotangent at its largest element.
void max_pool_grad(KernelContext& ctx, const Array& grad, const Array& x, const WindowPlane& window,
                   const Array& grad_x);

/// By what a window's sum is divided.
struct Divisor {
  enum class Kind : std::uint8_t {
    kRead,    ///< the positions inside x
    kPadded,  ///< those of the padding too, as far as it reaches
    kFixed
  } kind = Kind::kRead;
  double value = 1.0;  ///< kFixed
};
void avg_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Divisor& divisor,
              const Array& out);
void avg_pool_grad(KernelContext& ctx, const Array& grad, const WindowPlane& window,
                   const Divisor& divisor, const Array& grad_x);

}  // namespace kernels
}  // namespace tessera
