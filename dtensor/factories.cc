#include "dtensor/factories.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/random.h"
#include "placement/checked_int.h"

namespace tessera {
namespace {

/// A new tensor that an op of the table fills in place.
DTensor filled(Runtime& runtime, const Shape& shape, const NewTensor& as, std::string_view op,
               const Attrs& attrs) {
  const DTensor x = empty(runtime, shape, as);
  if (!x.local().is_null()) {
    const DTensor operands[] = {x};
    call(runtime, op, operands, attrs);
  }
  return x;
}

Attrs with_source(Attrs attrs, const RandomArgs& source) {
  attrs.set("seed", static_cast<std::int64_t>(source.seed));
  attrs.set("stream", static_cast<std::int64_t>(kernels::stream_of(source.stream)));
  return attrs;
}

/// Columns of each row, from the first row that has any on.
struct Kept {
  Interval rows;
  Interval (*columns)(const TriangleSize& size, std::int64_t row);
};

/// The kept places, row-major, as [2, count].
DTensor triangle(Runtime& runtime, const TriangleSize& size, const NewTensor& as,
                 const Kept& kept) {
  throw_if_error(check_tensor_size(Shape{2, std::max<std::int64_t>(size.rows, 0)}, as.dtype));
  throw_if_error(check_tensor_size(Shape{2, std::max<std::int64_t>(size.columns, 0)}, as.dtype));
  std::vector<double> rows, columns;
  for (std::int64_t row = kept.rows.start; row < kept.rows.stop; ++row) {
    const Interval of_row = kept.columns(size, row);
    for (std::int64_t column = of_row.start; column < of_row.stop; ++column) {
      rows.push_back(static_cast<double>(row));
      columns.push_back(static_cast<double>(column));
    }
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  rows.insert(rows.end(), columns.begin(), columns.end());
  const Array whole = Array::from_values({2, count}, as.dtype, rows);
  if (as.mesh.ndim() == 0) return plain(runtime, to_device(runtime.kernels(), whole));
  return distribute(runtime, whole, as.mesh, as.placements);
}

/// `value`, held between 0 and `most`.
std::int64_t clipped(CheckedInt value, std::int64_t most) {
  return std::clamp<std::int64_t>(value.clamped(), 0, std::max<std::int64_t>(most, 0));
}

}  // namespace

DTensor empty(Runtime& runtime, const Shape& shape, const NewTensor& as) {
  return empty(runtime, value_or_throw(Spec::make(as.mesh, shape, as.dtype, as.placements)));
}
DTensor full(Runtime& runtime, const Shape& shape, double value, const NewTensor& as) {
  return filled(runtime, shape, as, "fill_", {{"value", value}});
}
DTensor zeros(Runtime& runtime, const Shape& shape, const NewTensor& as) {
  return full(runtime, shape, 0.0, as);
}
DTensor ones(Runtime& runtime, const Shape& shape, const NewTensor& as) {
  return full(runtime, shape, 1.0, as);
}
DTensor scalar_tensor(Runtime& runtime, double value, const NewTensor& as) {
  return full(runtime, {}, value, as);
}

DTensor arange(Runtime& runtime, const Range& range, const NewTensor& as) {
  const double count = std::ceil((range.end - range.start) / range.step);
  if (range.step == 0.0 || !std::isfinite(count)) {
    throw Error(invalid_argument(absl::StrFormat("arange: from %g to %g by %g has no end",
                                                 range.start, range.end, range.step)));
  }
  if (count > static_cast<double>(kMaxTensorBytes)) {
    throw Error(invalid_argument(absl::StrFormat("arange: from %g to %g by %g are more than 2^62",
                                                 range.start, range.end, range.step)));
  }
  return filled(runtime, {std::max<std::int64_t>(static_cast<std::int64_t>(count), 0)}, as,
                "arange_", {{"start", range.start}, {"step", range.step}});
}
DTensor linspace(Runtime& runtime, const Line& line, const NewTensor& as) {
  return filled(runtime, {line.steps}, as, "linspace_", {{"start", line.start}, {"end", line.end}});
}
DTensor logspace(Runtime& runtime, const Line& line, double base, const NewTensor& as) {
  return filled(runtime, {line.steps}, as, "logspace_",
                {{"start", line.start}, {"end", line.end}, {"base", base}});
}
DTensor eye(Runtime& runtime, std::int64_t rows, std::int64_t columns, const NewTensor& as) {
  return filled(runtime, {rows, columns}, as, "eye_", {});
}
DTensor tril_indices(Runtime& runtime, const TriangleSize& size, const NewTensor& as) {
  // Row r keeps the columns up to r + offset.
  const std::int64_t first = clipped(CheckedInt(0) - size.offset, size.rows);
  return triangle(
      runtime, size, as,
      {{first, size.columns > 0 ? size.rows : 0}, [](const TriangleSize& all, std::int64_t row) {
         return Interval{0, clipped(CheckedInt(row) + all.offset + 1, all.columns)};
       }});
}
DTensor triu_indices(Runtime& runtime, const TriangleSize& size, const NewTensor& as) {
  // Row r keeps the columns from r + offset on.
  const std::int64_t end = clipped(CheckedInt(size.columns) - size.offset, size.rows);
  return triangle(
      runtime, size, as,
      {{0, size.columns > 0 ? end : 0}, [](const TriangleSize& all, std::int64_t row) {
         return Interval{clipped(CheckedInt(row) + all.offset, all.columns), all.columns};
       }});
}

DTensor rand(Runtime& runtime, const Shape& shape, const RandomArgs& source, const NewTensor& as) {
  return filled(runtime, shape, as, "uniform_", with_source({{"from", 0.0}, {"to", 1.0}}, source));
}
DTensor randn(Runtime& runtime, const Shape& shape, const RandomArgs& source, const NewTensor& as) {
  return filled(runtime, shape, as, "normal_", with_source({{"mean", 0.0}, {"std", 1.0}}, source));
}
DTensor randint(Runtime& runtime, const IntegerRange& range, const Shape& shape,
                const RandomArgs& source, const NewTensor& as) {
  return filled(runtime, shape, as, "random_",
                with_source({{"from", range.low}, {"to", range.high}}, source));
}
DTensor randperm(Runtime& runtime, std::int64_t n, const RandomArgs& source, const NewTensor& as) {
  return filled(runtime, {n}, as, "randperm_", with_source({}, source));
}

}  // namespace tessera
