// runtime/json_text.h: texts as JSON strings, for a layer that writes JSON and reads none.
#pragma once

#include <string>
#include <string_view>

#include "runtime/backend_api.h"

namespace tessera TSR_BACKEND_API {

/// Appends `text` in quotes. Control characters are escaped; bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace tessera
