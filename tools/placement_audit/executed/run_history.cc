#include "tools/placement_audit/executed/run_history.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera::audit {

bool History::has_history(int slot) const {
  const Slot& held = slots_[static_cast<std::size_t>(slot)];
  return held.node >= 0 || held.leaf >= 0;
}

int History::add_call(Call call, const std::vector<int>& operands) {
  Node node{.call = std::move(call)};
  for (const int slot : operands) {
    if (slot >= 0 && has_history(slot)) node.from.push_back(at(slot));
  }
  if (node.from.empty()) return -1;
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

StatusOr<std::vector<int>> History::go_back(int root, int step) {
  if (!has_history(root)) {
    return failed_precondition("no history leads from it to an input whose gradient is asked for");
  }
  std::vector<int> leaves;
  std::vector<Slot> open = {at(root)};
  while (!open.empty()) {
    const Slot next = open.back();
    open.pop_back();
    if (next.node < 0) {
      leaves.push_back(next.leaf);
      continue;
    }
    Node& node = nodes_[static_cast<std::size_t>(next.node)];
    if (node.freed_by == step) continue;  // seen
    if (node.freed_by >= 0) {
      return failed_precondition(
          absl::StrFormat("the history of %s (/program/%d) was freed by the backward step "
                          "/program/%d; run that part of the program again",
                          node.call.name, node.call.step, node.freed_by));
    }
    if (!node.call.differentiable) {
      return failed_precondition(
          absl::StrFormat("%s (/program/%d), which it comes from, has no "
                          "gradient",
                          node.call.name, node.call.step));
    }
    node.freed_by = step;
    open.insert(open.end(), node.from.begin(), node.from.end());
  }
  std::sort(leaves.begin(), leaves.end());
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  return leaves;
}

}  // namespace tessera::audit
