// tools/placement_audit/executed/run_program.h: a program of ops on cut tensors as JSON gives it,
// read and checked as a whole before anything runs: names, ops, attributes, shapes, placements,
// histories. Its tensors have slots: first the inputs, then what the steps name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/json.h"
#include "io/placement_json.h"
#include "kernels/array.h"
#include "strategies/rules/propagate.h"
#include "tools/placement_audit/run_values.h"

namespace tessera::audit {

/// Ranks are threads of this process.
inline constexpr std::int64_t kMaxProgramRanks = 64;
inline constexpr JsonBound kProgramSteps = {10'000, "steps"};
inline constexpr JsonBound kProgramInputs = {10'000, "tensors"};  ///< and what is expected of them
/// Units: bytes of all tensors together, had every rank the whole of each.
inline constexpr std::int64_t kMaxProgramBytes = std::int64_t{8} << 30;

struct ProgramTensor {
  std::string name;
  Spec spec;
};

struct ProgramInput {
  /// Where its elements come from: a file, the document as a whole, or as each rank's array.
  enum class From { kFile, kWhole, kLocals };
  From from = From::kFile;
  std::vector<Array> arrays;  ///< kWhole: one; kLocals: one for each rank of the mesh, row-major
  bool needs_grad = false;    ///< a backward step asks for its gradient
};

/// A tensor, a number on every rank, or neither: an optional operand that is absent.
struct ProgramOperand {
  int slot = -1;
  std::optional<ProgramTensor> number;  ///< "0.5 (/program/3, operand 1)", and its spec
  Array value;                          ///< 0-d
};
struct OpStep {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<ProgramOperand> operands;
  std::vector<int> results;  ///< a slot each, or −1 where nobody names it
  /// The results are written into these tensors, which are there already (out=).
  bool into = false;
  std::vector<ForcedRow> forced;
};
struct RedistributeStep {
  int slot = -1;
  Spec to;
  int result = -1;
};
struct BackwardStep {
  int root = -1;
  int cotangent = -1;       ///< −1: ones
  std::vector<int> inputs;  ///< whose gradients are asked for
};
/// What a step of a region takes: one of its local tensors, a number, or neither.
struct LocalOperand {
  int local = -1;
  Array number;  ///< 0-d; null: an optional operand that is absent
};
/// A call on plain local tensors; or, without an op, the sum of one over mesh axes.
struct LocalStep {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<LocalOperand> operands;
  std::vector<int> results;  ///< a local tensor each, or −1 where nobody names it
  std::vector<int> axes;
  bool each_alike = false;  ///< of the sum: every rank goes on alike with it
};
/// A region of plain local tensors, numbered: first its arguments, then what its steps name.
struct LocalMapStep {
  struct Argument {
    int slot = -1;
    Placements placements;
    std::vector<std::optional<Placement>> grad;
    bool may_move = false;  ///< where it lies otherwise; else that is an error
  };
  struct Result {
    int local = -1;
    int slot = -1;
    Placements placements;
    std::vector<std::optional<Placement>> grad;
  };
  std::string region;
  Mesh mesh;
  std::vector<Argument> arguments;
  std::vector<LocalStep> body;
  int num_locals = 0;
  std::vector<Result> results;
  bool differentiable = true;  ///< every op on the way to a result has a gradient
};
struct RunStep {
  std::string place;  ///< "file: /program/3", for errors while it runs
  std::variant<OpStep, RedistributeStep, BackwardStep, LocalMapStep> what;
};

/// The numbers among the operands of a call; of another step none. Borrows the step.
std::vector<const ProgramOperand*> numbers_of(const RunStep& step);

/// What a result has to be.
struct ExpectedTensor {
  int slot = -1;
  bool gradient = false;  ///< of the input in that slot
  std::optional<Placements> placements;
  Array values;  ///< their shape and dtype are expected too
  Tolerance tolerance;
};

/// Ops and attribute names are borrowed from the table that it was read with.
struct Program {
  Mesh mesh;
  std::int64_t num_ranks = 1;  ///< of all meshes
  bool checked = false;        ///< run in checked mode
  std::vector<ProgramTensor> tensors;
  std::vector<ProgramInput> inputs;  ///< of the first slots
  std::vector<RunStep> steps;
  std::vector<int> results;    ///< slots that steps name, in order, each once
  std::vector<int> gradients;  ///< slots of inputs, in order, each once
  std::vector<ExpectedTensor> expected;
};

/// "grad.x"
std::string gradient_name(std::string_view input);

/// Shape and dtype of a tensor that the document does not spell out. None: it states them, and
/// there are no values.
using TensorTypes = std::function<StatusOr<TensorType>(std::string_view name)>;

/// Errors: InvalidArgument or NotFound "source: /place: …" for anything that is malformed, unknown,
/// used before it is made, or does not fit; those of propagate().
StatusOr<Program> read_program(const JsonView& root, const OpTable& table,
                               const TensorTypes& types);

}  // namespace tessera::audit
