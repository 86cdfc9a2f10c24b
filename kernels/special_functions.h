// kernels/special_functions.h: functions of one real number that the C library lacks.
#pragma once

#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// d/dx ln Γ(x); −inf at +0, +inf at −0, NaN at negative integers and −inf.
double digamma(double x);
/// d²/dx² ln Γ(x) for x that is no pole.
double trigamma(double x);
/// x with erf(x) = y: ±inf at ±1, NaN beyond.
double erfinv(double y);
/// Modified Bessel functions of the first kind, of order 0 and 1.
double bessel_i0(double x);
double bessel_i1(double x);
/// sin(πx) / (πx), 1 at 0; and its derivative.
double sinc(double x);
double sinc_slope(double x);

}  // namespace kernels
}  // namespace tessera
