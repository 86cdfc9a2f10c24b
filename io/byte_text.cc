#include "io/byte_text.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/checked_int.h"

namespace tessera {
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

/// What a unit counts, 0 for what is none: "" and "B" are bytes.
std::int64_t size_of_unit(std::string_view written) {
  std::string unit;
  for (const char c : written) {
    if (c != ' ') unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtpe";
  const std::size_t power = kPrefixes.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (rest != "b" && rest != "ib")) return 0;
  std::int64_t size = 1;
  for (std::size_t i = 0; i <= power; ++i) size *= rest == "b" ? 1000 : 1024;
  return size;
}

std::optional<std::int64_t> bytes_in(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::int64_t unit =
      error == std::errc() ? size_of_unit({at, static_cast<std::size_t>(end - at)}) : 0;
  if (unit == 0 || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  // Whole numbers are exact.
  std::int64_t whole = 0;
  const auto [whole_at, whole_error] = std::from_chars(text.data(), at, whole);
  if (whole_at == at) {
    if (whole_error != std::errc()) return std::nullopt;
    const CheckedInt bytes = CheckedInt(whole) * unit;
    if (CheckedInt(bytes.clamped()) != bytes) return std::nullopt;
    return bytes.clamped();
  }
  number = std::ceil(number * static_cast<double>(unit));
  return number < 9.2e18 ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

}  // namespace

std::string byte_text(std::int64_t bytes, int decimals) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  // What would be rounded to 1024 is one of the next unit.
  const Scaled scaled = scale(bytes, 1024 - 0.5 * std::pow(10.0, -decimals));
  if (scaled.power == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.*f %s", decimals, scaled.value, kUnits[scaled.power]);
}

std::string short_byte_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P", "E"};
  const Scaled scaled = scale(bytes, 999.5);
  const bool whole = scaled.power == 0 || scaled.value >= 9.95;
  return absl::StrFormat("%.*f%s", whole ? 0 : 1, scaled.value, kUnits[scaled.power]);
}

StatusOr<std::int64_t> parse_bytes(std::string_view text) {
  const std::optional<std::int64_t> bytes = bytes_in(text);
  if (bytes) return *bytes;
  return invalid_argument(in_quotes(text) +
                          ": expected a size such as \"80 GiB\"; units are B, KiB to EiB of 1024, "
                          "kB to EB of 1000");
}

}  // namespace tessera
