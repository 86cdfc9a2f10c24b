// dtensor/front/norm.h: typed functions of the ops in strategies/ops/norm/. Each throws Error,
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

/// (x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each channel (dim 1) over
/// all other dims, and mean and 1 / sqrt(...) of each. Takes weight: floating; bias: floating.
/// Gives the first result; call() gives all. Rule: bc*, c?, c? -> bc*, c, c | b! *! | lin[0] B+C
DTensor batch_norm(const DTensor& input, const DTensor& weight = {}, const DTensor& bias = {},
    double eps = 1e-05, const Site& site = Site::current());
/// (x - mean) / sqrt(variance + eps) * weight + bias by given statistics of each channel (dim 1).
/// Takes input: floating; mean: floating; variance: floating; weight: floating; bias: floating.
/// Rule: bc*, c, c, c?, c? -> bc* | lin A*D+B*D+E
DTensor batch_norm_inference(const DTensor& input, const DTensor& mean, const DTensor& variance,
    const DTensor& weight = {}, const DTensor& bias = {}, double eps = 1e-05,
    const Site& site = Site::current());
/// Minus the log-probability of each row's target class, and the log-sum of each row. Takes logits:
/// floating. Gives the first result; call() gives all. Rule: *v, * -> *, * | v!
DTensor cross_entropy(const DTensor& logits, const DTensor& target,
    const Site& site = Site::current());
/// (x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each item's each of
/// `num_groups` groups of channels (dim 1) and all later dims, and mean and 1 / sqrt(...). Takes
/// weight: floating; bias: floating. Gives the first result; call() gives all. Rule: nc*, c?, c? ->
/// nc*, nG, nG | c! *! | lin[0] B+C
DTensor group_norm(const DTensor& input, std::int64_t num_groups, const DTensor& weight = {},
    const DTensor& bias = {}, double eps = 1e-05, const Site& site = Site::current());
/// (x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each item's each channel
/// over the dims from 2 on, and mean and 1 / sqrt(...). Takes weight: floating; bias: floating.
/// Gives the first result; call() gives all. Rule: nc*, c?, c? -> nc*, nc, nc | *! | lin[0] B+C
DTensor instance_norm(const DTensor& input, const DTensor& weight = {}, const DTensor& bias = {},
    double eps = 1e-05, const Site& site = Site::current());
/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dim, and mean and 1 / sqrt(...)
/// of each row. Takes weight: floating; bias: floating. Gives the first result; call() gives all.
/// Rule: *r, r?, r? -> *r, *, * | r! | lin[0] B+C
DTensor layer_norm(const DTensor& input, const DTensor& weight = {}, const DTensor& bias = {},
    double eps = 1e-05, const Site& site = Site::current());
/// Logarithm of softmax along a dim. Rule: *r@dim -> *r | r!
DTensor log_softmax(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// Minus the weighted log-probability of each row's target class (0 where it is ignore_index), and
/// the row's weight; their sums divide to the mean. Class weights are constants: no gradient
/// reaches them. Takes weight: dtype of input. Rule: *v, *, v? -> *, * | v! | lin[0] A | lin C
std::pair<DTensor, DTensor> nll_loss(const DTensor& input, const DTensor& target,
    const DTensor& weight = {}, std::int64_t ignore_index = -100,
    const Site& site = Site::current());
/// x / sqrt(mean x^2 + eps) * weight over the last dim, and the factor 1 / sqrt(...) of each row.
/// Takes input: floating; weight: floating. Gives the first result; call() gives all. Rule: *r, r
/// -> *r, * | r! | lin[0] B
DTensor rms_norm(const DTensor& input, const DTensor& weight, double eps = 1e-05,
    const Site& site = Site::current());
/// exp(x) over its sum along a dim. Rule: *r@dim -> *r | r!
DTensor softmax(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// exp(-x) over its sum along a dim. Rule: *r@dim -> *r | r!
DTensor softmin(const DTensor& self, std::int64_t dim, const Site& site = Site::current());

}  // namespace tessera
