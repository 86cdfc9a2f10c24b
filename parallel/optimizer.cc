#include "parallel/optimizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/foreach.h"
#include "dtensor/ops.h"
#include "kernels/memory_use.h"
#include "parallel/muon.h"

namespace tessera {
namespace {

DTensor zero_state(const DTensor& parameter, const Spec& spec, std::optional<DType> dtype) {
  DTensor state = zeros(parameter.runtime(),
                        value_or_throw(Spec::make(spec.mesh(), spec.global_shape(),
                                                  dtype.value_or(spec.dtype()), spec.layout())));
  tag_memory(*parameter.runtime().world().allocator(), state.local(), MemoryTag::kOptimizerState);
  return state;
}

void check_state_dtype(const OptimizerConfig& config, const DTensor& parameter) {
  if (!config.state_dtype || *config.state_dtype == DType::kBF16) return;
  if (*config.state_dtype == parameter.dtype()) return;
  throw Error(invalid_argument(absl::StrFormat(
      "optimizer: state_dtype %s for parameter %s of %s; allowed are BF16 and the parameter's type",
      std::string(name_of(*config.state_dtype)), parameter.name(),
      std::string(name_of(parameter.dtype())))));
}

}  // namespace

Optimizer::Optimizer(ParameterSet& parameters, OptimizerConfig config)
    : config_(std::move(config)) {
  std::vector<std::string> names;
  for (Parameter& parameter : parameters.all()) {
    if (!parameter.stored().requires_grad()) continue;
    check_state_dtype(config_, parameter.stored());
    names.push_back(parameter.name());
    slots_.push_back({.parameter = &parameter});
  }
  names.insert(names.end(), config_.names_elsewhere.begin(), config_.names_elsewhere.end());
  const std::vector<std::size_t> groups = value_or_throw(assign_groups(names, config_.groups));
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].group = groups[i];
  if (config_.groups.empty()) config_.groups.push_back({.pattern = ""});
  if (config_.kind == OptimizerKind::kMuon) choose_owners();
}

void Optimizer::choose_owners() {
  std::vector<Spec> stored;
  std::vector<Slot*> matrices;
  for (Slot& slot : slots_) {
    const DTensor& parameter = slot.parameter->stored();
    if (!is_hidden_matrix(slot.parameter->name(), parameter.ndim())) continue;
    matrices.push_back(&slot);
    stored.push_back(parameter.spec());
  }
  const std::vector<Spec> owned = muon_specs(stored);
  for (std::size_t i = 0; i < matrices.size(); ++i) matrices[i]->owned = owned[i];
}

int Optimizer::num_states(const Slot& slot) const {
  if (slot.owned) return 1;
  if (config_.kind == OptimizerKind::kSgd) return config_.momentum == 0.0 ? 0 : 1;
  return 2;
}

void Optimizer::materialize() {
  for (Slot& slot : slots_) {
    const DTensor& stored = slot.parameter->stored();
    const int wanted = num_states(slot);
    const Spec& spec = slot.owned ? *slot.owned : stored.spec();
    const std::optional<DType>& dtype = config_.state_dtype;
    if (wanted > 0 && !slot.first.defined()) slot.first = zero_state(stored, spec, dtype);
    if (wanted > 1 && !slot.second.defined()) slot.second = zero_state(stored, spec, dtype);
  }
}

std::vector<NamedTensor> Optimizer::state_tensors() {
  materialize();
  std::vector<NamedTensor> tensors;
  for (const Slot& slot : slots_) {
    const std::string name = "optimizer." + slot.parameter->name();
    if (slot.first.defined()) tensors.push_back({name + ".first", slot.first});
    if (slot.second.defined()) tensors.push_back({name + ".second", slot.second});
  }
  return tensors;
}

// lr and the clip factor are the steering's; a group scales lr.
kernels::AdamWOptions Optimizer::adam_options(const ParamGroup& group) const {
  return {.lr = group.lr_scale,
          .beta1 = group.betas ? (*group.betas)[0] : config_.beta1,
          .beta2 = group.betas ? (*group.betas)[1] : config_.beta2,
          .eps = config_.eps,
          .weight_decay = group.weight_decay.value_or(config_.weight_decay),
          .decay = config_.kind == OptimizerKind::kAdam ? kernels::WeightDecay::kInGradient
                                                        : kernels::WeightDecay::kDecoupled};
}

kernels::SgdOptions Optimizer::sgd_options(const ParamGroup& group) const {
  using Form = kernels::SgdOptions::Momentum;
  return {.lr = group.lr_scale,
          .momentum = config_.momentum,
          .weight_decay = group.weight_decay.value_or(config_.weight_decay),
          .form = config_.momentum_form == Momentum::kNesterov ? Form::kNesterov : Form::kPlain};
}

void Optimizer::update(std::size_t group, const DTensor& steering) {
  std::vector<DTensor> params, grads, first, second;
  for (const Slot& slot : slots_) {
    const DTensor& stored = slot.parameter->stored();
    if (slot.group != group || slot.owned || !stored.requires_grad()) continue;
    const DTensor grad = stored.grad();
    params.push_back(stored);
    grads.push_back(grad.defined() ? grad : zeros_like(stored.detach()));
    if (slot.first.defined()) first.push_back(slot.first);
    if (slot.second.defined()) second.push_back(slot.second);
  }
  const ParamGroup& of = config_.groups[group];
  if (config_.kind == OptimizerKind::kSgd) {
    return sgd_step({params, grads}, first, sgd_options(of), steering);
  }
  adamw_step({params, grads}, {first, second}, adam_options(of), steering);
}

void Optimizer::update_matrices(std::size_t group, const DTensor& steering) {
  std::vector<DTensor> params, grads, momenta;
  for (const Slot& slot : slots_) {
    const DTensor& stored = slot.parameter->stored();
    if (slot.group != group || !slot.owned || !stored.requires_grad()) continue;
    const DTensor grad = stored.grad();
    params.push_back(stored.detach());
    grads.push_back(grad.defined() ? grad : zeros_like(stored.detach()));
    momenta.push_back(slot.first);
  }
  muon_step({params, grads, momenta}, sgd_options(config_.groups[group]), steering);
}

void Optimizer::step_openly(const DTensor& steering) {
  if (config_.kind == OptimizerKind::kSgd) {
    throw Error(absl::UnimplementedError(
        "optimizer: sgd has no op that values of the device steer; adamw and adam have"));
  }
  materialize();
  ++num_steps_;
  const std::string op = config_.kind == OptimizerKind::kAdamW ? "adamw_steered_" : "adam_steered_";
  for (const Slot& slot : slots_) {
    const DTensor& stored = slot.parameter->stored();
    const DTensor grad = stored.grad();
    const kernels::AdamWOptions options = adam_options(config_.groups[slot.group]);
    const DTensor operands[] = {stored, grad.defined() ? grad : full_like(stored.detach(), 0.0),
                                slot.first, slot.second, steering};
    call(steering.runtime(), op, operands,
         {{"lr_scale", options.lr},
          {"beta1", options.beta1},
          {"beta2", options.beta2},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay}});
  }
}

void Optimizer::step(double lr, double grad_scale) {
  if (slots_.empty()) return static_cast<void>(++num_steps_);
  Runtime& runtime = slots_[0].parameter->stored().runtime();
  const double values[] = {lr, grad_scale, static_cast<double>(num_steps_ + 1), 1.0};
  static_assert(std::size(values) == kernels::Steering::kSize);
  const Array here = Array::from_values({std::ssize(values)}, DType::kF64, values);
  step(plain(runtime, to_device(runtime.kernels(), here)));
}

void Optimizer::step(const DTensor& steering) {
  materialize();
  ++num_steps_;
  for (std::size_t group = 0; group < config_.groups.size(); ++group) {
    update(group, steering);
    if (config_.kind == OptimizerKind::kMuon) update_matrices(group, steering);
  }
}

}  // namespace tessera
