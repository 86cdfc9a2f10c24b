// Elementwise kernels: the functions of elementwise_functions.h through map().
#include <cmath>
#include <limits>

#include "kernels/cuda/copy_words.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map_packs.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementwise_ops.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

using namespace functions;

/// So long in device code that it is compiled for single elements only.
template <class Op, class C>
inline constexpr bool kIsLong = kDividesBy<Op> || std::is_same_v<Op, Pow> ||
                                std::is_same_v<Op, Sin> || std::is_same_v<Op, Cos> ||
                                (std::is_same_v<C, double> &&
                                 (std::is_same_v<Op, Exp> || std::is_same_v<Op, Log> ||
                                  std::is_same_v<Op, Sigmoid> || std::is_same_v<Op, Silu> ||
                                  std::is_same_v<Op, Tanh> || std::is_same_v<Op, Gelu> ||
                                  std::is_same_v<Op, SiluGrad> || std::is_same_v<Op, GeluGrad>));

// The op is chosen in the kernel, alike for all threads: a kernel an op would take a minute to
// compile. Packs choose once for all of their elements.
template <class C>
struct OfOne {
  Unary op;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    visit_unary<C>(op, [&]<class Op>(Op) { out[0] = Op::apply(in[0]); });
  }
  template <class Body>
  __device__ void choose(Body&& body) const {
    visit_unary<C>(op, [&]<class Op>(Op) {
      if constexpr (!kIsLong<Op, C>) {
        body([](std::int64_t, const C* in, C* out) { out[0] = Op::apply(in[0]); });
      }
    });
  }
  bool is_long() const {
    return visit_unary<C>(op, []<class Op>(Op) { return kIsLong<Op, C>; });
  }
};
template <class C>
struct OfTwo {
  Binary op;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    visit_binary<C>(op, [&]<class Op>(Op) { out[0] = Op::apply(in[0], in[1]); });
  }
  template <class Body>
  __device__ void choose(Body&& body) const {
    visit_binary<C>(op, [&]<class Op>(Op) {
      if constexpr (!kIsLong<Op, C>) {
        body([](std::int64_t, const C* in, C* out) { out[0] = Op::apply(in[0], in[1]); });
      }
    });
  }
  bool is_long() const {
    return visit_binary<C>(op, []<class Op>(Op) { return kIsLong<Op, C>; });
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
  template <class Body>
  __device__ void choose(Body&& body) const {
    visit_binary<C>(op, [&]<class Op>(Op) {
      if constexpr (!kIsLong<Op, C>) {
        body([second = scalar](std::int64_t, const C* in, C* out) {
          out[0] = Op::apply(in[0], second);
        });
      }
    });
  }
  bool is_long() const { return OfTwo<C>{op}.is_long(); }
};

template <class C, int kInputs, class F>
void map_chosen(KernelContext& ctx, const char* name,
                const std::array<const Array*, 1 + kInputs>& operands, const F& function) {
  if (function.is_long()) return map<C, 1, kInputs>(ctx, name, operands, function);
  map_in_packs<C, 1, kInputs>(ctx, name, operands, function);
}

struct Identity {
  template <class C>
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[0];
  }
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

/// `bits` are those of elements, again and again.
__global__ void fill_words(std::byte* to, std::int64_t bytes, std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
  const std::int64_t words = bytes / static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < words; i += step) {
    reinterpret_cast<uint4*>(to)[i] = uint4{low, high, low, high};
  }
  const std::int64_t rest = words * static_cast<std::int64_t>(sizeof(uint4)) + first;
  if (rest < bytes) to[rest] = static_cast<std::byte>(bits >> (rest % 8 * 8));
}
__global__ void fill_elements(MapLayout<1> layout, std::uint64_t bits) {
  const MapOperand& to = layout.operands[0];
  const MapOperand from{
      .data = reinterpret_cast<std::byte*>(&bits), .dtype = to.dtype, .strides = {}};
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    copy_element(to, offsets[0], from, 0);
  });
}

/// The bits of an element as often as 8 bytes hold them.
std::uint64_t repeated(std::uint64_t bits, std::int64_t bytes) {
  for (; bytes < 8; bytes *= 2) bits |= bits << (8 * bytes);
  return bits;
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
      return launch_copy(stream_of(ctx), layout);
    });
  }
  visit_compute_type(src.dtype(), [&]<class C>(TypeTag<C>) {
    map_in_packs<C, 1, 1>(ctx, "copy", {&dst, &src}, Identity{});
  });
}

void fill(KernelContext& ctx, double value, const Array& out) {
  const std::uint64_t bits = repeated(word_of(value, out.dtype()), size_of(out.dtype()));
  run_layouts<1>(ctx, "fill", {&out}, [&](const MapLayout<1>& layout) {
    constexpr std::int64_t kWord = sizeof(uint4);
    std::byte* const to = layout.operands[0].data;
    if (layout.ndim > 0 || reinterpret_cast<std::intptr_t>(to) % kWord != 0) {
      return launch<fill_elements>(grid_for(layout.total), stream_of(ctx), layout, bits);
    }
    const std::int64_t bytes = layout.total * size_of(out.dtype());
    // At least a word's threads, for the rest.
    return launch<fill_words>(grid_for((bytes + kWord - 1) / kWord), stream_of(ctx), to, bytes,
                              bits);
  });
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
    map_chosen<C, 1>(ctx, name_of(op).data(), {&out, &x}, OfOne<C>{op});
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
    const char* const name = name_of(op).data();  // of a literal
    if constexpr (kIsInteger<C>) {
      if (divides(op)) {
        const FaultWord fault =
            device_of(ctx).next_fault_word([name](std::int64_t) { return division_by_zero(name); });
        return map<C, 1, 2>(ctx, name, {&out, &a, &b}, DivideIntegers<C>{op, fault});
      }
    }
    map_chosen<C, 2>(ctx, name, {&out, &a, &b}, OfTwo<C>{op});
  });
}

void binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out) {
  visit_compute_type(scalar_compute_dtype(op, a.dtype(), b, out.dtype()), [&]<class C>(TypeTag<C>) {
    const char* const name = name_of(op).data();
    if (kIsInteger<C> && divides(op) && b == 0.0 && out.num_elements() > 0) {
      throw_division_by_zero(name);
    }
    map_chosen<C, 1>(ctx, name, {&out, &a}, WithScalar<C>{op, static_cast<C>(b)});
  });
}

void clamp(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  if (is_floating(x.dtype()) && (std::isnan(low) || std::isnan(high))) {
    return fill(ctx, std::numeric_limits<double>::quiet_NaN(), out);
  }
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    map_in_packs<C, 1, 1>(ctx, "clamp", {&out, &x},
                          Clamp<C>{lower_bound_of<C>(low), upper_bound_of<C>(high)});
  });
}

void where(KernelContext& ctx, const Array& condition, const Array& a, const Array& b,
           const Array& out) {
  require_bool("where", condition);
  visit_compute_type(promote(a.dtype(), b.dtype()), [&]<class C>(TypeTag<C>) {
    map_in_packs<C, 1, 3>(ctx, "where", {&out, &condition, &a, &b}, Choose{});
  });
}

void masked_fill(KernelContext& ctx, const Array& x, const Array& mask, double value,
                 const Array& out) {
  require_bool("masked_fill", mask);
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    const C filler = x.dtype() == DType::kBool ? static_cast<C>(value != 0.0) : convert<C>(value);
    map_in_packs<C, 1, 2>(ctx, "masked_fill", {&out, &x, &mask}, FillMasked<C>{filler});
  });
}

void swiglu(KernelContext& ctx, const Array& gate, const Array& up, const Array& out) {
  const DType dtype = promote(gate.dtype(), up.dtype());
  require_floating("swiglu", dtype);
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    map_in_packs<C, 1, 2>(ctx, "swiglu", {&out, &gate, &up}, Swiglu{});
  });
}

void swiglu_grad(KernelContext& ctx, const Array& grad, const Array& gate, const Array& up,
                 const Array& grad_gate, const Array& grad_up) {
  const DType dtype = promote(grad.dtype(), promote(gate.dtype(), up.dtype()));
  require_floating("swiglu_grad", dtype);
  visit_float_type(dtype, [&]<class C>(TypeTag<C>) {
    map_in_packs<C, 2, 3>(ctx, "swiglu_grad", {&grad_gate, &grad_up, &grad, &gate, &up},
                          SwigluGrad{});
  });
}

}  // namespace tessera::kernels::TSR_CUDA
