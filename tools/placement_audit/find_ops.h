// tools/placement_audit/find_ops.h: from names on the command line to ops of a table.
#pragma once

#include <string>
#include <vector>

#include "strategies/op.h"

namespace tessera::audit {

/// The ops named, in that order; all of the table for no names. Errors: NotFound as
/// OpTable::find().
StatusOr<std::vector<const Op*>> find_ops(const OpTable& table,
                                          const std::vector<std::string>& names);

}  // namespace tessera::audit
