// io/json.h: JSON as exact values, read strictly. A Json is a value to build and to write. A
// JsonDocument is a text that was read and checked; a JsonView is a value of it and the place it
// stands at ("/args/0/tensor"), so that every error can say where.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "placement/api.h"
#include "placement/shape.h"
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

/// The largest list that a reader takes, and what stands in it, for the error.
struct JsonBound {
  std::int64_t most = 0;
  std::string_view what;
};
inline constexpr JsonBound kJsonItems = {65'536, "items"};
inline constexpr JsonBound kJsonDims = {kMaxDims, "dims"};

class JsonView;

/// A JSON text that was read and checked as a whole, and where its values stand in it. Borrows the
/// text and the source name; views borrow the document.
class JsonDocument {
 public:
  /// `source` names the text in errors. Errors: InvalidArgument "source:line:column: …" for what is
  /// no JSON (NaN, comments, trailing commas, bad UTF-8), "source: /path: …" for a repeated key,
  /// depth, or a number beyond 64 bits (no value is rounded in silence), and for a text larger than
  /// the limit. Cost: O(n); 4 bytes a value and a key, 8 an array and an object, and while an
  /// object of many members is read at most 18 each: less than 3 times the text in all.
  static StatusOr<JsonDocument> parse(std::string_view text, std::string_view source,
                                      const JsonLimits& limits = {});
  JsonView root() const;

 private:
  friend class JsonView;
  /// Where a value or a key begins in the text, in order; after the beginning of an array or an
  /// object, the number of the entry that follows its last.
  using Tape = std::vector<std::uint32_t>;
  JsonDocument(std::string_view text, std::string_view source, Tape tape)
      : text_(text), source_(source), tape_(std::move(tape)) {}

  std::string_view text_;
  std::string_view source_;
  Tape tape_;
};

/// A value of a document, and where it stands. Borrows the document.
class JsonView {
 public:
  Json::Kind kind() const noexcept;
  /// The value on its own: some 40 bytes for each number in it, so only where it is known to be
  /// small. Cost: O(n).
  Json to_json() const;
  /// A JSON pointer: "" at the top, else "/args/0/tensor". Cost: O(what stands before it).
  std::string path() const;

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
  /// Values in it and keys, itself counted, lists twice. Cost: O(1).
  std::int64_t num_entries() const noexcept { return after() - at_; }
  /// Number of items of an array, or of members of an object. Cost: O(number).
  StatusOr<std::int64_t> size() const;
  StatusOr<std::vector<JsonView>> items(const JsonBound& bound = kJsonItems) const;
  StatusOr<std::vector<std::int64_t>> integers(const JsonBound& bound = kJsonItems) const;
  StatusOr<std::vector<std::string>> texts(const JsonBound& bound = kJsonItems) const;
  /// Calls visit(JsonView) -> Status with each item, in order, up to the first error: for a list of
  /// any length.
  template <class Visit>
  Status for_each_item(const Visit& visit) const;

  /// An object whose keys are among these: an unknown or a missing key is an error that names the
  /// allowed.
  Status check_keys(std::span<const std::string_view> required,
                    std::span<const std::string_view> optional) const;
  Status check_keys(std::initializer_list<std::string_view> required,
                    std::initializer_list<std::string_view> optional = {}) const {
    return check_keys(std::span(required.begin(), required.size()),
                      std::span(optional.begin(), optional.size()));
  }
  /// The members of an object, in order.
  StatusOr<std::vector<std::pair<std::string, JsonView>>> members(const JsonBound& bound = {
                                                                      .most = kJsonItems.most,
                                                                      .what = "members"}) const;
  /// As for_each_item(): visit(std::string key, JsonView) -> Status.
  template <class Visit>
  Status for_each_member(const Visit& visit) const;
  /// The member `key`; an error where it is missing.
  StatusOr<JsonView> at(std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;

  bool operator==(const JsonView&) const = default;

 private:
  friend class JsonDocument;
  JsonView(const JsonDocument& document, std::uint32_t at) : document_(&document), at_(at) {}

  std::string_view written() const;  ///< from its first character on
  JsonView entry(std::uint32_t at) const { return {*document_, at}; }
  std::uint32_t first() const noexcept { return at_ + 2; }  ///< of an array's or object's entries
  std::uint32_t end() const noexcept { return document_->tape_[at_ + 1]; }
  std::uint32_t after() const noexcept;  ///< the entry that follows this value
  std::string decoded() const;           ///< a string or a key
  bool is_text(std::string_view text) const;
  Status expect(Json::Kind kind) const;
  Status expected(std::string_view what) const;
  Status check_size(const JsonBound& bound) const;

  const JsonDocument* document_;
  std::uint32_t at_;
};

template <class Visit>
Status JsonView::for_each_item(const Visit& visit) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kArray));
  for (JsonView item = entry(first()); item.at_ != end(); item.at_ = item.after()) {
    TSR_RETURN_IF_ERROR(visit(item));
  }
  return absl::OkStatus();
}

template <class Visit>
Status JsonView::for_each_member(const Visit& visit) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kObject));
  for (JsonView key = entry(first()); key.at_ != end();) {
    const JsonView value = entry(key.at_ + 1);
    TSR_RETURN_IF_ERROR(visit(key.decoded(), value));
    key.at_ = value.after();
  }
  return absl::OkStatus();
}

/// A document as a value of its own. Errors and limits as JsonDocument::parse().
StatusOr<Json> parse_json(std::string_view text, std::string_view source,
                          const JsonLimits& limits = {});

}  // namespace tessera
