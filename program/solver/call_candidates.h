// program/solver/call_candidates.h: all the ways in which one call may run: what each operand has
// to be, and what comes out. Internal to program/solver/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/rules/op.h"
#include "strategies/rules/propagate.h"

namespace tessera {

struct CallCandidate {
  std::vector<Spec> inputs;  ///< of operands on a mesh; others: the default
  std::vector<Spec> outputs;
  std::string why;
};

/// A call as the program has it. Shapes are global.
struct CandidateQuery {
  const Op* op = nullptr;
  const Attrs* attrs = nullptr;
  /// Per operand: its shape and dtype whole on its mesh; none where it is absent.
  std::vector<std::optional<Spec>> operands;
  /// Per operand: where it may come to lie when it is made. Rows that keep a Partial as it is count
  /// only where one may be there, and cuts in another order of axes than the mesh's likewise.
  std::vector<std::vector<Spec>> made;
};

/// At most so many are enumerated for a call; then rows of fewer axes at once are combined.
inline constexpr std::size_t kMostCandidates = 1024;

/// In the order of the op's rule, the first axis slowest, no two alike; never empty. Errors: those
/// of propagate().
StatusOr<std::vector<CallCandidate>> candidates_of(const CandidateQuery& query);

}  // namespace tessera
