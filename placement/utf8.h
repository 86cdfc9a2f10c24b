// placement/utf8.h: text as code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "placement/api.h"

namespace tessera TSR_API {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  ///< 0: no UTF-8 begins here
};

/// The code point that `text` begins with; overlong forms, surrogates and what lies beyond Unicode
/// are none. Requires a text that is not empty.
CodePoint first_code_point(std::string_view text) noexcept;

}  // namespace tessera
