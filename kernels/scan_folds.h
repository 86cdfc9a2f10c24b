// kernels/scan_folds.h: how values of a scan join and what it asks of its operands, on every
// device.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/dtype_switch.h"
#include "kernels/reduce_folds.h"
#include "kernels/scan.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {

struct LogSumExpFold {
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  TSR_HOST_DEVICE static double apply(double a, double b) {
    if (a == b && std::isinf(a)) return a;
    if (std::isnan(a) || std::isnan(b)) return a + b;
    return (a > b ? a : b) + std::log1p(std::exp(-std::abs(a - b)));
  }
};

/// Calls f(a fold of Value) for scans of `dtype`, which form in Value: SumType of it. Errors:
/// InvalidArgument for a fold that integers do not have.
template <class Value, class F>
void visit_scan_fold(DType dtype, Scan fold, const F& f) {
  if (fold == Scan::kSum) return f(SumFold<Value>());
  if (fold == Scan::kProd) return f(ProdFold<Value>());
  if constexpr (std::is_floating_point_v<Value>) {
    f(LogSumExpFold());
  } else {
    throw_dtype("scan", dtype, "floating types");
  }
}

/// Whether a value is the extreme beside the best before it: NaN is, and the last of equals.
template <class C>
TSR_HOST_DEVICE bool takes_over(Extreme which, C value, C best) {
  if (value != value) return true;
  if (best != best) return false;
  return which == Extreme::kMax ? value >= best : value <= best;
}

/// What the next step back of a log-sum-exp scan's gradient adds of the sum after it, which stands
/// beside `after_result`.
TSR_HOST_DEVICE inline double log_scan_carry(double result, double after, double after_result) {
  return after == 0.0 ? 0.0 : std::exp(result - after_result) * after;
}

/// Errors: InvalidArgument.
inline void check_log_scan_sums(const Array& grad, const Array& result, const Array& sums) {
  require_shape("log_scan_sums", "result", result, grad.shape());
  require_shape("log_scan_sums", "sums", sums, grad.shape());
  if (sums.dtype() != DType::kF64) throw_dtype("log_scan_sums", sums.dtype(), "F64 for sums");
}

}  // namespace tessera::kernels
