// kernels/pointwise_table.h: the processor's tables of pointwise functions, from their lists.
// For kernels/pointwise*.cc only.
#pragma once

#include <array>
#include <span>

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"
#include "kernels/pointwise_operands.h"

namespace tessera::kernels {

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

template <class Family, class Entry>
constexpr Pointwise function_of(int index) {
  return {.name = Family::kEntries.names[index],
          .num_operands = Entry::kOperands,
          .floating = block_of<Entry, double>(),
          .integer = block_of<Entry, std::int64_t>(),
          .family = Family::kFamily,
          .index = index,
          .divides_integers = kDivides<typename Entry::Integer>};
}
template <class Family>
constexpr auto table_of() {
  using List = std::remove_cv_t<decltype(Family::kEntries)>;
  return []<int... at>(std::integer_sequence<int, at...>) {
    return std::array<Pointwise, sizeof...(at)>{
        function_of<Family, typename List::template Entry<at>>(at)...};
  }
  (std::make_integer_sequence<int, List::kSize>());
}

std::span<const Pointwise> elementary_functions();
std::span<const Pointwise> elementary_slopes();
std::span<const Pointwise> activation_functions();
std::span<const Pointwise> activation_slopes();
std::span<const Pointwise> pair_functions();
std::span<const Pointwise> pair_slopes();
std::span<const Pointwise> integer_functions();
std::span<const Pointwise> loss_functions();

}  // namespace tessera::kernels
