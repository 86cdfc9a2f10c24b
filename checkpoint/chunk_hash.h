// checkpoint/chunk_hash.h: XXH3 of a file's chunks, so that a reader can check what it reads
// without reading all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "placement/api.h"

namespace tessera TSR_API {

/// XXH3, 64 bits, without a seed.
std::uint64_t hash_of(std::span<const std::byte> bytes);
std::uint64_t hash_of(std::string_view text);

/// 16 lower-case hexadecimal digits.
std::string hash_to_text(std::uint64_t hash);
std::optional<std::uint64_t> hash_from_text(std::string_view text);

/// Chunks of `chunk_bytes` that make up `bytes`; the last may be short.
constexpr std::int64_t num_chunks(std::int64_t bytes, std::int64_t chunk_bytes) {
  return bytes / chunk_bytes + (bytes % chunk_bytes != 0 ? 1 : 0);
}
static_assert(num_chunks(0, 4) == 0 && num_chunks(8, 4) == 2 && num_chunks(9, 4) == 3);

}  // namespace tessera
