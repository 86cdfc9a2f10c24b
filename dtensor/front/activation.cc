// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/activation.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor celu(const DTensor& self, double alpha, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("celu"), {&self}, attrs, site);
}
DTensor elu(const DTensor& self, double alpha, double scale, double input_scale, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  if (scale != 1.0) attrs.set("scale", scale);
  if (input_scale != 1.0) attrs.set("input_scale", input_scale);
  return call_op(known_op("elu"), {&self}, attrs, site);
}
DTensor gelu(const DTensor& self, std::string_view approximate, const Site& site) {
  Attrs attrs;
  if (approximate != "none") attrs.set("approximate", std::string(approximate));
  return call_op(known_op("gelu"), {&self}, attrs, site);
}
DTensor hardshrink(const DTensor& self, double lambd, const Site& site) {
  Attrs attrs;
  if (lambd != 0.5) attrs.set("lambd", lambd);
  return call_op(known_op("hardshrink"), {&self}, attrs, site);
}
DTensor hardsigmoid(const DTensor& self, const Site& site) {
  return call_op(known_op("hardsigmoid"), {&self}, {}, site);
}
DTensor hardswish(const DTensor& self, const Site& site) {
  return call_op(known_op("hardswish"), {&self}, {}, site);
}
DTensor hardtanh(const DTensor& self, double min_val, double max_val, const Site& site) {
  Attrs attrs;
  if (min_val != -1.0) attrs.set("min_val", min_val);
  if (max_val != 1.0) attrs.set("max_val", max_val);
  return call_op(known_op("hardtanh"), {&self}, attrs, site);
}
DTensor leaky_relu(const DTensor& self, double negative_slope, const Site& site) {
  Attrs attrs;
  if (negative_slope != 0.01) attrs.set("negative_slope", negative_slope);
  return call_op(known_op("leaky_relu"), {&self}, attrs, site);
}
DTensor log_sigmoid(const DTensor& self, const Site& site) {
  return call_op(known_op("log_sigmoid"), {&self}, {}, site);
}
DTensor mish(const DTensor& self, const Site& site) {
  return call_op(known_op("mish"), {&self}, {}, site);
}
DTensor prelu(const DTensor& self, const DTensor& weight, const Site& site) {
  return call_op(known_op("prelu"), {&self, &weight}, {}, site);
}
DTensor relu(const DTensor& self, const Site& site) {
  return call_op(known_op("relu"), {&self}, {}, site);
}
DTensor relu6(const DTensor& self, const Site& site) {
  return call_op(known_op("relu6"), {&self}, {}, site);
}
DTensor selu(const DTensor& self, const Site& site) {
  return call_op(known_op("selu"), {&self}, {}, site);
}
DTensor sigmoid(const DTensor& self, const Site& site) {
  return call_op(known_op("sigmoid"), {&self}, {}, site);
}
DTensor silu(const DTensor& self, const Site& site) {
  return call_op(known_op("silu"), {&self}, {}, site);
}
DTensor softplus(const DTensor& self, double beta, double threshold, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (threshold != 20.0) attrs.set("threshold", threshold);
  return call_op(known_op("softplus"), {&self}, attrs, site);
}
DTensor softshrink(const DTensor& self, double lambd, const Site& site) {
  Attrs attrs;
  if (lambd != 0.5) attrs.set("lambd", lambd);
  return call_op(known_op("softshrink"), {&self}, attrs, site);
}
DTensor softsign(const DTensor& self, const Site& site) {
  return call_op(known_op("softsign"), {&self}, {}, site);
}
DTensor swiglu(const DTensor& gate, const DTensor& up, const Site& site) {
  return call_op(known_op("swiglu"), {&gate, &up}, {}, site);
}
DTensor tanh(const DTensor& self, const Site& site) {
  return call_op(known_op("tanh"), {&self}, {}, site);
}
DTensor tanhshrink(const DTensor& self, const Site& site) {
  return call_op(known_op("tanhshrink"), {&self}, {}, site);
}
DTensor threshold(const DTensor& self, double threshold, double value, const Site& site) {
  return call_op(known_op("threshold"), {&self}, {{"threshold", threshold}, {"value", value}},
    site);
}

}  // namespace tessera
