#include "tools/placement_audit/program_page.h"

#include "tools/placement_audit/page_files.h"
#include "tools/placement_audit/svg.h"

namespace tessera::audit {
namespace {

/// JSON that no parser of HTML takes for a tag or a comment.
std::string in_script(const Json& json) {
  std::string text;
  for (const char c : json.to_string()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

StatusOr<std::string> program_page(const Program& program, const OpTable& ops,
                                   const ProgramPage& page) {
  TSR_ASSIGN_OR_RETURN(const Json data, program_page_data(program, ops, page));
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(program.name) + "</title>\n<style>\n" + page_style() +
         "</style>\n</head>\n<body>\n<header></header>\n<main>\n<noscript><p>This page is drawn by "
         "its script, which this browser does not run.</p></noscript>\n</main>\n"
         "<script type=\"application/json\" id=\"data\">" +
         in_script(data) + "</script>\n<script>\n" + page_script() +
         "</script>\n</body>\n</html>\n";
}

}  // namespace tessera::audit
