// io/byte_text.h: a number of bytes for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "placement/status.h"

namespace tessera {

/// "24 B", "1.50 KiB", "8.00 MiB"; with one decimal "1.5 KiB".
std::string byte_text(std::int64_t bytes, int decimals = 2);
/// At most four characters: "24", "1.5K", "128K", "16E"; K is 1024.
std::string short_byte_text(std::int64_t bytes);
/// "80GiB", "1.5 TB", "4096": bytes without a unit, KiB and the like of 1024, kB of 1000, in any
/// case; parts of a byte are rounded up. Errors: InvalidArgument with the text, for what is no
/// size, below 0 or beyond 2^63.
StatusOr<std::int64_t> parse_bytes(std::string_view text);

}  // namespace tessera
