#include "placement/dtype.h"

#include "absl/strings/str_format.h"

namespace tessera {

StatusOr<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(kLastDType); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == name_of(dtype)) return dtype;
  }
  return invalid_argument(absl::StrFormat(
      "dtype '%s' is not known; allowed are F64, F32, BF16, F16, I64, I32, U8, BOOL",
      std::string(name)));
}

}  // namespace tessera
