// kernels/fold_functions.h: what folds do to one element, on the processor and on a device: how it
// is widened to the type that accumulates, what combines two, and what changes nothing. A kind of
// reduction is a struct here, with_op() finds it; placement/reduce_op.h has what plans ask of
// kinds.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/float16.h"
#include "kernels/host_device.h"
#include "placement/dtype.h"
#include "placement/plan.h"

namespace tessera::folds::inline TSR_MACHINE {

// Stored type, accumulator type. Integers wrap like unsigned ones; BOOL is a byte of 0 or 1.
template <class Stored, class Accumulated>
struct Element {
  using T = Stored;
  using Acc = Accumulated;
  TSR_HOST_DEVICE static Acc widen(T value) noexcept { return value; }
  TSR_HOST_DEVICE static T narrow(Acc value) noexcept { return static_cast<T>(value); }
};
// On plain words, so that loops over them vectorise; the same rounding as BFloat16's.
struct BF16Element {
  using T = std::uint16_t;
  using Acc = float;
  TSR_HOST_DEVICE static float widen(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  TSR_HOST_DEVICE static std::uint16_t narrow(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = word + 0x7fffU + ((word >> 16) & 1U);
    const std::uint32_t quiet = word | 0x400000U;
    return static_cast<std::uint16_t>((value != value ? quiet : rounded) >> 16);
  }
};

struct F16Element {
  using T = std::uint16_t;
  using Acc = float;
  TSR_HOST_DEVICE static float widen(std::uint16_t bits) noexcept { return half_value(bits); }
  TSR_HOST_DEVICE static std::uint16_t narrow(float value) noexcept { return half_bits(value); }
};

template <class F>
void with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(Element<double, double>{});
    case DType::kF32:
      return f(Element<float, float>{});
    case DType::kBF16:
      return f(BF16Element{});
    case DType::kF16:
      return f(F16Element{});
    case DType::kI64:
      return f(Element<std::int64_t, std::int64_t>{});
    case DType::kI32:
      return f(Element<std::int32_t, std::int32_t>{});
    case DType::kU8:  // another accumulator than BOOL's, which "or"s
      return f(Element<std::uint8_t, std::uint32_t>{});
    case DType::kBool:
      return f(Element<std::uint8_t, std::uint8_t>{});
  }
}

struct Sum {
  template <class A>
  TSR_HOST_DEVICE static constexpr A identity() noexcept {
    return std::is_floating_point_v<A> ? static_cast<A>(-0.0) : A{0};
  }
  template <class A>
  TSR_HOST_DEVICE static A of(A a, A b) noexcept {
    if constexpr (std::is_same_v<A, std::uint8_t>) {
      return static_cast<A>(a | b);
    } else if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  template <class A>
  TSR_HOST_DEVICE static constexpr A identity() noexcept {
    return A{1};
  }
  template <class A>
  TSR_HOST_DEVICE static A of(A a, A b) noexcept {
    if constexpr (std::is_same_v<A, std::uint8_t>) {
      return static_cast<A>(a & b);
    } else if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
    } else {
      return a * b;
    }
  }
};
// `a != a` is true for NaN alone; where b is NaN both tests fail and b is taken.
struct Max {
  template <class A>
  TSR_HOST_DEVICE static constexpr A identity() noexcept {
    using Limits = std::numeric_limits<A>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class A>
  TSR_HOST_DEVICE static A of(A a, A b) noexcept {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Min {
  template <class A>
  TSR_HOST_DEVICE static constexpr A identity() noexcept {
    using Limits = std::numeric_limits<A>;
    if constexpr (std::is_same_v<A, std::uint8_t>) return A{1};
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class A>
  TSR_HOST_DEVICE static A of(A a, A b) noexcept {
    return ((a < b) | (a != a)) ? a : b;
  }
};

/// Calls f with the struct of a kind; of an average with that of its sum.
template <class F>
TSR_HOST_DEVICE constexpr decltype(auto) with_op(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::kMax:
      return f(Max{});
    case ReduceOp::kMin:
      return f(Min{});
    case ReduceOp::kProd:
      return f(Prod{});
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return f(Sum{});
}

template <class A>
TSR_HOST_DEVICE A identity_of(ReduceOp op) noexcept {
  return with_op(op, []<class Op>(Op) { return Op::template identity<A>(); });
}
template <class A>
TSR_HOST_DEVICE A combined(ReduceOp op, A a, A b) noexcept {
  return with_op(op, [&]<class Op>(Op) { return Op::of(a, b); });
}

}  // namespace tessera::folds::inline TSR_MACHINE
