#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/dtensor.h"
#include "dtensor/observer.h"
#include "dtensor/tensor_impl.h"
#include "kernels/box_moves.h"
#include "kernels/elementwise.h"
#include "placement/reduce_op.h"

namespace tessera {

namespace {

const TensorImpl& checked(const std::shared_ptr<TensorImpl>& impl) {
  if (!impl) throw Error(invalid_argument("this DTensor is undefined; make it before using it"));
  return *impl;
}
TensorImpl& checked_leaf(const std::shared_ptr<TensorImpl>& impl, const char* what) {
  checked(impl);
  if (impl->node) {
    throw Error(failed_precondition(absl::StrFormat(
        "%s: the tensor is the result of an op; only leaves have it, detach() it first. [%s]", what,
        impl->spec->to_string())));
  }
  return *impl;
}

/// This rank's block of `full`, copied to its device.
Array local_part(Runtime& runtime, const Array& full, const Spec& spec, const Coord& coord) {
  const bool moves = !takes_arrays_of(*runtime.kernels().device, full.device());
  KernelContext& ctx = moves ? runtime.host_kernels() : runtime.kernels();
  Array window = full;
  // Each dim is picked interval by interval; whole dims stay views.
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    const std::int64_t size = spec.global_shape()[dim];
    const std::vector<Interval> intervals =
        local_intervals(spec.mesh(), size, spec.layout().dims[dim], coord);
    if (intervals.empty()) {
      window = window.slice(dim, 0, 0);
    } else if (intervals.size() == 1) {
      window = window.slice(dim, intervals[0].start, intervals[0].stop);
    } else {
      Shape shape = window.shape();
      shape[dim] = 0;
      for (const Interval& each : intervals) shape[dim] += each.stop - each.start;
      Array packed = Array::empty(shape, full.dtype(), ctx.allocator);
      std::int64_t at = 0;
      for (const Interval& each : intervals) {
        const std::int64_t length = each.stop - each.start;
        kernels::copy(ctx, window.slice(dim, each.start, each.stop),
                      packed.slice(dim, at, at + length));
        at += length;
      }
      window = packed;
    }
  }
  if (moves) return to_device(runtime.kernels(), window);
  Array local = Array::empty(window.shape(), full.dtype(), runtime.kernels().allocator);
  kernels::copy(runtime.kernels(), window, local);
  return local;
}

/// The kind whose identity a rank holds of what is whole on coord 0; nullopt where it holds the
/// value, too.
std::optional<ReduceOp> identity_held(const Spec& spec, const Coord& coord) {
  std::optional<ReduceOp> held;
  for (std::size_t axis = 0; axis < coord.size(); ++axis) {
    const std::optional<ReduceOp> op = spec.layout().partial[axis];
    if (op && !is_idempotent(*op) && coord[axis] != 0) held = op;
  }
  return held;
}

}  // namespace

const Spec* intern_layout(Runtime& runtime, const Spec& like, Layout layout) {
  return runtime.intern(value_or_throw(
      Spec::make(like.mesh(), like.global_shape(), like.dtype(), std::move(layout))));
}

std::string label_of(const DTensor& x, std::string_view fallback) {
  return x.name().empty() ? std::string(fallback) : x.name();
}

const Spec& DTensor::spec() const { return *checked(impl_).spec; }

std::int64_t DTensor::size(std::int64_t dim) const {
  return global_shape()[static_cast<std::size_t>(value_or_throw(normalize_dim(dim, ndim())))];
}

const Array& DTensor::local() const { return checked(impl_).local; }
Runtime& DTensor::runtime() const { return *checked(impl_).runtime; }
const std::string& DTensor::name() const { return checked(impl_).name; }

DTensor& DTensor::set_name(std::string name) {
  checked(impl_);
  impl_->name = std::move(name);
  return *this;
}

bool DTensor::requires_grad() const { return checked(impl_).needs_grad(); }

DTensor& DTensor::set_requires_grad(bool on) {
  TensorImpl& impl = checked_leaf(impl_, "set_requires_grad");
  if (on && !is_floating(impl.spec->dtype())) {
    throw Error(invalid_argument(
        absl::StrFormat("set_requires_grad: dtype %s has no gradient; allowed: F64, F32, BF16, F16",
                        name_of(impl.spec->dtype()))));
  }
  impl.leaf_needs_grad = on;
  return *this;
}

DTensor DTensor::grad() const { return checked(impl_).grad; }

void DTensor::clear_grad() {
  checked(impl_);
  impl_->grad = {};
}

void DTensor::set_grad(DTensor grad) {
  TensorImpl& impl = checked_leaf(impl_, "set_grad");
  if (grad.defined() && grad.global_shape() != impl.spec->global_shape()) {
    throw Error(
        invalid_argument(absl::StrFormat("set_grad: gradient %s of a tensor %s: shapes differ",
                                         grad.spec().to_string(), impl.spec->to_string())));
  }
  impl.grad = std::move(grad);
}

DTensor DTensor::detach() const {
  const TensorImpl& impl = checked(impl_);
  DTensor result = make_tensor(*impl.runtime, impl.spec, impl.local);
  result.impl()->name = impl.name;
  share_storage_facts(result, *this);
  return result;
}

bool DTensor::is_leaf() const { return checked(impl_).node == nullptr; }

void set_grad_reduction(const DTensor& leaf, GradReduction policy) {
  checked_leaf(leaf.impl(), "set_grad_reduction").reduction = policy;
}

namespace {
DTensor told(DTensor made) {
  ProgramObserver* observer = made.impl()->runtime->observer;
  if (observer != nullptr) [[unlikely]]
    observer->on_made(made);
  return made;
}
}  // namespace

DTensor plain(Runtime& runtime, Array local) {
  const Spec* spec = runtime.intern(Spec::plain(local.shape(), local.dtype()));
  return told(make_tensor(runtime, spec, std::move(local)));
}

DTensor distribute(Runtime& runtime, const Array& full, const Mesh& mesh,
                   std::span<const Placement> placements) {
  return distribute(runtime, full,
                    value_or_throw(Spec::make(mesh, full.shape(), full.dtype(), placements)));
}

DTensor distribute(Runtime& runtime, const Array& full_array, const Spec& spec) {
  if (full_array.shape() != spec.global_shape() || full_array.dtype() != spec.dtype()) {
    throw Error(invalid_argument(absl::StrFormat("distribute: array %s%s does not match spec %s",
                                                 name_of(full_array.dtype()),
                                                 to_string(full_array.shape()), spec.to_string())));
  }
  const Spec* interned = runtime.intern(spec);
  const Coord* coord = runtime.coord_on(interned);
  if (coord == nullptr) return make_tensor(runtime, interned, Array());
  Array local = local_part(runtime, full_array, spec, *coord);
  const std::optional<ReduceOp> identity = identity_held(spec, *coord);
  if (identity) kernels::fill_identity(runtime.kernels(), *identity, local);
  return told(make_tensor(runtime, interned, std::move(local)));
}

DTensor empty(Runtime& runtime, const Spec& spec) {
  const Spec* interned = runtime.intern(spec);
  const Coord* coord = runtime.coord_on(interned);
  if (coord == nullptr) return make_tensor(runtime, interned, Array());
  return told(make_tensor(
      runtime, interned,
      Array::empty(spec.local_shape(*coord), spec.dtype(), runtime.kernels().allocator)));
}

DTensor zeros(Runtime& runtime, const Spec& spec) { return full(runtime, spec, 0.0); }

DTensor full(Runtime& runtime, const Spec& spec, double value) {
  DTensor result = empty(runtime, spec);
  if (result.local().is_null()) return result;
  const Coord& coord = *runtime.coord_on(result.impl()->spec);
  if (const std::optional<ReduceOp> identity = identity_held(spec, coord)) {
    kernels::fill_identity(runtime.kernels(), *identity, result.local());
  } else {
    kernels::fill(runtime.kernels(), value, result.local());
  }
  return result;
}

namespace {
/// The spec of a constant shaped like x: Partial axes hold it whole.
Spec whole_where_partial(const Spec& spec) {
  Layout layout = spec.layout();
  std::fill(layout.partial.begin(), layout.partial.end(), std::nullopt);
  return value_or_throw(
      Spec::make(spec.mesh(), spec.global_shape(), spec.dtype(), std::move(layout)));
}
}  // namespace

DTensor ones_like(const DTensor& x) {
  return full(x.runtime(), whole_where_partial(x.spec()), 1.0);
}
DTensor zeros_like(const DTensor& x) { return zeros(x.runtime(), whole_where_partial(x.spec())); }

}  // namespace tessera
