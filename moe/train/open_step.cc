#include "moe/train/open_step.h"

#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "capture/capture.h"
#include "dtensor/observer.h"
#include "kernels/shapes_device.h"
#include "moe/train/model.h"
#include "moe/train/optimizer_config.h"
#include "parallel/optimizer.h"
#include "program/step_names.h"
#include "runtime/sim/sim_world.h"

namespace tessera {

std::string open_names::of_micro(const char* what, std::int64_t micro) {
  return absl::StrFormat("%s.%d", what, micro);
}

namespace {

/// What has no form of ops.
Status check_open(const ModelConfig& config) {
  const auto refuse = [](const std::string& what) {
    return Status(absl::UnimplementedError("open step: " + what));
  };
  const RoutingConfig& routing = config.routing;
  if (routing.capacity_factor) {
    return refuse(absl::StrFormat("capacity_factor %g drops rows in a region; leave it out",
                                  *routing.capacity_factor));
  }
  if (routing.input_jitter != 0.0) {
    return refuse(absl::StrFormat(
        "input_jitter %g is noise that each step draws anew; it must be 0", routing.input_jitter));
  }
  if (routing.is_forced()) {
    return refuse("force_balance and forced_loads make ids outside of the step; leave them out");
  }
  if (routing.uses_aux_loss() || routing.z_loss_coeff > 0.0) {
    return refuse("losses of routing are attached by a region; their coefficients must be 0");
  }
  if (config.norm_type != 2.0) {
    return refuse(
        absl::StrFormat("norm_type is %g; the norm by ops is the second", config.norm_type));
  }
  if (optimizer_config_of(config).kind == OptimizerKind::kSgd) {
    return refuse("sgd has no op that values of the device steer; adamw and adam have");
  }
  return absl::OkStatus();
}

DTensor as_number(const DTensor& flag) { return cast(flag, DType::kF64); }

/// The step, run once while it is observed.
class OpenPass {
 public:
  OpenPass(Model& model, Optimizer& optimizer, Capture& capture)
      : model_(model),
        optimizer_(optimizer),
        capture_(capture),
        runtime_(model.context().runtime),
        config_(model.context().model) {}

  void run() {
    declare_state();
    declare_inputs();
    for (std::int64_t micro = 0; micro < config_.accum; ++micro) run_micro(micro);
    const MarkScope marks(runtime_, {.pass = PassMark::kUpdate});
    const NoGrad no_grad(runtime_);
    update();
  }

  /// Of what the step leaves: the program's name, and ours.
  std::map<std::string, std::string> results() {
    std::map<std::string, std::string> names = {{capture_.name_of(loss_), open_names::kLoss},
                                                {capture_.name_of(norm_), open_names::kGradNorm}};
    if (counts_LE_.defined()) names[capture_.name_of(counts_LE_)] = open_names::kExpertCounts;
    return names;
  }

 private:
  static std::string module_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
  }

  void declare_state() {
    for (const Parameter& each : model_.parameters().all()) {
      capture_.declare(each.stored(), ValueRole::kParameter, each.name(), module_of(each.name()));
    }
    constexpr std::string_view kPrefix = "optimizer.";
    for (const NamedTensor& each : optimizer_.state_tensors()) {
      const std::string parameter = module_of(each.name.substr(kPrefix.size()));
      capture_.declare(each.tensor, ValueRole::kState, each.name, module_of(parameter));
    }
    for (MoeLayer* layer : model_.moe_layers()) {
      const DTensor& bias = layer->balancer().expert_bias_E();
      if (!bias.defined()) continue;
      capture_.declare(bias, ValueRole::kState, bias.name(), module_of(bias.name()));
    }
  }

  DTensor declared(const std::string& name, const Shape& shape, DType dtype) {
    const Mesh& mesh = model_.context().views.dense();
    const Placements whole(static_cast<std::size_t>(mesh.ndim()), Replicate{});
    DTensor made = empty(runtime_, value_or_throw(Spec::make(mesh, shape, dtype, whole)));
    made.set_name(name);
    capture_.declare(made, ValueRole::kInput, name);
    return made;
  }

  void declare_inputs() {
    using namespace open_names;
    lr_ = declared(kLr, {}, DType::kF64);
    update_ = declared(kUpdate, {}, DType::kF64);
    target_share_ = declared(kTargetShare, {}, DType::kF64);
    if (config_.pad_id) input_share_ = declared(kInputShare, {}, DType::kF64);
  }

  void run_micro(std::int64_t micro) {
    using namespace open_names;
    const Shape shape = {config_.batch, config_.seq};
    const DTensor ids = declared(of_micro(kIds, micro), shape, DType::kI32);
    Targets targets = {.ids_BL = declared(of_micro(kTargets, micro), shape, DType::kI32),
                       .step_share = target_share_};
    TokenPadding padding;
    if (config_.pad_id) {
      padding = {.mask_BL = declared(of_micro(kPadding, micro), shape, DType::kBool),
                 .step_share = input_share_};
      targets.ignored_BL = declared(of_micro(kIgnored, micro), shape, DType::kBool);
    }
    const MarkScope marks(runtime_, {.micro_batch = micro});
    const DTensor out = model_.run_part(model_.plan().parts[0], ids, padding);
    const DTensor loss = model_.loss_of(out, targets);
    const ModuleScope scope(runtime_, "loss");
    const auto one = [&] {
      const NoGrad no_grad(runtime_);
      const DTensor value = as_number(loss.detach());
      loss_ = loss_.defined() ? add(loss_, value) : value;
      return full_like(loss.detach(), 1.0);
    };
    backward(loss, one());
  }

  DTensor gradient_norm() {
    const ModuleScope scope(runtime_, "grad_norm");
    DTensor power;
    for (const Parameter& each : model_.parameters().all()) {
      const DTensor grad = each.stored().grad();
      if (!grad.defined()) continue;
      const DTensor squares = sum_of_squares(grad);
      power = power.defined() ? add(power, squares) : squares;
    }
    return sqrt(power);
  }

  void update() {
    loss_ = clone(loss_);
    norm_ = gradient_norm();
    const ModuleScope scope(runtime_, "optimizer");
    const DTensor clip = clamp_max(mul(reciprocal(add(norm_, 1e-6)), config_.max_norm), 1.0);
    const DTensor go = mul(as_number(isfinite(loss_)), as_number(isfinite(norm_)));
    const DTensor values[] = {lr_, clip, update_, go};
    const DTensor steering = call(runtime_, "stack", values)[0];
    std::vector<DTensor> counts_E;
    for (MoeLayer* layer : model_.moe_layers()) {
      counts_E.push_back(layer->balancer().counts_E());
      layer->balancer().forget_counts();
      layer->balancer().update_openly(counts_E.back(), go);
    }
    if (!counts_E.empty()) counts_LE_ = call(runtime_, "stack", counts_E)[0];
    optimizer_.step_openly(steering);
    model_.parameters().clear_grads();
  }

  Model& model_;
  Optimizer& optimizer_;
  Capture& capture_;
  Runtime& runtime_;
  const ModelConfig& config_;
  DTensor lr_, update_, target_share_, input_share_;
  DTensor loss_, norm_, counts_LE_;
};

/// Copies of gradients, which autograd makes for itself, are an op, too.
void write_copies_as_ops(Program& program) {
  for (AnyStep& step : program.steps) {
    auto* region = std::get_if<RegionStep>(&step.what);
    if (region == nullptr || region->name != "copy" || region->args.size() != 1) continue;
    step.what = CallStep{.op = "clone", .args = region->args, .out = region->out, .row = {}};
  }
}

/// Every step is one of the table's.
Status check_all_ops(const Program& program) {
  for (const AnyStep& step : program.steps) {
    const auto* region = std::get_if<RegionStep>(&step.what);
    if (region == nullptr) continue;
    return Status(absl::UnimplementedError(
        absl::StrFormat("open step: %s of module %s is no op of the table", in_quotes(region->name),
                        in_quotes(step.origin.module))));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<OpenStep> open_step(const ModelConfig& config, DType dtype) {
  TSR_RETURN_IF_ERROR(check_open(config));
  SimOptions options;
  options.value_bytes = std::numeric_limits<std::int64_t>::max();
  options.device = &shapes_device();
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world, make_sim_world(0, 1, options));
  OpenStep step;
  try {
    Runtime runtime(*world);
    const MeshViews views = value_or_throw(MeshViews::make({}, 1));
    Model model(runtime, views, config, dtype, LayerForm::kOps);
    Optimizer optimizer(model.parameters(), optimizer_config_of(config));
    Capture capture(runtime, "step");
    OpenPass pass(model, optimizer, capture);
    pass.run();
    const std::map<std::string, std::string> names = pass.results();
    step.program = capture.finish();
    rename_values(names, step.program);
    for (const Parameter& each : model.parameters().all()) {
      step.parameters.push_back({each.name(), each.init()});
    }
  } catch (const Error& error) {
    return error.status();
  }
  write_copies_as_ops(step.program);
  TSR_RETURN_IF_ERROR(check_all_ops(step.program));
  step.program.source = {.kind = "train", .by = {}, .command = {}};
  return step;
}

}  // namespace tessera
