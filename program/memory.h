// program/memory.h: what one rank of each pipeline stage holds over a step, by kind, and who holds
// most where it holds most. A value lives from its making to its `free`, or to its last use where
// the program frees nothing; what views share counts once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// kGradient: what an optimizer step reads and none made, and what was reduced or cast into it.
/// kGathered: copies of parameters that redistributions, gathers and casts make.
enum class MemoryKind : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kBuffer,
  kInput,
  kGathered,
  kActivation
};
inline constexpr std::size_t kMemoryKinds = 7;
/// "parameter", "gradient", "optimizer state", "buffer", "input", "gathered", "activation".
std::string_view name_of(MemoryKind kind) noexcept;

/// Bytes by kind.
using MemoryBytes = std::array<std::int64_t, kMemoryKinds>;

/// What is held at step `step`, its operands and results included.
struct MemoryPoint {
  std::int64_t step = 0;  ///< its number where every round is written out, from 0 on
  std::int64_t bytes = 0;
  MemoryBytes by_kind = {};
  bool operator==(const MemoryPoint&) const = default;
};

/// Equal values that are held at once: rounds of one name, or neighbours such as layers.0.w to
/// layers.31.w.
struct MemoryHolder {
  std::string name;    ///< of the first; "layers.*.w" where names differ in one number only
  std::string module;  ///< as `name`
  MemoryKind kind = MemoryKind::kActivation;
  std::int64_t bytes = 0;  ///< of all
  std::int64_t count = 1;
  bool operator==(const MemoryHolder&) const = default;
};

/// The ranks of one stage that are on the same meshes. Where no mesh says its stage, all steps are
/// one rank's, which runs its stages in turn.
struct StageMemory {
  std::optional<int> stage;
  std::int64_t first_rank = 0, ranks = 1;  ///< the first of them, and how many there are
  /// Of values each of which may be largest on another of these ranks where it is cut unevenly: no
  /// rank holds more.
  std::int64_t peak_bytes = 0;
  MemoryBytes at_peak = {};
  std::int64_t start_bytes = 0, end_bytes = 0;  ///< before the first step, after the last
  // The first step at which so much is held. Empty path: before the first.
  std::int64_t peak_step = 0;
  std::string peak_path;                  ///< "/steps/3/steps/0"
  std::vector<std::int64_t> peak_rounds;  ///< of the repeats around it, outermost first
  StepOrigin peak_origin;                 ///< module, site, phase
  std::vector<MemoryHolder> holders;      ///< at the peak, the largest first; at most 64
  std::vector<MemoryPoint> timeline;      ///< in order; at most 512, each peak among them
  std::int64_t unplaced = 0;              ///< values without placements yet that are counted whole
  bool operator==(const StageMemory&) const = default;
};

/// By stage, then by first rank; never empty. Views (OpDef::is_view), results that are written in
/// place and those of regions called "alias" share their operand's memory, results with a role that
/// of the argument with that role, shape and placements. Parameters, states and buffers that are
/// not freed stay. Of the rounds of a repeat a few are followed, and the others grow evenly between
/// them; only where steps name what other rounds made (docs/program.md) are all written out, to
/// which paths then refer. Not counted: what kernels and collectives need beside their operands and
/// results. Errors: OutOfRange beyond 2^63, for more than 1,024 stages and classes of ranks, and
/// where more than 5,000,000 steps would have to be followed; InvalidArgument for a value with a
/// count that is carried into; those of plain_rounds(), and of spec_of() but for values without
/// placements. Cost: O(steps as written), a few times as much within repeats.
StatusOr<std::vector<StageMemory>> memory_of(const Program& program, const OpTable& ops);

}  // namespace tessera
