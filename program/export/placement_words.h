// program/export/placement_words.h: how a value lies, in words of tables. Internal to
// program/export/ and what prints it.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace tessera {

/// One text for each axis of the value's mesh, "S(0)"; a single one, "[tp, 2*] []", where no list
/// of placements says the layout; none for a plain value. Requires a value that is placed.
std::vector<std::string> placements_by_axis(const Program& program, const ProgramValue& value);
/// "(S(0), R)", "S(0)" on a mesh of one axis, "plain".
std::string placements_in_words(const Program& program, const ProgramValue& value);
/// "F32 8x6"
std::string type_in_words(const ProgramValue& value);
/// With "*" for each number between dots, and for one at the end: "layers.*.wq", "mm.*" of "mm.3".
std::string without_numbers(const std::string& name);

}  // namespace tessera
