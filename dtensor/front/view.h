// dtensor/front/view.h: typed functions of the ops in strategies/ops/view/. Each throws Error,
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

/// The last dims continued as if they were circles. Takes self: 0 to 16 dims; pad:
/// -4611686018427387904 to 4611686018427387904.
DTensor _pad_circular(const DTensor& self, const Shape& pad, const Site& site = Site::current());
/// With a dim, where there is none.
DTensor atleast_1d(const DTensor& self, const Site& site = Site::current());
/// With leading dims of size 1 up to two.
DTensor atleast_2d(const DTensor& self, const Site& site = Site::current());
/// With dims of size 1 up to three: in front, and behind one or two.
DTensor atleast_3d(const DTensor& self, const Site& site = Site::current());
/// expand under its other name.
DTensor broadcast_to(const DTensor& self, const Shape& size, const Site& site = Site::current());
/// All combinations of the operands' elements as rows, the last operand fastest.
DTensor cartesian_prod(std::span<const DTensor> tensors, const Site& site = Site::current());
/// Tensors joined along a dim, in order.
DTensor cat(std::span<const DTensor> tensors, std::int64_t dim = 0,
    const Site& site = Site::current());
/// At most `chunks` equal parts of a dim, the last shorter.
std::vector<DTensor> chunk(const DTensor& self, std::int64_t chunks, std::int64_t dim = 0,
    const Site& site = Site::current());
/// Tensors joined along dim 1; those of one dim are columns.
DTensor column_stack(std::span<const DTensor> tensors, const Site& site = Site::current());
/// `value` before and after the last dims; a negative padding takes away. Takes self: 0 to 16 dims;
/// pad: -4611686018427387904 to 4611686018427387904.
DTensor constant_pad_nd(const DTensor& self, const Shape& pad, double value = 0.0,
    const Site& site = Site::current());
/// The diagonal of a matrix, or the matrix of zeros with this diagonal. Takes diagonal:
/// -4611686018427387904 to 4611686018427387904.
DTensor diag(const DTensor& self, std::int64_t diagonal = 0, const Site& site = Site::current());
/// The last dim as a diagonal of a new plane (dim1, dim2) of zeros. Takes offset:
/// -4611686018427387904 to 4611686018427387904.
DTensor diag_embed(const DTensor& self, std::int64_t offset = 0, std::int64_t dim1 = -2,
    std::int64_t dim2 = -1, const Site& site = Site::current());
/// The diagonal of the plane of dim1 and dim2 as the last dim, `offset` above the main one; both
/// dims are whole, all others keep their cuts. Takes offset: -4611686018427387904 to
/// 4611686018427387904.
DTensor diagonal(const DTensor& self, std::int64_t offset = 0, std::int64_t dim1 = 0,
    std::int64_t dim2 = 1, const Site& site = Site::current());
/// self with src in place of the diagonal that `diagonal` would give. Takes offset:
/// -4611686018427387904 to 4611686018427387904. Rule: *r@dim1 c@dim2, *k -> *rc | r! c! k! | lin
/// A+B | max A,B | min A,B | prod A*B
DTensor diagonal_scatter(const DTensor& self, const DTensor& src, std::int64_t offset = 0,
    std::int64_t dim1 = 0, std::int64_t dim2 = 1, const Site& site = Site::current());
/// Dims of size 1 repeated without a copy; new dims may lead.
DTensor expand(const DTensor& self, const Shape& size, const Site& site = Site::current());
/// self's dims of size 1 repeated without a copy to other's sizes. Rule: *, * -> * | lin A | mono A
/// | prod A
DTensor expand_as(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Dims start_dim to end_dim as one.
DTensor flatten(const DTensor& self, std::int64_t start_dim = 0, std::int64_t end_dim = -1,
    const Site& site = Site::current());
/// The dims listed backwards.
DTensor flip(const DTensor& self, const Shape& dims, const Site& site = Site::current());
/// Tensors joined along dim 1, or along their only dim.
DTensor hstack(std::span<const DTensor> tensors, const Site& site = Site::current());
/// The last two dims swapped.
DTensor mT(const DTensor& self, const Site& site = Site::current());
/// Grids in which operand i runs along dim i (indexing xy: the first two swapped).
std::vector<DTensor> meshgrid(std::span<const DTensor> tensors, std::string_view indexing = "ij",
    const Site& site = Site::current());
/// movedim under its other name.
DTensor moveaxis(const DTensor& self, const Shape& source, const Shape& destination,
    const Site& site = Site::current());
/// Dims `source` at the places `destination`, the others in their order.
DTensor movedim(const DTensor& self, const Shape& source, const Shape& destination,
    const Site& site = Site::current());
/// `length` elements of a dim from `start` on. Rule: *r@dim -> *r | r~ | lin A | mono A | prod A
DTensor narrow(const DTensor& self, std::int64_t dim, std::int64_t start, std::int64_t length,
    const Site& site = Site::current());
/// Dims in another order.
DTensor permute(const DTensor& self, const Shape& dims, const Site& site = Site::current());
/// All dims as one.
DTensor ravel(const DTensor& self, const Site& site = Site::current());
/// The last dims continued by their mirror image, without the border itself. Takes self: 0 to 16
/// dims; padding: -4611686018427387904 to 4611686018427387904.
DTensor reflection_pad1d(const DTensor& self, const Shape& padding,
    const Site& site = Site::current());
/// The last dims continued by their mirror image, without the border itself. Takes self: 0 to 16
/// dims; padding: -4611686018427387904 to 4611686018427387904.
DTensor reflection_pad2d(const DTensor& self, const Shape& padding,
    const Site& site = Site::current());
/// The tensor repeated along each dim; further dims may lead.
DTensor repeat(const DTensor& self, const Shape& repeats, const Site& site = Site::current());
/// Each element of a dim `repeats` times, one after another; cuts of the dim stay. Takes repeats:
/// at least 0.
DTensor repeat_interleave(const DTensor& self, std::int64_t repeats, std::int64_t dim,
    const Site& site = Site::current());
/// The last dims continued by their border elements. Takes self: 0 to 16 dims; padding:
/// -4611686018427387904 to 4611686018427387904.
DTensor replication_pad1d(const DTensor& self, const Shape& padding,
    const Site& site = Site::current());
/// The last dims continued by their border elements. Takes self: 0 to 16 dims; padding:
/// -4611686018427387904 to 4611686018427387904.
DTensor replication_pad2d(const DTensor& self, const Shape& padding,
    const Site& site = Site::current());
/// The same values under other sizes: a view, or a copy where strides allow none.
DTensor reshape(const DTensor& self, const Shape& shape, const Site& site = Site::current());
/// The same values under other's sizes.
DTensor reshape_as(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Elements shifted along the dims listed; what leaves at the end comes back at the start. Takes
/// shifts: -4611686018427387904 to 4611686018427387904.
DTensor roll(const DTensor& self, const Shape& shifts, const Shape& dims,
    const Site& site = Site::current());
/// The plane of two dims turned by k right angles, from the first towards the second.
DTensor rot90(const DTensor& self, const Shape& dims, std::int64_t k = 1,
    const Site& site = Site::current());
/// The slice at `index` of a dim, which goes away. Rule: *r@dim -> * | r! | lin A | mono A | prod A
DTensor select(const DTensor& self, std::int64_t dim, std::int64_t index,
    const Site& site = Site::current());
/// Every step-th element of [start, end) of a dim; negative positions count from the end. Rule:
/// *r@dim -> *r | r~ | lin A | mono A | prod A
DTensor slice(const DTensor& self, std::int64_t dim, std::int64_t start = 0,
    std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1,
    const Site& site = Site::current());
/// Parts of split_size elements of a dim, the last shorter.
std::vector<DTensor> split(const DTensor& self, std::int64_t split_size, std::int64_t dim = 0,
    const Site& site = Site::current());
/// Parts of a dim of the sizes listed.
std::vector<DTensor> split_with_sizes(const DTensor& self, const Shape& split_sizes,
    std::int64_t dim = 0, const Site& site = Site::current());
/// Without a dim of size 1; a dim of another size stays.
DTensor squeeze(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// Tensors of one shape joined along a new dim, in order.
DTensor stack(std::span<const DTensor> tensors, std::int64_t dim = 0,
    const Site& site = Site::current());
/// Two dims swapped.
DTensor swapaxes(const DTensor& self, std::int64_t axis0, std::int64_t axis1,
    const Site& site = Site::current());
/// Two dims swapped.
DTensor swapdims(const DTensor& self, std::int64_t dim0, std::int64_t dim1,
    const Site& site = Site::current());
/// The transpose of a matrix; fewer dims stay.
DTensor t(const DTensor& self, const Site& site = Site::current());
/// `sections` parts of a dim, the first ones longer by 1 where it does not divide.
std::vector<DTensor> tensor_split(const DTensor& self, std::int64_t sections, std::int64_t dim = 0,
    const Site& site = Site::current());
/// repeat, with 1 for the leading dims where the list is shorter.
DTensor tile(const DTensor& self, const Shape& dims, const Site& site = Site::current());
/// Two dims swapped.
DTensor transpose(const DTensor& self, std::int64_t dim0, std::int64_t dim1,
    const Site& site = Site::current());
/// The lower triangle of the last two dims, up to `diagonal` above the main one; 0 elsewhere. Takes
/// diagonal: -4611686018427387904 to 4611686018427387904. Rule: * -> * | lin A | mono A | prod A
DTensor tril(const DTensor& self, std::int64_t diagonal = 0, const Site& site = Site::current());
/// The upper triangle of the last two dims, from `diagonal` above the main one; 0 elsewhere. Takes
/// diagonal: -4611686018427387904 to 4611686018427387904. Rule: * -> * | lin A | mono A | prod A
DTensor triu(const DTensor& self, std::int64_t diagonal = 0, const Site& site = Site::current());
/// The slices of a dim, which goes away; a cut dim is made whole first, as every rank holds every
/// slice.
std::vector<DTensor> unbind(const DTensor& self, std::int64_t dim = 0,
    const Site& site = Site::current());
/// One dim as several, major first.
DTensor unflatten(const DTensor& self, std::int64_t dim, const Shape& sizes,
    const Site& site = Site::current());
/// Windows of `size` elements of a dim, `step` apart, as a new last dim. Rule: *f@dimension -> *fK
/// | f~ | lin A | mono A | prod A
DTensor unfold(const DTensor& self, std::int64_t dimension, std::int64_t size, std::int64_t step,
    const Site& site = Site::current());
/// With a new dim of size 1.
DTensor unsqueeze(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// The last dims in other sizes: each position takes the nearest one before it. Takes self: 0 to 16
/// dims; output_size: 1 to 4611686018427387904.
DTensor upsample_nearest1d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
/// The last dims in other sizes: each position takes the nearest one before it. Takes self: 0 to 16
/// dims; output_size: 1 to 4611686018427387904.
DTensor upsample_nearest2d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
/// The same storage under other sizes.
DTensor view(const DTensor& self, const Shape& size, const Site& site = Site::current());
/// The same storage under other's sizes.
DTensor view_as(const DTensor& self, const DTensor& other, const Site& site = Site::current());
/// Tensors joined along dim 0; those of one dim are rows.
DTensor vstack(std::span<const DTensor> tensors, const Site& site = Site::current());

}  // namespace tessera
