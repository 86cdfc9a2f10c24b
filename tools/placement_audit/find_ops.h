// tools/placement_audit/find_ops.h: the op table of a request, and from names on the command line
// to its ops.
#pragma once

#include <string>
#include <vector>

#include "strategies/rules/op.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// The built-in ops and the program's own. Errors: those of Request::add_ops.
StatusOr<OpTable> op_table(const Request& request);
/// The ops named, in that order; all of the table for no names. Errors: NotFound as
/// OpTable::find().
StatusOr<std::vector<const Op*>> find_ops(const OpTable& table,
                                          const std::vector<std::string>& names);

/// What authors changed about an op, a text each.
Json amendments_of(const OpDef& def);

}  // namespace tessera::audit
