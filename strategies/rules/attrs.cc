#include "strategies/rules/attrs.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <optional>

#include "placement/status.h"

namespace tessera {
namespace {

void append_number(std::string& text, double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  text.append(buffer, end);
}

struct AppendValue {
  std::string& text;
  void operator()(std::monostate) const { text += "none"; }
  void operator()(bool value) const { text += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { text += std::to_string(value); }
  void operator()(double value) const { append_number(text, value); }
  void operator()(DType value) const { text += name_of(value); }
  void operator()(const Shape& value) const { text += tessera::to_string(value); }
  void operator()(const std::string& value) const { text += '"' + value + '"'; }
};

struct HashValue {
  std::size_t operator()(std::monostate) const { return 0; }
  std::size_t operator()(bool value) const { return value ? 3 : 5; }
  std::size_t operator()(std::int64_t value) const { return std::hash<std::int64_t>{}(value); }
  std::size_t operator()(double value) const {
    return std::hash<std::uint64_t>{}(std::bit_cast<std::uint64_t>(value));
  }
  std::size_t operator()(DType value) const { return static_cast<std::size_t>(value) + 11; }
  std::size_t operator()(const Shape& value) const {
    std::size_t seed = value.size();
    for (const std::int64_t entry : value) seed = seed * 1099511628211u + std::size_t(entry);
    return seed;
  }
  std::size_t operator()(const std::string& value) const {
    return std::hash<std::string_view>{}(value);
  }
};

std::optional<bool> as_bool(const AttrValue& value) {
  const bool* held = std::get_if<bool>(&value);
  return held != nullptr ? std::optional(*held) : std::nullopt;
}
std::optional<std::int64_t> as_int(const AttrValue& value) {
  if (const auto* held = std::get_if<std::int64_t>(&value)) return *held;
  const Shape* list = std::get_if<Shape>(&value);
  return list != nullptr && list->size() == 1 ? std::optional(list->front()) : std::nullopt;
}
std::optional<double> as_double(const AttrValue& value) {
  if (const double* held = std::get_if<double>(&value)) return *held;
  if (const auto* held = std::get_if<std::int64_t>(&value)) return static_cast<double>(*held);
  if (const bool* held = std::get_if<bool>(&value)) return *held ? 1.0 : 0.0;
  return std::nullopt;
}
std::optional<Shape> as_ints(const AttrValue& value) {
  if (const Shape* held = std::get_if<Shape>(&value)) return *held;
  if (const auto* held = std::get_if<std::int64_t>(&value)) return Shape{*held};
  return std::nullopt;
}
std::optional<DType> as_dtype(const AttrValue& value) {
  const DType* held = std::get_if<DType>(&value);
  return held != nullptr ? std::optional(*held) : std::nullopt;
}
std::optional<std::string> as_string(const AttrValue& value) {
  const std::string* held = std::get_if<std::string>(&value);
  return held != nullptr ? std::optional(*held) : std::nullopt;
}

/// Neither missing nor none.
bool given(const AttrValue* value) {
  return value != nullptr && !std::holds_alternative<std::monostate>(*value);
}

template <class T>
T read_or_throw(const Attrs& attrs, std::string_view name, const AttrValue* value,
                std::optional<T> (*as)(const AttrValue&), std::string_view type) {
  std::optional<T> held = value != nullptr ? as(*value) : std::nullopt;
  if (held) return *std::move(held);
  throw Error(internal_error("attribute '" + std::string(name) + "' is read as " +
                             std::string(type) + ", but the call has " +
                             (attrs.empty() ? "none" : attrs.to_string())));
}

template <class T>
T read_or(const Attrs& attrs, std::string_view name, const T& otherwise,
          std::optional<T> (*as)(const AttrValue&), std::string_view type) {
  const AttrValue* value = attrs.find(name);
  return given(value) ? read_or_throw(attrs, name, value, as, type) : otherwise;
}

}  // namespace

const AttrValue* Attrs::find(std::string_view name) const noexcept {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

bool Attrs::get_bool(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_bool, "a bool");
}
std::int64_t Attrs::get_int(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_int, "an int");
}
double Attrs::get_double(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_double, "a double");
}
Shape Attrs::get_ints(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_ints, "ints");
}
DType Attrs::get_dtype(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_dtype, "a dtype");
}
std::string Attrs::get_string(std::string_view name) const {
  return read_or_throw(*this, name, find(name), as_string, "a string");
}

bool Attrs::get_bool_or(std::string_view name, bool otherwise) const {
  return read_or(*this, name, otherwise, as_bool, "a bool");
}
std::int64_t Attrs::get_int_or(std::string_view name, std::int64_t otherwise) const {
  return read_or(*this, name, otherwise, as_int, "an int");
}
double Attrs::get_double_or(std::string_view name, double otherwise) const {
  return read_or(*this, name, otherwise, as_double, "a double");
}
Shape Attrs::get_ints_or(std::string_view name, const Shape& otherwise) const {
  return read_or(*this, name, otherwise, as_ints, "ints");
}
DType Attrs::get_dtype_or(std::string_view name, DType otherwise) const {
  return read_or(*this, name, otherwise, as_dtype, "a dtype");
}

void Attrs::set(std::string_view name, AttrValue value) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(name, std::move(value));
}

bool Attrs::operator==(const Attrs& other) const noexcept {
  const auto same = [](const Entry& a, const Entry& b) {
    const double* number = std::get_if<double>(&a.second);
    const double* with = std::get_if<double>(&b.second);
    if (a.first != b.first) return false;
    if (number == nullptr || with == nullptr) return a.second == b.second;
    return std::bit_cast<std::uint64_t>(*number) == std::bit_cast<std::uint64_t>(*with);
  };
  return std::equal(begin(), end(), other.begin(), other.end(), same);
}

std::size_t Attrs::hash() const noexcept {
  std::size_t seed = entries_.size();
  for (const Entry& entry : entries_) {
    seed = seed * 1099511628211u + std::hash<std::string_view>{}(entry.first);
    seed = seed * 1099511628211u + std::visit(HashValue{}, entry.second) + entry.second.index();
  }
  return seed;
}

std::string Attrs::to_string() const {
  std::string text;
  for (const Entry& entry : entries_) {
    if (!text.empty()) text += ", ";
    text += entry.first;
    text += '=';
    std::visit(AppendValue{text}, entry.second);
  }
  return text;
}

}  // namespace tessera
