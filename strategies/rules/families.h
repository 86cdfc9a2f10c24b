// strategies/rules/families.h: the built-in ops by the file of strategies/ops/ that they stand in:
// for reference pages.
#pragma once

#include <span>
#include <string_view>

#include "placement/api.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

struct OpFamily {
  std::string_view name;    ///< of the file, without its end
  std::string_view folder;  ///< that the file is in, below strategies/ops/
  void (*add)(OpTable& table) = nullptr;
};
/// All that add_builtin_ops() adds, by name. A file with several functions stands there for each.
std::span<const OpFamily> builtin_families();

}  // namespace tessera
