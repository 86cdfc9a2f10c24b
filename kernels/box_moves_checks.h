// kernels/box_moves_checks.h: what every device asks of the arguments of move_boxes().
#pragma once

#include <optional>

#include "kernels/box_moves.h"

namespace tessera::kernels {

/// Throws what move_boxes() throws.
void check_move_boxes(const BoxMoves& moves, const MovedArrays& arrays,
                      const std::optional<Fold>& how);

}  // namespace tessera::kernels
