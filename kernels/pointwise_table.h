// kernels/pointwise_table.h: how the tables of pointwise functions are written: one line each.
// For kernels/pointwise*.cc only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/dtype_switch.h"
#include "kernels/pointwise.h"

namespace tessera::kernels {

using Params = const double*;

/// f takes N values of C, and the parameters last if it wants them.
template <class C, int N, auto f, std::size_t... I>
[[gnu::always_inline]] inline C apply_at(const C* const* in, std::int64_t i, Params params,
                                         std::index_sequence<I...>) {
  if constexpr (std::is_invocable_v<decltype(f), decltype(in[I][i])..., Params>) {
    return static_cast<C>(f(in[I][i]..., params));
  } else {
    return static_cast<C>(f(in[I][i]...));
  }
}
template <class C, int N, auto f>
void pointwise_block(const C* const* in, C* out, std::int64_t n, Params params) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = apply_at<C, N, f>(in, i, params, std::make_index_sequence<N>());
  }
}

/// A function of N floating operands.
template <int N, auto f>
constexpr Pointwise floating(std::string_view name) {
  return {name, N, pointwise_block<double, N, f>, nullptr};
}
/// Of integers only.
template <int N, auto g>
constexpr Pointwise integral(std::string_view name) {
  return {name, N, nullptr, pointwise_block<std::int64_t, N, g>};
}
/// Of both, by a form for each.
template <int N, auto f, auto g>
constexpr Pointwise both(std::string_view name) {
  return {name, N, pointwise_block<double, N, f>, pointwise_block<std::int64_t, N, g>};
}
/// Of both, by one generic function.
template <int N, auto f>
constexpr Pointwise any(std::string_view name) {
  return both<N, f, f>(name);
}

/// The cotangent of one of f's N operands: g·slope(operands); the first operand is g.
template <int N, auto slope, std::size_t... I>
void slope_block_of(const double* const* in, double* out, std::int64_t n, Params params,
                    std::index_sequence<I...>) {
  const double* const* operands = in + 1;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_invocable_v<decltype(slope), decltype(operands[I][i])..., Params>) {
      out[i] = in[0][i] * slope(operands[I][i]..., params);
    } else {
      out[i] = in[0][i] * slope(operands[I][i]...);
    }
  }
}
template <int N, auto slope>
void slope_block(const double* const* in, double* out, std::int64_t n, Params params) {
  slope_block_of<N, slope>(in, out, n, params, std::make_index_sequence<N>());
}
template <int N, auto f>
constexpr Pointwise slope(std::string_view name) {
  return {name, N + 1, slope_block<N, f>, nullptr};
}

/// `x` where `chosen`, else 0 whatever x is; without a branch, which a loop that is no vector would
/// take at random. Conditions are joined by & and |, for the same reason.
inline double when(bool chosen, double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & (0 - std::uint64_t{chosen}));
}

/// The same by a function of g and the operands that gives the whole product: where the op takes a
/// piece on which an operand has no influence it gives 0, and an infinite g does not pass as 0·∞.
template <int N, auto f>
constexpr Pointwise cotangent(std::string_view name) {
  return floating<N + 1, f>(name);
}

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kLn2 = 0.69314718055994530942;
inline constexpr double kPi = 3.14159265358979323846;

std::span<const Pointwise> elementary_functions();
std::span<const Pointwise> elementary_slopes();
std::span<const Pointwise> activation_functions();
std::span<const Pointwise> activation_slopes();
std::span<const Pointwise> pair_functions();
std::span<const Pointwise> integer_functions();
std::span<const Pointwise> loss_functions();

}  // namespace tessera::kernels
