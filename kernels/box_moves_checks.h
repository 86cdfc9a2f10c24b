// kernels/box_moves_checks.h: what every device asks of the arguments of move_boxes().
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/box_moves.h"

namespace tessera::kernels {

/// How many are given, and of what.
struct BoxArrays {
  std::int64_t sources = 0, targets = 0;
  DType dtype = DType::kF32;
};
/// Throws what move_boxes() throws.
void check_move_boxes(const BoxMoves& moves, const BoxArrays& arrays,
                      const std::optional<Fold>& how);

}  // namespace tessera::kernels
