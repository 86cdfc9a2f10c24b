#include "absl/strings/str_format.h"
#include "tools/placement_audit/plan_report.h"
#include "tools/placement_audit/svg.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kListedRanks = 1024;

constexpr std::string_view kStyle = R"css(
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1f2933; margin: 2rem; }
h1 { font-size: 1.3rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { margin: .2rem 0; }
.faint { color: #6b7785; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #dfe4ea; }
th { text-align: left; font-weight: 600; }
.right { text-align: right; }
.scroll { overflow-x: auto; }
)css";

std::string table_html(const PlanTable& table) {
  const auto row = [&](std::string_view tag, const auto& cell_of) {
    std::string html = "<tr>";
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const bool right = table.columns[c].align == PlanTable::Align::kRight;
      html += absl::StrFormat("<%s%s>%s</%s>", tag, right ? " class=\"right\"" : "",
                              escaped(cell_of(c)), tag);
    }
    return html + "</tr>\n";
  };
  std::string html = "<table>\n" + row("th", [&](std::size_t c) { return table.columns[c].head; });
  for (const auto& cells : table.rows) {
    html += row("td", [&](std::size_t c) { return cells[c]; });
  }
  return html + "</table>\n";
}

}  // namespace

StatusOr<std::string> plan_html(const PlanReport& report, Detail detail) {
  TSR_ASSIGN_OR_RETURN(const std::string picture, plan_svg(report, Captions::kSteps));
  const std::string route = escaped(route_of(report));
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + route +
      "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n<h1>" + route +
      "</h1>\n<p>" + escaped(verdict_of(report)) + "</p>\n<p class=\"faint\">priced by " +
      escaped(report.priced_by) + "</p>\n<h2>Steps</h2>\n" + table_html(step_table(report)) +
      "<h2>Who sends which block to whom</h2>\n<div class=\"scroll\">\n" + picture + "</div>\n";
  if (detail == Detail::kPerRank) {
    html += "<h2>Ranks</h2>\n" + table_html(rank_table(report, kListedRanks));
    const std::size_t ranks = ranks_of(report.plan).size();
    if (ranks > kListedRanks) {
      html += absl::StrFormat("<p class=\"faint\">and %d ranks more</p>\n", ranks - kListedRanks);
    }
  }
  return html + "</body>\n</html>\n";
}

}  // namespace tessera::audit
