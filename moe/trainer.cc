#include "moe/trainer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "parallel/grad_norm.h"
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
  return Json::object(
             {{"step", report.step},
              {"loss", report.loss},
              {"grad_norm", report.grad_norm},
              {"lr", report.lr},
              {"tokens_per_expert", layers},
              {"tokens_per_second", static_cast<double>(report.num_tokens) / report.seconds},
              {"bytes", bytes}})
      .to_string();
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

}  // namespace

Trainer::Trainer(Model& model, const TokenData& data)
    : model_(model),
      data_(data),
      optimizer_(model.parameters(), {.beta1 = model.context().config.beta1,
                                      .beta2 = model.context().config.beta2,
                                      .eps = model.context().config.eps,
                                      .weight_decay = model.context().config.weight_decay}),
      rate_{.base = model.context().config.lr,
            .steps = model.context().config.steps,
            .warmup = model.context().config.warmup,
            .decay_ratio = model.context().config.decay_ratio} {}

double Trainer::accumulate_gradients(std::int64_t step) {
  const ModelContext& context = model_.context();
  const ModelConfig& c = context.config;
  double total = 0.0;
  for (std::int64_t micro = 0; micro < c.accum; ++micro) {
    const TokenBatch batch = data_.batch(step, micro);
    const DTensor ids = context.place_tokens(batch.ids_BL);
    const DTensor targets = context.place_tokens(batch.targets_BL);
    const DTensor loss = forward(ids, targets);
    total += item(loss.detach());
    const TraceSpan span(context.runtime.world(), "backward");
    backward(loss);
  }
  return total;
}

DTensor Trainer::forward(const DTensor& ids, const DTensor& targets) {
  const ModelConfig& c = model_.context().config;
  const TraceSpan span(model_.context().runtime.world(), "forward");
  return model_.loss(ids, targets, c.batch * c.seq * c.accum);
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
  report.loss = accumulate_gradients(step);
  {
    const ModuleScope scope(context.runtime, "grad_norm");
    report.grad_norm = grad_norm(model_.parameters());
  }
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    throw Error(failed_precondition(
        absl::StrFormat("step %d: loss %g and gradient norm %g must be finite; nothing was updated",
                        step, report.loss, report.grad_norm)));
  }
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
