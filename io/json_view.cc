#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera {
namespace {

std::string list_of(std::initializer_list<std::string_view> required,
                    std::initializer_list<std::string_view> optional) {
  std::string text;
  for (const auto& keys : {required, optional}) {
    for (const std::string_view key : keys) {
      if (!text.empty()) text += ", ";
      text += key;
    }
  }
  return text.empty() ? "none" : text;
}

bool contains(std::initializer_list<std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Other layers' messages may hold a name from the document as it is; none may steer a terminal.
std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F) {
      out += absl::StrFormat("\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out;
}

// What was seen, short enough for one line.
std::string seen(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::kArray:
    case Json::Kind::kObject:
      return std::string(describe(value.kind()));
    case Json::Kind::kString:
      return "the string " + in_quotes(*value.if_string());
    default:
      return value.to_string();
  }
}

}  // namespace

JsonView JsonView::child(const Json& value, std::string_view key) const {
  std::string path = path_ + '/';
  // A JSON pointer writes ~ and / as ~0 and ~1; a name from a file must not break the line either.
  const std::string plain = in_quotes(key);
  for (const char c : std::string_view(plain).substr(1, plain.size() - 2)) {
    if (c == '~') {
      path += "~0";
    } else if (c == '/') {
      path += "~1";
    } else {
      path += c;
    }
  }
  return JsonView(value, source_, std::move(path));
}

Status JsonView::error(std::string_view text) const {
  return invalid_argument(
      absl::StrFormat("%s: %s: %s", source_, path_.empty() ? "/" : path_, text));
}

Status JsonView::annotate(const Status& status) const {
  if (status.ok()) return status;
  const std::string text = absl::StrFormat("%s: %s: %s", source_, path_.empty() ? "/" : path_,
                                           without_controls(message_of(status)));
  return Status(status.code(), to_absl(text));
}

Status JsonView::expected(std::string_view what) const {
  return error(absl::StrFormat("expected %s, not %s", what, seen(*value_)));
}

StatusOr<bool> JsonView::boolean() const {
  if (const bool* value = value_->if_bool()) return *value;
  return expected("true or false");
}

StatusOr<std::int64_t> JsonView::integer() const {
  if (const std::int64_t* value = value_->if_integer()) return *value;
  return expected("an integer");
}

StatusOr<std::int64_t> JsonView::integer_in(std::int64_t low, std::int64_t high) const {
  const std::int64_t* value = value_->if_integer();
  if (value == nullptr || *value < low || *value > high) {
    const std::string range = high == INT64_MAX
                                  ? absl::StrFormat("an integer of at least %d", low)
                                  : absl::StrFormat("an integer from %d to %d", low, high);
    return expected(range);
  }
  return *value;
}

StatusOr<double> JsonView::number() const {
  if (const double* value = value_->if_number()) return *value;
  const std::int64_t* integer = value_->if_integer();
  if (integer == nullptr) return expected("a number");
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (*integer > kExact || *integer < -kExact) {
    return expected("a number that a double holds exactly (up to 2^53)");
  }
  return static_cast<double>(*integer);
}

StatusOr<std::string> JsonView::text() const {
  if (const std::string* value = value_->if_string()) return *value;
  return expected("a string");
}

StatusOr<std::vector<JsonView>> JsonView::items() const {
  const Json::Array* items = value_->if_array();
  if (items == nullptr) return expected("an array");
  std::vector<JsonView> views;
  views.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    views.push_back(child((*items)[i], std::to_string(i)));
  }
  return views;
}

StatusOr<std::vector<std::int64_t>> JsonView::integers() const {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> views, items());
  std::vector<std::int64_t> values;
  for (const JsonView& view : views) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t value, view.integer());
    values.push_back(value);
  }
  return values;
}

StatusOr<std::vector<std::string>> JsonView::texts() const {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> views, items());
  std::vector<std::string> values;
  for (const JsonView& view : views) {
    TSR_ASSIGN_OR_RETURN(std::string value, view.text());
    values.push_back(std::move(value));
  }
  return values;
}

Status JsonView::check_keys(std::initializer_list<std::string_view> required,
                            std::initializer_list<std::string_view> optional) const {
  const Json::Object* members = value_->if_object();
  if (members == nullptr) return expected("an object");
  for (const JsonMember& member : *members) {
    if (!contains(required, member.key) && !contains(optional, member.key)) {
      return error(absl::StrFormat("unknown key %s; allowed: %s", in_quotes(member.key),
                                   list_of(required, optional)));
    }
  }
  for (const std::string_view key : required) {
    if (value_->find(key) == nullptr) {
      return error(
          absl::StrFormat("key \"%s\" is missing; allowed: %s", key, list_of(required, optional)));
    }
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::pair<std::string, JsonView>>> JsonView::members() const {
  const Json::Object* members = value_->if_object();
  if (members == nullptr) return expected("an object");
  std::vector<std::pair<std::string, JsonView>> views;
  views.reserve(members->size());
  for (const JsonMember& member : *members) {
    views.emplace_back(member.key, child(member.value, member.key));
  }
  return views;
}

StatusOr<JsonView> JsonView::at(std::string_view key) const {
  if (value_->if_object() == nullptr) return expected("an object");
  if (const Json* value = value_->find(key)) return child(*value, key);
  return error(absl::StrFormat("key \"%s\" is missing", key));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (const Json* value = value_->find(key)) return child(*value, key);
  return std::nullopt;
}

}  // namespace tessera
