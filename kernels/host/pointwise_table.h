// kernels/host/pointwise_table.h: the processor's tables of pointwise functions, from their lists.
// For kernels/pointwise*.cc only.
#pragma once

#include <array>
#include <span>

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"
#include "kernels/pointwise_operands.h"

namespace tessera::kernels {

/// n elements of each operand to n results. `params` are numbers such as a slope, in the op's
/// order.
template <class C>
using PointwiseBlock = void (*)(const C* const* in, C* out, std::int64_t n, const double* params);

/// Element i of each operand.
template <class C>
struct OperandsAt {
  const C* const* in;
  std::int64_t i;
  [[gnu::always_inline]] C operator[](std::size_t k) const { return in[k][i]; }
};

template <class Entry, class C>
void pointwise_block(const C* const* in, C* out, std::int64_t n, Params params) {
  using F = PointwiseForm<Entry, C>;
  for (std::int64_t i = 0; i < n; ++i) {
    const OperandsAt<C> operands{in, i};
    if constexpr (kDivides<F>) {
      if (F::divisor(operands, params) == 0) throw Error(no_remainder());
    }
    out[i] = evaluate<Entry, C>(operands, params);
  }
}
template <class Entry, class C>
constexpr PointwiseBlock<C> block_of() {
  if constexpr (kHasForm<Entry, C>) {
    return pointwise_block<Entry, C>;
  } else {
    return nullptr;
  }
}

/// The code of one function; null where it has no such form.
struct PointwiseCode {
  PointwiseBlock<double> floating = nullptr;
  PointwiseBlock<std::int64_t> integer = nullptr;
};

/// The code of a family's functions, in the order of its list.
template <class Family>
constexpr auto code_of() {
  using List = std::remove_cv_t<decltype(Family::kEntries)>;
  return []<int... at>(std::integer_sequence<int, at...>) {
    return std::array<PointwiseCode, sizeof...(at)>{
        PointwiseCode{block_of<typename List::template Entry<at>, double>(),
                      block_of<typename List::template Entry<at>, std::int64_t>()}...};
  }
  (std::make_integer_sequence<int, List::kSize>());
}

std::span<const PointwiseCode> elementary_functions();
std::span<const PointwiseCode> elementary_slopes();
std::span<const PointwiseCode> activation_functions();
std::span<const PointwiseCode> activation_slopes();
std::span<const PointwiseCode> pair_functions();
std::span<const PointwiseCode> pair_slopes();
std::span<const PointwiseCode> integer_functions();
std::span<const PointwiseCode> loss_functions();

}  // namespace tessera::kernels
