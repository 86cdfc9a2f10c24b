#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "placement/utf8.h"

namespace tessera {
namespace {

// ASCII only: what is not printable is spelled \n, \u00e9, \xff (a byte that is no UTF-8).
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [point, bytes] = first_code_point(text);
    if (bytes == 0) {
      out += absl::StrFormat("\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (point == '"' || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (point >= ' ' && point < 0x7F) {
      out += static_cast<char>(point);
    } else if (point == '\n') {
      out += "\\n";
    } else if (point < 0x10000) {
      out += absl::StrFormat("\\u%04x", point);
    } else {
      out += absl::StrFormat("\\u%04x\\u%04x", 0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

// JSON has no \x: a byte that is no UTF-8 becomes the replacement character.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto [point, bytes] = first_code_point(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
    const bool plain = point >= ' ' && point < 0x7F && point != '"' && point != '\\';
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (plain) {
      out += character;
    } else {
      out += escaped(character);
    }
    text.remove_prefix(character.size());
  }
  out += '"';
}

template <class T>
void append_number(std::string& out, T value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::size_t begin = out.size();
  append_number(out, value);
  // "3" would read back as an integer.
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void append_json(std::string& out, const Json& value) {
  auto separate = [&, first = true]() mutable {
    if (!first) out += ',';
    first = false;
  };
  switch (value.kind()) {
    case Json::Kind::kNull:
      out += "null";
      break;
    case Json::Kind::kBool:
      out += *value.if_bool() ? "true" : "false";
      break;
    case Json::Kind::kInteger:
      append_number(out, *value.if_integer());
      break;
    case Json::Kind::kNumber:
      append_double(out, *value.if_number());
      break;
    case Json::Kind::kString:
      append_string(out, *value.if_string());
      break;
    case Json::Kind::kArray:
      out += '[';
      for (const Json& item : *value.if_array()) {
        separate();
        append_json(out, item);
      }
      out += ']';
      break;
    case Json::Kind::kObject:
      out += '{';
      for (const JsonMember& member : *value.if_object()) {
        separate();
        append_string(out, member.key);
        out += ':';
        append_json(out, member.value);
      }
      out += '}';
      break;
  }
}

}  // namespace

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;
Json::Json(bool value) : value_(value) {}
Json::Json(int value) : value_(std::int64_t{value}) {}
Json::Json(std::int64_t value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(Array value) : value_(std::move(value)) {}
Json::Json(Object value) : value_(std::move(value)) {}

Json Json::object(std::initializer_list<JsonMember> members) { return Json(Object(members)); }

const Json* Json::find(std::string_view key) const noexcept {
  const Object* members = if_object();
  if (members == nullptr) return nullptr;
  const auto at = std::find_if(members->begin(), members->end(),
                               [&](const JsonMember& member) { return member.key == key; });
  return at == members->end() ? nullptr : &at->value;
}

void Json::set(std::string key, Json value) {
  Object* members = if_object();
  TSR_CHECK(members != nullptr, "set() on what is no object");
  members->push_back({std::move(key), std::move(value)});
}

void Json::push(Json value) {
  Array* items = if_array();
  TSR_CHECK(items != nullptr, "push() on what is no array");
  items->push_back(std::move(value));
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

std::string Json::to_string() const {
  std::string out;
  append_json(out, *this);
  return out;
}

std::string_view describe(Json::Kind kind) noexcept {
  switch (kind) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return "a boolean";
    case Json::Kind::kInteger:
      return "an integer";
    case Json::Kind::kNumber:
      return "a number with a fraction or exponent";
    case Json::Kind::kString:
      return "a string";
    case Json::Kind::kArray:
      return "an array";
    case Json::Kind::kObject:
      return "an object";
  }
  return "";
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool cut = text.size() > kLongest;
  return '"' + escaped(text.substr(0, kLongest)) + (cut ? "…\"" : "\"");
}

}  // namespace tessera
