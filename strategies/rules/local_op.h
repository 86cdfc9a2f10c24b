// strategies/rules/local_op.h: one rank's share of a resolved call: local attributes, output
// shapes, index maps. Made once per (op, specs, attrs, coord) and cached; run() is the hot path.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/positions.h"
#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

/// Immutable after make(); copies share their state, and may be used by calls of one rank.
class LocalOp {
 public:
  /// `coord` is this rank's on the mesh of the results (empty for plain tensors).
  static LocalOp make(const Op& op, Resolution resolution, const Attrs& attrs, Coord coord);

  /// Runs the kernel: allocates outputs that are null (in-place ones alias), makes index operands
  /// local where a
  /// `#` factor is cut, writes results to `outputs`. Requires lowering_steps().empty(). Throws
  /// Error(OutOfRange) for an index outside the global dim that it addresses, on every rank.
  void run(KernelContext& ctx, std::span<const Array> inputs, std::span<Array> outputs) const;

  /// Steps to interpret where the chosen row has a lowering (dtensor/ with a communicator, the
  /// verifier on a vector of ranks). Temporaries 0 … inputs−1 are the operands, then the outputs
  /// (preallocated by allocate_outputs), then what the steps make. kReduce folds temporary in[0]
  /// over the ranks that differ on lowering_axes() only, into out[i]; kGather concatenates those
  /// ranks' in[0] along `dim` in coord order (row-major over the axes).
  const std::vector<LoweringStep>& lowering_steps() const noexcept { return state_->steps; }
  const std::vector<int>& lowering_axes() const noexcept {
    return state_->resolution.lowering_axes;
  }
  int num_temporaries() const noexcept { return state_->num_temporaries; }
  /// What rank `coord` of the group needs for a kWindow step, as global intervals of its dim.
  std::vector<Interval> windows_of(const LoweringStep& step, const Coord& coord) const;
  /// What rank `coord` holds of that dim.
  std::vector<Interval> intervals_of(const LoweringStep& step, const Coord& coord) const;
  void run_step(KernelContext& ctx, const LoweringStep& step, std::span<Array> temporaries) const;
  void allocate_outputs(KernelContext& ctx, std::span<const Array> inputs,
                        std::span<Array> outputs) const;

  const Op& op() const noexcept { return *state_->op; }
  const Resolution& resolution() const noexcept { return state_->resolution; }
  const Attrs& local_attrs() const noexcept { return state_->local_attrs; }

 private:
  /// An index operand whose values address a cut dim of another operand (or result, numbered after
  /// the operands).
  struct IndexMap {
    int index_operand = 0;
    int addressed_operand = 0;
    int addressed_dim = 0;
    kernels::HeldPart part;  ///< this rank's of the dim
  };
  struct State {
    const Op* op = nullptr;
    Resolution resolution;
    Attrs global_attrs;
    Attrs local_attrs;
    Coord coord;                      ///< on the mesh of the results
    std::vector<Coord> input_coords;  ///< on each operand's own mesh
    std::vector<Shape> output_shapes;
    std::vector<IndexMap> index_maps;
    std::vector<LoweringStep> steps;
    int num_temporaries = 0;
    std::vector<OperandView> input_views;
    std::vector<OperandView> output_views;
  };
  static void find_index_maps(State& state);
  Array localize_index(KernelContext& ctx, const IndexMap& map, const Array& index) const;

  std::shared_ptr<const State> state_;
};

}  // namespace tessera
