#include "checkpoint/chunk_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace tessera {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string hash_to_text(std::uint64_t hash) { return absl::StrFormat("%016x", hash); }

std::optional<std::uint64_t> hash_from_text(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t hash = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    hash = hash << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return hash;
}

}  // namespace tessera
