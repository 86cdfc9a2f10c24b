#include "strategies/verify/verify_storage.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/elementwise.h"
#include "strategies/rules/local_op.h"
#include "strategies/verify/verify_gradient.h"

namespace tessera {
namespace {

enum class Form : std::uint8_t {
  kTransposed,      ///< column-major
  kGaps,            ///< every other element of every dim, behind an offset
  kRepeatedRows,    ///< stride 0 along the first dim
  kRepeatedColumns  ///< stride 0 along the last
};
constexpr Form kForms[] = {Form::kTransposed, Form::kGaps, Form::kRepeatedRows,
                           Form::kRepeatedColumns};
constexpr std::string_view kFormNames[] = {
    "transposed", "with gaps", "repeated along its first dim", "repeated along its last dim"};

bool repeats(Form form) { return form == Form::kRepeatedRows || form == Form::kRepeatedColumns; }

/// The dim along which a form repeats.
std::size_t repeated_dim(Form form, std::size_t ndim) {
  return form == Form::kRepeatedRows ? 0 : ndim - 1;
}

/// What no kernel may read: it shows in whatever it meets.
double poison(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::quiet_NaN();
  return dtype == DType::kBool ? 1.0 : 113.0;
}

/// `whole` made constant along the dim that a form repeats.
WholeTensor constant_along(const WholeTensor& whole, std::size_t dim) {
  WholeTensor result = whole;
  const Shape strides = contiguous_strides(whole.shape);
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    const std::int64_t place = (static_cast<std::int64_t>(i) / strides[dim]) % whole.shape[dim];
    result.values[i] = whole.values[i - static_cast<std::size_t>(place * strides[dim])];
  }
  return result;
}

/// The same values in another form. Requires elements and a dim.
Array in_form(const WholeTensor& whole, Form form) {
  const Shape& shape = whole.shape;
  Shape strides = contiguous_strides(shape), held = shape;
  std::int64_t offset = 0;
  if (form == Form::kTransposed) {
    std::int64_t step = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      strides[d] = step;
      step *= shape[d];
    }
  } else if (form == Form::kGaps) {
    for (std::int64_t& size : held) size *= 2;
    strides = contiguous_strides(held);
    for (std::int64_t& stride : strides) stride *= 2;
    offset = 1;
  } else {
    held[repeated_dim(form, shape.size())] = 1;
    strides = contiguous_strides(held);
    strides[repeated_dim(form, shape.size())] = 0;
  }
  const std::vector<double> filling(static_cast<std::size_t>(num_elements(held)),
                                    poison(whole.dtype));
  const Array place =
      Array::from_values(held, whole.dtype, filling).as_strided(shape, strides, offset);
  KernelContext ctx;
  if (repeats(form)) {
    // One element of the storage for each run of equal ones.
    const Array one = place.slice(static_cast<int>(repeated_dim(form, shape.size())), 0, 1);
    kernels::copy(
        ctx, array_of(whole).slice(static_cast<int>(repeated_dim(form, shape.size())), 0, 1), one);
  } else {
    kernels::copy(ctx, array_of(whole), place);
  }
  return place;
}

/// True where nothing but the elements of `array` was written to its storage.
bool gaps_are_untouched(const Array& array) {
  KernelContext ctx;
  const std::int64_t capacity =
      static_cast<std::int64_t>(array.storage()->bytes()) / size_of(array.dtype());
  const std::vector<double> filling(static_cast<std::size_t>(array.num_elements()),
                                    poison(array.dtype()));
  kernels::copy(ctx, Array::from_values(array.shape(), array.dtype(), filling), array);
  const Array all = array.as_strided({capacity}, {1}, 0);
  const std::vector<double> values = all.to_vector();
  return std::all_of(values.begin(), values.end(), [&](double value) {
    return nearly_equal(value, poison(array.dtype()), DType::kF64);
  });
}

class StorageJudge {
 public:
  StorageJudge(const Op& op, const VerifyCase& test, const OpTable* table)
      : op_(op), test_(test), table_(table) {}

  std::string judge() {
    for (const Form form : kForms) {
      for (std::size_t i = 0; i < test_.operands.size(); ++i) {
        if (std::string text = judge(form, std::uint64_t{1} << i); !text.empty()) {
          return "operand " + std::to_string(i) + " " + describe(form) + ": " + text;
        }
      }
      if (std::string text = judge(form, ~std::uint64_t{0}); !text.empty()) {
        return "all operands " + describe(form) + ": " + text;
      }
    }
    return "";
  }

 private:
  static std::string describe(Form form) { return std::string(kFormNames[static_cast<int>(form)]); }
  bool takes(Form form, std::size_t operand) const;
  std::string judge(Form form, std::uint64_t operands);
  std::string compare_forward(const std::vector<Array>& inputs,
                              const std::vector<WholeTensor>& expected) const;
  std::string compare_gradient(const std::vector<Array>& inputs,
                               const std::vector<Array>& contiguous, Form form) const;

  const Op& op_;
  const VerifyCase& test_;
  const OpTable* table_;
};

/// An operand that the op writes shares no places among its elements.
bool StorageJudge::takes(Form form, std::size_t operand) const {
  const WholeTensor& whole = test_.operands[operand];
  const bool written =
      std::find(op_.in_place.begin(), op_.in_place.end(), int(operand)) != op_.in_place.end();
  return !whole.values.empty() && !whole.shape.empty() && !(repeats(form) && written);
}

std::string StorageJudge::judge(Form form, std::uint64_t operands) {
  std::vector<WholeTensor> wholes = test_.operands;
  std::vector<Array> strided(test_.metas.size()), contiguous(test_.metas.size());
  bool any = false;
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    const bool chosen = i < 64 && ((operands >> i) & 1) != 0 && takes(form, i);
    if (chosen && repeats(form)) {
      wholes[i] = constant_along(wholes[i], repeated_dim(form, wholes[i].shape.size()));
    }
    contiguous[i] = array_of(wholes[i]);
    strided[i] = chosen ? in_form(wholes[i], form) : contiguous[i];
    any = any || chosen;
  }
  if (!any) return "";
  std::vector<WholeTensor> expected;
  try {
    for (const Array& result : run_plain(op_, contiguous, test_.attrs)) {
      expected.push_back(whole_of(result));
    }
  } catch (const Error&) {
    return "";  // equal values along a dim are none that the op takes
  }
  try {
    std::string text = table_ != nullptr ? compare_gradient(strided, contiguous, form) : "";
    return text.empty() ? compare_forward(strided, expected) : text;
  } catch (const Error& error) {
    // What must alias may refuse to: view() says so.
    const bool refused = error.status().code() == absl::StatusCode::kFailedPrecondition;
    return op_.def.is_view && refused ? "" : error.what();
  }
}

/// Writes the operands that the op writes.
std::string StorageJudge::compare_forward(const std::vector<Array>& inputs,
                                          const std::vector<WholeTensor>& expected) const {
  std::vector<Spec> specs;
  std::vector<const Spec*> pointers;
  specs.reserve(inputs.size());
  for (const Array& input : inputs) {
    specs.push_back(input.is_null() ? Spec() : Spec::plain(input.shape(), input.dtype()));
    pointers.push_back(input.is_null() ? nullptr : &specs.back());
  }
  const LocalOp local =
      LocalOp::make(op_, value_or_throw(propagate(op_, pointers, test_.attrs)), test_.attrs, {});
  KernelContext ctx;
  std::vector<Array> outputs(expected.size());
  local.run(ctx, inputs, outputs);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    std::string text = difference(whole_of(outputs[o]), expected[o], test_.precision());
    if (!text.empty()) return "result " + std::to_string(o) + ": " + text;
  }
  for (const int written : op_.in_place) {
    if (written >= 0 && !gaps_are_untouched(inputs[static_cast<std::size_t>(written)])) {
      return "what lies between the elements of operand " + std::to_string(written) +
             " was written";
    }
  }
  return "";
}

std::string StorageJudge::compare_gradient(const std::vector<Array>& inputs,
                                           const std::vector<Array>& contiguous, Form form) const {
  const auto cotangent_of = [&](const Array& result, bool strided) -> Array {
    WholeTensor whole{result.shape(), result.dtype(), {}};
    for (std::int64_t e = 0; e < result.num_elements(); ++e) {
      whole.values.push_back(0.25 * double(e % 7) - 0.625);
    }
    if (whole.values.empty() || whole.shape.empty()) return array_of(whole);
    if (repeats(form)) whole = constant_along(whole, repeated_dim(form, whole.shape.size()));
    return strided ? in_form(whole, form) : array_of(whole);
  };
  const auto gradients = [&](const std::vector<Array>& operands, bool strided) {
    return gradients_of(*table_, op_, test_.attrs, operands,
                        [&](const Array& result) { return cotangent_of(result, strided); });
  };
  const std::vector<Array> got = gradients(inputs, true), wanted = gradients(contiguous, false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].is_null()) continue;
    std::string text = difference(whole_of(got[i]), whole_of(wanted[i]), test_.precision());
    if (!text.empty()) return "gradient of operand " + std::to_string(i) + ": " + text;
  }
  return "";
}

}  // namespace

std::string storage_error(const Op& op, const VerifyCase& test, const OpTable* table) {
  return StorageJudge(op, test, table).judge();
}

}  // namespace tessera
