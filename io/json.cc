#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// Reads one code point of UTF-8; a byte that is none stands for itself, marked by a negative value.
std::int32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at++);
  if (lead < 0x80) return lead;
  const int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC2 ? 1 : 0;
  if (extra == 0 || lead > 0xF4 || at + static_cast<std::size_t>(extra) > text.size()) {
    return -lead;
  }
  std::int32_t point = lead & (0x3F >> extra);
  for (int i = 0; i < extra; ++i) {
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return -lead;
    point = point << 6 | (next & 0x3F);
  }
  at += static_cast<std::size_t>(extra);
  return point;
}

// ASCII only: what is not printable is spelled \n, \u00e9, \xff (a byte that is no UTF-8).
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::int32_t point = next_code_point(text, at);
    if (point < 0) {
      out += absl::StrFormat("\\x%02x", -point);
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
  }
  return out;
}

// JSON has no \x: a byte that is no UTF-8 becomes the replacement character.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::int32_t point = next_code_point(text, at);
    if (point < 0) {
      out += "\\ufffd";
    } else if (point >= ' ' && point < 0x7F && point != '"' && point != '\\') {
      out += static_cast<char>(point);
    } else {
      out += escaped(text.substr(begin, at - begin));
    }
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
