#include "dtensor/factories.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/random.h"

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

/// Places that `keeps` lets through, row-major, as [2, count].
template <class Keeps>
DTensor triangle(Runtime& runtime, const TriangleSize& size, const NewTensor& as, Keeps keeps) {
  std::vector<double> rows, columns;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; ++column) {
      if (!keeps(column - row - size.offset)) continue;
      rows.push_back(static_cast<double>(row));
      columns.push_back(static_cast<double>(column));
    }
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  rows.insert(rows.end(), columns.begin(), columns.end());
  const Array whole = Array::from_values({2, count}, as.dtype, rows);
  if (as.mesh.ndim() == 0) return plain(runtime, whole);
  return distribute(runtime, whole, as.mesh, as.placements);
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
  return triangle(runtime, size, as, [](std::int64_t beyond) { return beyond <= 0; });
}
DTensor triu_indices(Runtime& runtime, const TriangleSize& size, const NewTensor& as) {
  return triangle(runtime, size, as, [](std::int64_t beyond) { return beyond >= 0; });
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
