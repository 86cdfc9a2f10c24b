// strategies/ops/steps.h: a lowering's steps (strategies/rules/op.h), written with a name for each
// value in place of its number.
#pragma once

#include <utility>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

class Steps {
 public:
  /// An operand of the op, a result of it, or a value that only the steps have.
  struct Value {
    int number = 0;
  };
  using Values = std::vector<Value>;

  Steps(int num_operands, int num_results)
      : num_operands_(num_operands), num_results_(num_results) {}

  Value operand(int i) const { return {i}; }
  Value result(int i = 0) const { return {num_operands_ + i}; }
  Values operands() const { return counted(0, num_operands_); }
  Values results() const { return counted(num_operands_, num_results_); }
  /// A new one, for steps to write.
  Value value() { return {num_operands_ + num_results_ + num_values_++}; }

  /// Each rank's own part. The kernel gets `in`; results among `out` are there, other values it
  /// makes.
  void local(const Values& in, const Values& out, Kernel kernel);
  /// Each of `in`, reduced over the ranks, to `out`; or in place.
  void all_reduce(const Values& in, const Values& out, ReduceOp op);
  void all_reduce(const Values& values, ReduceOp op) { all_reduce(values, values, op); }
  /// Every rank's, one after another along dim 0, in the order of coords.
  Value gather(Value own);
  /// Of an operand, what `windows` says of each rank, wherever it lies along `dim` (from the end
  /// where negative).
  Value window(Value operand, int dim, WindowFn windows);

  std::vector<LoweringStep> take() && { return std::move(steps_); }

 private:
  static Values counted(int first, int count);

  int num_operands_, num_results_, num_values_ = 0;
  std::vector<LoweringStep> steps_;
};

/// All that an op whose results are made of windows of its first operand does: `make` gets the
/// operands, then this rank's window.
std::vector<LoweringStep> window_steps(Steps steps, int dim, WindowFn windows, Kernel make);

}  // namespace tessera::ops
