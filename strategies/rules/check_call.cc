#include "strategies/rules/check_call.h"

#include <algorithm>
#include <cmath>

#include "placement/checked_int.h"
#include "strategies/rules/binding.h"

namespace tessera {
namespace {

using Types = ArgDef::Types;
using Number = AttrDef::Number;

Status refuse(const Op& op, std::span<const TensorMeta> inputs, const std::string& text) {
  return invalid_argument(op.def.name + ": " + text + ". [" + describe_operands(op, inputs) + "]");
}

bool allows(Types types, DType dtype) {
  switch (types) {
    case Types::kAny:
      return true;
    case Types::kFloating:
      return is_floating(dtype);
    case Types::kNumbers:
      return dtype != DType::kBool;
    case Types::kWhole:
      return !is_floating(dtype);
    case Types::kIntegers:
      return is_integer(dtype);
    case Types::kIndices:
      return is_index(dtype);
    case Types::kTruth:
      break;
  }
  return dtype == DType::kBool;
}

const char* text_of(Types types) {
  constexpr const char* kTexts[] = {"any dtype",
                                    "a floating dtype",
                                    "a dtype of numbers",
                                    "BOOL or integers",
                                    "integers",
                                    "I64 or I32",
                                    "BOOL"};
  return kTexts[static_cast<int>(types)];
}

std::string dims_text(int count) { return std::to_string(count) + (count == 1 ? " dim" : " dims"); }

std::string allowed_dims(const ArgDef& arg) {
  if (arg.most_dims == kMaxDims) return "at least " + dims_text(arg.least_dims);
  if (arg.least_dims == arg.most_dims) return dims_text(arg.least_dims);
  return std::to_string(arg.least_dims) + " to " + dims_text(arg.most_dims);
}

Status check_count(const Op& op, std::span<const TensorMeta> inputs) {
  const auto& args = op.def.args;
  const bool list = !args.empty() && args.back().kind == ArgDef::Kind::kList;
  if (inputs.size() == args.size() || (list && inputs.size() > args.size())) {
    return absl::OkStatus();
  }
  return invalid_argument(op.def.name + ": " + std::to_string(inputs.size()) +
                          " operands given; it takes " + (list ? "at least " : "") +
                          std::to_string(args.size()));
}

/// The operand that another is to be like; null where either was not given.
const TensorMeta* model_of(std::span<const TensorMeta> inputs, int operand) {
  if (operand < 0) return nullptr;
  const TensorMeta& model = inputs[static_cast<std::size_t>(operand)];
  return model.absent ? nullptr : &model;
}

Status check_operand(const Op& op, std::span<const TensorMeta> inputs, std::size_t i) {
  const ArgDef& arg = op.def.args[std::min(i, op.def.args.size() - 1)];
  const TensorMeta& meta = inputs[i];
  const std::string name = operand_name(op, static_cast<int>(i));
  if (meta.absent) {
    if (arg.kind == ArgDef::Kind::kOptional) return absl::OkStatus();
    return invalid_argument(op.def.name + ": operand " + name + " is missing");
  }
  if (const Status fits = check_tensor_size(view_of(meta.shape), meta.dtype); !fits.ok()) {
    return refuse(op, inputs, name + ": " + std::string(message_of(fits)));
  }
  if (!allows(arg.types, meta.dtype)) {
    return refuse(op, inputs,
                  name + " is " + std::string(name_of(meta.dtype)) + "; it takes " +
                      text_of(arg.types) + ": cast with `to` first");
  }
  const auto ndim = static_cast<int>(meta.shape.size());
  if (ndim < arg.least_dims || ndim > arg.most_dims) {
    return refuse(op, inputs, name + " has " + dims_text(ndim) + "; it takes " + allowed_dims(arg));
  }
  const TensorMeta* typed = model_of(inputs, arg.dtype_as);
  if (typed != nullptr && typed->dtype != meta.dtype) {
    return refuse(op, inputs,
                  name + " is " + std::string(name_of(meta.dtype)) + ", " +
                      operand_name(op, arg.dtype_as) + " " + std::string(name_of(typed->dtype)) +
                      "; they must be of one dtype");
  }
  const TensorMeta* shaped = model_of(inputs, arg.shape_as);
  if (shaped != nullptr && shaped->shape != meta.shape) {
    return refuse(op, inputs,
                  name + " has shape " + to_string(meta.shape) + ", " +
                      operand_name(op, arg.shape_as) + " " + to_string(shaped->shape) +
                      "; they must be of one shape");
  }
  return absl::OkStatus();
}

std::string range_text(const AttrDef& attr) {
  if (attr.most == std::numeric_limits<std::int64_t>::max()) {
    return "at least " + std::to_string(attr.least);
  }
  return std::to_string(attr.least) + " to " + std::to_string(attr.most);
}

/// Whole, and one of the elements that `dtype` can hold.
bool is_element(DType dtype, double value) {
  if (!(value == std::floor(value)) || std::isinf(value)) return false;
  switch (dtype) {
    case DType::kBool:
      return value == 0.0 || value == 1.0;
    case DType::kU8:
      return value >= 0.0 && value <= 255.0;
    case DType::kI32:
      return value >= -2147483648.0 && value <= 2147483647.0;
    default:
      return value >= -9223372036854775808.0 && value < 9223372036854775808.0;
  }
}

const char* elements_text(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "0 or 1";
    case DType::kU8:
      return "from 0 to 255";
    case DType::kI32:
      return "from -2^31 to 2^31 - 1";
    default:
      return "from -2^63 to 2^63 - 1";
  }
}

Status check_number(const Op& op, std::span<const TensorMeta> inputs, const AttrDef& attr,
                    const Attrs& attrs, DType dtype) {
  const double value = attrs.get_double(attr.name);
  if (is_floating(dtype) || is_element(dtype, value)) return absl::OkStatus();
  const bool unbounded = (attr.number == Number::kLowerBound && value < 0.0) ||
                         (attr.number == Number::kUpperBound && value > 0.0);
  if (unbounded && std::isinf(value)) return absl::OkStatus();
  const bool of_self = !inputs.empty() && inputs[0].dtype == dtype;
  const Attrs seen = {{attr.name, value}};
  const std::string number = seen.to_string().substr(attr.name.size() + 1);
  const bool whole = value == std::floor(value) && std::isfinite(value);
  return refuse(op, inputs,
                attr.name + " is " + number + ", but must be " +
                    (whole ? elements_text(dtype) : "whole") + " where " +
                    (of_self ? operand_name(op, 0) : std::string("the result")) + " is " +
                    std::string(name_of(dtype)));
}

}  // namespace

Status check_operands(const Op& op, std::span<const TensorMeta> inputs) {
  TSR_RETURN_IF_ERROR(check_count(op, inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TSR_RETURN_IF_ERROR(check_operand(op, inputs, i));
  }
  return absl::OkStatus();
}

Status check_ranges(const Op& op, const Attrs& attrs) {
  for (const AttrDef& attr : op.def.attrs) {
    if (attr.number == Number::kFinite && !std::isfinite(attrs.get_double(attr.name))) {
      const Attrs seen = {{attr.name, attrs.get_double(attr.name)}};
      return invalid_argument(op.def.name + ": " + seen.to_string() + ", but must be finite");
    }
    if (!attr.is_ranged()) continue;
    for (const std::int64_t value : attrs.get_ints_or(attr.name, {})) {
      if (value >= attr.least && value <= attr.most) continue;
      return invalid_argument(op.def.name + ": " + attr.name + " is " +
                              to_string(attrs.get_ints(attr.name)) + ", but must be " +
                              range_text(attr));
    }
  }
  return absl::OkStatus();
}

Status check_results(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs,
                     std::span<const TensorMeta> results) {
  const int declared = op.def.num_outputs;
  if (static_cast<std::int64_t>(results.size()) > OpDef::kMostResults) {
    return refuse(op, inputs,
                  std::to_string(results.size()) + " results; at most " +
                      std::to_string(OpDef::kMostResults) + " are allowed");
  }
  if (declared != OpDef::kAsInferred && results.size() != static_cast<std::size_t>(declared)) {
    return internal_error(op.def.name + ": infers " + std::to_string(results.size()) +
                          " results, but declares " + std::to_string(declared));
  }
  for (const TensorMeta& meta : results) {
    const Status fits = check_tensor_size(view_of(meta.shape), meta.dtype);
    if (!fits.ok()) return refuse(op, inputs, "a result: " + std::string(message_of(fits)));
  }
  for (const AttrDef& attr : op.def.attrs) {
    if (!attr.is_element() || results.empty()) continue;
    TSR_RETURN_IF_ERROR(check_number(op, inputs, attr, attrs, results[0].dtype));
  }
  return absl::OkStatus();
}

}  // namespace tessera
