// program/solver/propagate_program.h: placements for every value of a program, and every move
// between them, from what is pinned: op by op as dispatch would choose, or the cheapest whole.
// docs/solver.md has the method and its limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/placement.h"
#include "placement/status.h"
#include "placement/topology.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

enum class PropagateMode : std::uint8_t {
  kGreedy,  ///< each call by the row that moves least as its operands then lie: what dispatch does
  kSolve    ///< the least cost of the program as a whole
};

/// What placements values may have, on one axis of their mesh or on all of them.
struct PlacementConstraint {
  std::string values;  ///< name, with "*" for any text: "layers.*.wq"; empty: any
  std::string module;  ///< of the value's, or of the step that makes it; empty: any
  std::string axis;    ///< label; empty: `allowed` has one placement for each axis of the mesh
  std::vector<Placement> placements;
  bool allowed = true;  ///< false: on this axis none of these
  std::string text;     ///< as it was written, for errors
};
/// "VALUES=S(0),R" pins all axes; "VALUES@tp=S(1)|R" and "VALUES@tp!=S(0)|P(sum)" say what one axis
/// may and may not be; "MODULE:VALUES…" restricts it to a module. Errors: InvalidArgument with the
/// text, what was seen and what is allowed.
StatusOr<PlacementConstraint> parse_constraint(const std::string& text);

/// What a unit of work costs where ranks repeat it.
struct ComputeRate {
  double tflops = 0.0;    ///< 10^12 operations a second of one rank; 0: compute is free
  double gb_per_s = 0.0;  ///< 10^9 bytes a second read and written by other ops; 0: free
};

struct PropagateOptions {
  PropagateMode mode = PropagateMode::kSolve;
  /// With kGreedy only of values that are there from the start: what calls make lies as they say.
  std::vector<PlacementConstraint> constraints = {};
  /// Prices of moves in µs; null: in bytes that all ranks together receive.
  const Topology* topology = nullptr;
  ComputeRate rate = {};
  std::optional<std::int64_t> memory_cap = {};  ///< bytes a rank, by memory_of()
  /// Stops with the best so far; null: after a fixed amount of work, alike on all machines.
  std::optional<double> time_limit_s = {};
};

/// Why a value lies where it lies.
struct PlacementChoice {
  std::string value;
  std::string made_by;  ///< "matmul", "input", "parameter"
  std::string module;
  std::string placements;   ///< "[S(0), R]"
  std::string next_best;    ///< what would come second; empty: nothing else is possible
  double next_costs = 0.0;  ///< more than the solution, all else chosen anew
};

struct PropagatedProgram {
  Program program;     ///< all values placed, all moves written as steps, marked implicit
  double cost = 0.0;   ///< of moves and compute, in µs with a topology, else in bytes
  double bound = 0.0;  ///< no assignment costs less
  double seconds = 0.0;
  bool is_exact = false;  ///< bound equals cost, by elimination
  std::int64_t num_variables = 0, num_states = 0;
  std::int64_t peak_bytes = 0;  ///< of the rank with most, by memory_of()
  std::vector<PlacementChoice> choices;
  /// (cost − bound) / cost; 0 where the cost is 0.
  double gap() const noexcept;
};

/// Values with placements keep them where they are inputs, parameters, states or buffers, or
/// results of redistributions that somebody wrote and of regions; placements of what calls make are
/// found. Implicit moves that `program` has are taken out first. Deterministic. Errors: those of
/// propagate() with the place of the step; InvalidArgument for a constraint that no value fits or
/// that leaves a value no placement; ResourceExhausted naming the least peak that was found where
/// no placement keeps the cap.
StatusOr<PropagatedProgram> propagate_program(const Program& program, const OpTable& ops,
                                              const PropagateOptions& options);

/// The program as free as it can be, on `mesh` in place of its one mesh: what it computes on one
/// rank or on replicas. Placements are dropped but for those of regions; moves that only change
/// placements are taken out. Errors: InvalidArgument for a program of several meshes.
StatusOr<Program> free_on_mesh(const Program& program, const ProgramMesh& mesh);

/// What a placed program costs by the same prices. Errors: FailedPrecondition for a value without
/// placements.
StatusOr<double> price_of(const Program& program, const OpTable& ops,
                          const PropagateOptions& options);

}  // namespace tessera
