// parallel/muon.h: Muon: momentum of matrices, orthogonalised by Newton–Schulz on the one rank that
// owns a matrix. Source: Jordan et al., 2024; torch.optim.Muon.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtensor/dtensor.h"
#include "kernels/optimizer.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Of x ← a·x + (b·A + c·A²)·x with A = x·xᵀ: singular values below 1 come near 1 in five rounds.
inline constexpr std::array<double, 3> kNewtonSchulz = {3.4445, -4.7750, 2.0315};
inline constexpr int kNewtonSchulzRounds = 5;
/// Added to the norm that a matrix is divided by first.
inline constexpr double kNewtonSchulzEps = 1e-7;

/// True for matrices and batches of them that are not the first or last layer of a model (no part
/// of the name is "embed…", "tok_embed…", "head" or "lm_head"): those that Muon is for. The others,
/// vectors among them, are AdamW's.
bool is_hidden_matrix(std::string_view name, int ndim);

/// Where each matrix is orthogonalised: a 2-d tensor on one owner of its mesh (O on every axis),
/// the matrices of a 3-d one dealt out along dim 0, cuts of which stay. Owners are chosen for equal
/// work, the largest matrices first, the least loaded rank of the lowest number for each. Equal on
/// all ranks. Requires tensors of 2 or 3 dims. Cost: O(tensors · ranks).
std::vector<Spec> muon_specs(std::span<const Spec> stored);
/// Multiplications of the rounds for every matrix of a tensor of this shape.
double newton_schulz_work(ShapeView shape);
/// The nearest semi-orthogonal matrix, roughly, of the last two dims of a plain tensor, times
/// max(1, rows / columns)^½ of `global_shape`. Shapes: any batch dims, none of which communicates.
DTensor newton_schulz(const DTensor& x, ShapeView global_shape);

struct MuonTensors {
  std::span<const DTensor> params, grads;
  std::span<const DTensor> momenta;  ///< placed as muon_specs() has it
};
/// Momentum m ← momentum·m + g; u = m, or g + momentum·m for Nesterov; p ← p(1 − lr·weight_decay) −
/// lr·newton_schulz(u). Nothing is written where the steering says not to go on.
/// Collective: yes: gradients go to the owners in one exchange a group, updates back in another.
/// Cost: a matrix of B bytes in p shards (p−1)/p·B either way; a replicated one nothing on the way
/// in, (p−1)·B in all on the way out.
void muon_step(const MuonTensors& tensors, const kernels::SgdOptions& options,
               const DTensor& steering, const Site& site = Site::current());

}  // namespace tessera
