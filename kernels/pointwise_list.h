// kernels/pointwise_list.h: how families of pointwise functions are written, for every device: a
// struct with apply<C>() for each, and a list that gives them names and numbers of operands.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/dtype_switch.h"
#include "kernels/host_device.h"

namespace tessera::kernels {

/// Numbers that an op gives its function.
using Params = const double*;

/// A function of few words. Its `operands` are of C, the type that computes (double, float, or
/// int64_t among integers), or of double where float would not do: where it rounds away what counts
/// or overflows on the way. The parameters stand last.
#define TSR_POINTWISE(Function, operands, ...) \
  struct Function {                            \
    template <class C>                         \
    TSR_HOST_DEVICE static C apply operands {  \
      return static_cast<C>(__VA_ARGS__);      \
    }                                          \
  }

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kLn2 = 0.69314718055994530942;
inline constexpr double kPi = 3.14159265358979323846;

/// `x` where `chosen`, else 0 whatever x is; without a branch, which a loop that is no vector would
/// take at random. Conditions are joined by & and |, for the same reason.
template <class C>
TSR_HOST_DEVICE inline C when(bool chosen, C x) {
  using Word = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;
  return std::bit_cast<C>(std::bit_cast<Word>(x) & (Word{0} - Word{chosen}));
}

/// One function of a list: F computes floating values, G integers; void where there is no such
/// form.
template <int operands, class F, class G, bool is_slope>
struct PointwiseEntry {
  static constexpr int kOperands = operands;
  static constexpr bool kIsSlope = is_slope;
  using Floating = F;
  using Integer = G;

  std::string_view name;
};

template <int N, class F>
using Floating = PointwiseEntry<N, F, void, false>;
template <int N, class G>
using Integral = PointwiseEntry<N, void, G, false>;
/// Of both, by a form for each.
template <int N, class F, class G = F>
using Both = PointwiseEntry<N, F, G, false>;
/// The cotangent of one of f's N operands: g·F(operands); the first operand is g.
template <int N, class F>
using Slope = PointwiseEntry<N + 1, F, void, true>;
/// The same by a function of g and the operands that gives the whole product: where the op takes a
/// piece on which an operand has no influence it gives 0, and an infinite g does not pass as 0·∞.
template <int N, class F>
using Cotangent = PointwiseEntry<N + 1, F, void, false>;

template <class... Entries>
struct PointwiseList {
  static constexpr int kSize = sizeof...(Entries);
  template <int at>
  using Entry = std::tuple_element_t<at, std::tuple<Entries...>>;

  constexpr PointwiseList(const Entries&... entries) : names{entries.name...} {}
  std::string_view names[kSize];
};

/// F of the operands x[first…], and of the parameters if it wants them.
template <class F, class C, std::size_t first, class Operands, std::size_t... I>
[[gnu::always_inline]] TSR_HOST_DEVICE inline C call_pointwise(const Operands& x, Params params,
                                                               std::index_sequence<I...>) {
  if constexpr (requires { F::template apply<C>(x[first + I]..., params); }) {
    return F::template apply<C>(x[first + I]..., params);
  } else {
    return F::template apply<C>(x[first + I]...);
  }
}

template <class Entry, class C>
using PointwiseForm =
    std::conditional_t<std::is_integral_v<C>, typename Entry::Integer, typename Entry::Floating>;

/// What an entry gives of the operands x[0], x[1], …
template <class Entry, class C, class Operands>
[[gnu::always_inline]] TSR_HOST_DEVICE inline C evaluate(const Operands& x, Params params) {
  using F = PointwiseForm<Entry, C>;
  constexpr int kOperands = Entry::kOperands;
  if constexpr (Entry::kIsSlope) {
    return x[0] * call_pointwise<F, C, 1>(x, params, std::make_index_sequence<kOperands - 1>());
  } else {
    return call_pointwise<F, C, 0>(x, params, std::make_index_sequence<kOperands>());
  }
}

template <class Entry, class C>
inline constexpr bool kHasForm = !std::is_void_v<PointwiseForm<Entry, C>>;
/// Whether F divides by F::divisor(x, params), and may not be asked where that is 0.
template <class F>
inline constexpr bool kDivides = requires {
  F::kDivides;
};

}  // namespace tessera::kernels
