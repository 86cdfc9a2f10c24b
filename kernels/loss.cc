#include "kernels/loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/lines.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
double bounded_log(double x) { return std::max(std::log(x), -100.0); }

// One struct per loss: its value, its slopes by input and by target.
struct Squared {
  static double value(double x, double t, double) { return (x - t) * (x - t); }
  static double by_input(double x, double t, double) { return 2.0 * (x - t); }
  static double by_target(double x, double t, double) { return 2.0 * (t - x); }
};
struct Absolute {
  static double value(double x, double t, double) { return std::abs(x - t); }
  static double by_input(double x, double t, double) { return sign(x - t); }
  static double by_target(double x, double t, double) { return sign(t - x); }
};
struct SmoothAbsolute {
  static double value(double x, double t, double beta) {
    const double gap = std::abs(x - t);
    return gap < beta ? 0.5 * gap * gap / beta : gap - 0.5 * beta;
  }
  static double by_input(double x, double t, double beta) {
    return std::abs(x - t) < beta ? (x - t) / beta : sign(x - t);
  }
  static double by_target(double x, double t, double beta) { return -by_input(x, t, beta); }
};
struct Huber {
  static double value(double x, double t, double delta) {
    const double gap = std::abs(x - t);
    return gap <= delta ? 0.5 * gap * gap : delta * (gap - 0.5 * delta);
  }
  static double by_input(double x, double t, double delta) {
    return std::abs(x - t) <= delta ? x - t : delta * sign(x - t);
  }
  static double by_target(double x, double t, double delta) { return -by_input(x, t, delta); }
};
struct CrossEntropy {
  static double value(double x, double t, double) {
    return -t * bounded_log(x) - (1.0 - t) * bounded_log(1.0 - x);
  }
  static double by_input(double x, double t, double) {
    return (x - t) / std::max(x * (1.0 - x), 1e-12);
  }
  static double by_target(double x, double, double) {
    return bounded_log(1.0 - x) - bounded_log(x);
  }
};
struct LogitCrossEntropy {
  static double value(double x, double t, double) {
    return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
  }
  static double by_input(double x, double t, double) { return sigmoid(x) - t; }
  static double by_target(double x, double, double) { return -x; }
};
struct SoftMargin {
  static double value(double x, double t, double) {
    return std::max(-t * x, 0.0) + std::log1p(std::exp(-std::abs(t * x)));
  }
  static double by_input(double x, double t, double) { return -t * sigmoid(-t * x); }
  static double by_target(double x, double t, double) { return -x * sigmoid(-t * x); }
};
struct Divergence {
  static double value(double x, double t, double) { return t == 0.0 ? 0.0 : t * (std::log(t) - x); }
  static double by_input(double, double t, double) { return -t; }
  static double by_target(double x, double t, double) {
    return t == 0.0 ? 0.0 : std::log(t) + 1.0 - x;
  }
};
struct Poisson {
  static double value(double x, double t, double) { return std::exp(x) - t * x; }
  static double by_input(double x, double t, double) { return std::exp(x) - t; }
  static double by_target(double x, double, double) { return -x; }
};

template <class F>
void visit_loss(Loss loss, const F& f) {
  switch (loss) {
    case Loss::kSquared:
      return f(Squared());
    case Loss::kAbsolute:
      return f(Absolute());
    case Loss::kSmoothAbsolute:
      return f(SmoothAbsolute());
    case Loss::kHuber:
      return f(Huber());
    case Loss::kCrossEntropy:
      return f(CrossEntropy());
    case Loss::kLogitCrossEntropy:
      return f(LogitCrossEntropy());
    case Loss::kSoftMargin:
      return f(SoftMargin());
    case Loss::kDivergence:
      return f(Divergence());
    case Loss::kPoisson:
      return f(Poisson());
  }
}

/// f(x, t) for each element, as F64; `out` has the operands' shape.
template <class F>
void map_pairs(KernelContext& ctx, const Array& input, const Array& target, const Array& out,
               const F& f) {
  check_shape("loss", "target", target, input.shape());
  check_shape("loss", "out", out, input.shape());
  const Array x = contiguous(ctx, as_dtype(ctx, input, DType::kF64));
  const Array t = contiguous(ctx, as_dtype(ctx, target, DType::kF64));
  const bool direct = out.dtype() == DType::kF64 && out.is_contiguous();
  const Array result = direct ? out : Array::empty(out.shape(), DType::kF64, ctx.allocator);
  const double *from = x.data<double>(), *other = t.data<double>();
  double* to = result.data<double>();
  parallel_ranges(ctx.threads, out.num_elements(), 1024, 8,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) to[i] = f(from[i], other[i]);
                  });
  if (!direct) copy(ctx, result, out);
}

}  // namespace

void loss(KernelContext& ctx, LossForm form, const Array& input, const Array& target,
          const Array& out) {
  visit_loss(form.loss, [&]<class Form>(Form) {
    map_pairs(ctx, input, target, out,
              [&](double x, double t) { return Form::value(x, t, form.parameter); });
  });
}

void loss_grad(KernelContext& ctx, LossForm form, LossOperand operand, const LossSlope& arrays,
               const Array& out) {
  visit_loss(form.loss, [&]<class Form>(Form) {
    map_pairs(ctx, arrays.input, arrays.target, out, [&](double x, double t) {
      return operand == LossOperand::kInput ? Form::by_input(x, t, form.parameter)
                                            : Form::by_target(x, t, form.parameter);
    });
  });
  binary(ctx, Binary::kMul, out, arrays.grad, out);
}

}  // namespace tessera::kernels
