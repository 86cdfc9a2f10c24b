// tools/placement_audit/executed/run_aliases.h: which tensors of a program share storage, and which
// views had to be copied, known before anything runs: a write that would be lost is refused while
// the program is read, as dispatch would refuse it on every rank.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "strategies/rules/aliasing.h"
#include "tools/placement_audit/executed/run_history.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera::audit {

/// Slots are the program's tensors, added in order.
class Aliases {
 public:
  /// A tensor in a storage of its own.
  void add_slot();
  /// Slot `slot`, just added, is what a view op made of slot `of`.
  void set_view(int slot, int of, const ViewAliasing& aliasing);
  /// Slot `slot`, just added, is slot `of` under another name.
  void set_same(int slot, int of);

  /// Errors: FailedPrecondition where `slot` is a copied view and what it was taken from was
  /// written since.
  Status check_read(std::string_view op, int slot, const ProgramTensor& tensor) const;
  /// Errors: FailedPrecondition where the write would be lost, or break a gradient; `values` are
  /// the slots of the op's operands (−1: none).
  Status check_write(std::string_view op, int slot, const ProgramTensor& tensor,
                     const History& history, std::span<const int> values) const;
  /// Records the write.
  void note_write(int slot);

 private:
  struct Copied {
    int storage = 0;
    int version = 0;
    bool by_cut = true;
  };
  struct Slot {
    int storage = 0;
    int base = -1;  ///< the slot that it is a view of
    bool repeats = false;
    bool reordered = false;
    std::optional<Copied> copied;
  };
  const Slot& at(int slot) const { return slots_[static_cast<std::size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<int> versions_;  ///< of storages: how often each was written
};

}  // namespace tessera::audit
