// dtensor/front/create.h: typed functions of the ops in strategies/ops/create/. Each throws Error,
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

/// 1 with the probability that self has at each element, else 0. Rule: * -> * | mono A
DTensor bernoulli(const DTensor& self, std::int64_t seed, std::int64_t stream,
    const Site& site = Site::current());
/// Elements set to 0 with probability p, the others divided by 1 − p; seed and stream make the
/// mask again. Rule: * -> * | lin A | mono A | prod A if train==false
DTensor dropout(const DTensor& self, std::int64_t seed, std::int64_t stream, double p = 0.5,
    bool train = true, const Site& site = Site::current());
/// A tensor of the operand's shape to be overwritten; zeros until then.
DTensor empty_like(const DTensor& self, std::optional<DType> dtype = {},
    const Site& site = Site::current());
/// One number in the operand's shape.
DTensor full_like(const DTensor& self, double fill_value, std::optional<DType> dtype = {},
    const Site& site = Site::current());
/// num_samples categories of the last dim, drawn by self's weights. Rule: *r -> *K int | r!
DTensor multinomial(const DTensor& self, std::int64_t num_samples, std::int64_t seed,
    std::int64_t stream, bool replacement = false, const Site& site = Site::current());
/// dropout, and which elements stayed. Rule: * -> *, * | lin[0] A | mono[0] A | prod[0] A if
/// train==false
std::pair<DTensor, DTensor> native_dropout(const DTensor& self, std::int64_t seed,
    std::int64_t stream, double p = 0.5, bool train = true, const Site& site = Site::current());
/// A tensor of `size` on the operand's mesh, to be overwritten; zeros until then.
DTensor new_empty(const DTensor& self, const Shape& size, std::optional<DType> dtype = {},
    const Site& site = Site::current());
/// One number in `size`, on the operand's mesh.
DTensor new_full(const DTensor& self, const Shape& size, double fill_value,
    std::optional<DType> dtype = {}, const Site& site = Site::current());
/// Ones of `size` on the operand's mesh.
DTensor new_ones(const DTensor& self, const Shape& size, std::optional<DType> dtype = {},
    const Site& site = Site::current());
/// Zeros of `size` on the operand's mesh.
DTensor new_zeros(const DTensor& self, const Shape& size, std::optional<DType> dtype = {},
    const Site& site = Site::current());
/// Uniform values in [0, 1) in the operand's shape.
DTensor rand_like(const DTensor& self, std::int64_t seed, std::int64_t stream,
    const Site& site = Site::current());
/// Integers in [low, high) in the operand's shape and dtype.
DTensor randint_like(const DTensor& self, std::int64_t seed, std::int64_t stream,
    std::int64_t low = 0, std::int64_t high = 10, const Site& site = Site::current());
/// Standard normal values in the operand's shape.
DTensor randn_like(const DTensor& self, std::int64_t seed, std::int64_t stream,
    const Site& site = Site::current());

}  // namespace tessera
