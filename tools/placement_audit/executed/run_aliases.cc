#include "tools/placement_audit/executed/run_aliases.h"

namespace tessera::audit {

void Aliases::add_slot() {
  slots_.push_back({.storage = static_cast<int>(versions_.size())});
  versions_.push_back(0);
}

void Aliases::set_view(int slot, int of, const ViewAliasing& aliasing) {
  using Kind = ViewAliasing::Kind;
  if (aliasing.kind == Kind::kNone) return;
  const Slot source = at(of);
  Slot& view = slots_[static_cast<std::size_t>(slot)];
  // What strides decide is left to the run, where the source's order is not known.
  if (aliasing.kind == Kind::kByStrides && source.reordered) return;
  view.reordered = aliasing.reorders || source.reordered;
  view.copied = source.copied;
  const bool is_copy = aliasing.kind == Kind::kCopies;
  if (!view.copied && (is_copy || (aliasing.kind == Kind::kIfInOrder && source.reordered))) {
    const int version = versions_[static_cast<std::size_t>(source.storage)];
    view.copied = Copied{source.storage, version, is_copy};
  }
  if (is_copy) return;
  view.storage = source.storage;
  view.base = source.base >= 0 ? source.base : of;
  view.repeats = aliasing.repeats || source.repeats;
}

void Aliases::set_same(int slot, int of) { slots_[static_cast<std::size_t>(slot)] = at(of); }

Status Aliases::check_read(std::string_view op, int slot, const ProgramTensor& tensor) const {
  const std::optional<Copied>& copied = at(slot).copied;
  if (!copied || versions_[static_cast<std::size_t>(copied->storage)] == copied->version) {
    return absl::OkStatus();
  }
  return stale_view_refused(op, tensor.name, copied->by_cut, tensor.spec);
}

Status Aliases::check_write(std::string_view op, int slot, const ProgramTensor& tensor,
                            const History& history, std::span<const int> values) const {
  const Slot& held = at(slot);
  std::optional<WriteHazard> hazard;
  if (held.repeats) {
    hazard = WriteHazard::kRepeats;
  } else if (held.copied) {
    hazard = held.copied->by_cut ? WriteHazard::kCopiedByCut : WriteHazard::kCopiedByOrder;
  } else if (history.is_leaf(slot)) {
    hazard = WriteHazard::kLeaf;
  } else if (held.base >= 0 && history.is_leaf(held.base)) {
    hazard = WriteHazard::kViewOfLeaf;
  } else if (held.base >= 0 && history.has_history(held.base)) {
    hazard = WriteHazard::kViewOfHistory;
  } else if (held.base >= 0) {
    for (const int value : values) {
      if (value >= 0 && history.has_history(value)) hazard = WriteHazard::kValuesOfView;
    }
  }
  if (!hazard) return absl::OkStatus();
  return write_refused(op, tensor.name, *hazard, tensor.spec);
}

void Aliases::note_write(int slot) { ++versions_[static_cast<std::size_t>(at(slot).storage)]; }

}  // namespace tessera::audit
