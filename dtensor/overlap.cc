#include "dtensor/overlap.h"

#include <algorithm>
#include <optional>

#include "dtensor/tensor_impl.h"
#include "kernels/elementwise.h"
#include "strategies/rules/aliasing.h"

namespace tessera {

namespace {

bool same_elements(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && a.shape() == b.shape() && a.strides() == b.strides() &&
         a.dtype() == b.dtype();
}

/// Every operand and result is `*` alone, without marks: element i of the result reads elements i.
bool is_pointwise(const Op& op) {
  const auto starred = [](const RuleOperand& operand) {
    return operand.dims.size() == 1 && operand.dims[0].kind == RuleDim::Kind::kStar;
  };
  const Rule& rule = op.rule;
  return rule.marks.empty() && !rule.inputs.empty() &&
         std::all_of(rule.inputs.begin(), rule.inputs.end(), starred) &&
         std::all_of(rule.outputs.begin(), rule.outputs.end(), starred);
}

/// A plain tensor's own strides say whether two of its elements share a place by repetition.
bool repeats_locally(const Array& x) {
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.size(d) > 1 && x.strides()[static_cast<std::size_t>(d)] == 0) return true;
  }
  return false;
}

}  // namespace

void separate_overlaps(Runtime& runtime, const Op& op, std::span<Array> inputs) {
  for (const int alias : op.in_place) {
    if (alias < 0) continue;
    const Array& written = inputs[static_cast<std::size_t>(alias)];
    if (written.is_null()) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i == static_cast<std::size_t>(alias) || inputs[i].is_null()) continue;
      if (inputs[i].storage() != written.storage()) continue;
      if (same_elements(inputs[i], written) && is_pointwise(op)) continue;
      Array copy = Array::empty(inputs[i].shape(), inputs[i].dtype(), runtime.kernels().allocator);
      kernels::copy(runtime.kernels(), inputs[i], copy);
      inputs[i] = std::move(copy);
    }
  }
}

bool writes_directly(const Array& out, std::span<const Array> inputs) {
  return out.is_contiguous() && std::none_of(inputs.begin(), inputs.end(), [&](const Array& in) {
           return !in.is_null() && in.storage() == out.storage();
         });
}

void check_writable(std::string_view op, const DTensor& x) {
  const TensorImpl& impl = *x.impl();
  const bool plain = impl.spec->mesh().ndim() == 0;
  std::optional<WriteHazard> hazard;
  if (impl.repeats || (plain && !impl.local.is_null() && repeats_locally(impl.local))) {
    hazard = WriteHazard::kRepeats;
  } else if (impl.copied) {
    hazard = impl.copied->by_cut ? WriteHazard::kCopiedByCut : WriteHazard::kCopiedByOrder;
  }
  if (hazard) throw Error(write_refused(op, label_of(x, "the operand"), *hazard, *impl.spec));
}

void check_current(std::string_view op, const DTensor& x) {
  const CopiedView& copied = *x.impl()->copied;
  const std::shared_ptr<Storage> source = copied.source.lock();
  if (source == nullptr || source->version() == copied.version) return;
  throw Error(stale_view_refused(op, label_of(x, "an operand"), copied.by_cut, x.spec()));
}

}  // namespace tessera
