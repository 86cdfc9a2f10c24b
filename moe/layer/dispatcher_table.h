// moe/layer/dispatcher_table.h: dispatchers by the names that configs call them by: those of this
// library, and those that a program adds. moe/train/verify_dispatcher.h proves one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "moe/layer/dispatcher.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct DispatcherDef {
  std::string name;  ///< a lower-case word, of letters, digits and underscores
  /// For a group of more than one rank, sizes at least 1. Errors: InvalidArgument naming the layer
  /// where numbers do not fit; Unimplemented for an option that this dispatcher does not have.
  std::function<StatusOr<std::unique_ptr<Dispatcher>>(const DispatcherSetting&)> make;
};

/// Known from then on to every config and every World of this process. Thread-safety: any; before
/// a config that names it is read. Errors: InvalidArgument for a name that is no word or is in use,
/// or without a maker.
Status add_dispatcher(DispatcherDef def);

/// Null where there is none of this name. It stays as long as the process.
const DispatcherDef* find_dispatcher(std::string_view name);

/// Those of this library first, then in the order in which they were added.
std::vector<std::string> dispatcher_names();

}  // namespace tessera
