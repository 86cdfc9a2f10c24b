// program/program.h: a training or inference step as a value: meshes, values on them, and the steps
// in the order in which one rank of each pipeline stage takes them. Read, written, priced and
// compared with no device. docs/program.md has the JSON of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/json.h"
#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/layout.h"
#include "placement/mesh.h"
#include "placement/plan.h"
#include "placement/plan_cost.h"
#include "placement/shape.h"
#include "placement/spec.h"

namespace tessera TSR_API {

struct ProgramMesh {
  std::string name;
  Mesh mesh;
  std::optional<int> stage;  ///< of the pipeline, where the mesh is one stage's
  /// Index in Program::meshes of the mesh that this one is a slice of, by names of axes. Its steps
  /// are those of every slice alike: one for each coord on the other axes.
  std::optional<int> of = {};
  bool operator==(const ProgramMesh&) const = default;
};

/// kTemporary: what a step makes; the others are there before the first step, or take their place.
enum class ValueRole : std::uint8_t { kTemporary, kInput, kParameter, kState, kBuffer };
std::string_view name_of(ValueRole role) noexcept;

struct ProgramValue {
  std::string name;
  Shape global_shape;
  DType dtype = DType::kF32;
  std::optional<int> mesh;       ///< index in Program::meshes; none: a plain value
  std::optional<Layout> layout;  ///< none: left to the solver, or plain
  ValueRole role = ValueRole::kTemporary;
  std::string module = {};
  /// Axes outside of its mesh along which ranks may hold different ones. The shape of a plain value
  /// that varies is one rank's.
  std::vector<std::string> varies = {};
  std::int64_t count = 1;  ///< of so many rounds of a repeat, each has one of its own
  bool operator==(const ProgramValue&) const = default;
};

/// One collective. Units: bytes received, of the rank with most and of all ranks.
struct ProgramMove {
  std::string collective;  ///< one of move_names()
  std::vector<std::string> axes;
  std::int64_t ranks = 1;  ///< that take part in one of its groups
  Volume bytes;
  bool operator==(const ProgramMove&) const = default;
};
const std::vector<std::string>& move_names();

enum class StepPhase : std::uint8_t { kForward, kRecompute, kBackward, kOptimizer };
std::string_view name_of(StepPhase phase) noexcept;

/// Where a step comes from. Empty and none: not said.
struct StepOrigin {
  std::string module, site;
  std::optional<StepPhase> phase;
  std::optional<int> stage;
  std::optional<std::int64_t> micro_batch;
  std::string from = {};  ///< the op's foreign name
  std::optional<double> time_us = {};
  bool operator==(const StepOrigin&) const = default;
};

/// Arguments are JSON: names of values, numbers, nulls, lists of these.
struct CallStep {
  std::string op;
  Json::Array args;
  Json::Object attrs;
  std::vector<ProgramValue> out;
  std::string row;  ///< the rule row that was used, as printed; empty where it is not known
  std::vector<ProgramMove> moves = {};  ///< what the op's own kernel moved
  bool operator==(const CallStep&) const = default;
};

/// `out` has the source's shape and dtype, and varies as it does.
struct MoveStep {
  std::string value;
  ProgramValue out;
  bool implicit = false;                          ///< a dispatcher of ops did it, nobody wrote it
  std::string needed_by;                          ///< the op's operand it was for, "matmul.other"
  std::optional<std::vector<ProgramMove>> moves;  ///< none: as the planner has it (moves_of())
  bool operator==(const MoveStep&) const = default;
};

/// Work that is no op of the table: kernels of local tensors, foreign ops, plain collectives.
struct RegionStep {
  std::string name;
  Json::Array args;
  std::vector<ProgramValue> out;
  std::optional<std::int64_t> flops, bytes;
  std::vector<ProgramMove> moves;
  std::string warning;
  bool operator==(const RegionStep&) const = default;
};

/// The memory of these values ends.
struct FreeStep {
  std::vector<std::string> values;
  bool operator==(const FreeStep&) const = default;
};

struct HostReadStep {
  std::string value;
  std::int64_t bytes = 0;
  std::string why;
  bool operator==(const HostReadStep&) const = default;
};

struct AnyStep;

/// `steps`, `count` times. A name that a round gives stands for that round's own value, and after
/// the repeat for the last round's. Rounds are numbered from `first` on, up or down, and one "*" in
/// a name or a module is the round's number, "*-1" in an argument the number below it: what a round
/// made has a name of its own, by which later steps may name it.
struct RepeatStep {
  std::int64_t count = 1;
  std::int64_t first = 0;
  std::int64_t by = 1;  ///< or -1: from a round's number to the next one's
  std::string as;
  std::vector<AnyStep> steps;
  /// First: a name at the begin of every round but the first; second: the round before's name.
  std::vector<std::pair<std::string, std::string>> carry;
  bool operator==(const RepeatStep& other) const;
};

struct AnyStep {
  std::variant<CallStep, MoveStep, RegionStep, FreeStep, HostReadStep, RepeatStep> what;
  StepOrigin origin = {};  ///< not of a free or a repeat
  bool operator==(const AnyStep&) const = default;
};

struct ProgramSource {
  std::string kind;  ///< torch, train, stablehlo, program
  std::string by, command;
  bool operator==(const ProgramSource&) const = default;
};

struct Program {
  std::string name;
  ProgramSource source;
  std::string routing;  ///< balanced, worst or a file's name, where sizes depend on data
  std::int64_t ranks = 1;
  std::vector<ProgramMesh> meshes;
  std::vector<std::string> warnings = {};  ///< of the program as a whole
  std::vector<ProgramValue> values;        ///< there before the first step
  std::vector<AnyStep> steps;
  bool operator==(const Program&) const = default;
};

/// Where a value lies. Errors: FailedPrecondition where it has no placements yet; those of
/// Spec::make().
StatusOr<Spec> spec_of(const Program& program, const ProgramValue& value);

/// Meshes alike, of other ranks, that take the same steps; 1 where the mesh is no slice.
std::int64_t slices_alike(const Program& program, const ProgramMesh& mesh);

/// What a plan moves: its steps but the local ones.
std::vector<ProgramMove> moves_of(const Plan& plan);
/// What a redistribution of `value` moves: the planner's steps but the local ones; totals are of
/// all slices alike. Errors: those of spec_of() and plan(); OutOfRange beyond 2^63 bytes.
StatusOr<std::vector<ProgramMove>> moves_of(const Program& program, const ProgramValue& value,
                                            const ProgramValue& out);

}  // namespace tessera
