#include "strategies/verify/verify_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strategies/verify/verify_gradient.h"

namespace tessera {
namespace {

std::string_view name_of(SpecialValues values) {
  switch (values) {
    case SpecialValues::kTies:
      return "ties";
    case SpecialValues::kPositive:
      return "positive";
    case SpecialValues::kNegative:
      return "negative";
    case SpecialValues::kLarge:
      return "large";
    case SpecialValues::kInfinite:
      return "infinities";
    case SpecialValues::kNaN:
      break;
  }
  return "NaN";
}

std::size_t any_place(const WholeTensor& whole, VerifyRandom& random) {
  return std::uniform_int_distribution<std::size_t>(0, whole.values.size() - 1)(random);
}

/// Small integers of either sign; two operands meet in some.
void make_integers(const Sample& sample, std::vector<double>& values) {
  for (double& value : values) {
    value = std::round(value * 3.0);
    if (sample.positive) value = std::max(value, 1.0);
  }
}

/// Numbers that meet integers are whole; one of them is 0 only where it was.
Attrs with_whole_numbers(const Op& op, const Attrs& attrs) {
  Attrs whole = attrs;
  for (const AttrDef& attr : op.def.attrs) {
    if (!attr.is_element() || attr.type != AttrDef::Type::kDouble) continue;
    const double value = attrs.get_double(attr.name);
    whole.set(attr.name, std::copysign(std::ceil(std::abs(value)), value));
  }
  return whole;
}

}  // namespace

DType VerifyCase::precision() const noexcept {
  DType coarsest = DType::kF64;
  const auto note = [&](const std::vector<WholeTensor>& tensors) {
    for (const WholeTensor& whole : tensors) {
      if (is_floating(whole.dtype) && size_of(whole.dtype) < size_of(coarsest)) {
        coarsest = whole.dtype;
      }
    }
  };
  note(operands);
  note(expected);
  return coarsest;
}

std::string describe(const VerifyCase& test) {
  const std::string text = describe(*test.sample);
  return test.variant.empty() ? text : text + " (" + test.variant + ")";
}

CaseSource::CaseSource(const Op& op, const Sample& sample, VerifyRandom& random)
    : op_(op), random_(random) {
  as_given_.sample = &sample;
  as_given_.attrs = value_or_throw(complete_attrs(op, sample.attrs));
  as_given_.operands = sample_values(sample, random);
  std::vector<Array> arrays;
  for (const WholeTensor& operand : as_given_.operands) {
    arrays.push_back(array_of(operand));
    as_given_.metas.push_back({operand.shape, operand.dtype});
  }
  while (arrays.size() < op.def.args.size()) {
    arrays.emplace_back();
    as_given_.metas.emplace_back().absent = true;
  }
  for (const Array& result : run_plain(op, arrays, as_given_.attrs)) {
    as_given_.expected.push_back(whole_of(result));
  }
}

std::optional<VerifyCase> CaseSource::with_operands(std::vector<WholeTensor> operands,
                                                    std::string variant, const Attrs& attrs) {
  VerifyCase test = as_given_;
  test.attrs = attrs;
  test.variant = std::move(variant);
  test.operands = std::move(operands);
  std::vector<Array> arrays(test.metas.size());
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    test.metas[i].dtype = test.operands[i].dtype;
    arrays[i] = array_of(test.operands[i]);
  }
  if (!infer(op_, test.metas, test.attrs).ok()) return std::nullopt;
  try {
    test.expected.clear();
    for (const Array& result : run_plain(op_, arrays, test.attrs)) {
      test.expected.push_back(whole_of(result));
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return test;
}

std::optional<VerifyCase> CaseSource::in_dtype(DType dtype) {
  const Sample& sample = *as_given_.sample;
  std::vector<WholeTensor> operands = as_given_.operands;
  bool changed = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    WholeTensor& whole = operands[i];
    if (!is_floating(whole.dtype) || whole.dtype == dtype) continue;
    if (!is_floating(dtype)) {
      make_integers(sample, whole.values);
      if (dtype == DType::kU8) {
        for (double& value : whole.values) value = std::abs(value);
      }
      if (sample.adjust != nullptr) return std::nullopt;
    }
    whole.dtype = dtype;
    whole = whole_of(array_of(whole));  // what the array can hold
    changed = true;
  }
  if (!changed) return std::nullopt;
  const Attrs& attrs = as_given_.attrs;
  return with_operands(std::move(operands), std::string(tessera::name_of(dtype)),
                       is_floating(dtype) ? attrs : with_whole_numbers(op_, attrs));
}

void CaseSource::make_special(SpecialValues values, std::size_t operand, WholeTensor& whole) {
  const Sample& sample = *as_given_.sample;
  if (values == SpecialValues::kTies) {
    for (double& value : whole.values) {
      value = std::round(value * 1.5) / 1.5;
      if (sample.positive) value = std::max(value, 0.0);
    }
    if (!sample.positive) whole.values[any_place(whole, random_)] = -0.0;
    whole.values[any_place(whole, random_)] = 0.0;
    adjust_values(sample, operand, whole.shape, whole.values);
    return;
  }
  if (values == SpecialValues::kLarge) {
    for (std::size_t i = 0; i < 2 + whole.values.size() / 16; ++i) {
      whole.values[any_place(whole, random_)] = i % 2 == 0 || sample.positive ? 5000.0 : -5000.0;
    }
    adjust_values(sample, operand, whole.shape, whole.values);
    return;
  }
  if (is_finite(values)) {
    const double sign = values == SpecialValues::kPositive ? 1.0 : -1.0;
    for (double& value : whole.values) value = sign * (0.5 + std::abs(value));
    adjust_values(sample, operand, whole.shape, whole.values);
    return;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < 2 + whole.values.size() / 16; ++i) {
    double& value = whole.values[any_place(whole, random_)];
    value = values == SpecialValues::kNaN   ? std::numeric_limits<double>::quiet_NaN()
            : i % 2 == 0 || sample.positive ? kInfinity
                                            : -kInfinity;
  }
  if (values == SpecialValues::kInfinite) {
    adjust_values(sample, operand, whole.shape, whole.values);
  }
}

bool CaseSource::is_adjusted(std::size_t operand) const {
  const WholeTensor& whole = as_given_.operands[operand];
  std::vector<double> moved = whole.values;
  for (double& value : moved) value += 0.375;
  const std::vector<double> before = moved;
  adjust_values(*as_given_.sample, operand, whole.shape, moved);
  return moved != before;
}

const VerifyCase* CaseSource::with(SpecialValues values, std::uint32_t operands) {
  const auto [at, added] = special_.try_emplace({values, operands});
  if (!added) return at->second ? &*at->second : nullptr;
  std::vector<WholeTensor> changed = as_given_.operands;
  bool any = false;
  for (std::size_t i = 0; i < changed.size() && i < 32; ++i) {
    if (((operands >> i) & 1) == 0 || !is_floating(changed[i].dtype)) continue;
    if (changed[i].values.empty()) continue;
    if (values == SpecialValues::kNaN && is_adjusted(i)) continue;
    make_special(values, i, changed[i]);
    any = true;
  }
  if (any) {
    at->second = with_operands(std::move(changed), std::string(name_of(values)), as_given_.attrs);
  }
  return at->second ? &*at->second : nullptr;
}

}  // namespace tessera
