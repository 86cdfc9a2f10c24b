// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/norm.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor batch_norm(const DTensor& input, const DTensor& weight, const DTensor& bias, double eps,
    const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("batch_norm"), {&input, &weight, &bias}, attrs, site);
}
DTensor batch_norm_inference(const DTensor& input, const DTensor& mean, const DTensor& variance,
    const DTensor& weight, const DTensor& bias, double eps, const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("batch_norm_inference"), {&input, &mean, &variance, &weight, &bias},
    attrs, site);
}
DTensor cross_entropy(const DTensor& logits, const DTensor& target, const Site& site) {
  return call_op(known_op("cross_entropy"), {&logits, &target}, {}, site);
}
DTensor group_norm(const DTensor& input, std::int64_t num_groups, const DTensor& weight,
    const DTensor& bias, double eps, const Site& site) {
  Attrs attrs = {{"num_groups", num_groups}};
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("group_norm"), {&input, &weight, &bias}, attrs, site);
}
DTensor instance_norm(const DTensor& input, const DTensor& weight, const DTensor& bias, double eps,
    const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("instance_norm"), {&input, &weight, &bias}, attrs, site);
}
DTensor layer_norm(const DTensor& input, const DTensor& weight, const DTensor& bias, double eps,
    const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("layer_norm"), {&input, &weight, &bias}, attrs, site);
}
DTensor log_softmax(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("log_softmax"), {&self}, {{"dim", dim}}, site);
}
std::pair<DTensor, DTensor> nll_loss(const DTensor& input, const DTensor& target,
    const DTensor& weight, std::int64_t ignore_index, const Site& site) {
  Attrs attrs;
  if (ignore_index != -100) attrs.set("ignore_index", ignore_index);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("nll_loss"),
    {&input, &target, &weight}, attrs, site));
}
DTensor rms_norm(const DTensor& input, const DTensor& weight, double eps, const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return call_op(known_op("rms_norm"), {&input, &weight}, attrs, site);
}
DTensor softmax(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("softmax"), {&self}, {{"dim", dim}}, site);
}
DTensor softmin(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("softmin"), {&self}, {{"dim", dim}}, site);
}

}  // namespace tessera
