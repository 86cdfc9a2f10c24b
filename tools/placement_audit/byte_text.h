// tools/placement_audit/byte_text.h: a number of bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::audit {

/// "24 B", "1.50 KiB", "8.00 MiB".
std::string byte_text(std::int64_t bytes);
/// At most four characters: "24", "1.5K", "128K", "16E"; K is 1024.
std::string short_byte_text(std::int64_t bytes);

}  // namespace tessera::audit
