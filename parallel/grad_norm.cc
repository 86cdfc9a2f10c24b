#include "parallel/grad_norm.h"

#include <vector>

namespace tessera {
namespace {

std::vector<DTensor> gradients_of(ParameterSet& parameters) {
  std::vector<DTensor> grads;
  for (Parameter& parameter : parameters.all()) grads.push_back(parameter.stored().grad());
  return grads;
}

}  // namespace

double grad_norm(ParameterSet& parameters, double p, const Site& site) {
  return total_norm(gradients_of(parameters), p, site);
}

DTensor grad_norm_power(ParameterSet& parameters, Runtime& runtime, double p, const Site& site) {
  return norm_power(runtime, gradients_of(parameters), p, site);
}

}  // namespace tessera
