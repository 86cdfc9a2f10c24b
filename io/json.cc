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

bool is_scalar(const Json& value) {
  return value.if_array() == nullptr && value.if_object() == nullptr;
}

// An array or object whose items hold no further arrays or objects of arrays stays on one line.
bool is_flat(const Json& value, int nesting) {
  if (is_scalar(value)) return true;
  if (nesting == 0) return false;
  const auto flat = [&](const Json& item) { return is_flat(item, nesting - 1); };
  if (const Json::Array* items = value.if_array()) {
    return std::all_of(items->begin(), items->end(), flat);
  }
  const Json::Object& members = *value.if_object();
  return std::all_of(members.begin(), members.end(),
                     [&](const JsonMember& member) { return flat(member.value); });
}

class Writer {
 public:
  enum class Form : std::uint8_t { kCompact, kPretty };
  explicit Writer(Form form) : form_(form) {}
  void write(const Json& value, int indent);
  std::string take() { return std::move(out_); }

 private:
  void break_line(bool flat, int indent, bool first) {
    if (flat && form_ == Form::kPretty && !first) out_ += ' ';
    if (flat || form_ == Form::kCompact) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(2 * indent), ' ');
  }
  template <class Items, class WriteItem>
  void write_list(const Items& items, char open, bool flat, int indent, WriteItem&& write_item);

  Form form_;
  std::string out_;
};

template <class Items, class WriteItem>
void Writer::write_list(const Items& items, char open, bool flat, int indent,
                        WriteItem&& write_item) {
  out_ += open;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out_ += ',';
    break_line(flat, indent + 1, first);
    write_item(item);
    first = false;
  }
  if (!flat && !first) break_line(false, indent, true);
  out_ += open == '[' ? ']' : '}';
}

void Writer::write(const Json& value, int indent) {
  const bool flat = form_ == Form::kCompact || is_flat(value, 2);
  switch (value.kind()) {
    case Json::Kind::kNull:
      out_ += "null";
      break;
    case Json::Kind::kBool:
      out_ += *value.if_bool() ? "true" : "false";
      break;
    case Json::Kind::kInteger:
      append_number(out_, *value.if_integer());
      break;
    case Json::Kind::kNumber:
      append_double(out_, *value.if_number());
      break;
    case Json::Kind::kString:
      append_string(out_, *value.if_string());
      break;
    case Json::Kind::kArray:
      write_list(*value.if_array(), '[', flat, indent,
                 [&](const Json& item) { write(item, indent + 1); });
      break;
    case Json::Kind::kObject:
      write_list(*value.if_object(), '{', flat, indent, [&](const JsonMember& member) {
        append_string(out_, member.key);
        out_ += form_ == Form::kPretty ? ": " : ":";
        write(member.value, indent + 1);
      });
      break;
  }
}

}  // namespace

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
  Writer writer(Writer::Form::kCompact);
  writer.write(*this, 0);
  return writer.take();
}

std::string Json::to_pretty_string() const {
  Writer writer(Writer::Form::kPretty);
  writer.write(*this, 0);
  return writer.take();
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
