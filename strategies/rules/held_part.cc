#include "strategies/rules/held_part.h"

#include "kernels/elementwise.h"

namespace tessera {

kernels::HeldPart held_part(const OperandView& view, int dim) {
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t size = view.spec->global_shape()[d];
  return {size, local_intervals(view.spec->mesh(), size, view.spec->layout().dims[d], *view.coord)};
}

void globalize_positions(KernelContext& ctx, const OperandView& view, std::span<const int> dims,
                         const Array& positions) {
  std::vector<kernels::HeldPart> parts;
  for (const int dim : dims) parts.push_back(held_part(view, dim));
  kernels::globalize(ctx, positions, parts, positions);
}

Array held_positions(KernelContext& ctx, const OperandView& view, int dim, std::int64_t count) {
  const Array positions = Array::empty({count}, DType::kI64, ctx.allocator);
  kernels::arange(ctx, 0.0, 1.0, positions);
  if (view.spec != nullptr) globalize_positions(ctx, view, {&dim, 1}, positions);
  return positions;
}

}  // namespace tessera
