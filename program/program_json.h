// program/program_json.h: the JSON form of programs, version 1, both ways.
// docs/program.md says what each key means.
#pragma once

#include <string>
#include <string_view>

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

inline constexpr std::int64_t kMaxProgramTextBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kMaxProgramSteps = 200'000;  ///< as written, bodies once
inline constexpr std::int64_t kMaxProgramValues = 1'000'000;
inline constexpr std::int64_t kMaxRepeats = 1'000'000;
inline constexpr int kMaxRepeatDepth = 4;

/// A program whose every name is a value that was there or made before, once, and not yet freed,
/// whose layouts fit their meshes and whose ops are in `ops`. `source` names the text in errors.
/// Errors: InvalidArgument "source: /path: what was seen, what is allowed"; those of JsonDocument.
/// Cost: O(text); memory a small multiple of the text's size.
StatusOr<Program> read_program(std::string_view text, std::string_view source, const OpTable& ops);

/// One line for each value and each step. Equal programs give equal bytes, and what read_program()
/// reads from them is the same program. Requires: indices of meshes that are there.
std::string write_program(const Program& program);

}  // namespace tessera
