// dtensor/front/activation.h: typed functions of activations. Each throws Error, naming what was
// seen and what is allowed, for operands and attributes that its op does not take, before any
// collective.
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

/// x where positive, else alpha (exp(x / alpha) - 1). Rule: * -> * | mono A if alpha>0
DTensor celu(const DTensor& self, double alpha = 1.0, const Site& site = Site::current());
/// scale x where positive, else scale alpha (exp(input_scale x) - 1). Rule: * -> *
DTensor elu(const DTensor& self, double alpha = 1.0, double scale = 1.0, double input_scale = 1.0,
    const Site& site = Site::current());
/// x times the normal distribution's integral up to x, or its tanh form. Rule: * -> *
DTensor gelu(const DTensor& self, std::string_view approximate = "none",
    const Site& site = Site::current());
/// 0 where the magnitude is at most lambd, else x. Rule: * -> * | mono A
DTensor hardshrink(const DTensor& self, double lambd = 0.5, const Site& site = Site::current());
/// (x + 3) / 6 held between 0 and 1. Rule: * -> * | mono A
DTensor hardsigmoid(const DTensor& self, const Site& site = Site::current());
/// x times hardsigmoid(x). Rule: * -> *
DTensor hardswish(const DTensor& self, const Site& site = Site::current());
/// The element held between min_val and max_val; a NaN stays, and passes its cotangent. Takes self:
/// numbers. Rule: * -> * | mono A
DTensor hardtanh(const DTensor& self, double min_val = -1.0, double max_val = 1.0,
    const Site& site = Site::current());
/// x where positive, else negative_slope x. Rule: * -> * | mono A if negative_slope>0
DTensor leaky_relu(const DTensor& self, double negative_slope = 0.01,
    const Site& site = Site::current());
/// log(sigmoid(x)). Rule: * -> * | mono A
DTensor log_sigmoid(const DTensor& self, const Site& site = Site::current());
/// x tanh(softplus(x)); 0 at -inf. Rule: * -> *
DTensor mish(const DTensor& self, const Site& site = Site::current());
/// x where positive, else x times the weight of its channel, dim 1. Rule: nc*, c -> nc* | aff B
DTensor prelu(const DTensor& self, const DTensor& weight, const Site& site = Site::current());
/// The element where positive, else 0. Rule: * -> * | mono A
DTensor relu(const DTensor& self, const Site& site = Site::current());
/// The element held between 0 and 6; a NaN stays, and passes its cotangent. Takes self: numbers.
/// Rule: * -> * | mono A
DTensor relu6(const DTensor& self, const Site& site = Site::current());
/// elu with the self-normalising numbers. Rule: * -> * | mono A
DTensor selu(const DTensor& self, const Site& site = Site::current());
/// 1 / (1 + exp(-x)). Rule: * -> * | mono A
DTensor sigmoid(const DTensor& self, const Site& site = Site::current());
/// x times sigmoid(x); falls below x = -1.28, so no Partial passes. Rule: * -> *
DTensor silu(const DTensor& self, const Site& site = Site::current());
/// log(1 + exp(beta x)) / beta, x itself where beta x is above the threshold. Rule: * -> *
DTensor softplus(const DTensor& self, double beta = 1.0, double threshold = 20.0,
    const Site& site = Site::current());
/// x moved by lambd towards 0, which it does not pass. Rule: * -> * | mono A if lambd>=0
DTensor softshrink(const DTensor& self, double lambd = 0.5, const Site& site = Site::current());
/// x / (1 + |x|); 1 and -1 at infinity. Rule: * -> * | mono A
DTensor softsign(const DTensor& self, const Site& site = Site::current());
/// silu(gate) times up in one pass. Takes gate: floating; up: dtype of gate, shape of gate. Rule:
/// *, * -> * | lin B
DTensor swiglu(const DTensor& gate, const DTensor& up, const Site& site = Site::current());
/// Hyperbolic tangent. Rule: * -> * | mono A
DTensor tanh(const DTensor& self, const Site& site = Site::current());
/// x - tanh(x). Rule: * -> * | mono A
DTensor tanhshrink(const DTensor& self, const Site& site = Site::current());
/// x where above threshold, else value. Rule: * -> *
DTensor threshold(const DTensor& self, double threshold, double value,
    const Site& site = Site::current());

}  // namespace tessera
