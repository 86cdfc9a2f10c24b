// tools/placement_audit/layout_picture.h: a 1-D or 2-D tensor as a grid of cells in a terminal.
// A band is a stretch of one dim that the same ranks hold; a cell is where two bands meet.
#pragma once

#include <string>

#include "placement/spec.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// The grid, each cell with the ranks that hold it, and a legend of ranks. Errors: InvalidArgument
/// for more than two dims, or for more ranks or bands than a picture can show.
StatusOr<std::string> layout_picture(const Spec& spec, Colour colour);

}  // namespace tessera::audit
