// tools/placement_audit/executed/run_results.h: what came of a program, checked against what its
// document expects, and saved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"
#include "tools/placement_audit/executed/run_execute.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera::audit {

/// A result that is not what was expected.
struct Failure {
  std::string tensor;
  std::string text;
  std::optional<Shape> index = {};  ///< none where shape, dtype or placements differ
  Json got = {}, expected = {};
};

/// kFound: where results lie was the solver's to say.
enum class ExpectedPlacements : std::uint8_t { kChecked, kFound };

/// In the order of Program::expected; a tensor that is not among the results is a failure.
std::vector<Failure> check_all(const Program& program, const std::vector<RunResult>& results,
                               ExpectedPlacements placed);
Json json_of(const std::vector<Failure>& failures);
/// A line for each, and how many were as expected; empty where nothing is expected.
std::string failures_text(const Program& program, const std::vector<Failure>& failures);

/// Errors: those of write_safetensors().
Status save_results(const std::string& path, const std::vector<RunResult>& results);

}  // namespace tessera::audit
