#include "moe/layer/dispatcher_table.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "moe/layer/dispatcher_kinds.h"

namespace tessera {
namespace {

class DispatcherTable {
 public:
  static DispatcherTable& process() {
    static DispatcherTable table;
    return table;
  }

  Status add(DispatcherDef def) {
    const auto is_of_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (def.name.empty() || !std::ranges::all_of(def.name, is_of_word)) {
      return invalid_argument(absl::StrFormat(
          "dispatcher %s: a name is made of lower-case letters, digits and underscores",
          in_quotes(def.name)));
    }
    if (!def.make) {
      return invalid_argument(absl::StrFormat("dispatcher \"%s\" has no maker", def.name));
    }
    const std::lock_guard lock(mutex_);
    if (at(def.name) != nullptr) {
      return invalid_argument(absl::StrFormat("dispatcher \"%s\": the name is in use", def.name));
    }
    defs_.push_back(std::move(def));
    return absl::OkStatus();
  }
  const DispatcherDef* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return at(name);
  }
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const DispatcherDef& def : defs_) names.push_back(def.name);
    return names;
  }

 private:
  DispatcherTable() {
    for (DispatcherDef& def : builtin_dispatchers()) defs_.push_back(std::move(def));
  }
  const DispatcherDef* at(std::string_view name) const {
    const auto found = std::ranges::find(defs_, name, &DispatcherDef::name);
    return found == defs_.end() ? nullptr : &*found;
  }

  std::mutex mutex_;
  std::deque<DispatcherDef> defs_;  ///< whose elements stay where they are
};

}  // namespace

Status add_dispatcher(DispatcherDef def) { return DispatcherTable::process().add(std::move(def)); }

const DispatcherDef* find_dispatcher(std::string_view name) {
  return DispatcherTable::process().find(name);
}

std::vector<std::string> dispatcher_names() { return DispatcherTable::process().names(); }

}  // namespace tessera
