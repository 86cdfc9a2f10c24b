#include "strategies/verify/verify_lowering.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/rules/window.h"
#include "strategies/verify/verify_data.h"

namespace tessera {
namespace {

using Temporaries = std::vector<std::vector<Array>>;  // [rank][temporary]

kernels::Binary fold_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return kernels::Binary::kMul;
    case ReduceOp::kMax:
      return kernels::Binary::kMaximum;
    case ReduceOp::kMin:
      return kernels::Binary::kMinimum;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return kernels::Binary::kAdd;
}

Array folded(KernelContext& ctx, ReduceOp op, const std::vector<Array>& parts) {
  Array total = Array::empty(parts[0].shape(), parts[0].dtype(), ctx.allocator);
  kernels::copy(ctx, parts[0], total);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    kernels::binary(ctx, fold_of(op), total, parts[i], total);
  }
  return total;
}

/// `pieces` one after the other along `dim`; of `like`'s shape but for that dim.
Array concatenated(KernelContext& ctx, int dim, const Array& like,
                   const std::vector<Array>& pieces) {
  Shape shape = like.shape();
  const int along = dim < 0 ? dim + like.ndim() : dim;
  std::int64_t& size = shape[static_cast<std::size_t>(along)];
  size = 0;
  for (const Array& piece : pieces) size += piece.size(along);
  Array joined = Array::empty(shape, like.dtype(), ctx.allocator);
  std::int64_t at = 0;
  for (const Array& piece : pieces) {
    kernels::copy(ctx, piece, joined.slice(along, at, at + piece.size(along)));
    at += piece.size(along);
  }
  return joined;
}

/// All ranks of one call.
class Ranks {
 public:
  Ranks(const Op& op, const Resolution& resolution, const Attrs& attrs, const Mesh& mesh,
        KernelContext ctx)
      : mesh_(mesh), coords_(coords_of(mesh)), ctx_(std::move(ctx)) {
    for (const Coord& coord : coords_)
      locals_.push_back(LocalOp::make(op, resolution, attrs, coord));
  }

  std::vector<std::vector<Array>> run(const std::vector<std::vector<Array>>& inputs,
                                      std::size_t num_outputs);

 private:
  struct Group {
    std::vector<Coord> coords;
    std::vector<std::size_t> ranks;
    std::size_t self = 0;  ///< this rank's place
  };
  void interpret(Temporaries& temporaries);
  void communicate(const LoweringStep& step, Temporaries& temporaries);
  Array received(const LoweringStep& step, int from, std::size_t rank,
                 const Temporaries& temporaries);
  Array window(const LoweringStep& step, std::size_t rank, const Temporaries& temporaries);
  Group group_of(std::size_t rank) const;

  const Mesh& mesh_;
  std::vector<Coord> coords_;
  std::vector<LocalOp> locals_;
  std::vector<Group> groups_;
  KernelContext ctx_;
};

std::vector<std::vector<Array>> Ranks::run(const std::vector<std::vector<Array>>& inputs,
                                           std::size_t num_outputs) {
  std::vector<std::vector<Array>> results;
  Temporaries temporaries;
  const bool lowered = locals_[0].resolution().lowering >= 0;
  for (std::size_t r = 0; r < coords_.size(); ++r) {
    std::vector<Array>& outputs = results.emplace_back(num_outputs);
    if (!lowered) {
      locals_[r].run(ctx_, inputs[r], outputs);
      continue;
    }
    locals_[r].allocate_outputs(ctx_, inputs[r], outputs);
    std::vector<Array>& own = temporaries.emplace_back(inputs[r]);
    own.insert(own.end(), outputs.begin(), outputs.end());
    own.resize(static_cast<std::size_t>(locals_[r].num_temporaries()));
  }
  if (!lowered) return results;
  interpret(temporaries);
  for (std::size_t r = 0; r < coords_.size(); ++r) {
    for (std::size_t o = 0; o < num_outputs; ++o) {
      results[r][o] = temporaries[r][inputs[r].size() + o];
    }
  }
  return results;
}

void Ranks::interpret(Temporaries& temporaries) {
  for (std::size_t r = 0; r < coords_.size(); ++r) groups_.push_back(group_of(r));
  const std::size_t num_steps = locals_[0].lowering_steps().size();
  for (std::size_t s = 0; s < num_steps; ++s) {
    const LoweringStep& step = locals_[0].lowering_steps()[s];
    if (step.kind != LoweringStep::Kind::kLocal) {
      communicate(step, temporaries);
      continue;
    }
    for (std::size_t r = 0; r < coords_.size(); ++r) {
      // A step's function may hold this rank's attributes.
      locals_[r].run_step(ctx_, locals_[r].lowering_steps()[s], temporaries[r]);
    }
  }
}

Ranks::Group Ranks::group_of(std::size_t rank) const {
  Group group;
  group.coords = group_coords(mesh_, coords_[rank], locals_[0].lowering_axes());
  for (const Coord& coord : group.coords) {
    const auto at = std::find(coords_.begin(), coords_.end(), coord);
    group.ranks.push_back(static_cast<std::size_t>(at - coords_.begin()));
    if (group.ranks.back() == rank) group.self = group.ranks.size() - 1;
  }
  return group;
}

void Ranks::communicate(const LoweringStep& step, Temporaries& temporaries) {
  for (std::size_t i = 0; i < step.in.size(); ++i) {
    std::vector<Array> results;
    for (std::size_t r = 0; r < coords_.size(); ++r) {
      results.push_back(received(step, step.in[i], r, temporaries));
    }
    const int out = step.out.empty() ? step.in[i] : step.out[i];
    for (std::size_t r = 0; r < results.size(); ++r) {
      temporaries[r][static_cast<std::size_t>(out)] = results[r];
    }
  }
}

Array Ranks::received(const LoweringStep& step, int from, std::size_t rank,
                      const Temporaries& temporaries) {
  if (step.kind == LoweringStep::Kind::kWindow) return window(step, rank, temporaries);
  std::vector<Array> parts;
  for (const std::size_t peer : groups_[rank].ranks) {
    parts.push_back(temporaries[peer][static_cast<std::size_t>(from)]);
  }
  if (step.kind == LoweringStep::Kind::kReduce) return folded(ctx_, step.reduce, parts);
  return concatenated(ctx_, step.dim, parts[0], parts);
}

Array Ranks::window(const LoweringStep& step, std::size_t rank, const Temporaries& temporaries) {
  const Group& group = groups_[rank];
  const auto operand = static_cast<std::size_t>(step.in[0]);
  std::vector<Array> pieces;
  std::int64_t missing = 0;
  for (const Interval& wanted : locals_[rank].windows_of(step, coords_[rank])) {
    missing += std::max<std::int64_t>(0, wanted.stop - wanted.start);
  }
  for (const WindowPiece& piece : window_pieces(locals_[rank], step, group.coords, group.self)) {
    const Array& held = temporaries[group.ranks[piece.holder]][operand];
    const int dim = step.dim < 0 ? step.dim + held.ndim() : step.dim;
    pieces.push_back(held.slice(dim, piece.run.src, piece.run.src + piece.run.size));
    missing -= piece.run.size;
  }
  if (missing != 0) {
    throw Error(internal_error("rank " + std::to_string(rank) + " asks for a window of which " +
                               std::to_string(missing) + " elements lie nowhere"));
  }
  return concatenated(ctx_, step.dim, temporaries[rank][operand], pieces);
}

}  // namespace

std::vector<std::vector<Array>> run_ranks(const Op& op, const Resolution& resolution,
                                          const Attrs& attrs, const Mesh& mesh,
                                          const std::vector<std::vector<Array>>& operands,
                                          const KernelContext& ctx) {
  std::vector<std::vector<Array>> inputs(static_cast<std::size_t>(mesh.num_ranks()));
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (std::size_t i = 0; i < resolution.inputs.size(); ++i) {
      inputs[r].push_back(i < operands.size() ? operands[i][r] : Array());
    }
  }
  return Ranks(op, resolution, attrs, mesh, ctx).run(inputs, resolution.outputs.size());
}

}  // namespace tessera
