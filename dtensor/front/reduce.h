// dtensor/front/reduce.h: typed functions of the ops in strategies/ops/reduce/. Each throws Error,
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

/// True where every element over dims is not zero; true of none. Rule: *r@dim -> * | r:min
DTensor all(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// True where all elements differ by at most atol + rtol |other|, or are equal; NaN equal NaN where
/// equal_nan. Rule: *, * -> | *:min
DTensor allclose(const DTensor& self, const DTensor& other, double rtol = 1e-05,
    double atol = 1e-08, bool equal_nan = false, const Site& site = Site::current());
/// Largest element over dims; NaN wins, no elements give -inf. Equal ones share a cotangent; that
/// of a NaN is NaN. Rule: *r@dim -> * | r:max | max A
DTensor amax(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Smallest element over dims; NaN wins, no elements give inf. Equal ones share a cotangent; that
/// of a NaN is NaN. Rule: *r@dim -> * | r:min | min A
DTensor amin(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Smallest and largest element along a dim, or of all; NaN wins. Equal ones share a cotangent;
/// that of a NaN is NaN. Rule: *r@dim -> *, * | r!
std::pair<DTensor, DTensor> aminmax(const DTensor& self, std::optional<std::int64_t> dim = {},
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// True where one element over dims is not zero; NaN is not. Rule: *r@dim -> * | r:max
DTensor any(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Index of the largest element along a dim, or in the flattened tensor; NaN counts as it, and the
/// first of equals wins. Rule: *r@dim -> * int | r!
DTensor argmax(const DTensor& self, std::optional<std::int64_t> dim = {},
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Index of the smallest element along a dim, or in the flattened tensor; NaN counts as it, and the
/// first of equals wins. Rule: *r@dim -> * int | r!
DTensor argmin(const DTensor& self, std::optional<std::int64_t> dim = {},
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// How many elements over dims are not zero; NaN is not. Rule: *r@dim -> * int | r:sum
DTensor count_nonzero(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// The largest element so far along a dim, and its index; NaN counts as it, and the last of equals
/// wins. Rule: *r@dim -> *r, *r int | r^
std::pair<DTensor, DTensor> cummax(const DTensor& self, std::int64_t dim,
    const Site& site = Site::current());
/// The smallest element so far along a dim, and its index; NaN counts as it, and the last of equals
/// wins. Rule: *r@dim -> *r, *r int | r^
std::pair<DTensor, DTensor> cummin(const DTensor& self, std::int64_t dim,
    const Site& site = Site::current());
/// Product of all elements up to each along a dim; integers as I64. Rule: *r@dim -> *r | r^ | prod
/// A
DTensor cumprod(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// Sum of all elements up to each along a dim; integers as I64. Rule: *r@dim -> *r | r^ | lin A
DTensor cumsum(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// True where all elements of two tensors are equal; NaN is not. Rule: *, * -> | *:min
DTensor equal(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Counts of the elements in `bins` equal ranges from `min` to `max`, the last one closed; what
/// lies outside, and NaN, does not count. Rule: * -> K | *:sum
DTensor histc(const DTensor& self, std::int64_t bins = 100, double min = 0.0, double max = 0.0,
    const Site& site = Site::current());
/// The k-th smallest element along a dim with its index; of equals the lower index comes first, NaN
/// last. Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> kthvalue(const DTensor& self, std::int64_t k, std::int64_t dim = -1,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Norm over dims: the p-th root of the sum of |x|^p; inf and -inf give the largest and smallest
/// magnitude, 0 counts what is not zero. Rule: *r@dim -> * | r!
DTensor linalg_vector_norm(const DTensor& self, double ord = 2.0, const Shape& dim = {},
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Logarithm of the sum of the exponentials of all elements up to each along a dim. Rule: *r@dim ->
/// *r | r^
DTensor logcumsumexp(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// Logarithm of the sum of exponentials over dims. Rule: *r@dim -> * | r!
DTensor logsumexp(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Largest element of all; NaN wins. Equal ones, or NaN that won, share a cotangent. Rule: * -> |
/// *:max | max A
DTensor max(const DTensor& self, const Site& site = Site::current());
/// The largest element along a dim and its index; NaN counts as it, and the first of equals wins.
/// Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> max(const DTensor& self, std::int64_t dim,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Arithmetic mean over dims. Rule: *r@dim -> * | r:sum | lin A
DTensor mean(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Median of all elements, the lower of the two in the middle of an even number; NaN wins. Rule: *
/// -> | *!
DTensor median(const DTensor& self, const Site& site = Site::current());
/// Median along a dim with its index, the lower of the two in the middle of an even number; NaN
/// wins. Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> median(const DTensor& self, std::int64_t dim = -1,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Smallest element of all; NaN wins. Equal ones, or NaN that won, share a cotangent. Rule: * -> |
/// *:min | min A
DTensor min(const DTensor& self, const Site& site = Site::current());
/// The smallest element along a dim and its index; NaN counts as it, and the first of equals wins.
/// Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> min(const DTensor& self, std::int64_t dim,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// The value that occurs most often along a dim, the smallest of such, with the index of its last
/// occurrence; NaN are equal, and the largest. Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> mode(const DTensor& self, std::int64_t dim = -1,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Mean over dims of what is not NaN; NaN of none. Rule: *r@dim -> * | r!
DTensor nanmean(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Median of all elements, the lower of the two in the middle of an even number; NaN does not
/// count. Rule: * -> | *!
DTensor nanmedian(const DTensor& self, const Site& site = Site::current());
/// Median along a dim with its index, the lower of the two in the middle of an even number; NaN
/// does not count. Rule: *r@dim -> *, * int | r!
std::pair<DTensor, DTensor> nanmedian(const DTensor& self, std::int64_t dim = -1,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Sum over dims of what is not NaN; integers sum as I64. Rule: *r@dim -> * | r:sum
DTensor nansum(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Norm over dims: the p-th root of the sum of |x|^p; inf and -inf give the largest and smallest
/// magnitude, 0 counts what is not zero. Rule: *r@dim -> * | r!
DTensor norm(const DTensor& self, double p = 2.0, const Shape& dim = {},
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Product over dims; integers and BOOL are multiplied as I64. Rule: *r@dim -> * | r:prod | prod A
DTensor prod(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// For each element the product of all others over dims: what a product's cotangent is multiplied
/// by. Rule: *r@dim -> *r | r! | prod A
DTensor prod_of_others(const DTensor& self, const Shape& dim = {},
    const Site& site = Site::current());
/// Standard deviation over dims; without slope where all elements are equal. Rule: *r@dim -> * | r!
DTensor std(const DTensor& self, const Shape& dim = {}, double correction = 1.0,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Standard deviation and mean over dims, the mean as `mean` has it. Rule: *r@dim -> *, * | r!
std::pair<DTensor, DTensor> std_mean(const DTensor& self, const Shape& dim = {},
    double correction = 1.0, KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Sum over dims; integers and BOOL are summed as I64. Rule: *r@dim -> * | r:sum | lin A
DTensor sum(const DTensor& self, const Shape& dim = {}, KeepDim keepdim = KeepDim::kNo,
    const Site& site = Site::current());
/// Sum of the squares of all elements, in F64: what norms over several tensors add up. Rule: * -> |
/// *:sum
DTensor sum_of_squares(const DTensor& self, const Site& site = Site::current());
/// Variance over dims, the squares' sum divided by n - correction; NaN of no elements. Rule: *r@dim
/// -> * | r!
DTensor var(const DTensor& self, const Shape& dim = {}, double correction = 1.0,
    KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());
/// Variance and mean over dims, the mean as `mean` has it. Rule: *r@dim -> *, * | r!
std::pair<DTensor, DTensor> var_mean(const DTensor& self, const Shape& dim = {},
    double correction = 1.0, KeepDim keepdim = KeepDim::kNo, const Site& site = Site::current());

}  // namespace tessera
