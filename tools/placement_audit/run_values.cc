#include "tools/placement_audit/run_values.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"

namespace tessera::audit {
namespace {

using kernels::convert;
using kernels::visit_dtype;

template <class T>
StatusOr<T> read_element(const JsonView& view) {
  if constexpr (std::is_same_v<T, bool>) {
    if (view.kind() == Json::Kind::kBool) return view.boolean();
    TSR_ASSIGN_OR_RETURN(const std::int64_t value, view.integer_in(0, 1));
    return value == 1;
  } else if constexpr (std::is_integral_v<T>) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t value, view.integer_in(std::numeric_limits<T>::min(),
                                                                   std::numeric_limits<T>::max()));
    return static_cast<T>(value);
  } else {
    TSR_ASSIGN_OR_RETURN(const double value, read_floating(view));
    return convert<T>(value);
  }
}

template <class T>
double as_double(T value) {
  return convert<double>(value);
}

template <class T>
bool is_near(T got, T expected, const Tolerance& tolerance) {
  if constexpr (std::is_integral_v<T>) {
    if (got == expected) return true;
    if (tolerance.absolute == 0.0 && tolerance.relative == 0.0) return false;
  }
  const double a = as_double(got), b = as_double(expected);
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b);
}

}  // namespace

StatusOr<double> read_floating(const JsonView& view) {
  if (view.kind() == Json::Kind::kString) {
    TSR_ASSIGN_OR_RETURN(const std::string text, view.text());
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return kInfinity;
    if (text == "-inf") return -kInfinity;
    return view.error(absl::StrFormat(
        "expected a number, \"nan\", \"inf\" or \"-inf\", not the string %s", in_quotes(text)));
  }
  return view.number();
}

StatusOr<Array> read_values(const JsonView& view, const Shape& shape, DType dtype) {
  if (view.kind() != Json::Kind::kArray) return view.items().status();
  TSR_ASSIGN_OR_RETURN(const std::int64_t given, view.size());
  const std::int64_t count = num_elements(shape);
  if (given != count) {
    return view.error(absl::StrFormat("%d values for %d elements of shape %s, row-major", given,
                                      count, to_string(shape)));
  }
  Array array = Array::empty(shape, dtype);
  const Status status = visit_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    T* out = array.data<T>();
    return view.for_each_item([&](const JsonView& item) -> Status {
      TSR_ASSIGN_OR_RETURN(*out++, read_element<T>(item));
      return absl::OkStatus();
    });
  });
  if (!status.ok()) return status;
  return array;
}

StatusOr<Array> read_value(const JsonView& view, DType dtype) {
  Array array = Array::empty({}, dtype);
  const Status status = visit_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    TSR_ASSIGN_OR_RETURN(*array.data<T>(), read_element<T>(view));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return array;
}

Json element_to_json(const Array& array, std::int64_t position) {
  return visit_dtype(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = array.data<T>()[position];
    if constexpr (std::is_same_v<T, bool>) {
      return Json(value);
    } else if constexpr (std::is_integral_v<T>) {
      return Json(static_cast<std::int64_t>(value));
    } else {
      const double number = as_double(value);
      if (std::isnan(number)) return Json("nan");
      if (std::isinf(number)) return Json(number > 0 ? "inf" : "-inf");
      return Json(number);
    }
  });
}

std::string element_to_text(const Array& array, std::int64_t position) {
  const Json json = element_to_json(array, position);
  return json.if_string() != nullptr ? *json.if_string() : json.to_string();
}

Shape index_of(const Shape& shape, std::int64_t position) {
  Shape index = shape;
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
  return index;
}

Tolerance default_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64:
      return {1e-7, 1e-7};
    case DType::kF32:
      return {1e-5, 1.3e-6};
    case DType::kBF16:
      return {1e-5, 1.6e-2};
    case DType::kF16:
      return {1e-5, 1e-3};
    default:
      return {};
  }
}

std::optional<std::int64_t> first_difference(const Array& got, const Array& expected,
                                             const Tolerance& tolerance) {
  return visit_dtype(got.dtype(), [&](auto tag) -> std::optional<std::int64_t> {
    using T = typename decltype(tag)::type;
    const T *a = got.data<T>(), *b = expected.data<T>();
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      if (!is_near(a[i], b[i], tolerance)) return i;
    }
    return std::nullopt;
  });
}

}  // namespace tessera::audit
