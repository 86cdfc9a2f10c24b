// dtensor/dtensor.h: one tensor cut over a mesh of ranks: a Spec and this rank's local Array, with
// autograd. A DTensor on the mesh of no axes is a plain tensor; the same ops and autograd serve
// inside local regions.
#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "dtensor/runtime.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct TensorImpl;  // dtensor/tensor_impl.h
struct GradNode;    // dtensor/autograd.h

/// A value handle: copies share the same tensor. A default DTensor is undefined.
class DTensor {
 public:
  DTensor() = default;
  explicit DTensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const noexcept { return impl_ != nullptr; }
  const Spec& spec() const;
  const Mesh& mesh() const { return spec().mesh(); }
  const Shape& global_shape() const { return spec().global_shape(); }
  std::int64_t size(std::int64_t dim) const;  ///< global; negative dims count from the end
  int ndim() const { return spec().ndim(); }
  DType dtype() const { return spec().dtype(); }
  /// This rank's elements, outside autograd: for the engine, optimizers and tests. Null outside the
  /// mesh.
  const Array& local() const;
  Runtime& runtime() const;

  /// Name shown in events and errors.
  const std::string& name() const;
  DTensor& set_name(std::string name);

  bool requires_grad() const;
  /// Leaves only. Throws Error(FailedPrecondition) on a result of an op.
  DTensor& set_requires_grad(bool on);
  /// Accumulated gradient of a leaf, placed by the gradient contract (a parameter's own placement,
  /// unless its policy says otherwise); undefined before backward.
  DTensor grad() const;
  void clear_grad();
  void set_grad(DTensor grad);
  /// The same data without history.
  DTensor detach() const;
  bool is_leaf() const;

  const std::shared_ptr<TensorImpl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<TensorImpl> impl_;
};

/// How a leaf's cotangent becomes its gradient.
enum class GradReduction : std::uint8_t {
  kEachBackward,  ///< redistributed to the leaf's own placement each time
  kDeferred       ///< kept Partial where it comes so; reduce_grad() brings it home once
};
void set_grad_reduction(const DTensor& leaf, GradReduction policy);
/// Brings a deferred gradient to the leaf's placement. Collective: yes, where it is Partial.
void reduce_grad(const DTensor& leaf);

/// Runs gradients from `root` to the leaves. `cotangent` defaults to one for a 0-d root (of any
/// placement: a P(sum) loss gets R ones). Frees the history. Collective: yes, in the same order on
/// all ranks. Errors: FailedPrecondition where a saved tensor was written since, or the history was
/// freed.
void backward(const DTensor& root, const DTensor& cotangent = {});

// ---- making tensors ----

/// A plain tensor around a local array.
DTensor plain(Runtime& runtime, Array local);
/// This rank's part of `full`, which every rank holds alike. No communication. Errors: those of
/// Spec::make.
DTensor distribute(Runtime& runtime, const Array& full, const Mesh& mesh,
                   std::span<const Placement> placements);
DTensor distribute(Runtime& runtime, const Array& full, const Spec& spec);
/// Uninitialised / filled; no communication.
DTensor empty(Runtime& runtime, const Spec& spec);
DTensor zeros(Runtime& runtime, const Spec& spec);
DTensor full(Runtime& runtime, const Spec& spec, double value);
DTensor ones_like(const DTensor& x);
DTensor zeros_like(const DTensor& x);

// ---- moving ----

using Site = std::source_location;

/// The placement of the cotangent on one axis, as declared at a border.
using GradPlacements = std::vector<std::optional<Placement>>;

/// The same logical tensor under other placements (or a layout). Aliases where nothing changes.
/// Backward: S to S, P(sum) to R, on R axes the cotangent stays as it comes. A leaf's P(avg) gets R
/// over n. Before other ops the cotangent of P(avg), P(max) and P(min) is a P(sum) of what each
/// rank's own elements get (1/n of it; all of it where local = result, ties divided equally), so
/// that it still is the logical tensor's. Collective: yes, where the plan moves bytes.
DTensor redistribute(const DTensor& x, std::span<const Placement> to,
                     const Site& site = Site::current());
DTensor redistribute(const DTensor& x, std::initializer_list<Placement> to,
                     const Site& site = Site::current());
DTensor redistribute(const DTensor& x, const Layout& to, const Site& site = Site::current());
/// The same, with the gradient of `x` as `grad` states it per axis of its mesh: R, S(d), or P(sum),
/// summands that somebody reduces later; what is left out is as above. Aliases as above, and then
/// the gradient moves all the same. Errors: InvalidArgument for another number of placements or a
/// Partial other than P(sum); FailedPrecondition where `x` is P(avg), P(max), P(min) or P(prod)
/// somewhere: what each rank gets of its cotangent follows from its own elements.
DTensor redistribute(const DTensor& x, std::span<const Placement> to, const GradPlacements& grad,
                     const Site& site = Site::current());
/// To another mesh, over the same, overlapping or other ranks; a rank outside it holds no part of
/// the result. Backward: to the source's mesh, S to S, the rest to R. Collective: yes, among all
/// ranks of either mesh. Errors: InvalidArgument where a mesh names ranks outside the world.
DTensor redistribute(const DTensor& x, const Mesh& mesh, std::span<const Placement> to,
                     const Site& site = Site::current());
/// A bucket: xs[i] to the spec to[i], whose shape and dtype it has, all in one exchange for each
/// step and group, so that latency is paid once. Gradients go back one by one. Errors:
/// InvalidArgument where the lists differ in length, or as redistribute().
std::vector<DTensor> redistribute_all(std::span<const DTensor> xs, std::span<const Spec> to,
                                      const Site& site = Site::current());
/// Every element on every rank, outside autograd. Collective: yes.
Array full_tensor(const DTensor& x, const Site& site = Site::current());
/// A host value of a 0-d tensor (reduced where Partial); logs a host read. Collective: yes, where
/// Partial.
double item(const DTensor& x, const Site& site = Site::current());

/// This rank's elements as a plain tensor, with gradients. `grad` says per axis how the cotangent
/// is placed: S(l) → S(l) and P(sum) → R need nothing; on R it must be stated: P (each rank saw
/// other data) or R (each computed the same). Errors: FailedPrecondition where it is left out on an
/// R axis of size > 1 of a tensor that needs a gradient (the text explains both), or P is forced on
/// a sharded axis.
DTensor to_local(const DTensor& x, const GradPlacements& grad = {},
                 const Site& site = Site::current());
/// The inverse: a plain tensor as this rank's part. Uneven shards are checked against the layout of
/// `global_shape`. Backward: S → S, R → R, P(sum) → R, P(avg) → R over n; `grad` may say so, and on
/// an R axis P: each rank gets a summand as it comes, and whoever goes on with it adds them up.
/// Errors: FailedPrecondition for another cotangent, or another Partial that needs a gradient.
DTensor from_local(const DTensor& local, const Mesh& mesh, std::span<const Placement> placements,
                   const Shape& global_shape, const GradPlacements& grad,
                   const Site& site = Site::current());
inline DTensor from_local(const DTensor& local, const Mesh& mesh,
                          std::span<const Placement> placements, const Shape& global_shape,
                          const Site& site = Site::current()) {
  return from_local(local, mesh, placements, global_shape, GradPlacements(), site);
}
/// The same local data under another spec of the same ranks (dense ↔ sparse views): checked by
/// comparing index sets. Errors: FailedPrecondition naming the first rank whose set differs.
DTensor reinterpret(const DTensor& x, const Spec& to, const Site& site = Site::current());

}  // namespace tessera
