#include "placement/version.h"

#define TSR_TEXT_OF(x) #x
#define TSR_TEXT(x) TSR_TEXT_OF(x)

namespace tessera {

Version library_version() noexcept { return kHeaderVersion; }

std::string_view version() noexcept {
  return TSR_TEXT(TSR_VERSION_MAJOR) "." TSR_TEXT(TSR_VERSION_MINOR) "." TSR_TEXT(
      TSR_VERSION_PATCH);
}

}  // namespace tessera
