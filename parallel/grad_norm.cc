#include "parallel/grad_norm.h"

#include <vector>

namespace tessera {

double grad_norm(ParameterSet& parameters, double p, const Site& site) {
  std::vector<DTensor> grads;
  for (Parameter& parameter : parameters.all()) grads.push_back(parameter.stored().grad());
  return total_norm(grads, p, site);
}

}  // namespace tessera
