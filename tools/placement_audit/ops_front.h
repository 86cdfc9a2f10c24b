// tools/placement_audit/ops_front.h: the op table as C++: a typed function for each op, with its
// doc, in the sources of dtensor/front/.
#pragma once

#include <vector>

#include "strategies/rules/op.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// The built-in ones of `ops`: names.h, then a header and a source for each folder of
/// strategies/ops/, for ops in place and for gradients.
std::vector<Page> op_front(const std::vector<const Op*>& ops);

}  // namespace tessera::audit
