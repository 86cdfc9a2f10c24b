#include "moe/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/factories.h"
#include "dtensor/host_read.h"
#include "dtensor/observer.h"
#include "io/json.h"
#include "kernels/optimizer.h"
#include "moe/train/optimizer_config.h"
#include "parallel/grad_norm.h"
#include "runtime/call/trace.h"

namespace tessera {

std::string to_json_line(const StepReport& report) {
  Json layers{Json::Array{}};
  for (const std::vector<std::int64_t>& counts : report.tokens_per_expert) {
    layers.push(Json(Json::Array(counts.begin(), counts.end())));
  }
  Json bytes{Json::Object{}};
  for (const EventLog::Total& total : report.moved) {
    if (total.kind != Event::Kind::kCollective) continue;
    const std::string key = total.name + "@" + total.axes;
    const Json* before = bytes.find(key);
    if (before == nullptr) {
      bytes.set(key, Json(total.bytes_received));
      continue;
    }
    const std::int64_t sum = *before->if_integer() + total.bytes_received;
    for (JsonMember& member : *bytes.if_object()) {
      if (member.key == key) member.value = Json(sum);
    }
  }
  Json line =
      Json::object({{"step", report.step},
                    {"loss", report.loss},
                    {"grad_norm", report.grad_norm},
                    {"lr", report.lr},
                    {"tokens_per_expert", layers},
                    {"tokens_per_second", static_cast<double>(report.num_tokens) / report.seconds},
                    {"bytes", bytes}});
  if (report.valid_tokens) line.set("valid_tokens", Json(*report.valid_tokens));
  const RoutingReport& routing = report.routing;
  if (routing.aux_loss) line.set("aux_loss", Json(*routing.aux_loss));
  if (routing.z_loss) line.set("z_loss", Json(*routing.z_loss));
  if (routing.dropped) line.set("dropped", Json(*routing.dropped));
  return line.to_string();
}

std::vector<EventLog::Total> moved_since(const std::vector<EventLog::Total>& before,
                                         const EventLog& log) {
  const std::vector<EventLog::Total> after = log.totals();
  const auto key = [](const EventLog::Total& total) {
    return std::tie(total.kind, total.name, total.axes, total.module, total.origin);
  };
  std::vector<EventLog::Total> out;
  for (EventLog::Total total : after) {
    const auto earlier = std::find_if(before.begin(), before.end(),
                                      [&](const auto& other) { return key(other) == key(total); });
    if (earlier != before.end()) {
      total.count -= earlier->count;
      total.bytes_received -= earlier->bytes_received;
    }
    if (total.count > 0) out.push_back(std::move(total));
  }
  return out;
}

namespace {

OptimizerConfig make_optimizer_config(Model& model) {
  OptimizerConfig config = optimizer_config_of(model.context().model);
  if (!config.groups.empty()) config.names_elsewhere = model.names_elsewhere();
  return config;
}

PipelineSchedule make_model_schedule(const Model& model) {
  const ParallelConfig& parallel = model.context().views.config();
  return value_or_throw(make_schedule(parallel.pp_schedule, model.plan().shape));
}

/// A capture would repeat the first step's noise.
void check_capture(const ModelConfig& config) {
  if (config.routing.input_jitter == 0.0) return;
  throw Error(invalid_argument(absl::StrFormat(
      "capture: input_jitter is %g, noise that is another in each step; it must be 0",
      config.routing.input_jitter)));
}

/// What passes of a step that failed left behind is no part of this one.
void forget_passes(Model& model) {
  using Kind = AuxLosses::Kind;
  for (MoeLayer* layer : model.moe_layers()) {
    layer->balancer().forget_counts();
    layer->experts().take_rows_needed();
    for (const Kind kind : {Kind::kSequence, Kind::kBatch, Kind::kGlobal, Kind::kZ}) {
      layer->aux_losses().take(kind);
    }
  }
}

}  // namespace

Trainer::Trainer(Model& model, const TokenData& data, StepMode mode)
    : model_(model),
      mode_(mode),
      inputs_(model, data),
      optimizer_(model.parameters(), make_optimizer_config(model)),
      rate_(learning_rate_of(model.context().model)),
      pipeline_(model.context().runtime, model.stage_group(), make_model_schedule(model)) {
  if (mode == StepMode::kCaptured) check_capture(model.context().model);
  if (data.pad_id() == model.context().model.pad_id) return;
  throw Error(
      invalid_argument("trainer: the data were read with another pad_id than the model's; read "
                       "them with its config"));
}

DTensor Trainer::accumulate_gradients(std::int64_t step) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.model;
  const PipelinePlan& plan = model_.plan();
  DTensor total;  // 0-d, in F64; on the last stage
  StageFunctions functions;
  functions.boundary = [&](std::int64_t micro) {
    const std::int64_t rows = plan.micro_batches[static_cast<std::size_t>(micro)].rows;
    return value_or_throw(
        Spec::make(context.views.dense(), {rows, c.seq, c.dim}, context.compute, context.tokens()));
  };
  functions.forward = [&](const PipelinePass& pass, const DTensor& input) {
    const ModelPart& part = plan.parts[static_cast<std::size_t>(pass.stage)];
    const MicroInputs& micro = inputs_.micro(pass.micro);
    context.runtime.pass = static_cast<std::uint64_t>(
        step * static_cast<std::int64_t>(plan.micro_batches.size()) + pass.micro);
    const DTensor x = part.has_embedding ? micro.ids_BL : input;
    const DTensor out = model_.run_part(part, x, micro.padding);
    if (!part.has_head) return out;
    const DTensor loss = model_.loss_of(out, micro.targets);
    const NoGrad no_grad(context.runtime);
    const DTensor value = cast(loss.detach(), DType::kF64);
    total = total.defined() ? add(total, value) : value;
    return loss;
  };
  pipeline_.run(functions);
  const ModuleScope scope(context.runtime, "loss");
  if (!total.defined()) return zeros(context.runtime, {1}, {.dtype = DType::kF64});
  return reshape(plain(context.runtime, full_tensor(total)), {1});
}

Trainer::Outcome Trainer::gather(const DTensor& loss) {
  const ModelConfig& c = model_.context().model;
  Runtime& runtime = model_.context().runtime;
  const StageGroup& stages = model_.stage_group();
  const std::int64_t num_moe = model_.num_moe_layers();
  Outcome outcome{.takes_largest = std::isinf(c.norm_type),
                  .bounds_rows = model_.bounds_rows() && num_moe > 0};
  DTensor power;
  {
    const ModuleScope scope(runtime, "grad_norm");
    power = grad_norm_power(model_.parameters(), runtime, c.norm_type);
  }
  std::vector<DTensor> sums = {loss}, largest;
  (outcome.takes_largest ? largest : sums).push_back(power);
  if (outcome.bounds_rows) {
    const DTensor own = model_.take_rows_needed();
    const DTensor column = own.defined() ? unsqueeze(own, 1) : own;
    largest.push_back(flatten(model_.among_all_layers(column, 1), 0, 1));
  }
  if (reports_routing(c.routing)) sums.push_back(take_routing_sums(model_));
  outcome.counts_LE = model_.take_expert_counts();
  if (num_moe > 0) {
    const DTensor own =
        outcome.counts_LE.defined() ? cast(outcome.counts_LE, DType::kF64) : DTensor();
    sums.push_back(flatten(model_.among_all_layers(own, c.num_experts), 0, 1));
  }
  outcome.sums = stages.all_reduce(cat(sums, 0), ReduceOp::kSum, "step");
  if (!largest.empty()) {
    outcome.largest = stages.all_reduce(cat(largest, 0), ReduceOp::kMax, "step");
  }
  return outcome;
}

void Trainer::update(Outcome& outcome) {
  const ModelConfig& c = model_.context().model;
  Runtime& runtime = model_.context().runtime;
  const auto cut = [](const DTensor& x, std::int64_t begin, std::int64_t end) {
    return slice(x, 0, begin, end);
  };
  DTensor loss_and_power = cut(outcome.sums, 0, 2), rows;
  if (outcome.takes_largest) {
    loss_and_power = cat(std::array{cut(outcome.sums, 0, 1), cut(outcome.largest, 0, 1)}, 0);
  }
  if (outcome.bounds_rows) {
    rows = cut(outcome.largest, outcome.takes_largest ? 1 : 0, outcome.largest.size(0));
  }
  const auto new_list = [&](std::int64_t size) {
    return plain(runtime, Array::empty({size}, DType::kF64, runtime.kernels().allocator));
  };
  outcome.norm = new_list(1);
  const DTensor steering = new_list(kernels::Steering::kSize);
  kernels::steer_step(
      runtime.kernels(),
      {.norm_type = c.norm_type,
       .max_norm = c.max_norm,
       .rows_bound =
           outcome.bounds_rows ? model_.context().views.config().dispatch.rows_bound : -1},
      {.schedule = inputs_.schedule().local(),
       .sums = loss_and_power.local(),
       .rows_needed = rows.defined() ? rows.local() : Array()},
      outcome.norm.local(), steering.local());
  if (outcome.counts_LE.defined()) model_.update_expert_bias(outcome.counts_LE, steering);
  const TraceSpan span(runtime.world(), "optimizer");
  optimizer_.step(steering);
}

DTensor Trainer::run(std::int64_t step) {
  Runtime& runtime = model_.context().runtime;
  forget_passes(model_);
  model_.parameters().clear_grads();
  const DTensor loss = accumulate_gradients(step);
  {
    const MarkScope marks(runtime, {.pass = PassMark::kBackward});
    model_.parameters().finish_gradients();
  }
  const MarkScope marks(runtime, {.pass = PassMark::kUpdate});
  const NoGrad no_grad(runtime);
  Outcome outcome = gather(loss);
  update(outcome);
  std::vector<DTensor> values = {outcome.norm, outcome.sums};
  if (outcome.largest.defined()) values.push_back(outcome.largest);
  return cat(values, 0);
}

void Trainer::read(const DTensor& outcome, StepReport& report) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.model;
  const ModuleScope scope(context.runtime, "step");
  const std::vector<double> values =
      read_to_host(context.runtime, outcome.local(), {.why = "moe.step"}).to_vector();
  auto next = values.begin();
  const auto take = [&next](std::int64_t count) {
    const auto begin = std::exchange(next, next + count);
    return std::span(begin, next);
  };
  report.grad_norm = take(1)[0];
  report.loss = take(1)[0];
  const bool takes_largest = std::isinf(c.norm_type);
  take(takes_largest ? 0 : 1);
  if (reports_routing(c.routing)) report.routing = routing_report(c.routing, take(kRoutingSums));
  for (std::int64_t layer = 0; layer < model_.num_moe_layers(); ++layer) {
    const auto counts = take(c.num_experts);
    report.tokens_per_expert.emplace_back(counts.begin(), counts.end());
  }
  take(takes_largest ? 1 : 0);
  throw_if_error(model_.check_row_bounds({next, values.end()}));
  if (std::isfinite(report.loss) && std::isfinite(report.grad_norm)) return;
  throw Error(failed_precondition(
      absl::StrFormat("step %d: loss %g and gradient norm %g must be finite; nothing was updated",
                      report.step, report.loss, report.grad_norm)));
}

StepReport Trainer::step(std::int64_t step) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.model;
  World& world = context.runtime.world();
  const TraceSpan span(world, "step " + std::to_string(step));
  const double start_us = world.now_us();
  const std::int64_t updates = optimizer_.num_steps();
  StepReport report{.step = step, .lr = rate_.at(step), .num_tokens = c.batch * c.seq * c.accum};
  inputs_.set(step, report.lr, updates + 1);
  report.valid_tokens = inputs_.valid_tokens();
  const std::vector<EventLog::Total> moved_before = context.runtime.events().totals();
  // The first step makes what later ones find: states, tables, caches.
  const bool captures = mode_ == StepMode::kCaptured && has_run_ && captured_ == nullptr;
  if (captures) {
    captured_ = std::make_unique<WorldCapture>(world, [&] { outcome_ = run(step); });
  } else if (captured_ == nullptr) {
    outcome_ = run(step);
  }
  const bool made_by_host = captured_ == nullptr || captures;
  if (captured_ != nullptr) captured_->launch();
  has_run_ = true;
  optimizer_.set_num_steps(updates);  // until it is known that there was one
  read(outcome_, report);
  optimizer_.set_num_steps(updates + 1);
  if (made_by_host) moved_ = moved_since(moved_before, context.runtime.events());
  report.moved = moved_;
  report.seconds = (world.now_us() - start_us) * 1e-6;
  return report;
}

}  // namespace tessera
