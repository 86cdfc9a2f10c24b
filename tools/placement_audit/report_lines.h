// tools/placement_audit/report_lines.h: lines of at most 100 columns, and what other formats than
// JSON cannot hold as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::audit {

inline constexpr std::size_t kColumns = 100;

/// What is written, made printable, in lines that begin with `indent`; broken at blanks, a word
/// longer than a line anywhere.
std::string wrapped(std::string_view written, std::string_view indent);
/// One line, made printable, cut at a blank with "..." where it is too long.
std::string one_line(std::string_view written);
/// As text or an attribute of XML; control characters, which XML cannot say, are "?".
std::string xml_escaped(std::string_view text);
/// As a cell of a Markdown table.
std::string cell_escaped(std::string_view text);
/// "model/attn.py:118" as its file, and its line where one is given, else 0.
struct Site {
  std::string file;
  std::int64_t line = 0;
};
Site site_of(std::string_view site);

}  // namespace tessera::audit
