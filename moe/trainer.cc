#include "moe/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "moe/optimizer_config.h"
#include "parallel/grad_norm.h"
#include "runtime/gather_texts.h"
#include "runtime/trace.h"

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

namespace {

/// What `after` counts beyond `before`.
std::vector<EventLog::Total> difference(const std::vector<EventLog::Total>& after,
                                        const std::vector<EventLog::Total>& before) {
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

OptimizerConfig make_optimizer_config(Model& model) {
  OptimizerConfig config = optimizer_config_of(model.context().config);
  if (!config.groups.empty()) config.names_elsewhere = model.names_elsewhere();
  return config;
}

PipelineSchedule make_model_schedule(const Model& model) {
  const ParallelConfig& parallel = model.context().views.config();
  return value_or_throw(make_schedule(parallel.pp_schedule, model.plan().shape));
}

}  // namespace

Trainer::Trainer(Model& model, const TokenData& data)
    : model_(model),
      data_(data),
      optimizer_(model.parameters(), make_optimizer_config(model)),
      rate_(learning_rate_of(model.context().config)),
      pipeline_(model.context().runtime, model.stage_group(), make_model_schedule(model)) {
  if (data.pad_id() == model.context().config.pad_id) return;
  throw Error(
      invalid_argument("trainer: the data were read with another pad_id than the model's; read "
                       "them with its config"));
}

namespace {

/// The rows of a micro-batch, placed as every stage reads them; undefined for none.
DTensor rows_of(const ModelContext& context, const Array& batch_BL, const MicroBatch& micro) {
  if (batch_BL.is_null()) return {};
  return context.place_tokens(batch_BL.slice(0, micro.first_row, micro.first_row + micro.rows));
}

/// Tokens of a step that are no padding.
struct ValidTokens {
  std::int64_t inputs = 0, targets = 0;
};

std::int64_t num_marked(const Array& mask_BL) {
  if (mask_BL.is_null()) return 0;
  const bool* mask = mask_BL.data<bool>();
  return std::count(mask, mask + mask_BL.num_elements(), true);
}

/// Batches of one step: read once for all their pieces and stages.
class StepBatches {
 public:
  StepBatches(const TokenData& data, std::int64_t step) : data_(data), step_(step) {}
  const TokenBatch& at(std::int64_t accum) {
    const auto known = batches_.find(accum);
    if (known != batches_.end()) return known->second;
    return batches_.emplace(accum, data_.batch(step_, accum)).first->second;
  }
  /// Of all micro-batches. Every rank has them all, so that none has to be asked.
  ValidTokens count_valid(const ModelConfig& config) {
    const std::int64_t all = config.batch * config.seq * config.accum;
    ValidTokens valid = {all, all};
    for (std::int64_t accum = 0; accum < config.accum; ++accum) {
      valid.inputs -= num_marked(at(accum).padding_BL);
      valid.targets -= num_marked(at(accum).ignored_BL);
    }
    return valid;
  }

 private:
  const TokenData& data_;
  std::int64_t step_;
  std::map<std::int64_t, TokenBatch> batches_;
};

}  // namespace

void Trainer::accumulate_gradients(StepReport& report) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.config;
  const PipelinePlan& plan = model_.plan();
  StepBatches batches(data_, report.step);
  const ValidTokens valid = batches.count_valid(c);
  if (!batches.at(0).ignored_BL.is_null()) report.valid_tokens = valid.targets;
  DTensor total;  // 0-d, in F64; on the last stage
  const auto micro_of = [&](std::int64_t micro) -> const MicroBatch& {
    return plan.micro_batches[static_cast<std::size_t>(micro)];
  };
  StageFunctions functions;
  functions.boundary = [&](std::int64_t micro) {
    return value_or_throw(Spec::make(context.views.dense(), {micro_of(micro).rows, c.seq, c.dim},
                                     context.compute, context.tokens()));
  };
  functions.forward = [&](const PipelinePass& pass, const DTensor& input) {
    const ModelPart& part = plan.parts[static_cast<std::size_t>(pass.stage)];
    const MicroBatch& micro = micro_of(pass.micro);
    context.runtime.pass = static_cast<std::uint64_t>(
        report.step * static_cast<std::int64_t>(plan.micro_batches.size()) + pass.micro);
    const TokenBatch& batch = batches.at(micro.accum);
    const DTensor x = part.has_embedding ? rows_of(context, batch.ids_BL, micro) : input;
    const DTensor out =
        model_.run_part(part, x, {rows_of(context, batch.padding_BL, micro), valid.inputs});
    if (!part.has_head) return out;
    const DTensor loss =
        model_.loss_of(out, {rows_of(context, batch.targets_BL, micro),
                             rows_of(context, batch.ignored_BL, micro), valid.targets});
    const NoGrad no_grad(context.runtime);
    const DTensor value = cast(loss.detach(), DType::kF64);
    total = total.defined() ? add(total, value) : value;
    return loss;
  };
  pipeline_.run(functions);
  const ModuleScope scope(context.runtime, "loss");
  report.loss = total.defined() ? item(total) : 0.0;
  model_.stage_group().all_reduce({&report.loss, 1}, ReduceOp::kSum, "loss");
}

StepReport Trainer::step(std::int64_t step) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.config;
  World& world = context.runtime.world();
  const TraceSpan span(world, "step " + std::to_string(step));
  const double start_us = world.now_us();
  const std::vector<EventLog::Total> moved_before = context.runtime.events().totals();
  StepReport report{.step = step, .lr = rate_.at(step), .num_tokens = c.batch * c.seq * c.accum};
  model_.parameters().clear_grads();
  accumulate_gradients(report);
  model_.parameters().finish_gradients();
  model_.check_row_bounds();
  {
    const ModuleScope scope(context.runtime, "grad_norm");
    report.grad_norm =
        model_.stage_group().norm(grad_norm(model_.parameters(), c.norm_type), c.norm_type);
  }
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    throw Error(failed_precondition(
        absl::StrFormat("step %d: loss %g and gradient norm %g must be finite; nothing was updated",
                        step, report.loss, report.grad_norm)));
  }
  report.routing = take_routing_report(model_);
  report.tokens_per_expert = model_.balance_experts();
  {
    const TraceSpan update(world, "optimizer");
    optimizer_.step(report.lr, clip_factor(report.grad_norm, c.max_norm));
  }
  report.moved = difference(context.runtime.events().totals(), moved_before);
  report.seconds = (world.now_us() - start_us) * 1e-6;
  return report;
}

}  // namespace tessera
