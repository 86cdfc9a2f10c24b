#include "placement/printable.h"

#include <cstdint>
#include <cstdio>

#include "placement/utf8.h"

namespace tessera {
namespace {

bool is_harmful(std::uint32_t value) {
  const bool control = value < 0x20 || (value >= 0x7f && value < 0xa0);
  const bool separator = value == 0x2028 || value == 0x2029;
  const bool direction = value == 0x061c || value == 0x200e || value == 0x200f ||
                         (value >= 0x202a && value <= 0x202e) ||
                         (value >= 0x2066 && value <= 0x2069);
  return control || separator || direction;
}

std::string escaped(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, value < 0x100 ? "\\x%02x" : "\\u%04x", value);
  return text;
}

/// Cut where a character begins.
std::string_view begin_of(std::string_view text, std::size_t bytes) {
  while (bytes > 0 && (static_cast<std::uint8_t>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}
std::string_view end_of(std::string_view text, std::size_t bytes) {
  std::size_t from = text.size() - bytes;
  while (from < text.size() && (static_cast<std::uint8_t>(text[from]) & 0xc0) == 0x80) ++from;
  return text.substr(from);
}

enum class Newlines { kBecomeSpaces, kStay };

std::string printable_whole(std::string_view text, Newlines newlines = Newlines::kBecomeSpaces) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    if (next.bytes == 0) {
      out += escaped(static_cast<std::uint8_t>(text[0]));
    } else if (next.value == '\n') {
      out += newlines == Newlines::kStay ? '\n' : ' ';
    } else if (next.value != '\t' && is_harmful(next.value)) {
      out += escaped(next.value);
    } else {
      out += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return printable_whole(text);
  return printable_whole(begin_of(text, max_bytes / 2)) + "…" +
         printable_whole(end_of(text, max_bytes / 2));
}

std::string printable_lines(std::string_view text) {
  return printable_whole(text, Newlines::kStay);
}

}  // namespace tessera
