// dtensor/front/in_place.h: typed functions of the ops that change an operand. Each throws Error,
// naming what was seen and what is allowed, for operands and attributes that its op does not take,
// before any collective.
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

/// Magnitude of each element. In place. Takes self: numbers. Rule: * -> &A * | prod A
DTensor& abs_(DTensor& self, const Site& site = Site::current());
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-08;
  double weight_decay = 0.1;
  double grad_scale = 1.0;
};
/// One Adam step in place on param and both moments, which are F32 (F64 of an F64 param) or BF16;
/// weight decay is part of the gradient, which is scaled by grad_scale on the way in. Takes step:
/// at least 1. Rule: *, *, *, * -> &A *, &C *, &D *
void adam_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq, double lr,
    std::int64_t step, const AdamOptions& options = {}, const Site& site = Site::current());
struct AdamSteeredOptions {
  double lr_scale = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-08;
  double weight_decay = 0.1;
};
/// The same step as adam_, steered by values of the device: F64[4], which hold the learning rate,
/// the factor of the gradient, the number of the step (1 for the first), and 1, or 0 where nothing
/// is to be written. Rule: *, *, *, *, s -> &A *, &C *, &D * | s!
void adam_steered_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq,
    const DTensor& steering, const AdamSteeredOptions& options = {},
    const Site& site = Site::current());
struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-08;
  double weight_decay = 0.1;
  double grad_scale = 1.0;
};
/// One AdamW step in place on param and both moments, which are F32 (F64 of an F64 param) or BF16;
/// the gradient is scaled by grad_scale on the way in. Takes step: at least 1. Rule: *, *, *, * ->
/// &A *, &C *, &D *
void adamw_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq, double lr,
    std::int64_t step, const AdamwOptions& options = {}, const Site& site = Site::current());
struct AdamwSteeredOptions {
  double lr_scale = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-08;
  double weight_decay = 0.1;
};
/// The same step as adamw_, steered by values of the device: F64[4], which hold the learning rate,
/// the factor of the gradient, the number of the step (1 for the first), and 1, or 0 where nothing
/// is to be written. Rule: *, *, *, *, s -> &A *, &C *, &D * | s!
void adamw_steered_(DTensor& param, const DTensor& grad, DTensor& exp_avg, DTensor& exp_avg_sq,
    const DTensor& steering, const AdamwSteeredOptions& options = {},
    const Site& site = Site::current());
/// self += other. Rule: *, * -> &A * | lin A+B
DTensor& add_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Adds one number to every element. In place. Takes self: numbers. Rule: * -> &A * | aff A | mono
/// A
DTensor& add_(DTensor& self, double value, const Site& site = Site::current());
/// self + value tensor1 / tensor2. In place. Rule: *, *, * -> &A * | lin A+B
DTensor& addcdiv_(DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value = 1.0,
    const Site& site = Site::current());
/// self + value tensor1 tensor2. In place. Rule: *, *, * -> &A * | lin A+B*C
DTensor& addcmul_(DTensor& self, const DTensor& tensor1, const DTensor& tensor2, double value = 1.0,
    const Site& site = Site::current());
/// start, start + step, … along the only dim. Rule: * -> &A * | aff A | mono A
DTensor& arange_(DTensor& self, double start = 0.0, double step = 1.0,
    const Site& site = Site::current());
/// Inverse tangent, in radians. In place. Rule: * -> &A * | mono A
DTensor& atan_(DTensor& self, const Site& site = Site::current());
/// 1 with probability p, else 0, in place. Rule: * -> &A * | aff A | mono A | prod A
DTensor& bernoulli_(DTensor& self, std::int64_t seed, std::int64_t stream, double p = 0.5,
    const Site& site = Site::current());
/// Bits set in both. In place. Rule: *, * -> &A *
DTensor& bitwise_and_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// All bits turned over: -x - 1; true and false of BOOL. In place. Rule: * -> &A *
DTensor& bitwise_not_(DTensor& self, const Site& site = Site::current());
/// Bits set in one. In place. Rule: *, * -> &A *
DTensor& bitwise_or_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Bits set in one but not in both. In place. Rule: *, * -> &A *
DTensor& bitwise_xor_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Cauchy values. Rule: * -> &A * | aff A | mono A
DTensor& cauchy_(DTensor& self, std::int64_t seed, std::int64_t stream, double median = 0.0,
    double sigma = 1.0, const Site& site = Site::current());
/// Smallest integer that is not below. In place. Rule: * -> &A * | mono A
DTensor& ceil_(DTensor& self, const Site& site = Site::current());
/// min(max(x, min), max); a NaN among the three wins, and at a bound there is no slope. In place.
/// Takes self: numbers. Rule: * -> &A * | mono A
DTensor& clamp_(DTensor& self, double min = -std::numeric_limits<double>::infinity(),
    double max = std::numeric_limits<double>::infinity(), const Site& site = Site::current());
/// min(self, max); a NaN of either wins, and at the bound there is no slope. In place. Takes self:
/// numbers. Rule: * -> &A * | mono A
DTensor& clamp_max_(DTensor& self, double max, const Site& site = Site::current());
/// max(self, min); a NaN of either wins, and at the bound there is no slope. In place. Takes self:
/// numbers. Rule: * -> &A * | mono A
DTensor& clamp_min_(DTensor& self, double min, const Site& site = Site::current());
/// Overwrites self with other, cast to self's dtype. Rule: *, * -> &A * | lin A+B | prod A*B
DTensor& copy_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// self's magnitude with other's sign. In place. Rule: *, * -> &A *
DTensor& copysign_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Cosine of each element, in radians. In place. Rule: * -> &A *
DTensor& cos_(DTensor& self, const Site& site = Site::current());
/// Quotient element by element (true division). In place. Rule: *, * -> &A * | lin A | prod A*B
DTensor& div_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Divides every element by one number. In place. Takes self: numbers. Rule: * -> &A * | lin A if
/// value!=0 | mono A if value>0
DTensor& div_(DTensor& self, double value, const Site& site = Site::current());
/// scale x where positive, else scale alpha (exp(input_scale x) - 1). In place. Rule: * -> &A *
DTensor& elu_(DTensor& self, double alpha = 1.0, double scale = 1.0, double input_scale = 1.0,
    const Site& site = Site::current());
/// Error function. In place. Rule: * -> &A * | mono A
DTensor& erf_(DTensor& self, const Site& site = Site::current());
/// 2 to the power of each element. In place. Rule: * -> &A * | mono A
DTensor& exp2_(DTensor& self, const Site& site = Site::current());
/// e to the power of each element. In place. Rule: * -> &A * | mono A
DTensor& exp_(DTensor& self, const Site& site = Site::current());
/// exp(x) - 1, exact near 0. In place. Rule: * -> &A * | mono A
DTensor& expm1_(DTensor& self, const Site& site = Site::current());
/// Exponential values of rate `lambd`. Rule: * -> &A * | aff A | mono A
DTensor& exponential_(DTensor& self, std::int64_t seed, std::int64_t stream, double lambd = 1.0,
    const Site& site = Site::current());
/// 1 on the main diagonal of a matrix, 0 elsewhere. Rule: * -> &A * | aff A | mono A | prod A
DTensor& eye_(DTensor& self, const Site& site = Site::current());
/// Sets every element to one number. Rule: * -> &A * | lin A if value==0 | aff A | mono A | prod A
/// if value==0 | prod A if value==1
DTensor& fill_(DTensor& self, double value, const Site& site = Site::current());
/// Largest integer that is not above. In place. Rule: * -> &A * | mono A
DTensor& floor_(DTensor& self, const Site& site = Site::current());
/// Quotient rounded towards -inf; 0 or -1 by an infinity. Integers have none by 0. In place. Rule:
/// *, * -> &A *
DTensor& floor_divide_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Quotient rounded towards -inf; 0 or -1 by an infinity. In place. Takes self: numbers. Rule: * ->
/// &A *
DTensor& floor_divide_(DTensor& self, double value, const Site& site = Site::current());
/// Remainder of the sign of self. Source: C. Integers have none by 0. In place. Rule: *, * -> &A *
DTensor& fmod_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// What trunc takes away. In place. Rule: * -> &A *
DTensor& frac_(DTensor& self, const Site& site = Site::current());
/// x times the normal distribution's integral up to x, or its tanh form. In place. Rule: * -> &A *
DTensor& gelu_(DTensor& self, std::string_view approximate = "none",
    const Site& site = Site::current());
/// Tries until the first success of probability p, from 1. Rule: * -> &A * | aff A | mono A
DTensor& geometric_(DTensor& self, std::int64_t seed, std::int64_t stream, double p = 0.5,
    const Site& site = Site::current());
/// (x + 3) / 6 held between 0 and 1. In place. Rule: * -> &A * | mono A
DTensor& hardsigmoid_(DTensor& self, const Site& site = Site::current());
/// x times hardsigmoid(x). In place. Rule: * -> &A *
DTensor& hardswish_(DTensor& self, const Site& site = Site::current());
/// The element held between min_val and max_val; a NaN stays, and passes its cotangent. In place.
/// Takes self: numbers. Rule: * -> &A * | mono A
DTensor& hardtanh_(DTensor& self, double min_val = -1.0, double max_val = 1.0,
    const Site& site = Site::current());
/// Adds slices of source into self at a 1-D index along a dim, in operand order. Rule: *g@dim, i,
/// *i@dim -> &A *g | g#:own i:sum | lin A+C
DTensor& index_add_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    const Site& site = Site::current());
/// self with slices of source in place of those at a 1-D index of a dim; of equal indices the last
/// wins. In place. Rule: *g@dim, i, *i@dim -> &A *g | g#:own i! | lin A+C | max A,C | min A,C |
/// prod A*C
DTensor& index_copy_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    const Site& site = Site::current());
/// self with `value` in the slices at a 1-D index of a dim. In place. Rule: *g@dim, i -> &A *g |
/// g#:own i! | lin A if value==0 | aff A | mono A | prod A if value==0 | prod A if value==1
DTensor& index_fill_(DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site = Site::current());
/// self with `values` (broadcast) in the slices that `index` would read, or added to them; of equal
/// indices the last wins. In place. Rule: *, *, *.. -> &A *
DTensor& index_put_(DTensor& self, const DTensor& values, std::span<const DTensor> indices,
    const Shape& dims = {}, bool accumulate = false, const Site& site = Site::current());
/// self with slices of source combined (prod, mean, amax, amin) into those at a 1-D index of a dim,
/// with self's slice or without it. In place. Rule: *g@dim, i, *i@dim -> &A *g | g#:own i!
DTensor& index_reduce_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& source,
    std::string_view reduce, bool include_self = true, const Site& site = Site::current());
/// x where positive, else negative_slope x. In place. Rule: * -> &A * | mono A if negative_slope>0
DTensor& leaky_relu_(DTensor& self, double negative_slope = 0.01,
    const Site& site = Site::current());
/// self + weight (end - self), exact at both ends. In place. Takes self: floating; end: floating;
/// weight: floating. Rule: *, *, * -> &A * | lin A+B | aff C
DTensor& lerp_(DTensor& self, const DTensor& end, const DTensor& weight,
    const Site& site = Site::current());
/// self + weight (end - self), exact at both ends. In place. Takes self: floating; end: floating.
/// Rule: *, * -> &A * | lin A+B
DTensor& lerp_(DTensor& self, const DTensor& end, double weight,
    const Site& site = Site::current());
/// Evenly spaced values from start to end, both included. Rule: * -> &A * | aff A | mono A
DTensor& linspace_(DTensor& self, double start, double end, const Site& site = Site::current());
/// Logarithm to the base 10. In place. Rule: * -> &A * | min A
DTensor& log10_(DTensor& self, const Site& site = Site::current());
/// log(1 + x), exact near 0. In place. Rule: * -> &A * | min A
DTensor& log1p_(DTensor& self, const Site& site = Site::current());
/// Logarithm to the base 2. In place. Rule: * -> &A * | min A
DTensor& log2_(DTensor& self, const Site& site = Site::current());
/// Natural logarithm. In place. Rule: * -> &A * | min A
DTensor& log_(DTensor& self, const Site& site = Site::current());
/// Values whose logarithms are normal. Rule: * -> &A * | aff A | mono A
DTensor& log_normal_(DTensor& self, std::int64_t seed, std::int64_t stream, double mean = 1.0,
    double std = 2.0, const Site& site = Site::current());
/// base to the power of what linspace_ gives. Rule: * -> &A * | aff A | mono A
DTensor& logspace_(DTensor& self, double start, double end, double base = 10.0,
    const Site& site = Site::current());
/// `value` where mask is true, else self. In place. Rule: *, * -> &A * | lin A if value==0 | aff A
/// | mono A | prod A if value==0 | prod A if value==1
DTensor& masked_fill_(DTensor& self, const DTensor& mask, double value,
    const Site& site = Site::current());
/// The one number in value where mask is true, else self. In place. Rule: *, *, -> &A * | lin A+C |
/// mono AC | max A,C | min A,C | prod A*C
DTensor& masked_fill_(DTensor& self, const DTensor& mask, const DTensor& value,
    const Site& site = Site::current());
/// self with the first elements of a 1-D source, in row-major order, where mask is true. In place.
/// Rule: *, ..., s -> &A * | ...! s! | lin A+C | max A,C | min A,C | prod A*C
DTensor& masked_scatter_(DTensor& self, const DTensor& mask, const DTensor& source,
    const Site& site = Site::current());
/// The larger element of two; NaN wins. Equal ones share a cotangent. In place. Rule: *, * -> &A *
/// | max A,B | mono AB
DTensor& maximum_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// The smaller element of two; NaN wins. Equal ones share a cotangent. In place. Rule: *, * -> &A *
/// | min A,B | mono AB
DTensor& minimum_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Product element by element. In place. Rule: *, * -> &A * | lin A*B | prod A*B
DTensor& mul_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Multiplies every element by one number, in place. Takes self: numbers. Rule: * -> &A * | lin A |
/// mono A if value>0
DTensor& mul_(DTensor& self, double value, const Site& site = Site::current());
/// Numbers for NaN and the infinities; by default 0 and the largest finite ones. In place. Rule: *
/// -> &A *
DTensor& nan_to_num_(DTensor& self, double nan = 0.0, std::optional<double> posinf = {},
    std::optional<double> neginf = {}, const Site& site = Site::current());
/// Minus each element. In place. Takes self: numbers. Rule: * -> &A * | lin A
DTensor& neg_(DTensor& self, const Site& site = Site::current());
/// Normal values. Rule: * -> &A * | aff A | mono A
DTensor& normal_(DTensor& self, std::int64_t seed, std::int64_t stream, double mean = 0.0,
    double std = 1.0, const Site& site = Site::current());
/// Each element to a power given as a number; zeros and infinities as C's pow has them. In place.
/// Rule: * -> &A * | aff A if exponent==0
DTensor& pow_(DTensor& self, double exponent, const Site& site = Site::current());
/// self to the power of other; integers wrap, negative powers of them are 0. In place. Rule: *, *
/// -> &A *
DTensor& pow_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// self with the elements of source, which has the index's shape, written (or added) at row-major
/// positions; of equal positions the last wins. In place. Rule: ..., *, * -> &A ... | ...! *!
DTensor& put_(DTensor& self, const DTensor& index, const DTensor& source, bool accumulate = false,
    const Site& site = Site::current());
/// Integers in [from, to); to is by default 2^24, or what BOOL and U8 hold. Rule: * -> &A * | aff A
/// | mono A
DTensor& random_(DTensor& self, std::int64_t seed, std::int64_t stream, std::int64_t from = 0,
    std::optional<std::int64_t> to = {}, const Site& site = Site::current());
/// 0 … n − 1 in a random order, the same whatever the cut. Rule: * -> &A * | aff A | mono A
DTensor& randperm_(DTensor& self, std::int64_t seed, std::int64_t stream,
    const Site& site = Site::current());
/// One over each element. In place. Rule: * -> &A * | prod A
DTensor& reciprocal_(DTensor& self, const Site& site = Site::current());
/// The element held between 0 and 6; a NaN stays, and passes its cotangent. In place. Takes self:
/// numbers. Rule: * -> &A * | mono A
DTensor& relu6_(DTensor& self, const Site& site = Site::current());
/// The element where positive, else 0. In place. Rule: * -> &A * | mono A
DTensor& relu_(DTensor& self, const Site& site = Site::current());
/// Remainder of the sign of other. Source: Python. Integers have none by 0. In place. Rule: *, * ->
/// &A *
DTensor& remainder_(DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Remainder of the sign of value. Source: Python. In place. Takes self: numbers. Rule: * -> &A *
DTensor& remainder_(DTensor& self, double value, const Site& site = Site::current());
/// The nearest whole number, halves to the even one. In place. Takes self: numbers. Rule: * -> &A *
/// | mono A
DTensor& round_(DTensor& self, const Site& site = Site::current());
/// One over the square root. In place. Rule: * -> &A *
DTensor& rsqrt_(DTensor& self, const Site& site = Site::current());
/// self with [.., index[.., i, ..], ..] = src[.., i, ..] along a dim; of equal indices the last
/// wins. In place. Rule: *g@dim, *i@dim, *i@dim -> &A *g | g#:own i! | lin A+C | max A,C | min A,C
/// | prod A*C
DTensor& scatter_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site = Site::current());
/// self with src[.., i, ..] added at [.., index[.., i, ..], ..] along a dim, in operand order. In
/// place. Rule: *g@dim, *i@dim, *i@dim -> &A *g | g#:own i:sum | lin A+C
DTensor& scatter_add_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    const Site& site = Site::current());
/// self with src[.., i, ..] combined (sum, prod, mean, amax, amin) into [.., index[.., i, ..], ..]
/// along a dim, with self's element or without it. In place. Rule: *g@dim, *i@dim, *i@dim -> &A *g
/// | g#:own i!
DTensor& scatter_reduce_(DTensor& self, std::int64_t dim, const DTensor& index, const DTensor& src,
    std::string_view reduce, bool include_self = true, const Site& site = Site::current());
/// self with `value` at [.., index[.., i, ..], ..] along a dim. In place. Rule: *g@dim, *i@dim ->
/// &A *g | g#:own i! | lin A if value==0 | aff A | mono A | prod A if value==0 | prod A if value==1
DTensor& scatter_(DTensor& self, std::int64_t dim, const DTensor& index, double value,
    const Site& site = Site::current());
/// One step of gradient descent in place on param. Rule: *, * -> &A * | lin A+B
DTensor& sgd_(DTensor& param, const DTensor& grad, double lr, double weight_decay = 0.0,
    double grad_scale = 1.0, const Site& site = Site::current());
struct SgdMomentumOptions {
  double weight_decay = 0.0;
  double grad_scale = 1.0;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
};
/// One step of gradient descent with momentum in place on param and momentum_buffer, which the
/// first step fills. Takes step: at least 1. Rule: *, *, * -> &A *, &C * | lin A+B+C
void sgd_momentum_(DTensor& param, const DTensor& grad, DTensor& momentum_buffer, double lr,
    std::int64_t step, const SgdMomentumOptions& options = {}, const Site& site = Site::current());
/// 1 / (1 + exp(-x)). In place. Rule: * -> &A * | mono A
DTensor& sigmoid_(DTensor& self, const Site& site = Site::current());
/// -1, 0 or 1 by the sign. In place. Rule: * -> &A * | prod A
DTensor& sign_(DTensor& self, const Site& site = Site::current());
/// x times sigmoid(x); falls below x = -1.28, so no Partial passes. In place. Rule: * -> &A *
DTensor& silu_(DTensor& self, const Site& site = Site::current());
/// Sine of each element, in radians. In place. Rule: * -> &A *
DTensor& sin_(DTensor& self, const Site& site = Site::current());
/// Square root. In place. Rule: * -> &A * | min A
DTensor& sqrt_(DTensor& self, const Site& site = Site::current());
/// Each element times itself. In place. Rule: * -> &A * | prod A
DTensor& square_(DTensor& self, const Site& site = Site::current());
/// self - alpha other. In place. Rule: *, * -> &A * | lin A+B
DTensor& sub_(DTensor& self, const DTensor& other, double alpha = 1.0,
    const Site& site = Site::current());
/// Takes one number from every element. In place. Takes self: numbers. Rule: * -> &A * | aff A |
/// mono A
DTensor& sub_(DTensor& self, double value, const Site& site = Site::current());
/// Tangent, in radians. In place. Rule: * -> &A *
DTensor& tan_(DTensor& self, const Site& site = Site::current());
/// Hyperbolic tangent. In place. Rule: * -> &A * | mono A
DTensor& tanh_(DTensor& self, const Site& site = Site::current());
/// x where above threshold, else value. In place. Rule: * -> &A *
DTensor& threshold_(DTensor& self, double threshold, double value,
    const Site& site = Site::current());
/// The lower triangle of the last two dims, up to `diagonal` above the main one; 0 elsewhere. In
/// place. Takes diagonal: -4611686018427387904 to 4611686018427387904. Rule: * -> &A * | lin A |
/// mono A | prod A
DTensor& tril_(DTensor& self, std::int64_t diagonal = 0, const Site& site = Site::current());
/// The upper triangle of the last two dims, from `diagonal` above the main one; 0 elsewhere. In
/// place. Takes diagonal: -4611686018427387904 to 4611686018427387904. Rule: * -> &A * | lin A |
/// mono A | prod A
DTensor& triu_(DTensor& self, std::int64_t diagonal = 0, const Site& site = Site::current());
/// The whole part, towards 0. In place. Takes self: numbers. Rule: * -> &A * | mono A
DTensor& trunc_(DTensor& self, const Site& site = Site::current());
struct TruncatedNormalOptions {
  double mean = 0.0;
  double std = 1.0;
  double low = -2.0;
  double high = 2.0;
};
/// Normal values kept inside [low, high]. Rule: * -> &A * | aff A | mono A
DTensor& truncated_normal_(DTensor& self, std::int64_t seed, std::int64_t stream,
    const TruncatedNormalOptions& options = {}, const Site& site = Site::current());
/// Uniform values in [from, to). Rule: * -> &A * | aff A | mono A
DTensor& uniform_(DTensor& self, std::int64_t seed, std::int64_t stream, double from = 0.0,
    double to = 1.0, const Site& site = Site::current());
/// Sets every element to 0. Rule: * -> &A * | lin A | mono A | prod A
DTensor& zero_(DTensor& self, const Site& site = Site::current());

}  // namespace tessera
