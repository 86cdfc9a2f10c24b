// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/loss.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor binary_cross_entropy(const DTensor& self, const DTensor& target, std::string_view reduction,
    const Site& site) {
  Attrs attrs;
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("binary_cross_entropy"), {&self, &target}, attrs, site);
}
DTensor binary_cross_entropy_each(const DTensor& self, const DTensor& target, const Site& site) {
  return call_op(known_op("binary_cross_entropy_each"), {&self, &target}, {}, site);
}
DTensor binary_cross_entropy_with_logits(const DTensor& self, const DTensor& target,
    std::string_view reduction, const Site& site) {
  Attrs attrs;
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("binary_cross_entropy_with_logits"), {&self, &target}, attrs, site);
}
DTensor binary_cross_entropy_with_logits_each(const DTensor& self, const DTensor& target,
    const Site& site) {
  return call_op(known_op("binary_cross_entropy_with_logits_each"), {&self, &target}, {}, site);
}
DTensor huber_loss(const DTensor& self, const DTensor& target, double delta,
    std::string_view reduction, const Site& site) {
  Attrs attrs;
  if (delta != 1.0) attrs.set("delta", delta);
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("huber_loss"), {&self, &target}, attrs, site);
}
DTensor huber_loss_each(const DTensor& self, const DTensor& target, double delta,
    const Site& site) {
  Attrs attrs;
  if (delta != 1.0) attrs.set("delta", delta);
  return call_op(known_op("huber_loss_each"), {&self, &target}, attrs, site);
}
DTensor kl_div(const DTensor& self, const DTensor& target, bool log_target,
    std::string_view reduction, const Site& site) {
  Attrs attrs;
  if (log_target != false) attrs.set("log_target", log_target);
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("kl_div"), {&self, &target}, attrs, site);
}
DTensor kl_div_each(const DTensor& self, const DTensor& target, bool log_target, const Site& site) {
  Attrs attrs;
  if (log_target != false) attrs.set("log_target", log_target);
  return call_op(known_op("kl_div_each"), {&self, &target}, attrs, site);
}
DTensor l1_loss(const DTensor& self, const DTensor& target, std::string_view reduction,
    const Site& site) {
  Attrs attrs;
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("l1_loss"), {&self, &target}, attrs, site);
}
DTensor l1_loss_each(const DTensor& self, const DTensor& target, const Site& site) {
  return call_op(known_op("l1_loss_each"), {&self, &target}, {}, site);
}
DTensor mse_loss(const DTensor& self, const DTensor& target, std::string_view reduction,
    const Site& site) {
  Attrs attrs;
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("mse_loss"), {&self, &target}, attrs, site);
}
DTensor mse_loss_each(const DTensor& self, const DTensor& target, const Site& site) {
  return call_op(known_op("mse_loss_each"), {&self, &target}, {}, site);
}
DTensor smooth_l1_loss(const DTensor& self, const DTensor& target, double beta,
    std::string_view reduction, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (reduction != "mean") attrs.set("reduction", std::string(reduction));
  return call_op(known_op("smooth_l1_loss"), {&self, &target}, attrs, site);
}
DTensor smooth_l1_loss_each(const DTensor& self, const DTensor& target, double beta,
    const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  return call_op(known_op("smooth_l1_loss_each"), {&self, &target}, attrs, site);
}

}  // namespace tessera
