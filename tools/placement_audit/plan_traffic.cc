#include "tools/placement_audit/plan_traffic.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera::audit {
namespace {

// The least that gives at most `max_cells` cells; one that divides the ranks evenly, where up to
// twice the least does.
std::size_t ranks_per_cell(std::size_t ranks, std::size_t max_cells) {
  const std::size_t least = (ranks + max_cells - 1) / max_cells;
  for (std::size_t each = least; each <= 2 * least; ++each) {
    if (ranks % each == 0) return each;
  }
  return least;
}

}  // namespace

std::string Traffic::cell_name(std::size_t cell) const {
  const std::size_t first = cell * ranks_per_cell;
  const std::size_t last = std::min(ranks.size(), first + ranks_per_cell) - 1;
  if (first == last) return absl::StrFormat("rank %d", ranks[first]);
  return absl::StrFormat("ranks %d-%d", ranks[first], ranks[last]);
}

Traffic traffic_of(const PlanStep& step, const Ranks& ranks, std::size_t max_cells) {
  Traffic traffic{.ranks = ranks};
  traffic.ranks_per_cell = ranks_per_cell(std::max<std::size_t>(1, ranks.size()), max_cells);
  traffic.cells = (ranks.size() + traffic.ranks_per_cell - 1) / traffic.ranks_per_cell;
  traffic.bytes.resize(traffic.cells * traffic.cells);
  traffic.sent.resize(traffic.cells);
  traffic.received.resize(traffic.cells);
  std::vector<std::int64_t> sent(ranks.size(), 0);
  const std::int64_t element_bytes = size_of(step.dst.dtype());
  for (std::size_t reader = 0; reader < ranks.size(); ++reader) {
    const std::size_t to = reader / traffic.ranks_per_cell;
    std::int64_t received = 0;
    for (const Transfer& box : transfers_into(step, ranks[reader])) {
      if (box.peer == ranks[reader]) continue;
      const auto sender = static_cast<std::size_t>(
          std::lower_bound(ranks.begin(), ranks.end(), box.peer) - ranks.begin());
      const std::int64_t bytes = box.num_elements() * element_bytes;
      traffic.bytes[sender / traffic.ranks_per_cell * traffic.cells + to] += bytes;
      sent[sender] += bytes;
      received += bytes;
    }
    traffic.received[to] = std::max(traffic.received[to], received);
  }
  for (std::size_t sender = 0; sender < ranks.size(); ++sender) {
    std::int64_t& most = traffic.sent[sender / traffic.ranks_per_cell];
    most = std::max(most, sent[sender]);
  }
  return traffic;
}

}  // namespace tessera::audit
