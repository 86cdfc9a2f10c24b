#include "strategies/rules/offers.h"

#include <algorithm>

namespace tessera {
namespace {

bool reads_as(const std::vector<Declined>& rows, const Strategy& offer,
              std::span<const Spec* const> inputs) {
  const std::vector<TensorMeta> operands = given_or_absent(inputs);
  const int num_axes = offer.outputs.empty() ? 0 : offer.outputs[0].mesh().ndim();
  for (int axis = 0; axis < num_axes; ++axis) {
    const OfferedRow row = offered_row(offer, axis);
    if (row.all_replicated()) continue;
    for (const Declined& declined : rows) {
      if (any_matches(declined.rows, operands, row.inputs, row.outputs)) return true;
    }
  }
  return false;
}

/// The operands as if they were whole on every rank.
std::vector<Spec> whole(std::span<const Spec* const> inputs) {
  std::vector<Spec> specs;
  for (const Spec* spec : inputs) {
    if (spec == nullptr) {
      specs.emplace_back();
      continue;
    }
    const Placements all(static_cast<std::size_t>(spec->mesh().ndim()), Replicate{});
    specs.push_back(
        value_or_throw(Spec::make(spec->mesh(), spec->global_shape(), spec->dtype(), all)));
  }
  return specs;
}

}  // namespace

bool OfferedRow::all_replicated() const noexcept {
  const auto whole = [](const RowEntry& e) { return e.kind == RowEntry::Kind::kReplicate; };
  return std::all_of(inputs.begin(), inputs.end(), whole) &&
         std::all_of(outputs.begin(), outputs.end(), whole);
}

OfferedRow offered_row(const Strategy& offer, int axis) {
  OfferedRow row;
  const auto entry = [&](const Spec& spec) {
    return axis < spec.mesh().ndim() ? entry_of(spec, axis) : RowEntry{};
  };
  for (const Spec& spec : offer.inputs) row.inputs.push_back(entry(spec));
  for (const Spec& spec : offer.outputs) row.outputs.push_back(entry(spec));
  return row;
}

std::vector<TensorMeta> given_or_absent(std::span<const Spec* const> inputs) {
  std::vector<TensorMeta> operands;
  for (const Spec* spec : inputs) operands.push_back(TensorMeta{.absent = spec == nullptr});
  return operands;
}

StrategyFn without_rows(StrategyFn function, std::vector<Declined> left_out) {
  return [function = std::move(function), left_out = std::move(left_out)](
             std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs,
             const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    TSR_ASSIGN_OR_RETURN(std::vector<Strategy> offers, function(inputs, outputs, attrs));
    std::erase_if(offers, [&](const Strategy& offer) { return reads_as(left_out, offer, inputs); });
    if (!offers.empty()) return offers;
    const std::vector<Spec> specs = whole(inputs);
    std::vector<const Spec*> pointers;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      pointers.push_back(inputs[i] == nullptr ? nullptr : &specs[i]);
    }
    return function(pointers, outputs, attrs);
  };
}

}  // namespace tessera
