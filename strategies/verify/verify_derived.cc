#include "strategies/verify/verify_derived.h"

#include <algorithm>
#include <limits>
#include <set>

namespace tessera {
namespace {

bool accepted(const Op& op, const Sample& sample) {
  const StatusOr<Attrs> attrs = complete_attrs(op, sample.attrs);
  if (!attrs.ok()) return false;
  std::vector<TensorMeta> metas;
  for (std::size_t i = 0; i < sample.shapes.size(); ++i) {
    metas.push_back({sample.shapes[i], i < sample.dtypes.size() ? sample.dtypes[i] : DType::kF64});
  }
  while (metas.size() < op.def.args.size()) metas.emplace_back().absent = true;
  return infer(op, metas, *attrs).ok();
}

/// The sample with `size` replaced in its shapes, and, where the op does not take that, in its
/// lists of sizes too.
void add_resized(const Op& op, const Sample& sample, std::int64_t size, std::int64_t by,
                 std::vector<Sample>& derived) {
  Sample other = sample;
  for (Shape& shape : other.shapes) std::replace(shape.begin(), shape.end(), size, by);
  std::replace(other.below.begin(), other.below.end(), size, by);
  if (!accepted(op, other)) {
    for (const auto& [name, value] : sample.attrs) {
      const Shape* list = std::get_if<Shape>(&value);
      if (list == nullptr) continue;
      Shape sizes = *list;
      std::replace(sizes.begin(), sizes.end(), size, by);
      other.attrs.set(name, std::move(sizes));
    }
  }
  if (accepted(op, other)) derived.push_back(std::move(other));
}

void add_numbers(const Op& op, const Sample& sample, const AttrDef& attr,
                 std::vector<Sample>& derived) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number :
       {0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    Sample other = sample;
    other.attrs.set(attr.name, number);
    other.differentiable = false;  // slopes at such numbers are no limits of differences
    if (accepted(op, other)) derived.push_back(std::move(other));
  }
}

}  // namespace

std::vector<Sample> derived_samples(const Op& op, const Sample& sample) {
  std::set<std::int64_t> sizes;
  for (const Shape& shape : sample.shapes) sizes.insert(shape.begin(), shape.end());
  std::vector<Sample> derived;
  for (const std::int64_t size : sizes) {
    if (size < 2) continue;
    add_resized(op, sample, size, 0, derived);
    add_resized(op, sample, size, 1, derived);
  }
  for (const AttrDef& attr : op.def.attrs) {
    if (attr.type == AttrDef::Type::kDouble) add_numbers(op, sample, attr, derived);
  }
  return derived;
}

}  // namespace tessera
