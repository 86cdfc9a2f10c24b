// strategies/rules/arg_def.h: what an op declares of its operands and attributes: names, kinds, and
// what each may be. infer() holds every call to it before the op's own function sees the call, so
// that kernels and gradients are given what they were written for.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "placement/api.h"
#include "placement/shape.h"
#include "strategies/rules/attrs.h"

namespace tessera TSR_API {

struct ArgDef {
  enum class Kind : std::uint8_t { kTensor, kOptional, kList };
  enum class Types : std::uint8_t {
    kAny,
    kFloating,
    kNumbers,   ///< all but BOOL
    kWhole,     ///< integers and BOOL
    kIntegers,  ///< I64, I32, U8
    kIndices,   ///< I64, I32
    kTruth      ///< BOOL
  };
  std::string name;
  Kind kind = Kind::kTensor;
  Types types = Types::kAny;
  int least_dims = 0;
  int most_dims = kMaxDims;
  int dtype_as = -1;  ///< the operand whose dtype this one has, where both are given
  int shape_as = -1;  ///< the operand whose shape this one has, where both are given

  ArgDef floating() const { return of(Types::kFloating); }
  ArgDef numbers() const { return of(Types::kNumbers); }
  ArgDef whole() const { return of(Types::kWhole); }
  ArgDef integers() const { return of(Types::kIntegers); }
  ArgDef indices() const { return of(Types::kIndices); }
  ArgDef truth() const { return of(Types::kTruth); }
  ArgDef dims(int count) const { return dims(count, count); }
  ArgDef dims(int least, int most) const {
    ArgDef def = *this;
    def.least_dims = least;
    def.most_dims = most;
    return def;
  }
  ArgDef with_dtype_of(int operand) const {
    ArgDef def = *this;
    def.dtype_as = operand;
    return def;
  }
  ArgDef with_shape_of(int operand) const {
    ArgDef def = *this;
    def.shape_as = operand;
    return def;
  }
  ArgDef like(int operand) const { return with_dtype_of(operand).with_shape_of(operand); }

 private:
  ArgDef of(Types allowed) const {
    ArgDef def = *this;
    def.types = allowed;
    return def;
  }
};
inline ArgDef in(std::string name) { return {std::move(name), ArgDef::Kind::kTensor}; }
inline ArgDef in_optional(std::string name) { return {std::move(name), ArgDef::Kind::kOptional}; }
/// Any number (≥ 1) of tensors; only as the last operand.
inline ArgDef in_list(std::string name) { return {std::move(name), ArgDef::Kind::kList}; }

struct AttrDef {
  enum class Type : std::uint8_t { kBool, kInt, kDouble, kInts, kDType, kString };
  /// A number given as an attribute that meets the elements of a tensor has to be one that the
  /// tensor's dtype holds: nothing is rounded, cut off or wrapped on the way. Where the result is
  /// of integers, the number is whole, finite and in their range; where it is BOOL, it is 0 or 1.
  /// Otherwise the call is refused before anything runs. A bound that is infinite bounds nothing,
  /// whatever the dtype. Numbers that elements are only compared with may be any: 2 is above 1.5.
  enum class Number : std::uint8_t {
    kFree,        ///< meets no element, or is compared with it only
    kFinite,      ///< the same, and must be finite
    kElement,     ///< arithmetic with elements, or written as one
    kLowerBound,  ///< an element, or -inf
    kUpperBound   ///< an element, or inf
  };
  std::string name;
  Type type = Type::kInt;
  std::optional<AttrValue> default_value;  ///< absent: must be given
  Number number = Number::kFree;
  std::int64_t least = std::numeric_limits<std::int64_t>::min();  ///< of an int, of each of ints
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  bool is_ranged() const {
    return least != std::numeric_limits<std::int64_t>::min() ||
           most != std::numeric_limits<std::int64_t>::max();
  }
  /// Whether its number meets elements of the result.
  bool is_element() const { return number != Number::kFree && number != Number::kFinite; }
  AttrDef with(Number meets) const {
    AttrDef def = *this;
    def.number = meets;
    return def;
  }
  AttrDef at_least(std::int64_t value) const { return between(value, most); }
  AttrDef between(std::int64_t from, std::int64_t to) const {
    AttrDef def = *this;
    def.least = from;
    def.most = to;
    return def;
  }
};

}  // namespace tessera
