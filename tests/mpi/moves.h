// tests/mpi/moves.h: redistributions of all kinds, and values whose bits show how they were folded.
#pragma once

#include <memory>
#include <vector>

#include "kernels/bfloat16.h"
#include "runtime/plan/execute.h"

namespace tessera::testing {

using Texts = std::vector<const char*>;

/// How a tensor is placed before and after it.
struct Move {
  Shape mesh;
  Texts from, to;
};
inline std::vector<Move> moves_on(std::int64_t ranks) {
  std::vector<Move> moves = {{{ranks}, {"S(0)"}, {"S(1)"}},   {{ranks}, {"S(0)"}, {"R"}},
                             {{ranks}, {"P(sum)"}, {"S(0)"}}, {{ranks}, {"P(avg)"}, {"S(1)"}},
                             {{ranks}, {"P(max)"}, {"R"}},    {{ranks}, {"P(sum)"}, {"R"}},
                             {{ranks}, {"R"}, {"S(1)"}},      {{ranks}, {"O(0)"}, {"R"}},
                             {{ranks}, {"P(sum)"}, {"O(0)"}}, {{ranks}, {"S(1)"}, {"O(0)"}}};
  if (ranks == 4) {
    moves.push_back({{4}, {"O(3)"}, {"O(1)"}});
    moves.push_back({{2, 2}, {"S(0)", "O(1)"}, {"O(0)", "S(1)"}});
    moves.push_back({{2, 2}, {"S(0)", "S(1)"}, {"S(1)", "S(0)"}});
    moves.push_back({{2, 2}, {"SS(0,2)", "S(0)"}, {"S(0)", "S(0)"}});
    moves.push_back({{2, 2}, {"P(sum)", "S(0)"}, {"S(0)", "S(0)"}});
    moves.push_back({{2, 2}, {"P(sum)", "S(0)"}, {"S(1)", "P(sum)"}});
    moves.push_back({{2, 2}, {"P(sum)", "P(sum)"}, {"S(1)", "R"}});
  }
  return moves;
}

inline Spec spec_of(const Move& move, const Texts& texts, const Shape& shape, DType dtype) {
  Placements placements;
  for (const char* text : texts) placements.push_back(value_or_throw(parse_placement(text)));
  return value_or_throw(
      Spec::make(value_or_throw(Mesh::make(view_of(move.mesh))), shape, dtype, placements));
}
inline Plan plan_of(const Move& move, const Shape& shape, DType dtype, std::int64_t pack_bytes) {
  return value_or_throw(plan(spec_of(move, move.from, shape, dtype),
                             spec_of(move, move.to, shape, dtype), {.pack_bytes = pack_bytes}));
}

/// Values whose sums are rounded, so that the order of a fold shows in the bits.
inline Array part_of(const Spec& spec, std::int64_t rank,
                     const std::shared_ptr<Allocator>& allocator) {
  const Shape shape = spec.local_shape(*spec.mesh().coord_of(rank));
  const Array part = Array::empty(shape, spec.dtype(), allocator);
  for (std::int64_t i = 0; i < part.num_elements(); ++i) {
    const float value = 1.0f / static_cast<float>(1 + (i * 7 + rank * 131) % 509);
    if (spec.dtype() == DType::kF32) {
      part.data<float>()[i] = value;
    } else {
      part.data<BFloat16>()[i] = BFloat16(value);
    }
  }
  return part;
}

}  // namespace tessera::testing
