#include "tools/placement_audit/byte_text.h"

#include <iterator>

#include "absl/strings/str_format.h"

namespace tessera::audit {
namespace {

struct Scaled {
  double value = 0;
  std::size_t power = 0;  ///< of 1024
};

/// `limit`: from there on the next unit reads better.
Scaled scale(std::int64_t bytes, double limit) {
  Scaled scaled{.value = static_cast<double>(bytes)};
  for (; scaled.value >= limit; ++scaled.power) scaled.value /= 1024;
  return scaled;
}

}  // namespace

std::string byte_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const Scaled scaled = scale(bytes, 1024);
  if (scaled.power == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.2f %s", scaled.value, kUnits[scaled.power]);
}

std::string short_byte_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P", "E"};
  const Scaled scaled = scale(bytes, 999.5);
  const bool whole = scaled.power == 0 || scaled.value >= 9.95;
  return absl::StrFormat("%.*f%s", whole ? 0 : 1, scaled.value, kUnits[scaled.power]);
}

}  // namespace tessera::audit
