// Operations that place elements elsewhere: shapes, orders, parts.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "program/stablehlo/conversion.h"

namespace tessera::stablehlo {
namespace {

/// Starts of slices are held to where the slice fits.
std::int64_t held(double start, std::int64_t room) {
  if (!(start > 0)) return 0;
  return start >= static_cast<double>(room) ? room : static_cast<std::int64_t>(start);
}

/// [0:8, 0:16:2], of one dim each.
struct Ranges {
  Shape start, limit, stride;
};
StatusOr<Ranges> read_ranges(const MlirText& text, const Node& list) {
  Ranges ranges;
  for (std::size_t begin = 0; begin < list.inside.size();) {
    std::size_t end = begin;
    std::vector<std::int64_t> numbers;
    while (end < list.inside.size() && !list.inside[end].is(',')) {
      if (!list.inside[end].is(':')) {
        TSR_ASSIGN_OR_RETURN(const std::int64_t number,
                             integer_of(text, Nodes(&list.inside[end], 1)));
        numbers.push_back(number);
      }
      ++end;
    }
    if (numbers.size() != 2 && numbers.size() != 3) {
      return text.error(list.token.offset, "expected a range of each dim, such as [0:8, 0:16:2]");
    }
    ranges.start.push_back(numbers[0]);
    ranges.limit.push_back(numbers[1]);
    ranges.stride.push_back(numbers.size() == 3 ? numbers[2] : 1);
    begin = end + 1;
  }
  return ranges;
}

}  // namespace

Conversion::Made Conversion::broadcast() {
  if (splat(0)) return make_splat(*splat(0));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims, ints("dims", "broadcast_dimensions"));
  const Shape &from = type(0).shape, &to = result_type().shape;
  if (dims.size() != from.size()) {
    return error(absl::StrFormat("%d dims for an operand of %d", dims.size(), from.size()));
  }
  Shape between(to.size(), 1);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= std::ssize(to)) {
      return error(absl::StrFormat("dim %d of a result of %d dims", dims[i], to.size()));
    }
    if (dims[i] <= last) return no("its dims are not in order");
    last = dims[i];
    between[static_cast<std::size_t>(dims[i])] = from[i];
  }
  if (from == to) {
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  if (between == to) return call("view", operands_, {{"size", to}});
  Ids operand = operands_;
  if (between != from) {
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made,
                         call("view", operands_, {{"size", between}}, Gives::kOnTheWay));
    if (!made) return made;
    operand = {*made};
  }
  return call("expand", operand, {{"size", to}});
}

Conversion::Made Conversion::reshape() {
  if (splat(0)) return make_splat(*splat(0));
  if (type(0) == result_type()) {
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  return call("view", operands_, {{"size", result_type().shape}});
}

Conversion::Made Conversion::transpose() {
  if (splat(0)) return make_splat(*splat(0));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims, ints("dims", "permutation"));
  return call("permute", operands_, {{"dims", to_shape(dims)}});
}

Conversion::Made Conversion::reverse() {
  if (splat(0)) return make_splat(*splat(0));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims, ints("dims", "dimensions"));
  return call("flip", operands_, {{"dims", to_shape(dims)}});
}

Conversion::Made Conversion::concatenate() {
  Nodes dim = statement_.attribute("dim");
  if (dim.empty()) dim = statement_.attribute("dimension");
  TSR_ASSIGN_OR_RETURN(const std::int64_t along, integer_of(builder_.text(), dim));
  return call("cat", operands_, {{"dim", along}});
}

Conversion::Made Conversion::slice_to(const Shape& start, const Shape& limit, const Shape& stride) {
  const Shape sizes = type(0).shape;
  if (start.size() != sizes.size() || limit.size() != sizes.size() ||
      stride.size() != sizes.size()) {
    return error(
        absl::StrFormat("%d ranges for an operand of %d dims", start.size(), sizes.size()));
  }
  Ids operand = {operands_[0]};
  std::vector<std::size_t> cut;
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (start[dim] != 0 || limit[dim] != sizes[dim] || stride[dim] != 1) cut.push_back(dim);
  }
  if (cut.empty()) {
    operands_ = operand;
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  for (std::size_t i = 0;; ++i) {
    const std::size_t dim = cut[i];
    const bool last = i + 1 == cut.size();
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made,
                         call("slice", operand,
                              {{"dim", static_cast<std::int64_t>(dim)},
                               {"start", start[dim]},
                               {"end", limit[dim]},
                               {"step", stride[dim]}},
                              last ? Gives::kLast : Gives::kOnTheWay));
    if (!made || last) return made;
    operand = {*made};
  }
}

Conversion::Made Conversion::slice() {
  if (splat(0)) return make_splat(*splat(0));
  for (const Node& node : statement_.body) {
    if (!node.is_group('[')) continue;
    TSR_ASSIGN_OR_RETURN(const Ranges ranges, read_ranges(builder_.text(), node));
    return slice_to(ranges.start, ranges.limit, ranges.stride);
  }
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> start, ints("start_indices"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> limit, ints("limit_indices"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> stride, ints("strides"));
  return slice_to(to_shape(start), to_shape(limit), to_shape(stride));
}

Conversion::Made Conversion::pad() {
  TSR_RETURN_IF_ERROR(need_operands(2));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> low, ints("low", "edge_padding_low"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> high, ints("high", "edge_padding_high"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> inner, ints("interior", "interior_padding"));
  const std::size_t ndim = type(0).shape.size();
  if (low.size() != ndim || high.size() != ndim || inner.size() != ndim) {
    return error(
        absl::StrFormat("low, high and interior of %d, %d and %d dims for an operand of %d",
                        low.size(), high.size(), inner.size(), ndim));
  }
  const auto is_set = [](std::int64_t size) { return size != 0; };
  if (std::ranges::any_of(inner, is_set)) return no("it pads between elements");
  if (!splat(1)) return no("the number it pads with is known only when it runs");
  Shape pads;
  for (std::size_t i = ndim; i-- > 0;) {
    pads.push_back(low[i]);
    pads.push_back(high[i]);
  }
  return call("constant_pad_nd", {operands_[0]}, {{"pad", pads}, {"value", *splat(1)}});
}

/// One row of a dim, the others whole: chosen by its number when it runs.
Conversion::Made Conversion::one_of(std::size_t dim, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != (i == dim ? 1 : type(0).shape[i])) {
      return no("where it begins is known only when it runs");
    }
  }
  const std::size_t first = operands_.size() - sizes.size();
  if (!is_index(type(first + dim).dtype)) return no("its start is of no type that numbers rows");
  TSR_ASSIGN_OR_RETURN(
      const std::optional<BoundId> row,
      call("view", {operands_[first + dim]}, {{"size", Shape{1}}}, Gives::kOnTheWay));
  if (!row) return row;
  const std::pair<std::string_view, AttrValue> along = {"dim", static_cast<std::int64_t>(dim)};
  if (first == 1) return call("index_select", {operands_[0], *row}, {along});
  return call("index_copy", {operands_[0], *row, operands_[1]}, {along});
}

Conversion::Made Conversion::dynamic_slice() {
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, ints("sizes", "slice_sizes"));
  const Shape from = type(0).shape;
  if (sizes.size() != from.size() || operands_.size() != from.size() + 1) {
    return error("expected a start and a size of each dim");
  }
  Shape start, limit;
  for (std::size_t dim = 0; dim < from.size(); ++dim) {
    const std::int64_t room = from[dim] - sizes[dim];
    if (room < 0 || sizes[dim] < 0) return error("a slice larger than its operand");
    const std::optional<double> given = splat(dim + 1);
    if (room > 0 && !given) return one_of(dim, sizes);
    start.push_back(held(given.value_or(0), room));
    limit.push_back(start.back() + sizes[dim]);
  }
  return slice_to(start, limit, Shape(from.size(), 1));
}

Conversion::Made Conversion::dynamic_update_slice() {
  TSR_RETURN_IF_ERROR(need_operands(2));
  const Shape whole = type(0).shape, part = type(1).shape;
  if (part.size() != whole.size() || operands_.size() != whole.size() + 2) {
    return error("expected an update of the operand's dims, and a start of each");
  }
  std::optional<std::size_t> cut;
  for (std::size_t dim = 0; dim < whole.size(); ++dim) {
    if (part[dim] > whole[dim]) return error("an update larger than its operand");
    if (part[dim] == whole[dim]) continue;
    if (cut) return no("it writes a part of several dims");
    if (!splat(dim + 2)) return one_of(dim, {part.begin(), part.end()});
    cut = dim;
  }
  if (!cut) {
    operands_ = {operands_[1]};
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  const std::int64_t start = held(*splat(*cut + 2), whole[*cut] - part[*cut]);
  return call("slice_scatter", {operands_[0], operands_[1]},
              {{"dim", static_cast<std::int64_t>(*cut)},
               {"start", start},
               {"end", start + part[*cut]},
               {"step", std::int64_t{1}}});
}

}  // namespace tessera::stablehlo
