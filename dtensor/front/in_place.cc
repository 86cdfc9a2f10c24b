// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/in_place.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor& abs_(DTensor& self, const Site& site) {
  return call_on(self, known_op("abs_"), {&self}, {}, site);
}
// NOLINTNEXTLINE(readability-function-size)
void adam_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq, double lr,
    std::int64_t step, const AdamOptions& options, const Site& site) {
  Attrs attrs = {{"lr", lr}, {"step", step}};
  if (options.beta1 != 0.9) attrs.set("beta1", options.beta1);
  if (options.beta2 != 0.95) attrs.set("beta2", options.beta2);
  if (options.eps != 1e-08) attrs.set("eps", options.eps);
  if (options.weight_decay != 0.1) attrs.set("weight_decay", options.weight_decay);
  if (options.grad_scale != 1.0) attrs.set("grad_scale", options.grad_scale);
  call_op(known_op("adam_"), {&param, &grad, &exp_avg, &exp_avg_sq}, attrs, site);
}
void adam_steered_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq,
    const DTensor& steering, const AdamSteeredOptions& options, const Site& site) {
  Attrs attrs;
  if (options.lr_scale != 1.0) attrs.set("lr_scale", options.lr_scale);
  if (options.beta1 != 0.9) attrs.set("beta1", options.beta1);
  if (options.beta2 != 0.95) attrs.set("beta2", options.beta2);
  if (options.eps != 1e-08) attrs.set("eps", options.eps);
  if (options.weight_decay != 0.1) attrs.set("weight_decay", options.weight_decay);
  call_op(known_op("adam_steered_"), {&param, &grad, &exp_avg, &exp_avg_sq, &steering}, attrs,
    site);
}
// NOLINTNEXTLINE(readability-function-size)
void adamw_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq, double lr,
    std::int64_t step, const AdamwOptions& options, const Site& site) {
  Attrs attrs = {{"lr", lr}, {"step", step}};
  if (options.beta1 != 0.9) attrs.set("beta1", options.beta1);
  if (options.beta2 != 0.95) attrs.set("beta2", options.beta2);
  if (options.eps != 1e-08) attrs.set("eps", options.eps);
  if (options.weight_decay != 0.1) attrs.set("weight_decay", options.weight_decay);
  if (options.grad_scale != 1.0) attrs.set("grad_scale", options.grad_scale);
  call_op(known_op("adamw_"), {&param, &grad, &exp_avg, &exp_avg_sq}, attrs, site);
}
void adamw_steered_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq,
    const DTensor& steering, const AdamwSteeredOptions& options, const Site& site) {
  Attrs attrs;
  if (options.lr_scale != 1.0) attrs.set("lr_scale", options.lr_scale);
  if (options.beta1 != 0.9) attrs.set("beta1", options.beta1);
  if (options.beta2 != 0.95) attrs.set("beta2", options.beta2);
  if (options.eps != 1e-08) attrs.set("eps", options.eps);
  if (options.weight_decay != 0.1) attrs.set("weight_decay", options.weight_decay);
  call_op(known_op("adamw_steered_"), {&param, &grad, &exp_avg, &exp_avg_sq, &steering}, attrs,
    site);
}
DTensor& add_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("add_"), {&self, &other}, {}, site);
}
DTensor& add_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("add_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& addcdiv_(DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value,
    const Site& site) {
  Attrs attrs;
  if (value != 1.0) attrs.set("value", value);
  return call_on(self, known_op("addcdiv_"), {&self, &tensor1, &tensor2}, attrs, site);
}
DTensor& addcmul_(DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value,
    const Site& site) {
  Attrs attrs;
  if (value != 1.0) attrs.set("value", value);
  return call_on(self, known_op("addcmul_"), {&self, &tensor1, &tensor2}, attrs, site);
}
DTensor& arange_(DTensor& self, double start, double step, const Site& site) {
  Attrs attrs;
  if (start != 0.0) attrs.set("start", start);
  if (step != 1.0) attrs.set("step", step);
  return call_on(self, known_op("arange_"), {&self}, attrs, site);
}
DTensor& atan_(DTensor& self, const Site& site) {
  return call_on(self, known_op("atan_"), {&self}, {}, site);
}
DTensor& bernoulli_(DTensor& self, std::int64_t seed, std::int64_t stream, double p,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (p != 0.5) attrs.set("p", p);
  return call_on(self, known_op("bernoulli_.float"), {&self}, attrs, site);
}
DTensor& bitwise_and_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("bitwise_and_"), {&self, &other}, {}, site);
}
DTensor& bitwise_not_(DTensor& self, const Site& site) {
  return call_on(self, known_op("bitwise_not_"), {&self}, {}, site);
}
DTensor& bitwise_or_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("bitwise_or_"), {&self, &other}, {}, site);
}
DTensor& bitwise_xor_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("bitwise_xor_"), {&self, &other}, {}, site);
}
DTensor& cauchy_(DTensor& self, std::int64_t seed, std::int64_t stream, double median, double sigma,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (median != 0.0) attrs.set("median", median);
  if (sigma != 1.0) attrs.set("sigma", sigma);
  return call_on(self, known_op("cauchy_"), {&self}, attrs, site);
}
DTensor& ceil_(DTensor& self, const Site& site) {
  return call_on(self, known_op("ceil_"), {&self}, {}, site);
}
DTensor& clamp_(DTensor& self, double min, double max, const Site& site) {
  Attrs attrs;
  if (min != -std::numeric_limits<double>::infinity()) attrs.set("min", min);
  if (max != std::numeric_limits<double>::infinity()) attrs.set("max", max);
  return call_on(self, known_op("clamp_"), {&self}, attrs, site);
}
DTensor& clamp_max_(DTensor& self, double max, const Site& site) {
  return call_on(self, known_op("clamp_max_"), {&self}, {{"max", max}}, site);
}
DTensor& clamp_min_(DTensor& self, double min, const Site& site) {
  return call_on(self, known_op("clamp_min_"), {&self}, {{"min", min}}, site);
}
DTensor& copy_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("copy_"), {&self, &other}, {}, site);
}
DTensor& copysign_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("copysign_"), {&self, &other}, {}, site);
}
DTensor& cos_(DTensor& self, const Site& site) {
  return call_on(self, known_op("cos_"), {&self}, {}, site);
}
DTensor& div_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("div_"), {&self, &other}, {}, site);
}
DTensor& div_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("div_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& elu_(DTensor& self, double alpha, double scale, double input_scale, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  if (scale != 1.0) attrs.set("scale", scale);
  if (input_scale != 1.0) attrs.set("input_scale", input_scale);
  return call_on(self, known_op("elu_"), {&self}, attrs, site);
}
DTensor& erf_(DTensor& self, const Site& site) {
  return call_on(self, known_op("erf_"), {&self}, {}, site);
}
DTensor& exp2_(DTensor& self, const Site& site) {
  return call_on(self, known_op("exp2_"), {&self}, {}, site);
}
DTensor& exp_(DTensor& self, const Site& site) {
  return call_on(self, known_op("exp_"), {&self}, {}, site);
}
DTensor& expm1_(DTensor& self, const Site& site) {
  return call_on(self, known_op("expm1_"), {&self}, {}, site);
}
DTensor& exponential_(DTensor& self, std::int64_t seed, std::int64_t stream, double lambd,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (lambd != 1.0) attrs.set("lambd", lambd);
  return call_on(self, known_op("exponential_"), {&self}, attrs, site);
}
DTensor& eye_(DTensor& self, const Site& site) {
  return call_on(self, known_op("eye_"), {&self}, {}, site);
}
DTensor& fill_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("fill_"), {&self}, {{"value", value}}, site);
}
DTensor& floor_(DTensor& self, const Site& site) {
  return call_on(self, known_op("floor_"), {&self}, {}, site);
}
DTensor& floor_divide_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("floor_divide_"), {&self, &other}, {}, site);
}
DTensor& floor_divide_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("floor_divide_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& fmod_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("fmod_"), {&self, &other}, {}, site);
}
DTensor& frac_(DTensor& self, const Site& site) {
  return call_on(self, known_op("frac_"), {&self}, {}, site);
}
DTensor& gelu_(DTensor& self, std::string_view approximate, const Site& site) {
  Attrs attrs;
  if (approximate != "none") attrs.set("approximate", std::string(approximate));
  return call_on(self, known_op("gelu_"), {&self}, attrs, site);
}
DTensor& geometric_(DTensor& self, std::int64_t seed, std::int64_t stream, double p,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (p != 0.5) attrs.set("p", p);
  return call_on(self, known_op("geometric_"), {&self}, attrs, site);
}
DTensor& hardsigmoid_(DTensor& self, const Site& site) {
  return call_on(self, known_op("hardsigmoid_"), {&self}, {}, site);
}
DTensor& hardswish_(DTensor& self, const Site& site) {
  return call_on(self, known_op("hardswish_"), {&self}, {}, site);
}
DTensor& hardtanh_(DTensor& self, double min_val, double max_val, const Site& site) {
  Attrs attrs;
  if (min_val != -1.0) attrs.set("min_val", min_val);
  if (max_val != 1.0) attrs.set("max_val", max_val);
  return call_on(self, known_op("hardtanh_"), {&self}, attrs, site);
}
DTensor& index_add_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    const Site& site) {
  return call_on(self, known_op("index_add_"), {&self, &index, &source}, {{"dim", dim}}, site);
}
DTensor& index_copy_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    const Site& site) {
  return call_on(self, known_op("index_copy_"), {&self, &index, &source}, {{"dim", dim}}, site);
}
DTensor& index_fill_(DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site) {
  return call_on(self, known_op("index_fill_"), {&self, &index}, {{"dim", dim}, {"value", value}},
    site);
}
DTensor& index_put_(DTensor& self, const DTensor& values, std::span<const DTensor> indices,
    const Shape& dims, bool accumulate, const Site& site) {
  Attrs attrs;
  if (!dims.empty()) attrs.set("dims", dims);
  if (accumulate != false) attrs.set("accumulate", accumulate);
  return listed_call_on(self, known_op("index_put_"), {&self, &values}, indices, attrs, site);
}
DTensor& index_reduce_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    std::string_view reduce, bool include_self, const Site& site) {
  Attrs attrs = {{"dim", dim}, {"reduce", std::string(reduce)}};
  if (include_self != true) attrs.set("include_self", include_self);
  return call_on(self, known_op("index_reduce_"), {&self, &index, &source}, attrs, site);
}
DTensor& leaky_relu_(DTensor& self, double negative_slope, const Site& site) {
  Attrs attrs;
  if (negative_slope != 0.01) attrs.set("negative_slope", negative_slope);
  return call_on(self, known_op("leaky_relu_"), {&self}, attrs, site);
}
DTensor& lerp_(DTensor& self, const DTensor& end, const DTensor& weight, const Site& site) {
  return call_on(self, known_op("lerp_"), {&self, &end, &weight}, {}, site);
}
DTensor& lerp_(DTensor& self, const DTensor& end, double weight, const Site& site) {
  return call_on(self, known_op("lerp_scalar_"), {&self, &end}, {{"weight", weight}}, site);
}
DTensor& linspace_(DTensor& self, double start, double end, const Site& site) {
  return call_on(self, known_op("linspace_"), {&self}, {{"start", start}, {"end", end}}, site);
}
DTensor& log10_(DTensor& self, const Site& site) {
  return call_on(self, known_op("log10_"), {&self}, {}, site);
}
DTensor& log1p_(DTensor& self, const Site& site) {
  return call_on(self, known_op("log1p_"), {&self}, {}, site);
}
DTensor& log2_(DTensor& self, const Site& site) {
  return call_on(self, known_op("log2_"), {&self}, {}, site);
}
DTensor& log_(DTensor& self, const Site& site) {
  return call_on(self, known_op("log_"), {&self}, {}, site);
}
DTensor& log_normal_(DTensor& self, std::int64_t seed, std::int64_t stream, double mean, double std,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (mean != 1.0) attrs.set("mean", mean);
  if (std != 2.0) attrs.set("std", std);
  return call_on(self, known_op("log_normal_"), {&self}, attrs, site);
}
DTensor& logspace_(DTensor& self, double start, double end, double base, const Site& site) {
  Attrs attrs = {{"start", start}, {"end", end}};
  if (base != 10.0) attrs.set("base", base);
  return call_on(self, known_op("logspace_"), {&self}, attrs, site);
}
DTensor& masked_fill_(DTensor& self, const DTensor& mask, double value, const Site& site) {
  return call_on(self, known_op("masked_fill_"), {&self, &mask}, {{"value", value}}, site);
}
DTensor& masked_fill_(DTensor& self, const DTensor& mask, const DTensor& value, const Site& site) {
  return call_on(self, known_op("masked_fill_tensor_"), {&self, &mask, &value}, {}, site);
}
DTensor& masked_scatter_(DTensor& self, const DTensor& mask, const DTensor& source,
    const Site& site) {
  return call_on(self, known_op("masked_scatter_"), {&self, &mask, &source}, {}, site);
}
DTensor& maximum_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("maximum_"), {&self, &other}, {}, site);
}
DTensor& minimum_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("minimum_"), {&self, &other}, {}, site);
}
DTensor& mul_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("mul_"), {&self, &other}, {}, site);
}
DTensor& mul_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("mul_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& nan_to_num_(DTensor& self, double nan, std::optional<double> posinf,
    std::optional<double> neginf, const Site& site) {
  Attrs attrs;
  if (nan != 0.0) attrs.set("nan", nan);
  if (posinf) attrs.set("posinf", *posinf);
  if (neginf) attrs.set("neginf", *neginf);
  return call_on(self, known_op("nan_to_num_"), {&self}, attrs, site);
}
DTensor& neg_(DTensor& self, const Site& site) {
  return call_on(self, known_op("neg_"), {&self}, {}, site);
}
DTensor& normal_(DTensor& self, std::int64_t seed, std::int64_t stream, double mean, double std,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (mean != 0.0) attrs.set("mean", mean);
  if (std != 1.0) attrs.set("std", std);
  return call_on(self, known_op("normal_"), {&self}, attrs, site);
}
DTensor& pow_(DTensor& self, double exponent, const Site& site) {
  return call_on(self, known_op("pow_"), {&self}, {{"exponent", exponent}}, site);
}
DTensor& pow_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("pow_tensor_"), {&self, &other}, {}, site);
}
DTensor& put_(DTensor& self, const DTensor& index, const DTensor& source, bool accumulate,
    const Site& site) {
  Attrs attrs;
  if (accumulate != false) attrs.set("accumulate", accumulate);
  return call_on(self, known_op("put_"), {&self, &index, &source}, attrs, site);
}
DTensor& random_(DTensor& self, std::int64_t seed, std::int64_t stream, std::int64_t from,
    std::optional<std::int64_t> to, const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (from != 0) attrs.set("from", from);
  if (to) attrs.set("to", *to);
  return call_on(self, known_op("random_"), {&self}, attrs, site);
}
DTensor& randperm_(DTensor& self, std::int64_t seed, std::int64_t stream, const Site& site) {
  return call_on(self, known_op("randperm_"), {&self}, {{"seed", seed}, {"stream", stream}}, site);
}
DTensor& reciprocal_(DTensor& self, const Site& site) {
  return call_on(self, known_op("reciprocal_"), {&self}, {}, site);
}
DTensor& relu6_(DTensor& self, const Site& site) {
  return call_on(self, known_op("relu6_"), {&self}, {}, site);
}
DTensor& relu_(DTensor& self, const Site& site) {
  return call_on(self, known_op("relu_"), {&self}, {}, site);
}
DTensor& remainder_(DTensor& self, const DTensor& other, const Site& site) {
  return call_on(self, known_op("remainder_"), {&self, &other}, {}, site);
}
DTensor& remainder_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("remainder_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& round_(DTensor& self, const Site& site) {
  return call_on(self, known_op("round_"), {&self}, {}, site);
}
DTensor& rsqrt_(DTensor& self, const Site& site) {
  return call_on(self, known_op("rsqrt_"), {&self}, {}, site);
}
DTensor& scatter_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site) {
  return call_on(self, known_op("scatter_"), {&self, &index, &src}, {{"dim", dim}}, site);
}
DTensor& scatter_add_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site) {
  return call_on(self, known_op("scatter_add_"), {&self, &index, &src}, {{"dim", dim}}, site);
}
DTensor& scatter_reduce_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    std::string_view reduce, bool include_self, const Site& site) {
  Attrs attrs = {{"dim", dim}, {"reduce", std::string(reduce)}};
  if (include_self != true) attrs.set("include_self", include_self);
  return call_on(self, known_op("scatter_reduce_"), {&self, &index, &src}, attrs, site);
}
DTensor& scatter_(DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site) {
  return call_on(self, known_op("scatter_value_"), {&self, &index},
    {{"dim", dim}, {"value", value}}, site);
}
DTensor& sgd_(DTensor& param, const DTensor& grad, double lr, double weight_decay,
    double grad_scale, const Site& site) {
  Attrs attrs = {{"lr", lr}};
  if (weight_decay != 0.0) attrs.set("weight_decay", weight_decay);
  if (grad_scale != 1.0) attrs.set("grad_scale", grad_scale);
  return call_on(param, known_op("sgd_"), {&param, &grad}, attrs, site);
}
void sgd_momentum_(DTensor& param, const DTensor& grad, DTensor& momentum_buffer, double lr,
    std::int64_t step, const SgdMomentumOptions& options, const Site& site) {
  Attrs attrs = {{"lr", lr}, {"step", step}};
  if (options.weight_decay != 0.0) attrs.set("weight_decay", options.weight_decay);
  if (options.grad_scale != 1.0) attrs.set("grad_scale", options.grad_scale);
  if (options.momentum != 0.0) attrs.set("momentum", options.momentum);
  if (options.dampening != 0.0) attrs.set("dampening", options.dampening);
  if (options.nesterov != false) attrs.set("nesterov", options.nesterov);
  call_op(known_op("sgd_momentum_"), {&param, &grad, &momentum_buffer}, attrs, site);
}
DTensor& sigmoid_(DTensor& self, const Site& site) {
  return call_on(self, known_op("sigmoid_"), {&self}, {}, site);
}
DTensor& sign_(DTensor& self, const Site& site) {
  return call_on(self, known_op("sign_"), {&self}, {}, site);
}
DTensor& silu_(DTensor& self, const Site& site) {
  return call_on(self, known_op("silu_"), {&self}, {}, site);
}
DTensor& sin_(DTensor& self, const Site& site) {
  return call_on(self, known_op("sin_"), {&self}, {}, site);
}
DTensor& sqrt_(DTensor& self, const Site& site) {
  return call_on(self, known_op("sqrt_"), {&self}, {}, site);
}
DTensor& square_(DTensor& self, const Site& site) {
  return call_on(self, known_op("square_"), {&self}, {}, site);
}
DTensor& sub_(DTensor& self, const DTensor& other, double alpha, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_on(self, known_op("sub_"), {&self, &other}, attrs, site);
}
DTensor& sub_(DTensor& self, double value, const Site& site) {
  return call_on(self, known_op("sub_scalar_"), {&self}, {{"value", value}}, site);
}
DTensor& tan_(DTensor& self, const Site& site) {
  return call_on(self, known_op("tan_"), {&self}, {}, site);
}
DTensor& tanh_(DTensor& self, const Site& site) {
  return call_on(self, known_op("tanh_"), {&self}, {}, site);
}
DTensor& threshold_(DTensor& self, double threshold, double value, const Site& site) {
  return call_on(self, known_op("threshold_"), {&self},
    {{"threshold", threshold}, {"value", value}}, site);
}
DTensor& tril_(DTensor& self, std::int64_t diagonal, const Site& site) {
  Attrs attrs;
  if (diagonal != 0) attrs.set("diagonal", diagonal);
  return call_on(self, known_op("tril_"), {&self}, attrs, site);
}
DTensor& triu_(DTensor& self, std::int64_t diagonal, const Site& site) {
  Attrs attrs;
  if (diagonal != 0) attrs.set("diagonal", diagonal);
  return call_on(self, known_op("triu_"), {&self}, attrs, site);
}
DTensor& trunc_(DTensor& self, const Site& site) {
  return call_on(self, known_op("trunc_"), {&self}, {}, site);
}
DTensor& truncated_normal_(DTensor& self, std::int64_t seed, std::int64_t stream,
    const TruncatedNormalOptions& options, const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (options.mean != 0.0) attrs.set("mean", options.mean);
  if (options.std != 1.0) attrs.set("std", options.std);
  if (options.low != -2.0) attrs.set("low", options.low);
  if (options.high != 2.0) attrs.set("high", options.high);
  return call_on(self, known_op("truncated_normal_"), {&self}, attrs, site);
}
DTensor& uniform_(DTensor& self, std::int64_t seed, std::int64_t stream, double from, double to,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (from != 0.0) attrs.set("from", from);
  if (to != 1.0) attrs.set("to", to);
  return call_on(self, known_op("uniform_"), {&self}, attrs, site);
}
DTensor& zero_(DTensor& self, const Site& site) {
  return call_on(self, known_op("zero_"), {&self}, {}, site);
}

}  // namespace tessera
