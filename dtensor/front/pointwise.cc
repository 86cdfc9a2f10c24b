// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/pointwise.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor abs(const DTensor& self, const Site& site) {
  return call_op(known_op("abs"), {&self}, {}, site);
}
DTensor acos(const DTensor& self, const Site& site) {
  return call_op(known_op("acos"), {&self}, {}, site);
}
DTensor acosh(const DTensor& self, const Site& site) {
  return call_op(known_op("acosh"), {&self}, {}, site);
}
DTensor add(const DTensor& self, const DTensor& other, double alpha, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("add"), {&self, &other}, attrs, site);
}
DTensor add(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("add_scalar"), {&self}, {{"value", value}}, site);
}
DTensor addcdiv(const DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value,
    const Site& site) {
  Attrs attrs;
  if (value != 1.0) attrs.set("value", value);
  return call_op(known_op("addcdiv"), {&self, &tensor1, &tensor2}, attrs, site);
}
DTensor addcmul(const DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value,
    const Site& site) {
  Attrs attrs;
  if (value != 1.0) attrs.set("value", value);
  return call_op(known_op("addcmul"), {&self, &tensor1, &tensor2}, attrs, site);
}
DTensor asin(const DTensor& self, const Site& site) {
  return call_op(known_op("asin"), {&self}, {}, site);
}
DTensor asinh(const DTensor& self, const Site& site) {
  return call_op(known_op("asinh"), {&self}, {}, site);
}
DTensor atan(const DTensor& self, const Site& site) {
  return call_op(known_op("atan"), {&self}, {}, site);
}
DTensor atan2(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("atan2"), {&self, &other}, {}, site);
}
DTensor atanh(const DTensor& self, const Site& site) {
  return call_op(known_op("atanh"), {&self}, {}, site);
}
DTensor bitwise_and(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("bitwise_and"), {&self, &other}, {}, site);
}
DTensor bitwise_and(const DTensor& self, std::int64_t value, const Site& site) {
  return call_op(known_op("bitwise_and_scalar"), {&self}, {{"value", value}}, site);
}
DTensor bitwise_left_shift(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("bitwise_left_shift"), {&self, &other}, {}, site);
}
DTensor bitwise_not(const DTensor& self, const Site& site) {
  return call_op(known_op("bitwise_not"), {&self}, {}, site);
}
DTensor bitwise_or(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("bitwise_or"), {&self, &other}, {}, site);
}
DTensor bitwise_or(const DTensor& self, std::int64_t value, const Site& site) {
  return call_op(known_op("bitwise_or_scalar"), {&self}, {{"value", value}}, site);
}
DTensor bitwise_right_shift(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("bitwise_right_shift"), {&self, &other}, {}, site);
}
DTensor bitwise_xor(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("bitwise_xor"), {&self, &other}, {}, site);
}
DTensor bitwise_xor(const DTensor& self, std::int64_t value, const Site& site) {
  return call_op(known_op("bitwise_xor_scalar"), {&self}, {{"value", value}}, site);
}
DTensor ceil(const DTensor& self, const Site& site) {
  return call_op(known_op("ceil"), {&self}, {}, site);
}
DTensor clamp(const DTensor& self, double min, double max, const Site& site) {
  Attrs attrs;
  if (min != -std::numeric_limits<double>::infinity()) attrs.set("min", min);
  if (max != std::numeric_limits<double>::infinity()) attrs.set("max", max);
  return call_op(known_op("clamp"), {&self}, attrs, site);
}
DTensor clamp_max(const DTensor& self, double max, const Site& site) {
  return call_op(known_op("clamp_max"), {&self}, {{"max", max}}, site);
}
DTensor clamp_min(const DTensor& self, double min, const Site& site) {
  return call_op(known_op("clamp_min"), {&self}, {{"min", min}}, site);
}
DTensor clamp(const DTensor& self, const DTensor& min, const DTensor& max, const Site& site) {
  return call_op(known_op("clamp_tensor"), {&self, &min, &max}, {}, site);
}
DTensor clone(const DTensor& self, const Site& site) {
  return call_op(known_op("clone"), {&self}, {}, site);
}
DTensor contiguous(const DTensor& self, const Site& site) {
  return call_op(known_op("contiguous"), {&self}, {}, site);
}
DTensor copysign(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("copysign"), {&self, &other}, {}, site);
}
DTensor cos(const DTensor& self, const Site& site) {
  return call_op(known_op("cos"), {&self}, {}, site);
}
DTensor cosh(const DTensor& self, const Site& site) {
  return call_op(known_op("cosh"), {&self}, {}, site);
}
DTensor deg2rad(const DTensor& self, const Site& site) {
  return call_op(known_op("deg2rad"), {&self}, {}, site);
}
DTensor digamma(const DTensor& self, const Site& site) {
  return call_op(known_op("digamma"), {&self}, {}, site);
}
DTensor div(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("div"), {&self, &other}, {}, site);
}
DTensor div(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("div_scalar"), {&self}, {{"value", value}}, site);
}
DTensor eq(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("eq"), {&self, &other}, {}, site);
}
DTensor eq(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("eq_scalar"), {&self}, {{"value", value}}, site);
}
DTensor erf(const DTensor& self, const Site& site) {
  return call_op(known_op("erf"), {&self}, {}, site);
}
DTensor erfc(const DTensor& self, const Site& site) {
  return call_op(known_op("erfc"), {&self}, {}, site);
}
DTensor erfinv(const DTensor& self, const Site& site) {
  return call_op(known_op("erfinv"), {&self}, {}, site);
}
DTensor exp(const DTensor& self, const Site& site) {
  return call_op(known_op("exp"), {&self}, {}, site);
}
DTensor exp2(const DTensor& self, const Site& site) {
  return call_op(known_op("exp2"), {&self}, {}, site);
}
DTensor expm1(const DTensor& self, const Site& site) {
  return call_op(known_op("expm1"), {&self}, {}, site);
}
DTensor float_power(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("float_power"), {&self, &other}, {}, site);
}
DTensor floor(const DTensor& self, const Site& site) {
  return call_op(known_op("floor"), {&self}, {}, site);
}
DTensor floor_divide(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("floor_divide"), {&self, &other}, {}, site);
}
DTensor floor_divide(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("floor_divide_scalar"), {&self}, {{"value", value}}, site);
}
DTensor fmax(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("fmax"), {&self, &other}, {}, site);
}
DTensor fmin(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("fmin"), {&self, &other}, {}, site);
}
DTensor fmod(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("fmod"), {&self, &other}, {}, site);
}
DTensor fmod(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("fmod_scalar"), {&self}, {{"value", value}}, site);
}
DTensor frac(const DTensor& self, const Site& site) {
  return call_op(known_op("frac"), {&self}, {}, site);
}
DTensor gcd(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("gcd"), {&self, &other}, {}, site);
}
DTensor ge(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("ge"), {&self, &other}, {}, site);
}
DTensor ge(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("ge_scalar"), {&self}, {{"value", value}}, site);
}
DTensor gt(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("gt"), {&self, &other}, {}, site);
}
DTensor gt(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("gt_scalar"), {&self}, {{"value", value}}, site);
}
DTensor heaviside(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("heaviside"), {&self, &other}, {}, site);
}
DTensor hypot(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("hypot"), {&self, &other}, {}, site);
}
DTensor i0(const DTensor& self, const Site& site) {
  return call_op(known_op("i0"), {&self}, {}, site);
}
DTensor isclose(const DTensor& self, const DTensor& other, double rtol, double atol, bool equal_nan,
    const Site& site) {
  Attrs attrs;
  if (rtol != 1e-05) attrs.set("rtol", rtol);
  if (atol != 1e-08) attrs.set("atol", atol);
  if (equal_nan != false) attrs.set("equal_nan", equal_nan);
  return call_op(known_op("isclose"), {&self, &other}, attrs, site);
}
DTensor isfinite(const DTensor& self, const Site& site) {
  return call_op(known_op("isfinite"), {&self}, {}, site);
}
DTensor isinf(const DTensor& self, const Site& site) {
  return call_op(known_op("isinf"), {&self}, {}, site);
}
DTensor isnan(const DTensor& self, const Site& site) {
  return call_op(known_op("isnan"), {&self}, {}, site);
}
DTensor isneginf(const DTensor& self, const Site& site) {
  return call_op(known_op("isneginf"), {&self}, {}, site);
}
DTensor isposinf(const DTensor& self, const Site& site) {
  return call_op(known_op("isposinf"), {&self}, {}, site);
}
DTensor lcm(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("lcm"), {&self, &other}, {}, site);
}
DTensor ldexp(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("ldexp"), {&self, &other}, {}, site);
}
DTensor le(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("le"), {&self, &other}, {}, site);
}
DTensor le(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("le_scalar"), {&self}, {{"value", value}}, site);
}
DTensor lerp(const DTensor& self, const DTensor& end, const DTensor& weight, const Site& site) {
  return call_op(known_op("lerp"), {&self, &end, &weight}, {}, site);
}
DTensor lerp(const DTensor& self, const DTensor& end, double weight, const Site& site) {
  return call_op(known_op("lerp_scalar"), {&self, &end}, {{"weight", weight}}, site);
}
DTensor lgamma(const DTensor& self, const Site& site) {
  return call_op(known_op("lgamma"), {&self}, {}, site);
}
DTensor log(const DTensor& self, const Site& site) {
  return call_op(known_op("log"), {&self}, {}, site);
}
DTensor log10(const DTensor& self, const Site& site) {
  return call_op(known_op("log10"), {&self}, {}, site);
}
DTensor log1p(const DTensor& self, const Site& site) {
  return call_op(known_op("log1p"), {&self}, {}, site);
}
DTensor log2(const DTensor& self, const Site& site) {
  return call_op(known_op("log2"), {&self}, {}, site);
}
DTensor logaddexp(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("logaddexp"), {&self, &other}, {}, site);
}
DTensor logaddexp2(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("logaddexp2"), {&self, &other}, {}, site);
}
DTensor logical_and(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("logical_and"), {&self, &other}, {}, site);
}
DTensor logical_not(const DTensor& self, const Site& site) {
  return call_op(known_op("logical_not"), {&self}, {}, site);
}
DTensor logical_or(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("logical_or"), {&self, &other}, {}, site);
}
DTensor logical_xor(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("logical_xor"), {&self, &other}, {}, site);
}
DTensor logit(const DTensor& self, double eps, const Site& site) {
  Attrs attrs;
  if (eps != -1.0) attrs.set("eps", eps);
  return call_op(known_op("logit"), {&self}, attrs, site);
}
DTensor lt(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("lt"), {&self, &other}, {}, site);
}
DTensor lt(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("lt_scalar"), {&self}, {{"value", value}}, site);
}
DTensor masked_fill(const DTensor& self, const DTensor& mask, double value, const Site& site) {
  return call_op(known_op("masked_fill"), {&self, &mask}, {{"value", value}}, site);
}
DTensor masked_fill(const DTensor& self, const DTensor& mask, const DTensor& value,
    const Site& site) {
  return call_op(known_op("masked_fill_tensor"), {&self, &mask, &value}, {}, site);
}
DTensor maximum(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("maximum"), {&self, &other}, {}, site);
}
DTensor minimum(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("minimum"), {&self, &other}, {}, site);
}
DTensor mul(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("mul"), {&self, &other}, {}, site);
}
DTensor mul(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("mul_scalar"), {&self}, {{"value", value}}, site);
}
DTensor nan_to_num(const DTensor& self, double nan, std::optional<double> posinf,
    std::optional<double> neginf, const Site& site) {
  Attrs attrs;
  if (nan != 0.0) attrs.set("nan", nan);
  if (posinf) attrs.set("posinf", *posinf);
  if (neginf) attrs.set("neginf", *neginf);
  return call_op(known_op("nan_to_num"), {&self}, attrs, site);
}
DTensor ne(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("ne"), {&self, &other}, {}, site);
}
DTensor ne(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("ne_scalar"), {&self}, {{"value", value}}, site);
}
DTensor neg(const DTensor& self, const Site& site) {
  return call_op(known_op("neg"), {&self}, {}, site);
}
DTensor nextafter(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("nextafter"), {&self, &other}, {}, site);
}
DTensor positive(const DTensor& self, const Site& site) {
  return call_op(known_op("positive"), {&self}, {}, site);
}
DTensor pow(const DTensor& self, double exponent, const Site& site) {
  return call_op(known_op("pow"), {&self}, {{"exponent", exponent}}, site);
}
DTensor pow(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("pow_tensor"), {&self, &other}, {}, site);
}
DTensor rad2deg(const DTensor& self, const Site& site) {
  return call_op(known_op("rad2deg"), {&self}, {}, site);
}
DTensor reciprocal(const DTensor& self, const Site& site) {
  return call_op(known_op("reciprocal"), {&self}, {}, site);
}
DTensor remainder(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("remainder"), {&self, &other}, {}, site);
}
DTensor remainder(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("remainder_scalar"), {&self}, {{"value", value}}, site);
}
DTensor round(const DTensor& self, const Site& site) {
  return call_op(known_op("round"), {&self}, {}, site);
}
DTensor rsqrt(const DTensor& self, const Site& site) {
  return call_op(known_op("rsqrt"), {&self}, {}, site);
}
DTensor rsub(const DTensor& self, const DTensor& other, double alpha, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("rsub"), {&self, &other}, attrs, site);
}
DTensor rsub(const DTensor& self, double value, double alpha, const Site& site) {
  Attrs attrs = {{"value", value}};
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("rsub_scalar"), {&self}, attrs, site);
}
DTensor scalar_pow(const DTensor& self, double self_value, const Site& site) {
  return call_op(known_op("scalar_pow"), {&self}, {{"self", self_value}}, site);
}
DTensor sign(const DTensor& self, const Site& site) {
  return call_op(known_op("sign"), {&self}, {}, site);
}
DTensor signbit(const DTensor& self, const Site& site) {
  return call_op(known_op("signbit"), {&self}, {}, site);
}
DTensor sin(const DTensor& self, const Site& site) {
  return call_op(known_op("sin"), {&self}, {}, site);
}
DTensor sinc(const DTensor& self, const Site& site) {
  return call_op(known_op("sinc"), {&self}, {}, site);
}
DTensor sinh(const DTensor& self, const Site& site) {
  return call_op(known_op("sinh"), {&self}, {}, site);
}
DTensor sqrt(const DTensor& self, const Site& site) {
  return call_op(known_op("sqrt"), {&self}, {}, site);
}
DTensor square(const DTensor& self, const Site& site) {
  return call_op(known_op("square"), {&self}, {}, site);
}
DTensor sub(const DTensor& self, const DTensor& other, double alpha, const Site& site) {
  Attrs attrs;
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("sub"), {&self, &other}, attrs, site);
}
DTensor sub(const DTensor& self, double value, const Site& site) {
  return call_op(known_op("sub_scalar"), {&self}, {{"value", value}}, site);
}
DTensor tan(const DTensor& self, const Site& site) {
  return call_op(known_op("tan"), {&self}, {}, site);
}
DTensor to(const DTensor& self, DType dtype, const Site& site) {
  return call_op(known_op("to"), {&self}, {{"dtype", dtype}}, site);
}
DTensor trunc(const DTensor& self, const Site& site) {
  return call_op(known_op("trunc"), {&self}, {}, site);
}
DTensor where(const DTensor& condition, const DTensor& self, const DTensor& other,
    const Site& site) {
  return call_op(known_op("where"), {&condition, &self, &other}, {}, site);
}
DTensor where(const DTensor& condition, const DTensor& self, double other, const Site& site) {
  return call_op(known_op("where_scalar"), {&condition, &self}, {{"other", other}}, site);
}
DTensor xlogy(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("xlogy"), {&self, &other}, {}, site);
}

}  // namespace tessera
