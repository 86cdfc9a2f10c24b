#include "parallel/grad_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tessera {
namespace {

/// The scalar as summands on every axis: where it is replicated, coord 0 keeps it. Moves nothing.
DTensor as_summands(const DTensor& scalar, const Site& site) {
  const Placements all_partial(static_cast<std::size_t>(scalar.mesh().ndim()),
                               Placement(Partial{ReduceOp::kSum}));
  return redistribute(scalar, all_partial, site);
}

}  // namespace

double grad_norm(ParameterSet& parameters, const Site& site) {
  std::vector<DTensor> totals;  // one per mesh, as summands
  for (Parameter& parameter : parameters.all()) {
    const DTensor grad = parameter.stored().grad();
    if (!grad.defined()) continue;
    const NoGrad no_grad(grad.runtime());
    DTensor squares = as_summands(sum_of_squares(grad.detach(), site), site);
    const auto same_mesh = [&](const DTensor& total) { return total.mesh() == squares.mesh(); };
    const auto at = std::find_if(totals.begin(), totals.end(), same_mesh);
    if (at == totals.end()) {
      totals.push_back(std::move(squares));
    } else {
      *at = add(*at, squares, site);
    }
  }
  double sum = 0.0;
  for (const DTensor& total : totals) sum += item(total, site);
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

}  // namespace tessera
