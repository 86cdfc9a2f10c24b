#include "kernels/take_map.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/reduce.h"
#include "kernels/take_map_checks.h"

namespace tessera::kernels {
namespace {

/// f(first, count) for the stretches over which places ascend by one, or are all −1.
template <class F>
void for_stretches(std::span<const std::int64_t> places, const F& f) {
  for (std::size_t first = 0; first < places.size();) {
    std::size_t last = first + 1;
    const std::int64_t step = places[first] < 0 ? 0 : 1;
    while (last < places.size() && places[last] == places[last - 1] + step) ++last;
    f(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last - first));
    first = last;
  }
}

}  // namespace

void cpu::take_map(KernelContext& ctx, const Array& x, int dim,
                   std::span<const std::int64_t> places, double otherwise, const Array& out) {
  check_places("take_map", places, out.size(dim), x.size(dim));
  for_stretches(places, [&](std::int64_t first, std::int64_t count) {
    const Array target = out.slice(dim, first, first + count);
    const std::int64_t from = places[static_cast<std::size_t>(first)];
    if (from < 0) {
      cpu::fill(ctx, otherwise, target);
    } else {
      cpu::copy(ctx, x.slice(dim, from, from + count), target);
    }
  });
}

void cpu::add_map(KernelContext& ctx, const Array& grad, int dim,
                  std::span<const std::int64_t> places, const Array& out) {
  check_places("add_map", places, grad.size(dim), out.size(dim));
  cpu::fill(ctx, 0.0, out);
  for_stretches(places, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t to = places[static_cast<std::size_t>(first)];
    if (to < 0) return;
    const Array target = out.slice(dim, to, to + count);
    cpu::binary(ctx, Binary::kAdd, target, grad.slice(dim, first, first + count), target);
  });
}

}  // namespace tessera::kernels
