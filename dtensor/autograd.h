// dtensor/autograd.h: the recorded history: nodes that turn cotangents of results into cotangents
// of operands. Nodes run in reverse order of their making, which is the same on every rank; nothing
// here recurses.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "dtensor/tensor_impl.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Where the cotangent of one operand goes: into another node, into a leaf, or nowhere.
struct GradEdge {
  std::shared_ptr<GradNode> node;
  std::shared_ptr<TensorImpl> leaf;
  int output_index = 0;
  bool wanted() const noexcept { return node != nullptr || leaf != nullptr; }
};
/// The edge of a tensor that needs a gradient; an unwanted one else.
GradEdge edge_of(const DTensor& x);

/// A saved array whose bytes are not kept: they come again when the backward pass asks.
class ReturningArray {
 public:
  virtual ~ReturningArray() = default;
  /// Collective: as its maker says. Throws Error: FailedPrecondition where they were written since.
  virtual Array bring() = 0;
};
/// Makes them, for arrays that alias a storage of its own.
class ReturningStorage {
 public:
  virtual ~ReturningStorage() = default;
  /// Null where `array` has to be kept as it is.
  virtual std::shared_ptr<ReturningArray> returning(const Array& array) = 0;
};

/// An operand or result kept for the backward pass, without its own history.
struct SavedTensor {
  const Spec* spec = nullptr;
  Array local;
  std::uint32_t version = 0;
  std::shared_ptr<ReturningArray> returning = {};  ///< in place of `local`
};
SavedTensor save(const DTensor& x);

/// One recorded call. Owned by its results and by the nodes that consume them.
struct GradNode {
  explicit GradNode(Runtime& runtime, const Site& site);
  GradNode(const GradNode&) = delete;
  GradNode& operator=(const GradNode&) = delete;
  /// Releases long chains of nodes one by one.
  virtual ~GradNode();

  virtual std::string_view name() const = 0;
  /// Fills grads (one per edge) from the cotangents (one per result, undefined where none came).
  /// Gradients are off.
  virtual void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) = 0;
  /// Drops what was saved.
  virtual void release() {}

  /// The saved tensor again. Throws FailedPrecondition where its storage was written since.
  DTensor restore(const SavedTensor& saved, std::string_view what) const;

  Runtime& runtime;
  std::uint64_t sequence = 0;
  const std::string* module = nullptr;  ///< path at the time of the forward call
  Site site;
  int num_results = 1;
  bool freed = false;
  absl::InlinedVector<GradEdge, 3> edges;
};

/// True where a call on `x` has to be recorded. Throws FailedPrecondition where `x` was written
/// through an alias, so that its history no longer tells its value.
bool records(const Runtime& runtime, const DTensor& x);
/// Makes `result` output `index` of `node`.
void attach(const DTensor& result, std::shared_ptr<GradNode> node, int index = 0);

/// Throws FailedPrecondition where writing into `x` in place would break a gradient: a leaf that
/// needs one, a view of such a leaf, or a view whose base has a history.
void check_in_place(const Runtime& runtime, std::string_view op, const DTensor& x);
/// Throws FailedPrecondition where `written` is a view and any of `operands` needs a gradient: the
/// tensor that it is a view of would not know.
void check_values_into_view(const Runtime& runtime, std::string_view op, const DTensor& written,
                            std::span<const DTensor* const> operands);

/// A result and what flows back into it.
struct BackwardRoot {
  GradEdge edge;
  DTensor cotangent;
};
/// backward() from several results at once, through nodes no older than `oldest` only. Errors:
/// FailedPrecondition where an older one is reached, before anything runs.
void backward_within(Runtime& runtime, std::vector<BackwardRoot> roots, std::uint64_t oldest);

/// The layout of a cotangent at its source: cut axes stay cut, P(sum) and P(avg) become R, and on R
/// axes the cotangent keeps what it has.
Layout dual_layout(const Spec& source, const Spec& cotangent);
/// Summands of which the axes of P(avg) make one value; each gets this part of its cotangent.
std::int64_t averaged_parts(const Spec& spec);
/// Throws InvalidArgument where `grad` does not have one entry for each axis of the mesh; `where`
/// is the function that takes it.
void check_grad_count(std::string_view where, const Spec& spec, const GradPlacements& grad);

/// True where the edge ends (through casts) in a leaf whose gradient is reduced later.
bool leads_to_deferred_leaf(const GradEdge& edge);

}  // namespace tessera
