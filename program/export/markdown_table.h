// program/export/markdown_table.h: where the values of a placed program lie, as a table for people.
#pragma once

#include <string>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// A page: the meshes; parameters, states, buffers and inputs; what steps make; a line for each
/// group of value_groups() with placements by mesh axis, bytes that one takes on a rank, and what
/// moves into and out of all of them. Errors and cost: those of value_groups().
StatusOr<std::string> markdown_of(const Program& program);

}  // namespace tessera
