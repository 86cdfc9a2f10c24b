// strategies/ops/window/conv_parts.h: the three computations of a convolution on arrays that a rank
// holds, and how they run where height or width is cut.
#pragma once

#include <vector>

#include "kernels/window.h"
#include "strategies/rules/op.h"

namespace tessera::ops {

/// Operands and result: forward (input, weight, bias?) → output; input (output, weight, bias?) →
/// input, which is also what a transposed convolution computes; weight (output, input) → weight.
struct ConvForm {
  enum class Role : std::uint8_t { kForward, kInput, kWeight } role = Role::kForward;
  int num_dims = 2;
  int num_operands = 3;  ///< with the bias, given or not
};

/// The windows of one dim by the attributes stride, padding and dilation.
kernels::WindowDim conv_window(const Attrs& attrs, int dim, std::int64_t kernel, std::int64_t size,
                               std::int64_t out_size);
std::int64_t conv_out_size(const kernels::WindowDim& window);

Kernel conv_kernel(ConvForm form);
/// One for each windowed dim: a halo.
std::vector<Lowering> halo_lowerings(ConvForm form);
/// Adds to the attributes what the lowerings of forward and input need: the weight's sizes.
Localize conv_kernel_localize();
/// The same for weight: how the output side is cut.
Localize conv_weight_localize();

}  // namespace tessera::ops
