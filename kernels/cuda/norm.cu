// Softmax, RMS norm, rotations and the pieces of a cross-entropy: a warp a line.
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/lines.h"
#include "kernels/norm_checks.h"
#include "kernels/vector_math.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

__device__ inline float exp_of(float x) { return exp_f32(x); }
__device__ inline double exp_of(double x) { return std::exp(x); }

template <class C, int kOperands>
__device__ C max_of_line(const Lines<kOperands>& line, int operand) {
  C max = -std::numeric_limits<C>::infinity();
  for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
    const C value = line.template get<C>(operand, i);
    max = value > max || value != value ? value : max;
  }
  return warp_max(max);
}
template <class C, int kOperands>
__device__ C sum_exp_of_line(const Lines<kOperands>& line, int operand, C shift) {
  C sum = 0;
  for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
    sum += exp_of(line.template get<C>(operand, i) - shift);
  }
  return warp_sum(sum);
}

// Operands: out, x.
template <class C>
struct Softmax {
  __device__ void operator()(const Lines<2>& line) const {
    const C max = max_of_line<C>(line, 1);
    const C scale = C(1) / sum_exp_of_line<C>(line, 1, max);
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      line.set(0, i, exp_of(line.get<C>(1, i) - max) * scale);
    }
  }
};
template <class C>
struct LogSoftmax {
  __device__ void operator()(const Lines<2>& line) const {
    const C max = max_of_line<C>(line, 1);
    const C log_sum = std::log(sum_exp_of_line<C>(line, 1, max));
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      line.set(0, i, (line.get<C>(1, i) - max) - log_sum);
    }
  }
};
// Operands: grad_x, grad, out.
template <class C>
struct SoftmaxGrad {
  __device__ void operator()(const Lines<3>& line) const {
    C inner = 0;
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      inner += line.get<C>(1, i) * line.get<C>(2, i);
    }
    inner = warp_sum(inner);
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      line.set(0, i, line.get<C>(2, i) * (line.get<C>(1, i) - inner));
    }
  }
};

// Operands: out, rstd, x, weight.
template <class C>
struct RmsNorm {
  double eps;
  __device__ void operator()(const Lines<4>& line) const {
    C squares = 0;
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      const C value = line.get<C>(2, i);
      squares += value * value;
    }
    const C mean = warp_sum(squares) / static_cast<C>(line.n);
    const C rstd = C(1) / std::sqrt(mean + static_cast<C>(eps));
    if (line.lane == 0) line.set(1, 0, rstd);
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      line.set(0, i, line.get<C>(2, i) * rstd * line.get<C>(3, i));
    }
  }
};
// Operands: grad_x, grad, x, rstd, weight.
template <class C>
struct RmsNormGrad {
  __device__ void operator()(const Lines<5>& line) const {
    C inner = 0;
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      inner += line.get<C>(1, i) * line.get<C>(4, i) * line.get<C>(2, i);
    }
    inner = warp_sum(inner);
    const C rstd = line.get<C>(3, 0);
    const C slope = rstd * rstd * rstd * inner / static_cast<C>(line.n);
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      line.set(0, i, line.get<C>(1, i) * line.get<C>(4, i) * rstd - line.get<C>(2, i) * slope);
    }
  }
};

// Operands: rows, logits.
template <class C>
struct RowMax {
  __device__ void operator()(const Lines<2>& line) const {
    const C max = max_of_line<C>(line, 1);
    if (line.lane == 0) line.set(0, 0, max);
  }
};
// Operands: rows, max, logits.
template <class C>
struct RowSumExp {
  __device__ void operator()(const Lines<3>& line) const {
    const C sum = sum_exp_of_line<C>(line, 2, line.get<C>(1, 0));
    if (line.lane == 0) line.set(0, 0, sum);
  }
};

// Operands: rows, logits, ids.
template <class C>
struct RowTarget {
  FaultWord fault;
  __device__ void operator()(const Lines<3>& line) const {
    if (line.lane != 0) return;
    const auto id = line.get<std::int64_t>(2, 0);
    const bool is_held = id >= 0 && id < line.n;
    if (!is_held && id != -1) fault.note(line.offsets[2]);
    line.set(0, 0, is_held ? line.get<C>(1, id) : C{0});
  }
};
// Operands: grad_logits, logits, lse, grad, ids.
template <class C>
struct CrossEntropyGrad {
  FaultWord fault;
  __device__ void operator()(const Lines<5>& line) const {
    const auto id = line.get<std::int64_t>(4, 0);
    if (line.lane == 0 && (id < -1 || id >= line.n)) fault.note(line.offsets[4]);
    const C lse = line.get<C>(2, 0), grad = line.get<C>(3, 0);
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      const C share = exp_of(line.get<C>(1, i) - lse) - (i == id ? C{1} : C{0});
      line.set(0, i, share * grad);
    }
  }
};

// Operands: out, x, cos, sin.
template <class C>
struct Rope {
  C direction;  // of the sines: 1, or −1 for the inverse
  __device__ void operator()(const Lines<4>& line) const {
    for (std::int64_t i = line.lane; i < line.n / 2; i += kLanes) {
      const C a = line.get<C>(1, 2 * i), b = line.get<C>(1, 2 * i + 1);
      const C cos = line.get<C>(2, i), sin = direction * line.get<C>(3, i);
      line.set(0, 2 * i, a * cos - b * sin);
      line.set(0, 2 * i + 1, a * sin + b * cos);
    }
  }
};

// grad_weight as the processor has it: rows of a bundle in C, bundles of a task in F64, tasks in
// order.
constexpr std::int64_t kBundleRows = 64;
constexpr std::int64_t kMostTasks = 64;

constexpr int kColumns = kLanes;
#ifdef __CUDACC__
constexpr int kBundlesAtOnce = 8;
#else
constexpr int kBundlesAtOnce = 2;
#endif

/// Dense rows of n, and a number of each.
template <class C, class T>
struct NormRows {
  const T *grad, *x;
  const C* rstd;
  std::int64_t rows, n;
};

template <class C, class T>
__device__ C sum_bundle(const NormRows<C, T>& of, std::int64_t column, std::int64_t begin,
                        std::int64_t end) {
  constexpr int kInFlight = 8;
  C sum = 0;
  for (std::int64_t first = begin; first < end; first += kInFlight) {
    C grad[kInFlight], x[kInFlight], rstd[kInFlight];
    TSR_UNROLL
    for (int r = 0; r < kInFlight; ++r) {
      const std::int64_t row = first + r < end ? first + r : end - 1;
      grad[r] = convert<C>(of.grad[row * of.n + column]);
      x[r] = convert<C>(of.x[row * of.n + column]);
      rstd[r] = of.rstd[row];
    }
    TSR_UNROLL
    for (int r = 0; r < kInFlight; ++r) {
      if (first + r < end) sum += grad[r] * (x[r] * rstd[r]);
    }
  }
  return sum;
}

/// Block (b, t) has columns from b · kColumns of task t; a thread for each of some bundles.
template <class C, class T>
__global__ void sum_weight_grads(NormRows<C, T> of, std::int64_t rows_a_task, double* sums) {
  TSR_SHARED(C, bundles, [kBundlesAtOnce][kColumns]);
  const int lane = static_cast<int>(threadIdx.x) % kColumns;
  const int own = static_cast<int>(threadIdx.x) / kColumns;
  const int at_once = static_cast<int>(blockDim.x) / kColumns;
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + lane;
  const std::int64_t begin = blockIdx.y * rows_a_task;
  const std::int64_t end = begin + rows_a_task < of.rows ? begin + rows_a_task : of.rows;
  double sum = 0.0;
  for (std::int64_t first = begin; first < end; first += at_once * kBundleRows) {
    const std::int64_t from = first + own * kBundleRows;
    const std::int64_t to = from + kBundleRows < end ? from + kBundleRows : end;
    bundles[own][lane] = column < of.n && from < end ? sum_bundle(of, column, from, to) : C{0};
    __syncthreads();
    if (own == 0) {
      for (int b = 0; b < at_once; ++b) sum += static_cast<double>(bundles[b][lane]);
    }
    __syncthreads();
  }
  if (own == 0 && column < of.n) sums[blockIdx.y * of.n + column] = sum;
}
__global__ void add_tasks(const double* sums, std::int64_t tasks, std::int64_t n, double* total) {
  constexpr int kInFlight = 16;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; column < n; column += step) {
    double sum = 0.0;
    for (std::int64_t first = 0; first < tasks; first += kInFlight) {
      double of_task[kInFlight];
      TSR_UNROLL
      for (int t = 0; t < kInFlight; ++t) {
        of_task[t] = first + t < tasks ? sums[(first + t) * n + column] : 0.0;
      }
      TSR_UNROLL
      for (int t = 0; t < kInFlight; ++t) sum += of_task[t];
    }
    total[column] = sum;
  }
}

template <class C, class T>
void launch_weight_grads(KernelContext& ctx, const NormRows<C, T>& of, const Array& grad_weight) {
  const std::int64_t bundles = (of.rows + kBundleRows - 1) / kBundleRows;
  const std::int64_t bundles_a_task = (bundles + kMostTasks - 1) / kMostTasks;
  const std::int64_t tasks = (bundles + bundles_a_task - 1) / bundles_a_task;
  const Shape line(1, of.n), task_lines = {tasks, of.n};
  const Array total = Array::empty(line, DType::kF64, ctx.allocator);
  const Array sums = Array::empty(task_lines, DType::kF64, ctx.allocator);
  const auto at_once =
      static_cast<unsigned>(std::min<std::int64_t>(bundles_a_task, kBundlesAtOnce));
  const Grid grid{.blocks = {static_cast<unsigned>((of.n + kColumns - 1) / kColumns),
                             static_cast<unsigned>(tasks)},
                  .threads = kColumns * at_once};
  {
    const Current current(*ctx.device);
    check(launch<sum_weight_grads<C, T>>(grid, stream_of(ctx), of, bundles_a_task * kBundleRows,
                                         device_data<double>(sums)),
          *ctx.device, "rms_norm_grad");
    check(launch<add_tasks>(grid_for(of.n), stream_of(ctx), device_data<double>(sums), tasks, of.n,
                            device_data<double>(total)),
          *ctx.device, "rms_norm_grad");
  }
  copy(ctx, total, grad_weight);
}

template <class C>
void write_weight_grad(KernelContext& ctx, const Array& grad, const Array& x, const Array& rstd,
                       const Array& grad_weight) {
  const std::int64_t n = x.size(x.ndim() - 1);
  if (n == 0) return;
  const std::int64_t rows = x.num_elements() / n;
  if (rows == 0) return fill(ctx, 0.0, grad_weight);
  const auto dense = [&](const Array& array, DType dtype) {
    return contiguous(ctx, as_dtype(ctx, array, dtype));
  };
  const auto run = [&]<class T>(TypeTag<T>) {
    const Array dense_grad = dense(grad, dtype_of<T>()), dense_x = dense(x, dtype_of<T>()),
                scale = dense(rstd, dtype_of<C>());
    launch_weight_grads<C, T>(ctx,
                              {.grad = device_data<T>(dense_grad),
                               .x = device_data<T>(dense_x),
                               .rstd = device_data<C>(scale),
                               .rows = rows,
                               .n = n},
                              grad_weight);
  };
  if constexpr (std::is_same_v<C, float>) {
    if (grad.dtype() == x.dtype() && x.dtype() == DType::kBF16) return run(TypeTag<BFloat16>{});
    if (grad.dtype() == x.dtype() && x.dtype() == DType::kF16) return run(TypeTag<Float16>{});
  }
  run(TypeTag<C>{});
}

/// Ids as contiguous I64, and where a bad one is noted: its offset there is its position.
struct Targets {
  Array ids;
  FaultWord fault;
};
Targets read_targets(KernelContext& ctx, const char* op, const Array& target,
                     std::int64_t classes) {
  check_target_dtype(op, target);
  const Array ids = contiguous(ctx, as_dtype(ctx, target, DType::kI64));
  return {ids, device_of(ctx).next_fault_word([ids, op, classes](std::int64_t position) {
            return bad_target(op, integer_at(ids, position), position, classes);
          })};
}

}  // namespace

void softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  const int along = checked_dim("softmax", dim, x, out);
  visit_float_type(common_floating("softmax", {x.dtype(), out.dtype()}), [&]<class C>(TypeTag<C>) {
    run_lines<2>(ctx, "softmax", {{{out, along}, {x, along}}}, Softmax<C>{});
  });
}

void log_softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  const int along = checked_dim("log_softmax", dim, x, out);
  visit_float_type(
      common_floating("log_softmax", {x.dtype(), out.dtype()}), [&]<class C>(TypeTag<C>) {
        run_lines<2>(ctx, "log_softmax", {{{out, along}, {x, along}}}, LogSoftmax<C>{});
      });
}

void softmax_grad(KernelContext& ctx, const Array& grad, const Array& out, int dim,
                  const Array& grad_x) {
  check_shape("softmax_grad", "grad", grad, out.shape());
  const int along = checked_dim("softmax_grad", dim, out, grad_x);
  const DType dtype = common_floating("softmax_grad", {grad.dtype(), out.dtype(), grad_x.dtype()});
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    run_lines<3>(ctx, "softmax_grad", {{{grad_x, along}, {grad, along}, {out, along}}},
                 SoftmaxGrad<C>{});
  });
}

void rms_norm(KernelContext& ctx, const Array& x, const Array& weight, double eps, const Array& out,
              const Array& rstd) {
  check_norm("rms_norm", x, weight, rstd);
  check_shape("rms_norm", "out", out, x.shape());
  const int last = x.ndim() - 1;
  const DType dtype = common_floating("rms_norm", {x.dtype(), out.dtype()});
  common_floating("rms_norm", {weight.dtype(), rstd.dtype()});
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    run_lines<4>(ctx, "rms_norm", {{{out, last}, {rstd}, {x, last}, {weight, 0}}}, RmsNorm<C>{eps});
  });
}

void rms_norm_grad(KernelContext& ctx, const Array& grad, const Array& x, const Array& rstd,
                   const Array& weight, const Array& grad_x, const Array& grad_weight) {
  check_norm("rms_norm_grad", x, weight, rstd);
  check_shape("rms_norm_grad", "grad", grad, x.shape());
  check_shape("rms_norm_grad", "grad_x", grad_x, x.shape());
  check_shape("rms_norm_grad", "grad_weight", grad_weight, weight.shape());
  const int last = x.ndim() - 1;
  const DType dtype = common_floating("rms_norm_grad", {grad.dtype(), x.dtype(), grad_x.dtype()});
  common_floating("rms_norm_grad", {weight.dtype(), rstd.dtype(), grad_weight.dtype()});
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    run_lines<5>(ctx, "rms_norm_grad",
                 {{{grad_x, last}, {grad, last}, {x, last}, {rstd}, {weight, 0}}},
                 RmsNormGrad<C>{});
    write_weight_grad<C>(ctx, grad, x, rstd, grad_weight);
  });
}

void rope(KernelContext& ctx, const Array& x, const Array& cos, const Array& sin, Rotation rotation,
          const Array& out) {
  check_rope(x, cos, sin, out);
  const DType dtype = common_floating("rope", {x.dtype(), out.dtype()});
  common_floating("rope", {cos.dtype(), sin.dtype()});
  const int last = x.ndim() - 1;
  // (L, E/2) beside the heads of (..., L, H, E).
  const auto table = [](const Array& array) {
    return array.as_strided({array.size(0), 1, array.size(1)},
                            {array.strides()[0], 0, array.strides()[1]}, array.offset());
  };
  if (x.num_elements() == 0) return;
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    run_lines<4>(ctx, "rope", {{{out, last}, {x, last}, {table(cos), 2}, {table(sin), 2}}},
                 Rope<C>{rotation == Rotation::kForward ? C{1} : C{-1}});
  });
}

void row_max(KernelContext& ctx, const Array& logits, const Array& max) {
  check_shape("row_max", "max", max, rows_shape("row_max", logits));
  visit_float_type(logits.dtype(), [&]<class C>(TypeTag<C>) {
    run_lines<2>(ctx, "row_max", {{{max}, {logits, logits.ndim() - 1}}}, RowMax<C>{});
  });
}

void row_sum_exp(KernelContext& ctx, const Array& logits, const Array& max, const Array& sum) {
  const Shape rows = rows_shape("row_sum_exp", logits);
  check_shape("row_sum_exp", "max", max, rows);
  check_shape("row_sum_exp", "sum", sum, rows);
  visit_float_type(logits.dtype(), [&]<class C>(TypeTag<C>) {
    run_lines<3>(ctx, "row_sum_exp", {{{sum}, {max}, {logits, logits.ndim() - 1}}}, RowSumExp<C>{});
  });
}

void row_target(KernelContext& ctx, const Array& logits, const Array& target, const Array& out) {
  const Shape rows = rows_shape("row_target", logits);
  check_shape("row_target", "target", target, rows);
  check_shape("row_target", "out", out, rows);
  const int last = logits.ndim() - 1;
  const Targets targets = read_targets(ctx, "row_target", target, logits.size(last));
  visit_float_type(logits.dtype(), [&]<class C>(TypeTag<C>) {
    run_lines<3>(ctx, "row_target", {{{out}, {logits, last}, {targets.ids}}},
                 RowTarget<C>{targets.fault});
  });
}

void cross_entropy_grad(KernelContext& ctx, const Array& grad, const Array& logits,
                        const Array& target, const Array& lse, const Array& grad_logits) {
  const Shape rows = rows_shape("cross_entropy_grad", logits);
  check_shape("cross_entropy_grad", "target", target, rows);
  check_shape("cross_entropy_grad", "lse", lse, rows);
  check_shape("cross_entropy_grad", "grad_logits", grad_logits, logits.shape());
  const int last = logits.ndim() - 1;
  const Targets targets = read_targets(ctx, "cross_entropy_grad", target, logits.size(last));
  const DType dtype = common_floating("cross_entropy_grad", {logits.dtype(), grad_logits.dtype()});
  if (grad.ndim() != 0) check_shape("cross_entropy_grad", "grad", grad, rows);
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    run_lines<5>(ctx, "cross_entropy_grad",
                 {{{grad_logits, last}, {logits, last}, {lse}, {grad}, {targets.ids}}},
                 CrossEntropyGrad<C>{targets.fault});
  });
}

}  // namespace tessera::kernels::TSR_CUDA
