#include "program/call_arguments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tessera {
namespace {

/// An attribute as its op reads it; none: of another type.
std::optional<AttrValue> attr_of(const Json& json, AttrDef::Type type) {
  const auto number = [&]() -> std::optional<double> {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (const double* value = json.if_number()) return *value;
    if (const std::int64_t* value = json.if_integer()) return static_cast<double>(*value);
    const std::string* text = json.if_string();
    if (text == nullptr) return std::nullopt;
    if (*text == "inf" || *text == "-inf") return *text == "inf" ? kInfinity : -kInfinity;
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
  };
  switch (type) {
    case AttrDef::Type::kBool:
      if (const bool* value = json.if_bool()) return *value;
      break;
    case AttrDef::Type::kInt:
      if (const std::int64_t* value = json.if_integer()) return *value;
      break;
    case AttrDef::Type::kDouble:
      if (const std::optional<double> value = number()) return *value;
      break;
    case AttrDef::Type::kInts: {
      if (const std::int64_t* one = json.if_integer()) return Shape{*one};
      const Json::Array* items = json.if_array();
      if (items == nullptr) break;
      Shape values;
      for (const Json& item : *items) {
        if (item.if_integer() == nullptr) return std::nullopt;
        values.push_back(*item.if_integer());
      }
      return values;
    }
    case AttrDef::Type::kDType: {
      if (json.if_string() == nullptr) break;
      const StatusOr<DType> dtype = parse_dtype(*json.if_string());
      if (dtype.ok()) return *dtype;
      break;
    }
    case AttrDef::Type::kString:
      if (const std::string* value = json.if_string()) return *value;
      break;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<Attrs> attrs_of_call(const Op& op, const Json::Object& given) {
  Attrs attrs;
  for (const JsonMember& member : given) {
    const auto found = std::ranges::find(op.def.attrs, member.key, &AttrDef::name);
    if (found == op.def.attrs.end() || member.value.kind() == Json::Kind::kNull) continue;
    std::optional<AttrValue> value = attr_of(member.value, found->type);
    if (!value) return invalid_argument(op.def.name + ": attribute " + member.key);
    attrs.set(found->name, *std::move(value));
  }
  return complete_attrs(op, attrs);
}

bool is_number(const Json& operand) {
  return operand.if_integer() != nullptr || operand.if_number() != nullptr;
}

void collect_operands(Json::Array& args, std::vector<Json*>& operands) {
  for (Json& arg : args) {
    if (Json::Array* list = arg.if_array()) {
      collect_operands(*list, operands);
    } else {
      operands.push_back(&arg);
    }
  }
}

void NumberDType::see_tensor(DType dtype) {
  if (!first_) first_ = dtype;
  if (!first_floating_ && is_floating(dtype)) first_floating_ = dtype;
}

std::optional<DType> NumberDType::dtype() const {
  if (first_floating_) return first_floating_;
  if (has_fraction_) return std::nullopt;
  return first_ == DType::kBool ? DType::kI64 : first_.value_or(DType::kF32);
}

void collect_strings(Json::Array& args, std::vector<Json*>& names) {
  for (Json& arg : args) {
    if (Json::Array* items = arg.if_array()) {
      collect_strings(*items, names);
    } else if (arg.if_string() != nullptr) {
      names.push_back(&arg);
    }
  }
}

}  // namespace tessera
