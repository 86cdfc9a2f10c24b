// parallel/param_groups.h: which parameters share an optimizer's settings, by patterns of their
// names.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Parameters whose name holds a match of `pattern` (a regular expression of RE2: matching takes
/// time in proportion to the name, whatever the pattern) and of no pattern before it. What is
/// absent is as in the optimizer's own settings.
struct ParamGroup {
  std::string pattern;
  double lr_scale = 1.0;
  std::optional<double> weight_decay = {};
  std::optional<std::array<double, 2>> betas = {};
};

/// The group of each name: the first whose pattern matches; 0 for all where there are no groups.
/// Errors: InvalidArgument naming a pattern that is no regular expression, that matches no name, or
/// that patterns before it leave nothing to; or a name in no group.
StatusOr<std::vector<std::size_t>> assign_groups(std::span<const std::string> names,
                                                 std::span<const ParamGroup> groups);

}  // namespace tessera
