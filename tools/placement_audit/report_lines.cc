#include "tools/placement_audit/report_lines.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_replace.h"
#include "placement/printable.h"
#include "tools/placement_audit/svg.h"

namespace tessera::audit {
namespace {

/// `at`, or where the character of UTF-8 begins in the middle of which it lies.
std::size_t begin_of_character(std::string_view text, std::size_t at) {
  while (at > 1 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string wrapped(std::string_view written, std::string_view indent) {
  const std::string safe = printable(written);
  std::string_view text = safe;
  const std::size_t width = kColumns - indent.size();
  std::string lines;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > width) {
      end = text.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = begin_of_character(text, width);
    }
    lines += std::string(indent) + std::string(text.substr(0, end)) + '\n';
    text.remove_prefix(end);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return lines;
}

std::string one_line(std::string_view written) {
  const std::string text = printable(written);
  if (text.size() <= kColumns) return text + '\n';
  std::size_t end = text.rfind(' ', kColumns - 4);
  if (end == std::string_view::npos || end < kColumns / 2) {
    end = begin_of_character(text, kColumns - 4);
  }
  return text.substr(0, end) + " ...\n";
}

std::string xml_escaped(std::string_view text) {
  return absl::StrReplaceAll(escaped(text), {{"\n", "&#10;"}});
}

std::string cell_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '`' || c == '[' || c == ']' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

Site site_of(std::string_view site) {
  const std::size_t colon = site.rfind(':');
  std::int64_t line = 0;
  if (colon != std::string_view::npos) {
    const char* const end = site.data() + site.size();
    const auto [stop, error] = std::from_chars(site.data() + colon + 1, end, line);
    if (error == std::errc() && stop == end && line > 0) {
      return {.file = std::string(site.substr(0, colon)), .line = line};
    }
  }
  return {.file = std::string(site), .line = 0};
}

}  // namespace tessera::audit
