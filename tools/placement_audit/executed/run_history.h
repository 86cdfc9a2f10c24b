// tools/placement_audit/executed/run_history.h: which steps of a program have which before them in
// the history that gradients follow, known before anything runs.
#pragma once

#include <string>
#include <vector>

#include "placement/status.h"

namespace tessera::audit {

/// Nodes are calls that autograd will record; slots are the program's tensors.
class History {
 public:
  void add_slot() { slots_.emplace_back(); }
  /// An input that needs a gradient.
  void set_leaf(int slot) { at(slot).leaf = slot; }
  bool has_history(int slot) const;
  bool is_leaf(int slot) const {
    const Slot& held = slots_[static_cast<std::size_t>(slot)];
    return held.node < 0 && held.leaf >= 0;
  }

  struct Call {
    std::string name;  ///< of the op
    int step = 0;      ///< its number in the program
    bool differentiable = true;
  };
  /// A call on these slots (−1: none); returns its node, or −1 where none of them has a history.
  int add_call(Call call, const std::vector<int>& operands);
  /// Slot `slot` is, from here on, what `node` made.
  void set_result(int slot, int node) { at(slot).node = node; }

  /// Follows the history of `root`, as the backward step `step` will, and frees it. Returns the
  /// inputs that it comes to. Errors: FailedPrecondition where there is no history, an op in it has
  /// no gradient, or a step before has freed it.
  StatusOr<std::vector<int>> go_back(int root, int step);

 private:
  /// A leaf has no node.
  struct Slot {
    int node = -1;
    int leaf = -1;
  };
  struct Node {
    Call call;
    std::vector<Slot> from;
    int freed_by = -1;
  };
  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
};

}  // namespace tessera::audit
