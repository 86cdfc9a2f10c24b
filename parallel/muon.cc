#include "parallel/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "dtensor/foreach.h"
#include "dtensor/ops.h"

namespace tessera {
namespace {

/// Dim 0 cut by every axis: those that cut it already first, as they do.
StatusOr<Spec> dealt_out(const Spec& stored) {
  Layout layout = stored.layout();
  for (std::size_t d = 1; d < layout.dims.size(); ++d) layout.dims[d].clear();
  for (int axis = 0; axis < stored.mesh().ndim(); ++axis) {
    const bool cuts = stored.mesh().size(axis) == 1 || layout.dim_of_axis(axis) == 0;
    if (!cuts) layout.dims[0].push_back(Level::of_axis(axis));
  }
  return Spec::make(stored.mesh(), stored.global_shape(), stored.dtype(), std::move(layout));
}

StatusOr<Spec> owned_by(const Spec& stored, std::int64_t rank) {
  Placements placements;
  for (const std::int64_t coord : *stored.mesh().coord_of(rank)) placements.push_back(Owned{coord});
  return Spec::make(stored.mesh(), stored.global_shape(), stored.dtype(), placements);
}

/// Places of a steering with another lr or clip factor.
DTensor steering_with(const DTensor& steering, kernels::Steering::Place place, double value) {
  Runtime& runtime = steering.runtime();
  const DTensor other = full(runtime, Spec::plain({1}, DType::kF64), value);
  std::vector<DTensor> parts;
  if (place > 0) parts.push_back(slice(steering, 0, 0, place));
  parts.push_back(other);
  parts.push_back(slice(steering, 0, place + 1, kernels::Steering::kSize));
  return cat(parts, 0);
}

bool starts_word(std::string_view name, std::string_view word) {
  return name.substr(0, word.size()) == word;
}

}  // namespace

bool is_hidden_matrix(std::string_view name, int ndim) {
  if (ndim != 2 && ndim != 3) return false;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    if (starts_word(part, "embed") || starts_word(part, "tok_embed")) return false;
    if (part == "head" || part == "lm_head") return false;
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return true;
}

double newton_schulz_work(ShapeView shape) {
  double batch = 1.0;
  for (const std::int64_t size : shape.subspan(0, shape.size() - 2)) batch *= double(size);
  const auto rows = double(shape[shape.size() - 2]), columns = double(shape[shape.size() - 1]);
  const double least = std::min(rows, columns), most = std::max(rows, columns);
  return batch * kNewtonSchulzRounds * (2 * least * least * most + least * least * least);
}

std::vector<Spec> muon_specs(std::span<const Spec> stored) {
  std::vector<std::size_t> by_work(stored.size());
  std::iota(by_work.begin(), by_work.end(), std::size_t{0});
  const auto work = [&](std::size_t i) {
    return newton_schulz_work(view_of(stored[i].global_shape()));
  };
  std::stable_sort(by_work.begin(), by_work.end(),
                   [&](std::size_t a, std::size_t b) { return work(a) > work(b); });
  std::vector<Spec> specs(stored.size());
  std::map<std::int64_t, double> load;
  for (const std::size_t i : by_work) {
    if (stored[i].ndim() != 2) {
      specs[i] = value_or_throw(dealt_out(stored[i]));
      continue;
    }
    std::int64_t owner = stored[i].mesh().first_rank();
    for (const std::int64_t rank : stored[i].mesh().ranks()) {
      if (load[rank] < load[owner] || (load[rank] == load[owner] && rank < owner)) owner = rank;
    }
    load[owner] += work(i);
    specs[i] = value_or_throw(owned_by(stored[i], owner));
  }
  return specs;
}

DTensor newton_schulz(const DTensor& x, ShapeView global_shape) {
  const std::int64_t rows = global_shape[global_shape.size() - 2];
  const std::int64_t columns = global_shape[global_shape.size() - 1];
  const auto [a, b, c] = kNewtonSchulz;
  DTensor y = x.dtype() == DType::kBF16 ? cast(x, DType::kF32) : x;
  if (rows > columns) y = mT(y);
  y = div(y, add(norm(y, 2.0, {-2, -1}, KeepDim::kYes), kNewtonSchulzEps));
  for (int round = 0; round < kNewtonSchulzRounds; ++round) {
    const DTensor squares = matmul(y, mT(y));
    const DTensor polynomial = add(mul(squares, b), matmul(squares, squares), c);
    y = add(mul(y, a), matmul(polynomial, y));
  }
  if (rows > columns) y = mT(y);
  const double longer = columns > 0 ? double(rows) / double(columns) : 1.0;
  y = mul(y, std::sqrt(std::max(1.0, longer)));
  return y.dtype() == x.dtype() ? y : cast(y, x.dtype());
}

void muon_step(const MuonTensors& tensors, const kernels::SgdOptions& options,
               const DTensor& steering, const Site& site) {
  if (tensors.params.empty()) return;
  Runtime& runtime = steering.runtime();
  const NoGrad no_grad(runtime);
  std::vector<Spec> stored, owned, of_grads;
  for (std::size_t i = 0; i < tensors.params.size(); ++i) {
    const Spec& momentum = tensors.momenta[i].spec();
    stored.push_back(tensors.params[i].spec());
    owned.push_back(momentum.with_dtype(tensors.params[i].dtype()));
    of_grads.push_back(momentum.with_dtype(tensors.grads[i].dtype()));
  }
  const std::vector<DTensor> grads = redistribute_all(tensors.grads, of_grads, site);
  // u = 0 − (−1)·(g·clip factor, with momentum): what SGD would take off.
  std::vector<DTensor> updates;
  for (const Spec& spec : owned) updates.push_back(zeros(runtime, spec));
  kernels::SgdOptions momentum = options;
  momentum.lr = 1.0;
  momentum.weight_decay = 0.0;
  sgd_step({updates, grads}, tensors.momenta, momentum,
           steering_with(steering, kernels::Steering::kLr, -1.0), site);
  for (DTensor& update : updates) {
    const Spec spec = update.spec();
    const DTensor own = newton_schulz(to_local(update, {}, site), view_of(spec.global_shape()));
    update =
        from_local(own, spec.mesh(), value_or_throw(spec.placements()), spec.global_shape(), site);
  }
  updates = redistribute_all(updates, stored, site);
  kernels::SgdOptions apply = options;
  apply.momentum = 0.0;
  sgd_step({tensors.params, updates}, {}, apply,
           steering_with(steering, kernels::Steering::kGradScale, 1.0), site);
}

}  // namespace tessera
