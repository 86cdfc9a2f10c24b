// program/stablehlo/program_of_stablehlo.h: a program from StableHLO's text with Shardy's
// shardings, as jax prints it. docs/stablehlo.md says what becomes of each operation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

inline constexpr std::int64_t kMaxStablehloBytes = std::int64_t{64} << 20;

/// The program of @main, the functions that it calls in their places. Values without a sharding are
/// left free; in a module that was propagated they are whole everywhere, and what its calls move is
/// said, with_moves() of it. What no op of `ops` says is a region with a warning. `source` names
/// the text in errors. Errors: InvalidArgument "source:line:col: what was seen, what is allowed".
/// Cost: O(text · brackets in one another + operations, each function as often as it is called).
StatusOr<Program> program_of_stablehlo(std::string_view text, std::string_view source,
                                       const OpTable& ops);

}  // namespace tessera
