// strategies/local_op.h: one rank's share of a resolved call: local attributes, output shapes, index maps.
// Made once per (op, specs, attrs, coord) and cached; run() is the hot path.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strategies/propagate.h"

namespace tessera {

/// Immutable after make(); may be shared by calls of one rank.
class LocalOp {
 public:
  static LocalOp make(const Op& op, Resolution resolution, const Attrs& attrs, Coord coord);

  /// Runs the kernel: allocates outputs (in-place ones alias), makes index operands local where a `#` factor is cut,
  /// writes results to `outputs`. Requires lowering_steps().empty().
  void run(KernelContext& ctx, std::span<const Array> inputs, std::span<Array> outputs) const;

  /// Steps to interpret where the chosen row has a lowering (dtensor/ with a communicator, the verifier on a vector of
  /// ranks). Temporaries 0 … inputs−1 are the operands, then the outputs (preallocated by allocate_outputs).
  const std::vector<LoweringStep>& lowering_steps() const noexcept { return steps_; }
  void run_step(KernelContext& ctx, const LoweringStep& step, std::span<Array> temporaries) const;
  void allocate_outputs(KernelContext& ctx, std::span<const Array> inputs,
                        std::span<Array> outputs) const;

  const Op& op() const noexcept { return *op_; }
  const Resolution& resolution() const noexcept { return resolution_; }
  const Attrs& local_attrs() const noexcept { return local_attrs_; }

 private:
  /// An index operand whose values address a cut dim of another operand.
  struct IndexMap {
    int index_operand = 0;
    int addressed_operand = 0;
    int addressed_dim = 0;
  };
  Array localize_index(KernelContext& ctx, const IndexMap& map, const Array& index) const;

  const Op* op_ = nullptr;
  Resolution resolution_;
  Attrs local_attrs_;
  Coord coord_;
  std::vector<Shape> output_shapes_;
  std::vector<IndexMap> index_maps_;
  std::vector<LoweringStep> steps_;
  std::vector<OperandView> input_views_;
  std::vector<OperandView> output_views_;
};

}  // namespace tessera
