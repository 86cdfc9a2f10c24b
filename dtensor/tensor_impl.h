// dtensor/tensor_impl.h: what a DTensor handle points to: spec, local array, and its place in the
// history. For this layer's sources only; model code sees dtensor/dtensor.h.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dtensor/dtensor.h"

namespace tessera {

/// A view that had to be copied, or may have been on some rank: it is not written, and not read
/// once what it was taken from was written.
struct CopiedView {
  std::weak_ptr<Storage> source;
  std::uint32_t version = 0;  ///< of the source, when the copy was made
  bool by_cut = true;         ///< the operand is cut, or moved; else its order hinders an alias
};

/// A leaf has no node; a result that needs a gradient is output `output_index` of its node.
struct TensorImpl {
  Runtime* runtime = nullptr;
  const Spec* spec = nullptr;  ///< interned
  Array local;                 ///< null outside the mesh
  std::shared_ptr<GradNode> node;
  std::shared_ptr<TensorImpl> base;  ///< the tensor whose storage a view aliases
  DTensor grad;
  std::string name;
  std::shared_ptr<const CopiedView> copied;
  std::uint32_t history_version = 0;  ///< the storage's version that `node` speaks of, or a view
  int output_index = 0;
  bool leaf_needs_grad = false;
  bool repeats = false;    ///< several elements share a place (expand), on some rank
  bool reordered = false;  ///< elements may stand in another order than row-major, or with gaps
  bool is_view = false;    ///< made by a view op, with `history_version` as it was then
  GradReduction reduction = GradReduction::kEachBackward;

  bool needs_grad() const noexcept { return leaf_needs_grad || node != nullptr; }
};

/// A tensor without history.
inline DTensor make_tensor(Runtime& runtime, const Spec* spec, Array local) {
  auto impl = std::make_shared<TensorImpl>();
  impl->runtime = &runtime;
  impl->spec = spec;
  impl->local = std::move(local);
  return DTensor(std::move(impl));
}

/// What is known of the storage of `of` holds for its alias `view` too.
inline void share_storage_facts(const DTensor& view, const DTensor& of) {
  view.impl()->repeats |= of.impl()->repeats;
  view.impl()->reordered |= of.impl()->reordered;
  if (of.impl()->copied) view.impl()->copied = of.impl()->copied;
}
/// Marks `view` as an alias of `of`, so that writes through it are judged by the tensor that owns
/// the storage.
inline void set_base(const DTensor& view, const DTensor& of) {
  view.impl()->base = of.impl()->base ? of.impl()->base : of.impl();
  share_storage_facts(view, of);
}

/// The spec of a result or operand on the same mesh with another layout. Throws Error.
const Spec* intern_layout(Runtime& runtime, const Spec& like, Layout layout);

/// "x", or the fallback where the tensor has no name.
std::string label_of(const DTensor& x, std::string_view fallback);

}  // namespace tessera
