// program/solver/step_graph.h: a program with every round written out, without the moves that
// nobody wrote: what reads and makes what, and which steps are one and the same in equal rounds.
// Internal to program/solver/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera {

/// A call that its rule takes decides; all else has its placements, or none.
enum class StepKind : std::uint8_t {
  kCall,
  kMove,    ///< that somebody wrote
  kRegion,  ///< and calls of what is no op of the table
  kOther    ///< frees and host reads, which place nothing
};

struct ValueUse {
  int step = -1;
  int operand = -1;
  bool operator==(const ValueUse&) const = default;
};

struct SolverStep {
  StepKind kind = StepKind::kOther;
  int twin = -1;  ///< number of its kind of steps: equal for the same step of equal rounds
  const Op* op = nullptr;
  std::vector<int> operands;  ///< values in the op's order; -1: absent, or a number
  /// Per operand: what a number is, a plain 0-d tensor. Empty: none is one.
  std::vector<std::optional<Spec>> numbers;
  std::vector<int> results;  ///< values
  /// Of a region, per operand: how it takes what is made without placements.
  std::vector<std::optional<Layout>> taken;
  /// Per operand: the earlier use whose moved operand this one reads, as a gradient reads what its
  /// op read; step -1: the value itself. Empty: none does.
  std::vector<ValueUse> reads_as;
};

struct SolverValue {
  ProgramValue* value = nullptr;  ///< in StepGraph::program
  int made_by = -1;               ///< a step; -1: there before the first
  int result = 0;                 ///< which of its results
  std::vector<ValueUse> uses;     ///< in order; of calls, moves and regions
  int last_use = -1;              ///< step, of any kind
  int freed_at = -1;              ///< step that ends it; -1: none
  bool on_mesh() const noexcept { return value->mesh.has_value(); }
};

/// Pointers lead into `program`: it may be moved, not copied.
struct StepGraph {
  Program program;
  std::vector<SolverStep> steps;  ///< one for each of program.steps
  std::vector<SolverValue> values;
  int num_twins = 0;
  bool frees = false;  ///< the program says where memory ends

  const SolverStep& step(int index) const { return steps[static_cast<std::size_t>(index)]; }
  const SolverValue& value(int index) const { return values[static_cast<std::size_t>(index)]; }
  const AnyStep& written(int index) const { return program.steps[static_cast<std::size_t>(index)]; }
  /// "step 12 in layers.3.attn", for errors.
  std::string place(int step) const;
  Status at_step(int step, const Status& status) const;
  /// "matmul.other"
  std::string reader_of(const ValueUse& use) const;
};

/// Errors: those of unfold(); InvalidArgument for a call whose attributes do not fit its op.
StatusOr<StepGraph> make_step_graph(const Program& program, const OpTable& ops);

/// The program without implicit moves: who read what they made reads what they moved.
Program without_implicit_moves(Program program);

}  // namespace tessera
