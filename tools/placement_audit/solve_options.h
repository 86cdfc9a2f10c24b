// tools/placement_audit/solve_options.h: the flags of solve.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// Adds --mode, --free, --mesh, --pin, --topology, --tflops, --gb-per-s and --time-limit, whose
/// values are checked as they are read. Requires a request that lives as long as the app.
void add_solve_options(CLI::App& command, Request& request);

/// --pin alone, which may be repeated.
CLI::Option* add_pins(CLI::App& command, Request& request);

/// --time-limit alone.
CLI::Option* add_time_limit(CLI::App& command, Request& request);

/// "dp=8,tp=8": axes and their sizes. Errors: InvalidArgument with the text and what is allowed.
StatusOr<Mesh> parse_mesh_axes(std::string_view text);

}  // namespace tessera::audit
