#include "io/json_token.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "io/json.h"

namespace tessera {
namespace {

/// The four hexadecimal digits after "\u".
std::optional<std::uint32_t> code_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  const char* end = text.data() + 6;
  const auto [stop, error] = std::from_chars(text.data() + 2, end, unit, 16);
  return error == std::errc() && stop == end ? std::optional(unit) : std::nullopt;
}

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
  }
  put(0x80 | (point & 0x3F));
}

char plain_escape(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return letter;
  }
}

}  // namespace

std::string_view json_string_at(std::string_view text, std::size_t at) {
  std::size_t end = ++at;
  while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return text.substr(at, end - at);
}

std::string json_unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  while (!raw.empty()) {
    const std::size_t plain = std::min(raw.find('\\'), raw.size());
    out += raw.substr(0, plain);
    raw.remove_prefix(plain);
    if (raw.empty()) break;
    if (raw[1] == 'u') {
      const JsonEscape escape = json_escape(raw);
      append_utf8(out, escape.point);
      raw.remove_prefix(escape.bytes);
    } else {
      out += plain_escape(raw[1]);
      raw.remove_prefix(2);
    }
  }
  return out;
}

JsonEscape json_escape(std::string_view text) {
  const std::optional<std::uint32_t> unit = code_unit(text);
  if (!unit) return {};
  if (*unit < 0xD800 || *unit > 0xDFFF) return {*unit, 6};
  const std::optional<std::uint32_t> low = code_unit(text.substr(6));
  if (*unit > 0xDBFF || !low || *low < 0xDC00 || *low > 0xDFFF) return {};
  return {0x10000 + ((*unit & 0x3FF) << 10 | (*low & 0x3FF)), 12};
}

std::string_view json_number_at(std::string_view text) {
  return text.substr(0, text.find_first_not_of("0123456789+-.eE"));
}

std::optional<std::int64_t> json_integer(std::string_view number) {
  std::int64_t value = 0;
  const char* end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::optional<double> json_double(std::string_view number) {
  double value = 0.0;
  const auto error = std::from_chars(number.data(), number.data() + number.size(), value).ec;
  if (error == std::errc()) return value;
  // from_chars says the same of what is too large and of what is too small.
  value = std::strtod(std::string(number).c_str(), nullptr);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string json_path_step(std::string_view key) {
  std::string step;
  const std::string plain = in_quotes(key);
  for (const char c : std::string_view(plain).substr(1, plain.size() - 2)) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

}  // namespace tessera
