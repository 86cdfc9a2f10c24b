#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "io/json_token.h"
#include "placement/printable.h"

namespace tessera {
namespace {

std::string list_of(std::span<const std::string_view> required,
                    std::span<const std::string_view> optional) {
  std::string text;
  for (const auto& keys : {required, optional}) {
    for (const std::string_view key : keys) {
      if (!text.empty()) text += ", ";
      text += key;
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

JsonView JsonDocument::root() const { return {*this, 0}; }

std::string_view JsonView::written() const {
  return document_->text_.substr(document_->tape_[at_]);
}

Json::Kind JsonView::kind() const noexcept {
  const std::string_view rest = written();
  switch (rest[0]) {
    case '{':
      return Json::Kind::kObject;
    case '[':
      return Json::Kind::kArray;
    case '"':
      return Json::Kind::kString;
    case 't':
    case 'f':
      return Json::Kind::kBool;
    case 'n':
      return Json::Kind::kNull;
    default:
      return json_number_at(rest).find_first_of(".eE") == std::string_view::npos
                 ? Json::Kind::kInteger
                 : Json::Kind::kNumber;
  }
}

std::uint32_t JsonView::after() const noexcept {
  const char c = written()[0];
  return c == '{' || c == '[' ? end() : at_ + 1;
}

std::string JsonView::decoded() const {
  return json_unescaped(json_string_at(document_->text_, document_->tape_[at_]));
}

bool JsonView::is_text(std::string_view text) const {
  const std::string_view raw = json_string_at(document_->text_, document_->tape_[at_]);
  return raw.find('\\') == std::string_view::npos ? raw == text : json_unescaped(raw) == text;
}

Json JsonView::to_json() const {
  switch (kind()) {
    case Json::Kind::kNull:
      return {};
    case Json::Kind::kBool:
      return {written()[0] == 't'};
    case Json::Kind::kInteger:
      return {*json_integer(json_number_at(written()))};
    case Json::Kind::kNumber:
      return {*json_double(json_number_at(written()))};
    case Json::Kind::kString:
      return {decoded()};
    case Json::Kind::kArray: {
      Json::Array items;
      for (JsonView item = entry(first()); item.at_ != end(); item.at_ = item.after()) {
        items.push_back(item.to_json());
      }
      return {std::move(items)};
    }
    case Json::Kind::kObject: {
      Json::Object members;
      for (JsonView key = entry(first()); key.at_ != end();) {
        const JsonView value = entry(key.at_ + 1);
        members.push_back({key.decoded(), value.to_json()});
        key.at_ = value.after();
      }
      return {std::move(members)};
    }
  }
  return {};
}

std::string JsonView::path() const {
  std::string path;
  for (JsonView place = document_->root(); place.at_ != at_;) {
    const bool is_object = place.kind() == Json::Kind::kObject;
    JsonView child = place.entry(place.first() + (is_object ? 1 : 0));
    std::int64_t position = 0;
    for (; child.after() <= at_; ++position) child.at_ = child.after() + (is_object ? 1 : 0);
    path += '/';
    path += is_object ? json_path_step(entry(child.at_ - 1).decoded()) : std::to_string(position);
    place = child;
  }
  return path;
}

Status JsonView::error(std::string_view text) const {
  const std::string place = path();
  return invalid_argument(
      absl::StrFormat("%s: %s: %s", document_->source_, place.empty() ? "/" : place, text));
}

Status JsonView::annotate(const Status& status) const {
  if (status.ok()) return status;
  // Other layers' messages may hold a name from the document as it is.
  return Status(status.code(), to_absl(message_of(error(printable(message_of(status))))));
}

Status JsonView::expected(std::string_view what) const {
  const Json::Kind seen = kind();
  const bool is_list = seen == Json::Kind::kArray || seen == Json::Kind::kObject;
  const std::string shown = is_list                       ? std::string(describe(seen))
                            : seen == Json::Kind::kString ? "the string " + in_quotes(decoded())
                                                          : to_json().to_string();
  return error(absl::StrFormat("expected %s, not %s", what, shown));
}

Status JsonView::expect(Json::Kind wanted) const {
  return kind() == wanted ? absl::OkStatus() : expected(describe(wanted));
}

StatusOr<bool> JsonView::boolean() const {
  if (kind() != Json::Kind::kBool) return expected("true or false");
  return written()[0] == 't';
}

StatusOr<std::int64_t> JsonView::integer() const {
  if (kind() != Json::Kind::kInteger) return expected("an integer");
  return *json_integer(json_number_at(written()));
}

StatusOr<std::int64_t> JsonView::integer_in(std::int64_t low, std::int64_t high) const {
  if (kind() == Json::Kind::kInteger) {
    const std::int64_t value = *json_integer(json_number_at(written()));
    if (value >= low && value <= high) return value;
  }
  const std::string range = high == INT64_MAX
                                ? absl::StrFormat("an integer of at least %d", low)
                                : absl::StrFormat("an integer from %d to %d", low, high);
  return expected(range);
}

StatusOr<double> JsonView::number() const {
  const Json::Kind seen = kind();
  if (seen == Json::Kind::kNumber) return *json_double(json_number_at(written()));
  if (seen != Json::Kind::kInteger) return expected("a number");
  const std::int64_t integer = *json_integer(json_number_at(written()));
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (integer > kExact || integer < -kExact) {
    return expected("a number that a double holds exactly (up to 2^53)");
  }
  return static_cast<double>(integer);
}

StatusOr<std::string> JsonView::text() const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kString));
  return decoded();
}

StatusOr<std::int64_t> JsonView::size() const {
  std::int64_t size = 0;
  if (kind() == Json::Kind::kObject) {
    for (std::uint32_t key = first(); key != end(); key = entry(key + 1).after()) ++size;
    return size;
  }
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kArray));
  for (std::uint32_t item = first(); item != end(); item = entry(item).after()) ++size;
  return size;
}

Status JsonView::check_size(const JsonBound& bound) const {
  TSR_ASSIGN_OR_RETURN(const std::int64_t count, size());
  if (count <= bound.most) return absl::OkStatus();
  return error(
      absl::StrFormat("holds %d %s; at most %d are allowed", count, bound.what, bound.most));
}

StatusOr<std::vector<JsonView>> JsonView::items(const JsonBound& bound) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kArray));
  TSR_RETURN_IF_ERROR(check_size(bound));
  std::vector<JsonView> views;
  TSR_RETURN_IF_ERROR(for_each_item([&](const JsonView& item) {
    views.push_back(item);
    return absl::OkStatus();
  }));
  return views;
}

StatusOr<std::vector<std::int64_t>> JsonView::integers(const JsonBound& bound) const {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> views, items(bound));
  std::vector<std::int64_t> values;
  for (const JsonView& view : views) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t value, view.integer());
    values.push_back(value);
  }
  return values;
}

StatusOr<std::vector<std::string>> JsonView::texts(const JsonBound& bound) const {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> views, items(bound));
  std::vector<std::string> values;
  for (const JsonView& view : views) {
    TSR_ASSIGN_OR_RETURN(std::string value, view.text());
    values.push_back(std::move(value));
  }
  return values;
}

Status JsonView::check_keys(std::span<const std::string_view> required,
                            std::span<const std::string_view> optional) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kObject));
  for (JsonView key = entry(first()); key.at_ != end(); key.at_ = entry(key.at_ + 1).after()) {
    const auto is_key = [&](std::string_view allowed) { return key.is_text(allowed); };
    if (std::none_of(required.begin(), required.end(), is_key) &&
        std::none_of(optional.begin(), optional.end(), is_key)) {
      return error(absl::StrFormat("unknown key %s; allowed: %s", in_quotes(key.decoded()),
                                   list_of(required, optional)));
    }
  }
  for (const std::string_view key : required) {
    if (!find(key)) {
      return error(
          absl::StrFormat("key \"%s\" is missing; allowed: %s", key, list_of(required, optional)));
    }
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::pair<std::string, JsonView>>> JsonView::members(
    const JsonBound& bound) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kObject));
  TSR_RETURN_IF_ERROR(check_size(bound));
  std::vector<std::pair<std::string, JsonView>> views;
  TSR_RETURN_IF_ERROR(for_each_member([&](std::string key, const JsonView& value) {
    views.emplace_back(std::move(key), value);
    return absl::OkStatus();
  }));
  return views;
}

StatusOr<JsonView> JsonView::at(std::string_view key) const {
  TSR_RETURN_IF_ERROR(expect(Json::Kind::kObject));
  if (const std::optional<JsonView> value = find(key)) return *value;
  return error(absl::StrFormat("key \"%s\" is missing", key));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (kind() != Json::Kind::kObject) return std::nullopt;
  for (std::uint32_t at = first(); at != end(); at = entry(at + 1).after()) {
    if (entry(at).is_text(key)) return entry(at + 1);
  }
  return std::nullopt;
}

}  // namespace tessera
