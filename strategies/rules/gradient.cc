#include "strategies/rules/gradient.h"

namespace tessera {

Var GradContext::sum_to(Var grad, const Shape& target) {
  if (!grad.defined() || shape(grad) == target) return grad;
  const Shape from = shape(grad);
  const std::size_t extra = from.size() - target.size();
  Shape stretched;
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 1 && from[extra + d] != 1) {
      stretched.push_back(static_cast<std::int64_t>(extra + d));
    }
  }
  if (!stretched.empty()) grad = call("sum", {grad}, {{"dim", stretched}, {"keepdim", true}});
  Shape leading;
  for (std::size_t d = 0; d < extra; ++d) leading.push_back(static_cast<std::int64_t>(d));
  if (!leading.empty()) grad = call("sum", {grad}, {{"dim", leading}, {"keepdim", false}});
  return grad;
}

}  // namespace tessera
