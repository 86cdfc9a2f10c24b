#include "program/round_name.h"

#include <cctype>

namespace tessera {
namespace {

/// At most so many digits are read as what is added to a number.
constexpr std::size_t kMaxOffsetDigits = 6;

}  // namespace

std::optional<RoundName> RoundName::parse(std::string_view name) {
  const std::size_t star = name.find('*');
  if (star == std::string_view::npos || name.find('*', star + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  RoundName parsed{.before = std::string(name.substr(0, star)), .after = {}};
  std::string_view rest = name.substr(star + 1);
  const bool is_signed = rest.starts_with('+') || rest.starts_with('-');
  std::size_t end = 1;
  while (is_signed && end < rest.size() && end <= kMaxOffsetDigits &&
         std::isdigit(static_cast<unsigned char>(rest[end])) != 0) {
    parsed.offset = parsed.offset * 10 + (rest[end] - '0');
    ++end;
  }
  if (is_signed && end > 1) {
    if (rest[0] == '-') parsed.offset = -parsed.offset;
    rest.remove_prefix(end);
  }
  parsed.after = std::string(rest);
  return parsed;
}

std::string RoundName::with(std::int64_t number) const {
  return before + std::to_string(number + offset) + after;
}

std::string RoundName::written() const {
  if (offset == 0) return base();
  return before + '*' + (offset > 0 ? "+" : "") + std::to_string(offset) + after;
}

}  // namespace tessera
