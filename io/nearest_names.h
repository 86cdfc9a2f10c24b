// io/nearest_names.h: what somebody may have meant, for errors about names that are not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "placement/api.h"

namespace tessera TSR_API {

/// "the nearest names are \"a\", \"b\"": up to three of `known`, nearest first, quoted as
/// in_quotes() does; "there is none" for no names. Cost: O(length²) per known name.
std::string nearest_names(std::string_view name, std::span<const std::string> known);

}  // namespace tessera
