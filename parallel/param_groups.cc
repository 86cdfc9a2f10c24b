#include "parallel/param_groups.h"

#include <re2/re2.h>

#include <memory>

#include "absl/strings/str_format.h"
#include "placement/printable.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxShown = 120;  ///< of a pattern, in an error

StatusOr<std::unique_ptr<RE2>> compile(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_unique<RE2>(pattern, options);
  if (compiled->ok()) return compiled;
  return invalid_argument(absl::StrFormat("param_groups: \"%s\" is no regular expression (RE2): %s",
                                          printable(pattern, kMaxShown),
                                          printable(compiled->error(), kMaxShown)));
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
  std::vector<std::unique_ptr<RE2>> patterns;
  for (const ParamGroup& group : groups) {
    TSR_ASSIGN_OR_RETURN(std::unique_ptr<RE2> pattern, compile(group.pattern));
    patterns.push_back(std::move(pattern));
  }
  std::vector<Use> uses(groups.size());
  const std::string* unowned = nullptr;
  for (std::size_t i = 0; i < names.size(); ++i) {
    group_of[i] = groups.size();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!RE2::PartialMatch(names[i], *patterns[g])) continue;
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
    const std::string pattern = printable(groups[g].pattern, kMaxShown);
    if (!uses[g].matches) {
      return invalid_argument(
          absl::StrFormat("param_groups: \"%s\" matches no trainable parameter", pattern));
    }
    return invalid_argument(
        absl::StrFormat("param_groups: the patterns before \"%s\" take every parameter that it "
                        "matches; the first match wins, so put it earlier or leave it out",
                        pattern));
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
