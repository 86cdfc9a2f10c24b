// moe/train/read_choice.h: a config's text that must be one of a few names.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/json.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Errors: InvalidArgument listing the names.
template <class Value>
Status read_choice(const JsonView& at, std::span<const std::pair<std::string_view, Value>> choices,
                   Value& field) {
  TSR_ASSIGN_OR_RETURN(const std::string name, at.text());
  std::string allowed;
  for (const auto& [choice, value] : choices) {
    if (name == choice) {
      field = value;
      return absl::OkStatus();
    }
    allowed += (allowed.empty() ? "" : ", ") + in_quotes(choice);
  }
  return at.error(in_quotes(name) + " is none of " + allowed);
}
template <class Value>
Status read_choice(const JsonView& at,
                   std::initializer_list<std::pair<std::string_view, Value>> choices,
                   Value& field) {
  using Choices = std::span<const std::pair<std::string_view, Value>>;
  return read_choice(at, Choices(choices.begin(), choices.size()), field);
}
/// The same for the key `key` of `object`; where it is absent `field` stays.
template <class Value>
Status read_choice(const JsonView& object, std::string_view key,
                   std::initializer_list<std::pair<std::string_view, Value>> choices,
                   Value& field) {
  const std::optional<JsonView> at = object.find(key);
  return at ? read_choice(*at, choices, field) : absl::OkStatus();
}

}  // namespace tessera
