// program/round_name.h: names that hold the number of a repeat's round: "x.*", and "x.*-1" for the
// number below it.
// Internal to program/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

constexpr bool is_decimal_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// The numbers of a repeat's rounds.
struct RoundNumbers {
  std::int64_t count = 1, first = 0, by = 1;
  std::int64_t of(std::int64_t round) const noexcept { return first + by * round; }
  std::int64_t least() const noexcept { return by > 0 ? first : of(count - 1); }
  bool holds(std::int64_t number) const noexcept { return number >= least() && number <= most(); }
  std::int64_t most() const noexcept { return by > 0 ? of(count - 1) : first; }
};

/// A name with one "*", and what is added to the number there.
struct RoundName {
  std::string before, after;
  std::int64_t offset = 0;

  /// None for a name without a "*", or with several.
  static std::optional<RoundName> parse(std::string_view name);
  /// "x.7" of "x.*-1" and 8.
  std::string with(std::int64_t number) const;
  /// "x.*", "x.*-1"
  std::string written() const;
  /// Without what is added.
  std::string base() const { return before + '*' + after; }
};

}  // namespace tessera
