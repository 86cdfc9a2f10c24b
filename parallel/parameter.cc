#include "parallel/parameter.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/memory_use.h"
#include "parallel/fsdp.h"

namespace tessera {

StatusOr<Spec> fsdp_storage(const Spec& used, std::span<const int> axes, int dim) {
  if (dim < 0 || dim >= used.ndim()) {
    return invalid_argument(
        absl::StrFormat("fsdp: dim %d of a tensor of %d dims", dim, used.ndim()));
  }
  Layout layout = used.layout();
  for (const int axis : axes) {
    if (axis < 0 || axis >= used.mesh().ndim()) {
      return invalid_argument(
          absl::StrFormat("fsdp: axis %d of a mesh of %d axes", axis, used.mesh().ndim()));
    }
    if (layout.dim_of_axis(axis) >= 0 || layout.partial[static_cast<std::size_t>(axis)]) {
      return invalid_argument(absl::StrFormat(
          "fsdp: axis %s already holds %s; FSDP needs an axis on which it is replicated",
          used.mesh().axis_label(axis), used.to_string()));
    }
    layout.dims[static_cast<std::size_t>(dim)].push_back(Level::of_axis(axis));
  }
  return Spec::make(used.mesh(), used.global_shape(), used.dtype(), std::move(layout));
}

DTensor Parameter::use(DType compute, const Site& site) const {
  if (gathered_.defined() && gathered_.dtype() == compute) return gathered_;
  const DTensor cast_shard = stored_.dtype() == compute ? stored_ : cast(stored_, compute, site);
  return redistribute(cast_shard, used_.layout(), site);
}

ParameterSet::ParameterSet(Runtime& runtime, DType dtype, const FsdpPolicy& policy,
                           std::optional<DType> compute)
    : runtime_(runtime), dtype_(dtype), compute_(compute.value_or(dtype)), policy_(policy) {}

ParameterSet::~ParameterSet() = default;

FsdpUnit& ParameterSet::begin_unit(const std::string& name) {
  FsdpUnit* previous = units_.empty() ? nullptr : units_.back().get();
  return *units_.emplace_back(std::make_unique<FsdpUnit>(name, policy_, previous));
}

Parameter& ParameterSet::add(const ParameterDecl& decl) {
  if (find(decl.name) != nullptr) {
    throw Error(invalid_argument("parameter " + decl.name + " is declared twice"));
  }
  const Spec used = value_or_throw(Spec::make(decl.mesh, decl.shape, dtype_, decl.used));
  const Spec stored = value_or_throw(fsdp_storage(used, decl.fsdp_axes, decl.fsdp_dim));
  DTensor tensor = empty(runtime_, stored);
  tensor.set_name(decl.name).set_requires_grad(!decl.frozen);
  if (policy_.gradients == GradientPolicy::kLastMicroBatch) {
    set_grad_reduction(tensor, GradReduction::kDeferred);
  }
  tag_memory(*runtime_.world().allocator(), tensor.local(), MemoryTag::kParameters);
  Parameter& added = parameters_.emplace_back(
      std::move(tensor), used.with_dtype(decl.used_dtype.value_or(compute_)), decl.init);
  by_name_.emplace(decl.name, &added);
  if (!units_.empty()) units_.back()->add(added);
  return added;
}

Parameter* ParameterSet::find(std::string_view name) {
  const auto found = by_name_.find(to_absl(name));
  return found == by_name_.end() ? nullptr : found->second;
}

std::int64_t ParameterSet::num_elements() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_) {
    total += tessera::num_elements(parameter.stored().global_shape());
  }
  return total;
}

void initialize(DTensor& values, const Init& init, const RandomArgs& random) {
  switch (init.kind) {
    case Init::Kind::kOnes:
      fill_(values, 1.0);
      break;
    case Init::Kind::kZeros:
      fill_(values, 0.0);
      break;
    case Init::Kind::kNormal:
      normal_(values, 0.0, init.std, random);
      break;
    case Init::Kind::kTruncatedNormal:
      truncated_normal_(
          values, {.mean = 0.0, .std = init.std, .low = -init.bound, .high = init.bound}, random);
      break;
  }
}

void ParameterSet::initialize(std::uint64_t seed) {
  const NoGrad no_grad(runtime_);
  for (Parameter& parameter : parameters_) {
    DTensor values = parameter.stored().detach();
    tessera::initialize(values, parameter.init(), {.seed = seed, .stream = parameter.name()});
  }
}

void ParameterSet::clear_grads() {
  for (Parameter& parameter : parameters_) parameter.stored().clear_grad();
}

void ParameterSet::finish_gradients(const Site& site) {
  for (const std::unique_ptr<FsdpUnit>& unit : units_) unit->finish_gradients(site);
  for (Parameter& parameter : parameters_) {
    const DTensor& stored = parameter.stored();
    const DTensor grad = stored.grad();
    if (grad.defined() && !(grad.spec() == stored.spec())) reduce_grad(stored);
  }
}

}  // namespace tessera
