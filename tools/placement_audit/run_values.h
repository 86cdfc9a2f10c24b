// tools/placement_audit/run_values.h: a tensor's elements as JSON spells them, both ways: numbers,
// booleans for BOOL, and "nan", "inf", "-inf", which JSON has no numbers for.
#pragma once

#include <optional>
#include <string>

#include "io/json.h"
#include "kernels/array.h"

namespace tessera::audit {

/// A number, or one of the words for what is none.
StatusOr<double> read_floating(const JsonView& view);
/// A row-major list of exactly the shape's elements. Integers must fit the dtype; floating ones are
/// rounded to it. Errors: InvalidArgument naming the element.
StatusOr<Array> read_values(const JsonView& view, const Shape& shape, DType dtype);
/// One element on its own (of a 0-d tensor).
StatusOr<Array> read_value(const JsonView& view, DType dtype);

/// Element `position` (row-major) of a contiguous array.
Json element_to_json(const Array& array, std::int64_t position);
/// The same as text: 0.5, -3, true, nan.
std::string element_to_text(const Array& array, std::int64_t position);
/// "[1, 0]"
Shape index_of(const Shape& shape, std::int64_t position);

/// How far elements may lie apart: |got − expected| <= absolute + relative · |expected|.
struct Tolerance {
  double absolute = 0.0;
  double relative = 0.0;
};
/// Of torch.testing.assert_close; none for integers and BOOL.
Tolerance default_tolerance(DType dtype) noexcept;
/// The first element of `got` that is too far from `expected`, of the same shape and dtype. NaN
/// equals NaN, an infinity itself.
std::optional<std::int64_t> first_difference(const Array& got, const Array& expected,
                                             const Tolerance& tolerance);

}  // namespace tessera::audit
