// tools/placement_audit/plan_report.h: a plan and what it costs, as every form of the answer shows
// it: a table in a terminal, a picture (SVG), a page (HTML).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/plan.h"
#include "placement/plan_cost.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

struct PlanReport {
  Plan plan;
  PlanCost cost;
  std::optional<Topology> topology;
  std::string priced_by;  ///< "topology node8", or how plans are priced without one
};

/// A table of texts: the head, then one row for each step, then sums.
struct PlanTable {
  enum class Align : std::uint8_t { kLeft, kRight };
  struct Column {
    std::string head;
    Align align = Align::kRight;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  ///< a cell per column
};

/// From what to what, in one line, and what it costs, in another.
std::string route_of(const PlanReport& report);
std::string verdict_of(const PlanReport& report);
PlanTable step_table(const PlanReport& report);
/// What each rank receives, sends and holds, and from whom it reads; the first `max_ranks` of them.
PlanTable rank_table(const PlanReport& report, std::size_t max_ranks);

std::string plan_text(const PlanReport& report, Colour colour, Detail detail);
/// kSteps: an element for a page that says itself what the plan is.
enum class Captions { kAll, kSteps };
/// Who sends which block to whom, step by step: an SVG document. Errors: InvalidArgument for more
/// ranks than a picture shows.
StatusOr<std::string> plan_svg(const PlanReport& report, Captions captions);
/// The tables and the picture in one self-contained page. Errors: as above.
StatusOr<std::string> plan_html(const PlanReport& report, Detail detail);

}  // namespace tessera::audit
