// strategies/rules/attrs.h: an op call's attributes: names with values, in the op's declared order.
// Names are ATen's ("dim", "k", "keepdim"); a name must outlive the Attrs (a literal, or owned by
// an OpDef).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/shape.h"

namespace tessera TSR_API {

using AttrValue =
    std::variant<std::monostate, bool, std::int64_t, double, DType, Shape, std::string>;

/// A small ordered map; equal calls build equal Attrs, because each op's API builds them in one
/// order.
class Attrs {
 public:
  using Entry = std::pair<std::string_view, AttrValue>;
  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) : entries_(entries) {}

  const AttrValue* find(std::string_view name) const noexcept;
  /// The value, converted where that is exact (an int as a double, one int as a list). A name that
  /// is not there, or a value of another type, is a defect of whoever reads: throws Error(Internal)
  /// naming it and what there is.
  bool get_bool(std::string_view name) const;
  std::int64_t get_int(std::string_view name) const;
  double get_double(std::string_view name) const;
  Shape get_ints(std::string_view name) const;
  DType get_dtype(std::string_view name) const;
  std::string get_string(std::string_view name) const;
  /// The same for a name that may be missing: what a rank's own attributes add (OpDef::localize),
  /// or what only some ops of a family declare.
  bool get_bool_or(std::string_view name, bool otherwise) const;
  std::int64_t get_int_or(std::string_view name, std::int64_t otherwise) const;
  double get_double_or(std::string_view name, double otherwise) const;
  Shape get_ints_or(std::string_view name, const Shape& otherwise) const;
  DType get_dtype_or(std::string_view name, DType otherwise) const;
  bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
  void set(std::string_view name, AttrValue value);

  bool empty() const noexcept { return entries_.empty(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }
  std::size_t hash() const noexcept;
  std::string to_string() const;  ///< "dim=1, keepdim=true"
  /// Numbers by their bits: NaN equals itself, and 0 differs from -0, as keys of a cache need it.
  bool operator==(const Attrs& other) const noexcept;

 private:
  absl::InlinedVector<Entry, 2> entries_;
};

}  // namespace tessera
