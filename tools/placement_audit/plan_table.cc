#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "tools/placement_audit/plan_report.h"
#include "tools/placement_audit/rank_list.h"

namespace tessera::audit {
namespace {

using Align = PlanTable::Align;
constexpr std::size_t kListedRanks = 64;

std::string placements_text(const Spec& spec) {
  // "F32[8, 6] (S(0), R) on {dp: 2}" without what all steps share.
  const std::string text = spec.to_string();
  const std::size_t from = text.find('('), to = text.rfind(" on ");
  return from == std::string::npos ? "()" : text.substr(from, to - from);
}

// "{dp: 2}", or "{dp: 2} from rank 8 on".
std::string mesh_text(const Mesh& mesh) {
  if (mesh.first_rank() == 0) return mesh.to_string();
  return absl::StrFormat("%s from rank %d on", mesh.to_string(), mesh.first_rank());
}

std::string axes_text(const PlanStep& step) {
  if (step.src.mesh() != step.dst.mesh()) return "across";
  return step.axes.empty() ? "-" : step.src.mesh().axis_labels(step.axes);
}

std::string share_text(std::int64_t bytes, std::int64_t bound) {
  if (bound == 0) return bytes == 0 ? "-" : "above 0";
  const double share = static_cast<double>(bytes) / static_cast<double>(bound);
  return absl::StrFormat("%.*f", share < 10 ? 3 : 1, share);
}

std::string time_text(double us) { return absl::StrFormat("%.*f", us < 100 ? 2 : 0, us); }

// Characters of a text in UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string line_of(const PlanTable& table, const std::vector<std::string>& cells,
                    const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string blanks(widths[c] - width_of(cells[c]), ' ');
    if (c > 0) line += "  ";
    line += table.columns[c].align == Align::kLeft ? cells[c] + blanks : blanks + cells[c];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::vector<std::string> heads_of(const PlanTable& table) {
  std::vector<std::string> heads;
  for (const PlanTable::Column& column : table.columns) heads.push_back(column.head);
  return heads;
}

std::vector<std::string> lines_of(const PlanTable& table) {
  std::vector<std::vector<std::string>> all = table.rows;
  all.insert(all.begin(), heads_of(table));
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& cells : all) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      widths[c] = std::max(widths[c], width_of(cells[c]));
    }
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& cells : all) lines.push_back(line_of(table, cells, widths));
  return lines;
}

// Green at the bound, yellow up to half above it, red beyond.
int colour_of(double share) { return share <= 1 ? 32 : share <= 1.5 ? 33 : 31; }

// From whom a rank reads anything in any step, itself left out.
std::string sources_text(const Plan& plan, std::int64_t rank) {
  Ranks peers;
  for (const PlanStep& step : plan.steps) {
    for (const Transfer& box : transfers_into(step, rank)) {
      if (box.peer != rank) peers.push_back(box.peer);
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers.empty() ? "-" : ranks_to_string(peers);
}

}  // namespace

std::string route_of(const PlanReport& report) {
  const Spec& src = report.plan.src;
  const Spec& dst = report.plan.dst;
  const std::string tensor = std::string(name_of(src.dtype())) + to_string(src.global_shape());
  const std::string arrow = " → ";
  if (src.mesh() == dst.mesh()) {
    return tensor + " on " + mesh_text(src.mesh()) + ": " + placements_text(src) + arrow +
           placements_text(dst);
  }
  return tensor + ": " + placements_text(src) + " on " + mesh_text(src.mesh()) + arrow +
         placements_text(dst) + " on " + mesh_text(dst.mesh());
}

std::string verdict_of(const PlanReport& report) {
  const PlanCost& cost = report.cost;
  std::string text = "no bytes move";
  if (cost.bytes_received.total > 0) {
    text =
        absl::StrFormat("%s received by the busiest rank, %s by all",
                        byte_text(cost.bytes_received.max), byte_text(cost.bytes_received.total));
    if (cost.lower_bound.total > 0) {
      text += absl::StrFormat(": %s times the fewest possible",
                              share_text(cost.bytes_received.total, cost.lower_bound.total));
    }
  }
  text += absl::StrFormat("; a rank holds up to %s", byte_text(cost.peak_local_bytes));
  if (report.topology) text += absl::StrFormat("; about %s µs", time_text(cost.estimated_us));
  return text;
}

PlanTable step_table(const PlanReport& report) {
  PlanTable table{.columns = {{"step"},
                              {"collective", Align::kLeft},
                              {"axes", Align::kLeft},
                              {"bytes per rank"},
                              {"in all"},
                              {"of bound"},
                              {"messages per rank"}}};
  const PlanCost& cost = report.cost;
  const bool timed = report.topology.has_value();
  if (timed) table.columns.push_back({"µs"});
  table.columns.push_back({"leads to", Align::kLeft});
  const auto add = [&](std::vector<std::string> head, const Volume& bytes, std::int64_t messages,
                       double us, const Spec* to) {
    head.insert(head.end(),
                {byte_text(bytes.max), byte_text(bytes.total),
                 share_text(bytes.total, cost.lower_bound.total), std::to_string(messages)});
    if (timed) head.push_back(time_text(us));
    head.push_back(to == nullptr ? "" : placements_text(*to));
    table.rows.push_back(std::move(head));
  };
  for (std::size_t i = 0; i < report.plan.steps.size(); ++i) {
    const PlanStep& step = report.plan.steps[i];
    const StepCost& of_step = cost.steps[i];
    add({std::to_string(i + 1), std::string(name_of(step.kind)), axes_text(step)},
        of_step.bytes_received, of_step.messages.max, of_step.estimated_us, &step.dst);
  }
  add({"all", "", ""}, cost.bytes_received, cost.messages.max, cost.estimated_us, nullptr);
  std::vector<std::string> bound = {"bound", "", "", byte_text(cost.lower_bound.max),
                                    byte_text(cost.lower_bound.total)};
  bound.resize(table.columns.size());
  table.rows.push_back(std::move(bound));
  return table;
}

PlanTable rank_table(const PlanReport& report, std::size_t max_ranks) {
  PlanTable table{.columns = {{"rank"},
                              {"received"},
                              {"sent"},
                              {"messages"},
                              {"holds up to"},
                              {"reads from", Align::kLeft}}};
  for (const std::int64_t rank : ranks_of(report.plan)) {
    if (table.rows.size() == max_ranks) break;
    const RankCost cost = cost_on(report.plan, rank);
    table.rows.push_back({std::to_string(rank), byte_text(cost.bytes_received),
                          byte_text(cost.bytes_sent), std::to_string(cost.messages),
                          byte_text(cost.peak_local_bytes), sources_text(report.plan, rank)});
  }
  return table;
}

std::string plan_text(const PlanReport& report, Colour colour, Detail detail) {
  std::string text = route_of(report) + "\npriced by " + report.priced_by + "\n\n";
  const std::vector<std::string> lines = lines_of(step_table(report));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_sum = i + 2 == lines.size();
    text += colour == Colour::kAnsi && is_sum
                ? absl::StrFormat("\x1b[%dm%s\x1b[0m\n", colour_of(report.cost.ratio()), lines[i])
                : lines[i] + '\n';
  }
  text += '\n' + verdict_of(report) + '\n';
  if (detail == Detail::kTotals) return text;
  text += '\n';
  for (const std::string& line : lines_of(rank_table(report, kListedRanks))) text += line + '\n';
  const std::size_t ranks = ranks_of(report.plan).size();
  if (ranks > kListedRanks) text += absl::StrFormat("… and %d ranks more\n", ranks - kListedRanks);
  return text;
}

}  // namespace tessera::audit
