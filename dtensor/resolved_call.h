// dtensor/resolved_call.h: everything about a call that does not depend on the data: its local op,
// the specs of its results, and the moves before it. For this layer's sources only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "dtensor/dtensor.h"
#include "runtime/plan/execute.h"
#include "strategies/rules/aliasing.h"
#include "strategies/rules/local_op.h"

namespace tessera {

/// An operand that the chosen rows want elsewhere.
struct OperandMove {
  int operand = 0;
  const Spec* to = nullptr;
  std::int64_t bytes = 0;  ///< that all ranks together receive
  std::string why;
  bool communicates = false;
};

/// Everything about a call that does not depend on the data. Immutable once made.
struct ResolvedCall {
  /// A plain 0-d operand beside operands on a mesh: it counts as R there.
  struct Promotion {
    int operand = 0;
    const Spec* as = nullptr;
  };
  const Op* op = nullptr;
  Attrs attrs;                     ///< completed
  std::unique_ptr<LocalOp> local;  ///< null on a rank outside the mesh
  Communicator* group = nullptr;   ///< of a lowering's axes
  /// What each kWindow step of a lowering moves, by the step's number; null for other steps.
  std::vector<std::shared_ptr<const ExchangeBoxes>> windows;
  std::string group_axes;
  absl::InlinedVector<const Spec*, 3> inputs;  ///< as the kernel gets them; null where absent
  absl::InlinedVector<const Spec*, 2> outputs;
  absl::InlinedVector<Promotion, 1> promotions;
  absl::InlinedVector<OperandMove, 1> moves;
  std::string why;  ///< the rows that were chosen
  ViewAliasing view;
  /// Operands that are sums and pass as sums beside operands that have to be finite.
  absl::InlinedVector<int, 2> sums;
  bool lowered = false;
  bool mutates = false;
};

}  // namespace tessera
