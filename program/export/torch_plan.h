// program/export/torch_plan.h: what a placed program asks of PyTorch's modules: where parameters
// and inputs lie, and what moves at which module's border. Internal to program/export/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/export/value_flow.h"
#include "program/program.h"

namespace tessera {

struct TorchTensor {
  std::string name;  ///< in PyTorch's form, dots between modules
  ValueRole role = ValueRole::kParameter;
  Placements kept;
  std::optional<Placements> used;  ///< by the forward pass, where it is another
};

/// What happens at a module's border.
struct TorchBorder {
  /// The last one: redistributions alone.
  enum class Style : std::uint8_t { kColwise, kRowwise, kSequence, kPrepareInput, kMoves };
  std::string module;
  Style style = Style::kMoves;
  std::optional<Placements> given, wanted;  ///< its input as it comes, and as it is used
  std::optional<Placements> returned;       ///< its result as others use it
  bool enters_moved = false, leaves_moved = false;
  /// Gradients of the result come back as the result lies: torch cannot turn a sum of theirs into a
  /// look-up's masked one.
  bool settles_gradient = false;
};

struct TorchPlan {
  Mesh mesh;
  std::vector<TorchTensor> tensors;  ///< parameters and buffers, then inputs
  std::vector<TorchBorder> borders;
  std::vector<std::string> modules;  ///< all that the forward pass runs
  /// Redistributions of the forward pass that are at no border, or not alone there, each with its
  /// values and where they lie.
  std::vector<std::string> left;
};

/// Styles are those of tensor parallelism where the mesh has one axis, else moves alone. Errors:
/// InvalidArgument for values on several meshes, a mesh that does not begin with rank 0, and a
/// parameter or an input that no list of placements says. Cost: O(steps · depth of modules).
StatusOr<TorchPlan> torch_plan(const ValueFlow& flow);

}  // namespace tessera
