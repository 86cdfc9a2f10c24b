// Elementwise kernels: the functions of elementwise_functions.h through map().
#include <cmath>
#include <limits>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/elementwise_ops.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

using namespace functions;

// The op is chosen in the kernel, alike for all threads: a kernel an op would take a minute to
// compile.
template <class C>
struct OfOne {
  Unary op;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    visit_unary<C>(op, [&]<class Op>(Op) { out[0] = Op::apply(in[0]); });
  }
};
template <class C>
struct OfTwo {
  Binary op;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    visit_binary<C>(op, [&]<class Op>(Op) { out[0] = Op::apply(in[0], in[1]); });
  }
};
/// Notes where a divisor is 0.
template <class C>
struct DivideIntegers {
  Binary op;
  FaultWord fault;
  __device__ void operator()(std::int64_t i, const C* in, C* out) const {
    out[0] = C{0};
    if (in[1] == 0) return fault.note(i);
    out[0] = op == Binary::kRemainder ? Remainder::apply(in[0], in[1])
                                      : FloorDivide::apply(in[0], in[1]);
  }
};
template <class C>
struct WithScalar {
  Binary op;
  C scalar;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    visit_binary<C>(op, [&]<class Op>(Op) { out[0] = Op::apply(in[0], scalar); });
  }
};

struct Identity {
  template <class C>
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[0];
  }
};
template <class C>
struct Constant {
  C value;
  __device__ void operator()(std::int64_t, const C*, C* out) const { out[0] = value; }
};
struct Steps {
  double start, step;
  __device__ void operator()(std::int64_t i, const double*, double* out) const {
    out[0] = start + step * static_cast<double>(i);
  }
};
template <class C>
struct Clamp {
  C low, high;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    const C value = in[0] < low ? low : in[0];
    out[0] = value > high ? high : value;
  }
};
struct Choose {
  template <class C>
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[0] != C{0} ? in[1] : in[2];
  }
};
template <class C>
struct FillMasked {
  C filler;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[1] != C{0} ? filler : in[0];
  }
};
struct Swiglu {
  template <class C>
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = Silu::apply(in[0]) * in[1];
  }
};
struct SwigluGrad {
  template <class C>
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    const C grad = in[0], gate = in[1], up = in[2];
    const C s = Sigmoid::apply(gate);
    out[0] = grad * up * (s * mul_add(gate, C{1} - s, C{1}));
    out[1] = grad * (gate * s);
  }
};

/// Elements as they are, whatever they mean.
__global__ void copy_elements(MapLayout<2> layout) {
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    copy_element(layout.operands[0], offsets[0], layout.operands[1], offsets[1]);
  });
}

bool divides(Binary op) { return op == Binary::kFloorDivide || op == Binary::kRemainder; }

}  // namespace

void copy(KernelContext& ctx, const Array& src, const Array& dst) {
  if (src.dtype() == dst.dtype()) {
    if (same_dense(src, dst)) {
      ctx.device->copy(dst.bytes(), src.bytes(), static_cast<std::size_t>(src.num_bytes()),
                       ctx.device->compute());
      return;
    }
    return run_layouts<2>(ctx, "copy", {&dst, &src}, [&](const MapLayout<2>& layout) {
      return launch<copy_elements>(grid_for(layout.total), stream_of(ctx), layout);
    });
  }
  visit_compute_type(src.dtype(), [&]<class C>(TypeTag<C>) {
    map<C, 1, 1>(ctx, "copy", {&dst, &src}, Identity{});
  });
}

void fill(KernelContext& ctx, double value, const Array& out) {
  map<double, 1, 0>(ctx, "fill", {&out}, Constant<double>{value});
}

void arange(KernelContext& ctx, double start, double step, const Array& out) {
  if (out.ndim() != 1) {
    throw Error(invalid_argument("arange: the output has shape " + to_string(out.shape()) +
                                 ", expected one dim"));
  }
  map<double, 1, 0>(ctx, "arange", {&out}, Steps{start, step});
}

void unary(KernelContext& ctx, Unary op, const Array& x, const Array& out) {
  visit_compute_type(compute_dtype(op, x.dtype(), out.dtype()), [&]<class C>(TypeTag<C>) {
    map<C, 1, 1>(ctx, std::string(name_of(op)).c_str(), {&out, &x}, OfOne<C>{op});
  });
}

void binary(KernelContext& ctx, Binary op, const Array& a, const Array& b, const Array& out) {
  const DType promoted = promote(a.dtype(), b.dtype());
  const bool mixed = is_floating(a.dtype()) != is_floating(b.dtype());
  if (mixed && size_of(promoted) == 2) {  // computed in F32, which holds more integers
    return TSR_CUDA::binary(ctx, op, integers_as(ctx, a, promoted), integers_as(ctx, b, promoted),
                            out);
  }
  visit_compute_type(compute_dtype(op, promoted, out.dtype()), [&]<class C>(TypeTag<C>) {
    const std::string name(name_of(op));
    if constexpr (kIsInteger<C>) {
      if (divides(op)) {
        const FaultWord fault = device_of(ctx).next_fault_word(
            [name](std::int64_t) { return division_by_zero(name.c_str()); });
        return map<C, 1, 2>(ctx, name.c_str(), {&out, &a, &b}, DivideIntegers<C>{op, fault});
      }
    }
    map<C, 1, 2>(ctx, name.c_str(), {&out, &a, &b}, OfTwo<C>{op});
  });
}

void binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out) {
  visit_compute_type(scalar_compute_dtype(op, a.dtype(), b, out.dtype()), [&]<class C>(TypeTag<C>) {
    const std::string name(name_of(op));
    if (kIsInteger<C> && divides(op) && b == 0.0 && out.num_elements() > 0) {
      throw_division_by_zero(name.c_str());
    }
    map<C, 1, 1>(ctx, name.c_str(), {&out, &a}, WithScalar<C>{op, static_cast<C>(b)});
  });
}

void clamp(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  if (is_floating(x.dtype()) && (std::isnan(low) || std::isnan(high))) {
    return fill(ctx, std::numeric_limits<double>::quiet_NaN(), out);
  }
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    map<C, 1, 1>(ctx, "clamp", {&out, &x},
                 Clamp<C>{lower_bound_of<C>(low), upper_bound_of<C>(high)});
  });
}

void where(KernelContext& ctx, const Array& condition, const Array& a, const Array& b,
           const Array& out) {
  require_bool("where", condition);
  visit_compute_type(promote(a.dtype(), b.dtype()), [&]<class C>(TypeTag<C>) {
    map<C, 1, 3>(ctx, "where", {&out, &condition, &a, &b}, Choose{});
  });
}

void masked_fill(KernelContext& ctx, const Array& x, const Array& mask, double value,
                 const Array& out) {
  require_bool("masked_fill", mask);
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    const C filler = x.dtype() == DType::kBool ? static_cast<C>(value != 0.0) : convert<C>(value);
    map<C, 1, 2>(ctx, "masked_fill", {&out, &x, &mask}, FillMasked<C>{filler});
  });
}

void swiglu(KernelContext& ctx, const Array& gate, const Array& up, const Array& out) {
  const DType dtype = promote(gate.dtype(), up.dtype());
  require_floating("swiglu", dtype);
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    map<C, 1, 2>(ctx, "swiglu", {&out, &gate, &up}, Swiglu{});
  });
}

void swiglu_grad(KernelContext& ctx, const Array& grad, const Array& gate, const Array& up,
                 const Array& grad_gate, const Array& grad_up) {
  const DType dtype = promote(grad.dtype(), promote(gate.dtype(), up.dtype()));
  require_floating("swiglu_grad", dtype);
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    map<C, 2, 3>(ctx, "swiglu_grad", {&grad_gate, &grad_up, &grad, &gate, &up}, SwigluGrad{});
  });
}

}  // namespace tessera::kernels::TSR_CUDA
