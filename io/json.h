// io/json.h: JSON as exact values, read strictly. A Json is a value; a JsonView is a value and the
// place it stands at ("/args/0/tensor"), so that every error can say where.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

struct JsonMember;

/// A JSON value. Integers are exact 64-bit values; a number with a point or an exponent is a
/// double. Objects keep the order of their members.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  // Out of line: a member is not complete here yet, every user would compile the variant's copies,
  // and GCC 12 warns of them in error.
  Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(bool value);
  Json(int value);
  Json(std::int64_t value);
  Json(double value);
  Json(const char* value);
  Json(std::string_view value);
  Json(std::string value);
  Json(Array value);
  Json(Object value);
  /// Without this a pointer would become a bool.
  template <class T>
  Json(T*) = delete;

  static Json object(std::initializer_list<JsonMember> members);
  static Json array(std::initializer_list<Json> items) { return Json(Array(items)); }

  Kind kind() const noexcept { return static_cast<Kind>(value_.index()); }
  /// Null unless the value is of that kind.
  const bool* if_bool() const noexcept { return std::get_if<bool>(&value_); }
  const std::int64_t* if_integer() const noexcept { return std::get_if<std::int64_t>(&value_); }
  const double* if_number() const noexcept { return std::get_if<double>(&value_); }
  const std::string* if_string() const noexcept { return std::get_if<std::string>(&value_); }
  const Array* if_array() const noexcept { return std::get_if<Array>(&value_); }
  const Object* if_object() const noexcept { return std::get_if<Object>(&value_); }
  Array* if_array() noexcept { return std::get_if<Array>(&value_); }
  Object* if_object() noexcept { return std::get_if<Object>(&value_); }

  /// The member `key` of an object; null where there is none or this is no object.
  const Json* find(std::string_view key) const noexcept;
  /// Appends a member to an object, or an item to an array. Requires that kind.
  void set(std::string key, Json value);
  void push(Json value);

  /// One line, no blanks; equal values give equal bytes. Doubles are the shortest text that reads
  /// back. A double that JSON cannot say (NaN, infinity) becomes null.
  std::string to_string() const;

  bool operator==(const Json&) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

struct JsonMember {
  std::string key;
  Json value;
  bool operator==(const JsonMember&) const = default;
};

/// "null", "a boolean", "an integer", …: for errors.
std::string_view describe(Json::Kind kind) noexcept;

/// `text` as a quoted ASCII literal: control, escape and non-ASCII characters are spelled out and
/// long text is cut, so that a name from a file can stand in an error or on a terminal.
std::string in_quotes(std::string_view text);

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::int64_t kMaxJsonBytes = std::int64_t{256} << 20;

struct JsonLimits {
  std::int64_t bytes = kMaxJsonBytes;
  int depth = kMaxJsonDepth;
};

/// Reads one JSON document. `source` names it in errors.
/// Errors: InvalidArgument "source:line:column: …" for what is no JSON (NaN, comments, trailing
/// commas, bad UTF-8), "source: /path: …" for a repeated key, depth, or an integer beyond 64 bits
/// (no value is rounded in silence), and for a text larger than the limit. Cost: O(n).
StatusOr<Json> parse_json(std::string_view text, std::string_view source,
                          const JsonLimits& limits = {});

/// A value and where it stands. Borrows both the value and the source name.
class JsonView {
 public:
  JsonView(const Json& value, std::string_view source) : value_(&value), source_(source) {}

  const Json& value() const noexcept { return *value_; }
  Json::Kind kind() const noexcept { return value_->kind(); }
  /// A JSON pointer: "" at the top, else "/args/0/tensor".
  const std::string& path() const noexcept { return path_; }

  /// InvalidArgument "source: /path: text".
  Status error(std::string_view text) const;
  /// The same place before a message that another function gave; keeps its code.
  Status annotate(const Status& status) const;

  /// Errors (all below): InvalidArgument saying what was seen and what is allowed.
  StatusOr<bool> boolean() const;
  StatusOr<std::int64_t> integer() const;
  /// An integer in [low, high].
  StatusOr<std::int64_t> integer_in(std::int64_t low, std::int64_t high) const;
  /// Any number; an integer must be exact as a double.
  StatusOr<double> number() const;
  StatusOr<std::string> text() const;
  StatusOr<std::vector<JsonView>> items() const;
  StatusOr<std::vector<std::int64_t>> integers() const;
  StatusOr<std::vector<std::string>> texts() const;

  /// An object whose keys are among these: an unknown or a missing key is an error that names the
  /// allowed.
  Status check_keys(std::initializer_list<std::string_view> required,
                    std::initializer_list<std::string_view> optional = {}) const;
  /// The members of an object, in order.
  StatusOr<std::vector<std::pair<std::string, JsonView>>> members() const;
  /// The member `key`; an error where it is missing.
  StatusOr<JsonView> at(std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;

 private:
  JsonView(const Json& value, std::string_view source, std::string path)
      : value_(&value), source_(source), path_(std::move(path)) {}
  JsonView child(const Json& value, std::string_view key) const;
  Status expected(std::string_view what) const;

  const Json* value_;
  std::string_view source_;
  std::string path_;
};

}  // namespace tessera
