// dtensor/front/product.h: typed functions of the ops in strategies/ops/product/. Each throws
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

/// beta self + alpha times the sum of a batch of products.
DTensor addbmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta = 1.0,
    double alpha = 1.0, const Site& site = Site::current());
/// beta self + alpha mat1 mat2.
DTensor addmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta = 1.0,
    double alpha = 1.0, const Site& site = Site::current());
/// beta self + alpha mat vec.
DTensor addmv(const DTensor& self, const DTensor& mat, const DTensor& vec, double beta = 1.0,
    double alpha = 1.0, const Site& site = Site::current());
/// beta self + alpha times the outer product.
DTensor addr(const DTensor& self, const DTensor& vec1, const DTensor& vec2, double beta = 1.0,
    double alpha = 1.0, const Site& site = Site::current());
/// beta self + alpha mat1 mat2 for batches.
DTensor baddbmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta = 1.0,
    double alpha = 1.0, const Site& site = Site::current());
/// Products of two batches of matrices. Rule: bmk, bkn -> bmn | k:sum | lin A*B
DTensor bmm(const DTensor& self, const DTensor& mat2, const Site& site = Site::current());
/// The p-norm of the difference of every row of x1 and every row of x2. Rule: ...pm, ...rm -> ...pr
/// | m!
DTensor cdist(const DTensor& x1, const DTensor& x2, double p = 2.0,
    const Site& site = Site::current());
/// Cosine of the angle between x1 and x2 along a dim; lengths count as at least eps. Rule: *r@dim,
/// *r@dim -> * | r!
DTensor cosine_similarity(const DTensor& x1, const DTensor& x2, std::int64_t dim = 1,
    double eps = 1e-08, const Site& site = Site::current());
/// The p-norm of x1 - x2. Rule: *, * -> | *!
DTensor dist(const DTensor& x1, const DTensor& x2, double p = 2.0,
    const Site& site = Site::current());
/// Sum of the products of two vectors' elements. Rule: k, k -> | k:sum | lin A*B
DTensor dot(const DTensor& self, const DTensor& tensor, const Site& site = Site::current());
/// Sums of products by an equation such as "ij,jk->ik"; no letter twice in one operand.
DTensor einsum(std::span<const DTensor> operands, std::string_view equation,
    const Site& site = Site::current());
/// Consecutive groups of rows, `counts` long, times the transpose of one weight [n, k] each; rows
/// beyond the last group give zeros. Takes self: floating; weight: dtype of self; counts: I64 or
/// I32. Rule: tk, enk, c -> tn | k:sum e:sum c! | lin A*B
DTensor grouped_mm(const DTensor& self, const DTensor& weight, const DTensor& counts,
    const Site& site = Site::current());
/// Groups of rows times the transpose of one weight [n, k] each, where every group has equally many
/// slots and fills `counts` of them; others give zeros. Takes self: floating; weight: dtype of
/// self; counts: I64 or I32. Rule: (ec)k, enk, e -> (ec)n | k:sum c! | lin A*B
DTensor grouped_mm_slots(const DTensor& self, const DTensor& weight, const DTensor& counts,
    const Site& site = Site::current());
/// Sum of products over the last dim of both.
DTensor inner(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Kronecker product of two matrices. Rule: ab, cd -> (ac)(bd) | lin A*B | prod A*B
DTensor kron(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Cross products of the vectors of three along a dim; other dims broadcast. Takes self: numbers;
/// other: numbers. Rule: *r@dim, *r@dim -> *r | r! | lin A*B
DTensor linalg_cross(const DTensor& self, const DTensor& other, std::int64_t dim = -1,
    const Site& site = Site::current());
/// x times the transpose of weight [n, k], over x's last dim, plus bias [n]. Rule: *k, nk, n? -> *n
/// | k:sum | lin A*B+C
DTensor linear(const DTensor& input, const DTensor& weight, const DTensor& bias = {},
    const Site& site = Site::current());
/// Product of two matrices. Rule: mk, kn -> mn | k:sum | lin A*B
DTensor mm(const DTensor& self, const DTensor& mat2, const Site& site = Site::current());
/// A matrix times a vector. Rule: mk, k -> m | k:sum | lin A*B
DTensor mv(const DTensor& self, const DTensor& vec, const Site& site = Site::current());
/// All products of two vectors' elements. Rule: m, n -> mn | lin A*B | prod A*B
DTensor outer(const DTensor& self, const DTensor& vec2, const Site& site = Site::current());
/// The p-norm of x1 - x2 + eps over the last dim. Rule: *r, *r -> * | r!
DTensor pairwise_distance(const DTensor& x1, const DTensor& x2, double p = 2.0, double eps = 1e-06,
    const Site& site = Site::current());
/// Sum of products over pairs of dims; the others stand in order.
DTensor tensordot(const DTensor& self, const DTensor& other, const Shape& dims_self = {},
    const Shape& dims_other = {}, const Site& site = Site::current());
/// Sum of a matrix's diagonal; of integers in I64. Rule: mn -> | m:sum n:sum | lin A
DTensor trace(const DTensor& self, const Site& site = Site::current());
/// Sum of the products of two vectors' elements. Rule: k, k -> | k:sum | lin A*B
DTensor vdot(const DTensor& self, const DTensor& tensor, const Site& site = Site::current());

}  // namespace tessera
