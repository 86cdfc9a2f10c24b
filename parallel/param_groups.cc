#include "parallel/param_groups.h"

#include <mutex>
#include <regex>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

/// Ranks that are threads compile at once, but libstdc++ fills a table of the locale that they
/// share without a lock.
StatusOr<std::regex> compile(const std::string& pattern) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    return invalid_argument(absl::StrFormat("param_groups: \"%s\" is no regular expression: %s",
                                            pattern, error.what()));
  }
}

struct Use {
  bool matches = false;  ///< some name
  bool owns = false;     ///< some name that no group before it takes
};

}  // namespace

StatusOr<std::vector<std::size_t>> assign_groups(std::span<const std::string> names,
                                                 std::span<const ParamGroup> groups) {
  std::vector<std::size_t> group_of(names.size(), 0);
  if (groups.empty()) return group_of;
  std::vector<std::regex> patterns;
  for (const ParamGroup& group : groups) {
    TSR_ASSIGN_OR_RETURN(std::regex pattern, compile(group.pattern));
    patterns.push_back(std::move(pattern));
  }
  std::vector<Use> uses(groups.size());
  const std::string* unowned = nullptr;
  for (std::size_t i = 0; i < names.size(); ++i) {
    group_of[i] = groups.size();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!std::regex_search(names[i], patterns[g])) continue;
      uses[g].matches = true;
      if (group_of[i] < groups.size()) continue;
      group_of[i] = g;
      uses[g].owns = true;
    }
    const bool in_none = group_of[i] == groups.size();
    if (in_none && (unowned == nullptr || names[i] < *unowned)) unowned = &names[i];
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (uses[g].owns) continue;
    return invalid_argument(absl::StrFormat(
        uses[g].matches ? "param_groups: the patterns before \"%s\" take every parameter that it "
                          "matches; the first match wins, so put it earlier or leave it out"
                        : "param_groups: \"%s\" matches no trainable parameter",
        groups[g].pattern));
  }
  if (unowned != nullptr) {
    return invalid_argument(absl::StrFormat(
        "param_groups: parameter %s is in no group; end the list with a group of pattern \"\" for "
        "the rest",
        *unowned));
  }
  return group_of;
}

}  // namespace tessera
