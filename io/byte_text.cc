#include "io/byte_text.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"

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

std::optional<std::int64_t> bytes_from(std::string_view text) {
  double number = 0;
  const auto [at, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(at - text.data()))) {
    if (c != ' ') unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  constexpr std::string_view kPrefixes = "kmgtp";
  if (!unit.empty() && unit != "b") {
    const std::size_t power = kPrefixes.find(unit.front());
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (rest != "b" && rest != "ib")) return std::nullopt;
    number *= std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  if (!(number >= 1 && number < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace tessera
