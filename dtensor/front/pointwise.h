// dtensor/front/pointwise.h: typed functions of the ops in strategies/ops/pointwise/. Each throws
// Error, naming what was seen and what is allowed, for operands and attributes that its op does not
// take, before any collective.
// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/keep_dim.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Magnitude of each element. Takes self: numbers. Rule: * -> * | prod A
DTensor abs(const DTensor& self, const Site& site = Site::current());
/// Inverse cosine, in radians. Rule: * -> *
DTensor acos(const DTensor& self, const Site& site = Site::current());
/// Inverse hyperbolic cosine. Rule: * -> * | min A
DTensor acosh(const DTensor& self, const Site& site = Site::current());
/// self + alpha other. Rule: *, * -> * | lin A+B
DTensor add(const DTensor& self, const DTensor& other, double alpha = 1.0,
    const Site& site = Site::current());
/// Adds one number to every element. Takes self: numbers. Rule: * -> * | aff A | mono A
DTensor add(const DTensor& self, double value, const Site& site = Site::current());
/// self + value tensor1 / tensor2. Rule: *, *, * -> * | lin A+B
DTensor addcdiv(const DTensor& self, const DTensor& tensor1, const DTensor& tensor2,
    double value = 1.0, const Site& site = Site::current());
/// self + value tensor1 tensor2. Rule: *, *, * -> * | lin A+B*C
DTensor addcmul(const DTensor& self, const DTensor& tensor1, const DTensor& tensor2,
    double value = 1.0, const Site& site = Site::current());
/// Inverse sine, in radians. Rule: * -> *
DTensor asin(const DTensor& self, const Site& site = Site::current());
/// Inverse hyperbolic sine. Rule: * -> * | mono A
DTensor asinh(const DTensor& self, const Site& site = Site::current());
/// Inverse tangent, in radians. Rule: * -> * | mono A
DTensor atan(const DTensor& self, const Site& site = Site::current());
/// Angle of (other, self), in radians; without slope at (0, 0). Rule: *, * -> *
DTensor atan2(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Inverse hyperbolic tangent. Rule: * -> *
DTensor atanh(const DTensor& self, const Site& site = Site::current());
/// Bits set in both. Rule: *, * -> *
DTensor bitwise_and(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Bits set in both self and `value`. Rule: * -> *
DTensor bitwise_and(const DTensor& self, std::int64_t value, const Site& site = Site::current());
/// self times 2 to the power of other; bits leave at the top, all of them beyond the word. Takes
/// self: integers; other: integers. Rule: *, * -> * | lin A
DTensor bitwise_left_shift(const DTensor& self, const DTensor& other,
    const Site& site = Site::current());
/// All bits turned over: -x - 1; true and false of BOOL. Rule: * -> * | anti A
DTensor bitwise_not(const DTensor& self, const Site& site = Site::current());
/// Bits set in one. Rule: *, * -> *
DTensor bitwise_or(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Bits set in self or `value`. Rule: * -> *
DTensor bitwise_or(const DTensor& self, std::int64_t value, const Site& site = Site::current());
/// self over 2 to the power of other, rounded towards -inf. Takes self: integers; other: integers.
/// Rule: *, * -> * | mono A
DTensor bitwise_right_shift(const DTensor& self, const DTensor& other,
    const Site& site = Site::current());
/// Bits set in one but not in both. Rule: *, * -> *
DTensor bitwise_xor(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Bits set in self or `value` but not in both. Rule: * -> *
DTensor bitwise_xor(const DTensor& self, std::int64_t value, const Site& site = Site::current());
/// Smallest integer that is not below. Rule: * -> * | mono A
DTensor ceil(const DTensor& self, const Site& site = Site::current());
/// min(max(x, min), max); a NaN among the three wins, and at a bound there is no slope. Takes self:
/// numbers. Rule: * -> * | mono A
DTensor clamp(const DTensor& self, double min = -std::numeric_limits<double>::infinity(),
    double max = std::numeric_limits<double>::infinity(), const Site& site = Site::current());
/// min(self, max); a NaN of either wins, and at the bound there is no slope. Takes self: numbers.
/// Rule: * -> * | mono A
DTensor clamp_max(const DTensor& self, double max, const Site& site = Site::current());
/// max(self, min); a NaN of either wins, and at the bound there is no slope. Takes self: numbers.
/// Rule: * -> * | mono A
DTensor clamp_min(const DTensor& self, double min, const Site& site = Site::current());
/// min(max(self, min), max) with bounds for each element; a NaN among the three wins, and an
/// element shares its cotangent with a bound that it equals. Rule: *, *, * -> * | mono ABC | max
/// A,B | min A,C | min B,C
DTensor clamp(const DTensor& self, const DTensor& min, const DTensor& max,
    const Site& site = Site::current());
/// A copy in a new contiguous storage. Rule: * -> * | lin A | mono A | prod A
DTensor clone(const DTensor& self, const Site& site = Site::current());
/// The same values in a contiguous storage: the tensor itself where it is contiguous. Rule: * -> *
/// | lin A | mono A | prod A
DTensor contiguous(const DTensor& self, const Site& site = Site::current());
/// self's magnitude with other's sign. Rule: *, * -> *
DTensor copysign(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Cosine of each element, in radians. Rule: * -> *
DTensor cos(const DTensor& self, const Site& site = Site::current());
/// Hyperbolic cosine. Rule: * -> *
DTensor cosh(const DTensor& self, const Site& site = Site::current());
/// Degrees as radians. Rule: * -> * | lin A | mono A
DTensor deg2rad(const DTensor& self, const Site& site = Site::current());
/// Derivative of lgamma. Rule: * -> *
DTensor digamma(const DTensor& self, const Site& site = Site::current());
/// Quotient element by element (true division). Rule: *, * -> * | lin A | prod A*B
DTensor div(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Divides every element by one number. Takes self: numbers. Rule: * -> * | lin A if value!=0 |
/// mono A if value>0 | anti A if value<0
DTensor div(const DTensor& self, double value, const Site& site = Site::current());
/// True where self equals other. Rule: *, * -> *
DTensor eq(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self equals `value`. Rule: * -> *
DTensor eq(const DTensor& self, double value, const Site& site = Site::current());
/// Error function. Rule: * -> * | mono A
DTensor erf(const DTensor& self, const Site& site = Site::current());
/// 1 - erf(x). Rule: * -> * | anti A
DTensor erfc(const DTensor& self, const Site& site = Site::current());
/// Inverse of the error function. Rule: * -> *
DTensor erfinv(const DTensor& self, const Site& site = Site::current());
/// e to the power of each element. Rule: * -> * | mono A
DTensor exp(const DTensor& self, const Site& site = Site::current());
/// 2 to the power of each element. Rule: * -> * | mono A
DTensor exp2(const DTensor& self, const Site& site = Site::current());
/// exp(x) - 1, exact near 0. Rule: * -> * | mono A
DTensor expm1(const DTensor& self, const Site& site = Site::current());
/// self to the power of other, in F64 whatever the operands are. Rule: *, * -> *
DTensor float_power(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Largest integer that is not above. Rule: * -> * | mono A
DTensor floor(const DTensor& self, const Site& site = Site::current());
/// Quotient rounded towards -inf; 0 or -1 by an infinity. Integers have none by 0. Rule: *, * -> *
DTensor floor_divide(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Quotient rounded towards -inf; 0 or -1 by an infinity. Takes self: numbers. Rule: * -> *
DTensor floor_divide(const DTensor& self, double value, const Site& site = Site::current());
/// The larger of two; a NaN loses to a number. Equal ones share a cotangent. Rule: *, * -> *
DTensor fmax(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// The smaller of two; a NaN loses to a number. Equal ones share a cotangent. Rule: *, * -> *
DTensor fmin(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Remainder of the sign of self. Source: C. Integers have none by 0. Rule: *, * -> *
DTensor fmod(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Remainder of the sign of self. Source: C. Takes self: numbers. Rule: * -> *
DTensor fmod(const DTensor& self, double value, const Site& site = Site::current());
/// What trunc takes away. Rule: * -> *
DTensor frac(const DTensor& self, const Site& site = Site::current());
/// Greatest common divisor; that of 0 and 0 is 0. Rule: *, * -> *
DTensor gcd(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is not below other. Rule: *, * -> *
DTensor ge(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is not below `value`. Rule: * -> *
DTensor ge(const DTensor& self, double value, const Site& site = Site::current());
/// True where self is above other. Rule: *, * -> *
DTensor gt(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is above `value`. Rule: * -> *
DTensor gt(const DTensor& self, double value, const Site& site = Site::current());
/// 0 below 0, 1 above it, and other at 0. Rule: *, * -> * | aff B | mono B | prod B
DTensor heaviside(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// sqrt(self^2 + other^2) without overflow. Rule: *, * -> *
DTensor hypot(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Modified Bessel function of the first kind, order 0. Rule: * -> *
DTensor i0(const DTensor& self, const Site& site = Site::current());
/// True where |self - other| is at most atol + |rtol other|; NaN only where equal_nan. Rule: *, *
/// -> *
DTensor isclose(const DTensor& self, const DTensor& other, double rtol = 1e-05, double atol = 1e-08,
    bool equal_nan = false, const Site& site = Site::current());
/// True where the element is neither infinite nor NaN. Rule: * -> *
DTensor isfinite(const DTensor& self, const Site& site = Site::current());
/// True where the element is infinite. Rule: * -> *
DTensor isinf(const DTensor& self, const Site& site = Site::current());
/// True where the element is not a number. Rule: * -> *
DTensor isnan(const DTensor& self, const Site& site = Site::current());
/// True where the element is -inf. Rule: * -> *
DTensor isneginf(const DTensor& self, const Site& site = Site::current());
/// True where the element is +inf. Rule: * -> *
DTensor isposinf(const DTensor& self, const Site& site = Site::current());
/// Least common multiple; 0 where one is 0. It wraps, as products do. Rule: *, * -> *
DTensor lcm(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// self times 2 to the power of other. Rule: *, * -> *
DTensor ldexp(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is not above other. Rule: *, * -> *
DTensor le(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is not above `value`. Rule: * -> *
DTensor le(const DTensor& self, double value, const Site& site = Site::current());
/// self + weight (end - self), exact at both ends. Takes self: floating; end: floating; weight:
/// floating. Rule: *, *, * -> * | lin A+B | aff C
DTensor lerp(const DTensor& self, const DTensor& end, const DTensor& weight,
    const Site& site = Site::current());
/// self + weight (end - self), exact at both ends. Takes self: floating; end: floating. Rule: *, *
/// -> * | lin A+B
DTensor lerp(const DTensor& self, const DTensor& end, double weight,
    const Site& site = Site::current());
/// Logarithm of the gamma function's magnitude. Rule: * -> *
DTensor lgamma(const DTensor& self, const Site& site = Site::current());
/// Natural logarithm. Rule: * -> * | min A
DTensor log(const DTensor& self, const Site& site = Site::current());
/// Logarithm to the base 10. Rule: * -> * | min A
DTensor log10(const DTensor& self, const Site& site = Site::current());
/// log(1 + x), exact near 0. Rule: * -> * | min A
DTensor log1p(const DTensor& self, const Site& site = Site::current());
/// Logarithm to the base 2. Rule: * -> * | min A
DTensor log2(const DTensor& self, const Site& site = Site::current());
/// log(exp(self) + exp(other)) without overflow. Rule: *, * -> * | mono AB
DTensor logaddexp(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// log2(2^self + 2^other) without overflow. Rule: *, * -> * | mono AB
DTensor logaddexp2(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where both are. Rule: *, * -> *
DTensor logical_and(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where the element is zero or false. Rule: * -> *
DTensor logical_not(const DTensor& self, const Site& site = Site::current());
/// True where one is. Rule: *, * -> *
DTensor logical_or(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where one of the two is, not both. Rule: *, * -> *
DTensor logical_xor(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// log(x / (1 - x)) of x held between eps and 1 - eps; not held where eps is negative. Rule: * -> *
/// | mono A if eps>=0
DTensor logit(const DTensor& self, double eps = -1.0, const Site& site = Site::current());
/// True where self is below other. Rule: *, * -> *
DTensor lt(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self is below `value`. Rule: * -> *
DTensor lt(const DTensor& self, double value, const Site& site = Site::current());
/// `value` where mask is true, else self. Rule: *, * -> * | lin A if value==0 | aff A | mono A |
/// prod A if value==0 | prod A if value==1
DTensor masked_fill(const DTensor& self, const DTensor& mask, double value,
    const Site& site = Site::current());
/// The one number in value where mask is true, else self. Rule: *, *, -> * | lin A+C | mono AC |
/// max A,C | min A,C | prod A*C
DTensor masked_fill(const DTensor& self, const DTensor& mask, const DTensor& value,
    const Site& site = Site::current());
/// The larger element of two; NaN wins. Equal ones share a cotangent. Rule: *, * -> * | max A,B |
/// mono AB
DTensor maximum(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// The smaller element of two; NaN wins. Equal ones share a cotangent. Rule: *, * -> * | min A,B |
/// mono AB
DTensor minimum(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Product element by element. Rule: *, * -> * | lin A*B | prod A*B
DTensor mul(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Multiplies every element by one number. Takes self: numbers. Rule: * -> * | lin A | mono A if
/// value>0 | anti A if value<0
DTensor mul(const DTensor& self, double value, const Site& site = Site::current());
/// Numbers for NaN and the infinities; by default 0 and the largest finite ones. Rule: * -> *
DTensor nan_to_num(const DTensor& self, double nan = 0.0, std::optional<double> posinf = {},
    std::optional<double> neginf = {}, const Site& site = Site::current());
/// True where self differs from other. Rule: *, * -> *
DTensor ne(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// True where self differs from `value`. Rule: * -> *
DTensor ne(const DTensor& self, double value, const Site& site = Site::current());
/// Minus each element. Takes self: numbers. Rule: * -> * | lin A | anti A
DTensor neg(const DTensor& self, const Site& site = Site::current());
/// The number next to self in the direction of other, both taken as numbers of the result's dtype.
/// Rule: *, * -> * | mono AB
DTensor nextafter(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// The same values. Takes self: numbers. Rule: * -> * | lin A | mono A | prod A
DTensor positive(const DTensor& self, const Site& site = Site::current());
/// Each element to a power given as a number; zeros and infinities as C's pow has them. Rule: * ->
/// *
DTensor pow(const DTensor& self, double exponent, const Site& site = Site::current());
/// self to the power of other; integers wrap, negative powers of them are 0. Rule: *, * -> *
DTensor pow(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Radians as degrees. Rule: * -> * | lin A | mono A
DTensor rad2deg(const DTensor& self, const Site& site = Site::current());
/// One over each element. Rule: * -> * | prod A
DTensor reciprocal(const DTensor& self, const Site& site = Site::current());
/// Remainder of the sign of other. Source: Python. Integers have none by 0. Rule: *, * -> *
DTensor remainder(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Remainder of the sign of value. Source: Python. Takes self: numbers. Rule: * -> *
DTensor remainder(const DTensor& self, double value, const Site& site = Site::current());
/// The nearest whole number, halves to the even one. Takes self: numbers. Rule: * -> * | mono A
DTensor round(const DTensor& self, const Site& site = Site::current());
/// One over the square root. Rule: * -> *
DTensor rsqrt(const DTensor& self, const Site& site = Site::current());
/// other - alpha self. Rule: *, * -> * | lin A+B
DTensor rsub(const DTensor& self, const DTensor& other, double alpha = 1.0,
    const Site& site = Site::current());
/// value - alpha self. Rule: * -> * | lin A if value==0 | aff A | anti A if alpha>0 | mono A if
/// alpha<0
DTensor rsub(const DTensor& self, double value, double alpha = 1.0,
    const Site& site = Site::current());
/// One number to the power of each element; of 0 without slope where that is not negative. Rule: *
/// -> * | mono A if self>=1
DTensor scalar_pow(const DTensor& self, double self_value, const Site& site = Site::current());
/// -1, 0 or 1 by the sign. Rule: * -> * | prod A
DTensor sign(const DTensor& self, const Site& site = Site::current());
/// True where the sign is negative, of -0 and NaN too. Rule: * -> *
DTensor signbit(const DTensor& self, const Site& site = Site::current());
/// Sine of each element, in radians. Rule: * -> *
DTensor sin(const DTensor& self, const Site& site = Site::current());
/// sin(pi x) / (pi x), 1 at 0. Rule: * -> *
DTensor sinc(const DTensor& self, const Site& site = Site::current());
/// Hyperbolic sine. Rule: * -> * | mono A
DTensor sinh(const DTensor& self, const Site& site = Site::current());
/// Square root. Rule: * -> * | min A
DTensor sqrt(const DTensor& self, const Site& site = Site::current());
/// Each element times itself. Rule: * -> * | prod A
DTensor square(const DTensor& self, const Site& site = Site::current());
/// self - alpha other. Rule: *, * -> * | lin A+B
DTensor sub(const DTensor& self, const DTensor& other, double alpha = 1.0,
    const Site& site = Site::current());
/// Takes one number from every element. Takes self: numbers. Rule: * -> * | aff A | mono A
DTensor sub(const DTensor& self, double value, const Site& site = Site::current());
/// Tangent, in radians. Rule: * -> *
DTensor tan(const DTensor& self, const Site& site = Site::current());
/// The same values as another dtype; a floating value goes to an integer towards zero, to its ends
/// beyond them, and NaN to 0; U8 is the low byte, BOOL what is not zero. Rule: * -> * | lin A |
/// prod A
DTensor to(const DTensor& self, DType dtype, const Site& site = Site::current());
/// The whole part, towards 0. Takes self: numbers. Rule: * -> * | mono A
DTensor trunc(const DTensor& self, const Site& site = Site::current());
/// self where condition, else other. Rule: *, *, * -> * | lin B+C | mono BC | max B,C | min B,C |
/// prod B*C
DTensor where(const DTensor& condition, const DTensor& self, const DTensor& other,
    const Site& site = Site::current());
/// self where condition, else the number other. Rule: *, * -> * | lin B if other==0 | aff B | mono
/// B | prod B if other==0 | prod B if other==1
DTensor where(const DTensor& condition, const DTensor& self, double other,
    const Site& site = Site::current());
/// self log(other); 0 where self is 0, unless other is NaN. Rule: *, * -> *
DTensor xlogy(const DTensor& self, const DTensor& other, const Site& site = Site::current());

}  // namespace tessera
