// lora_delta.h: an op of this program's own, beside the built-in ones.
#pragma once

#include "dtensor/ops.h"

/// Adds "lora_delta" and its gradient's pieces to a table that holds the built-in ops.
tessera::Status add_lora_delta(tessera::OpTable& table);

/// scale · x downᵀ upᵀ: what a low-rank adapter adds to a projection of x.
/// Shapes: x (T, K), down (R, K), up (N, R) → (T, N). Source: LoRA, Hu et al. 2021.
tessera::DTensor lora_delta(const tessera::DTensor& x, const tessera::DTensor& down,
                            const tessera::DTensor& up, double scale,
                            const tessera::Site& site = tessera::Site::current());
