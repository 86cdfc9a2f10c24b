// dtensor/front/loss.h: typed functions of pointwise losses. Each throws Error, naming what was
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

/// -(target log(input) + (1 - target) log(1 - input)), logarithms held at -100. The mean or sum
/// over all elements. Rule: *, * -> | *:sum | aff B
DTensor binary_cross_entropy(const DTensor& self, const DTensor& target,
    std::string_view reduction = "mean", const Site& site = Site::current());
/// -(target log(input) + (1 - target) log(1 - input)), logarithms held at -100. For each element.
/// Rule: *, * -> * | aff B
DTensor binary_cross_entropy_each(const DTensor& self, const DTensor& target,
    const Site& site = Site::current());
/// Binary cross-entropy of sigmoid(input), without overflow. The mean or sum over all elements.
/// Rule: *, * -> | *:sum | aff B
DTensor binary_cross_entropy_with_logits(const DTensor& self, const DTensor& target,
    std::string_view reduction = "mean", const Site& site = Site::current());
/// Binary cross-entropy of sigmoid(input), without overflow. For each element. Rule: *, * -> * |
/// aff B
DTensor binary_cross_entropy_with_logits_each(const DTensor& self, const DTensor& target,
    const Site& site = Site::current());
/// Half the squared error up to delta, beyond it linear. The mean or sum over all elements. Rule:
/// *, * -> | *:sum
DTensor huber_loss(const DTensor& self, const DTensor& target, double delta = 1.0,
    std::string_view reduction = "mean", const Site& site = Site::current());
/// Half the squared error up to delta, beyond it linear. For each element. Rule: *, * -> *
DTensor huber_loss_each(const DTensor& self, const DTensor& target, double delta = 1.0,
    const Site& site = Site::current());
/// target (log(target) - input); with log_target both are logarithms. The mean or sum over all
/// elements. Rule: *, * -> | *:sum | aff A
DTensor kl_div(const DTensor& self, const DTensor& target, bool log_target = false,
    std::string_view reduction = "mean", const Site& site = Site::current());
/// target (log(target) - input); with log_target both are logarithms. For each element. Rule: *, *
/// -> * | aff A
DTensor kl_div_each(const DTensor& self, const DTensor& target, bool log_target = false,
    const Site& site = Site::current());
/// |input - target|. The mean or sum over all elements. Rule: *, * -> | *:sum
DTensor l1_loss(const DTensor& self, const DTensor& target, std::string_view reduction = "mean",
    const Site& site = Site::current());
/// |input - target|. For each element. Rule: *, * -> *
DTensor l1_loss_each(const DTensor& self, const DTensor& target,
    const Site& site = Site::current());
/// (input - target)^2. The mean or sum over all elements. Rule: *, * -> | *:sum
DTensor mse_loss(const DTensor& self, const DTensor& target, std::string_view reduction = "mean",
    const Site& site = Site::current());
/// (input - target)^2. For each element. Rule: *, * -> *
DTensor mse_loss_each(const DTensor& self, const DTensor& target,
    const Site& site = Site::current());
/// Squared error over 2 beta below beta, beyond it |error| - beta / 2. The mean or sum over all
/// elements. Rule: *, * -> | *:sum
DTensor smooth_l1_loss(const DTensor& self, const DTensor& target, double beta = 1.0,
    std::string_view reduction = "mean", const Site& site = Site::current());
/// Squared error over 2 beta below beta, beyond it |error| - beta / 2. For each element. Rule: *, *
/// -> *
DTensor smooth_l1_loss_each(const DTensor& self, const DTensor& target, double beta = 1.0,
    const Site& site = Site::current());

}  // namespace tessera
