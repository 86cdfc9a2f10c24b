// kernels/row_folds.h: the folds of fold_rows(): where each starts, how an element joins, and how
// two results do, on every device.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/host_device.h"
#include "kernels/row_fold.h"

namespace tessera::kernels::row_folds {

struct Sum {
  static constexpr double kStart = 0.0;
  TSR_HOST_DEVICE static double join(double a, double b) { return a + b; }
};
struct SumNumbers : Sum {
  TSR_HOST_DEVICE double step(double a, double v) const { return std::isnan(v) ? a : a + v; }
};
struct CountNumbers : Sum {
  TSR_HOST_DEVICE double step(double a, double v) const { return std::isnan(v) ? a : a + 1.0; }
};
struct CountNonzero : Sum {
  TSR_HOST_DEVICE double step(double a, double v) const { return v != 0.0 ? a + 1.0 : a; }
};
struct SumAbs : Sum {
  TSR_HOST_DEVICE double step(double a, double v) const { return a + std::abs(v); }
};
struct SumSquares : Sum {
  TSR_HOST_DEVICE double step(double a, double v) const { return a + v * v; }
};
struct SumAbsPower : Sum {
  double power;
  explicit SumAbsPower(double of) : power(of) {}
  TSR_HOST_DEVICE double step(double a, double v) const { return a + std::pow(std::abs(v), power); }
};
struct Any {
  static constexpr double kStart = 0.0;
  TSR_HOST_DEVICE double step(double a, double v) const { return v != 0.0 ? 1.0 : a; }
  TSR_HOST_DEVICE static double join(double a, double b) { return b != 0.0 ? b : a; }
};
struct All {
  static constexpr double kStart = 1.0;
  TSR_HOST_DEVICE double step(double a, double v) const { return v != 0.0 ? a : 0.0; }
  TSR_HOST_DEVICE static double join(double a, double b) { return b != 0.0 ? a : b; }
};
struct MaxAbs {
  static constexpr double kStart = 0.0;
  TSR_HOST_DEVICE double step(double a, double v) const {
    return std::abs(v) <= a || a != a ? a : std::abs(v);
  }
  TSR_HOST_DEVICE static double join(double a, double b) { return b <= a || a != a ? a : b; }
};
struct MinAbs {
  static constexpr double kStart = std::numeric_limits<double>::infinity();
  TSR_HOST_DEVICE double step(double a, double v) const {
    return std::abs(v) >= a || a != a ? a : std::abs(v);
  }
  TSR_HOST_DEVICE static double join(double a, double b) { return b >= a || a != a ? a : b; }
};

/// f(the fold).
template <class F>
void visit(RowFolding folding, const F& f) {
  switch (folding.fold) {
    case RowFold::kSumNumbers:
      return f(SumNumbers{});
    case RowFold::kCountNumbers:
      return f(CountNumbers{});
    case RowFold::kCountNonzero:
      return f(CountNonzero{});
    case RowFold::kAny:
      return f(Any{});
    case RowFold::kAll:
      return f(All{});
    case RowFold::kSumAbs:
      return f(SumAbs{});
    case RowFold::kSumSquares:
      return f(SumSquares{});
    case RowFold::kSumAbsPower:
      return f(SumAbsPower{folding.power});
    case RowFold::kMaxAbs:
      return f(MaxAbs{});
    case RowFold::kMinAbs:
      return f(MinAbs{});
  }
}

}  // namespace tessera::kernels::row_folds
