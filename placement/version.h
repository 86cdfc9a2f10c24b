// placement/version.h: which Tessera this is. Constants say what a program was compiled against,
// version() what it runs with. The build reads its version from here.
#pragma once

#include <string_view>

#include "placement/api.h"

#define TSR_VERSION_MAJOR 0
#define TSR_VERSION_MINOR 1
#define TSR_VERSION_PATCH 0

namespace tessera TSR_API {

struct Version {
  int major, minor, patch;
  constexpr bool operator==(const Version&) const = default;
};

/// Of the headers. Until 1.0 libraries of another minor version are not compatible.
inline constexpr Version kHeaderVersion = {TSR_VERSION_MAJOR, TSR_VERSION_MINOR, TSR_VERSION_PATCH};

/// Of the library that is loaded.
Version library_version() noexcept;
/// The same as text, "0.1.0".
std::string_view version() noexcept;

}  // namespace tessera
