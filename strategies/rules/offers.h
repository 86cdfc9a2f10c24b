// strategies/rules/offers.h: what an op's own function offers, read as rows. Internal to
// strategies/.
#pragma once

#include <span>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/rows.h"

namespace tessera TSR_API {

/// How an offer of an op's own function runs on one axis of its mesh.
struct OfferedRow {
  std::vector<RowEntry> inputs;
  std::vector<RowEntry> outputs;
  bool all_replicated() const noexcept;
};
OfferedRow offered_row(const Strategy& offer, int axis);
/// For matches(): which operands are given; their shapes and dtypes are left out.
std::vector<TensorMeta> given_or_absent(std::span<const Spec* const> inputs);
/// `function` without the offers that read as one of `left_out` on an axis; where none is left,
/// what it offers for operands that are whole on every rank.
StrategyFn without_rows(StrategyFn function, std::vector<Declined> left_out);

}  // namespace tessera
