// program/step_names.h: the names of a step, one after another.
// For who rewrites programs.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "program/program.h"

namespace tessera {

namespace step_names_detail {
template <class Use>
void visit_argument(Json& argument, const Use& use) {
  if (const std::string* name = argument.if_string()) {
    std::string own = *name;
    use(own);
    if (own != *argument.if_string()) argument = Json(std::move(own));
  } else if (Json::Array* items = argument.if_array()) {
    for (Json& item : *items) visit_argument(item, use);
  }
}
}  // namespace step_names_detail

/// Calls use(std::string&) for each value that the step reads or frees, then make(ProgramValue&)
/// for each that it makes. Nothing for a repeat.
template <class Use, class Make>
void visit_names(AnyStep& step, const Use& use, const Make& make) {
  std::visit(
      [&](auto& what) {
        using T = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<T, CallStep> || std::is_same_v<T, RegionStep>) {
          for (Json& argument : what.args) step_names_detail::visit_argument(argument, use);
          for (ProgramValue& value : what.out) make(value);
        } else if constexpr (std::is_same_v<T, MoveStep>) {
          use(what.value);
          make(what.out);
        } else if constexpr (std::is_same_v<T, FreeStep>) {
          for (std::string& name : what.values) use(name);
        } else if constexpr (std::is_same_v<T, HostReadStep>) {
          use(what.value);
        }
      },
      step.what);
}

/// Gives values of flat steps other names, by those that they have.
inline void rename_values(const std::map<std::string, std::string>& names, Program& program) {
  const auto renamed = [&](std::string& name) {
    const auto found = names.find(name);
    if (found != names.end()) name = found->second;
  };
  for (AnyStep& step : program.steps) {
    visit_names(step, renamed, [&](ProgramValue& value) { renamed(value.name); });
  }
}

}  // namespace tessera
