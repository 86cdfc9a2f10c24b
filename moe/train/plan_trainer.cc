#include "moe/train/plan_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "dtensor/host_read.h"
#include "kernels/elementwise.h"
#include "kernels/memory_use.h"
#include "moe/train/open_step.h"
#include "moe/train/optimizer_config.h"
#include "moe/train/rope_table.h"
#include "moe/train/step_inputs.h"

namespace tessera {
namespace {

std::string described(const ProgramValue& value) {
  return absl::StrFormat("%s %s%s", std::string(name_of(value.role)),
                         std::string(name_of(value.dtype)), to_string(value.global_shape));
}

/// Parameters and expert biases, which files have; not the optimizer's states.
bool is_weight(const WantedValue& wanted) {
  return wanted.role == ValueRole::kParameter ||
         (wanted.role == ValueRole::kState && !wanted.name.starts_with("optimizer."));
}

double read_scalar(Runtime& runtime, const ProgramTensors& left, const char* name) {
  const auto found = left.find(name);
  if (found == left.end()) {
    throw Error(failed_precondition("plan: it leaves no value " + in_quotes(name)));
  }
  const Array whole = full_tensor(found->second);
  return read_to_host(runtime, whole, {.why = "moe.step", .tensor = name}).to_vector().at(0);
}

}  // namespace

Status check_plan(const Program& plan, const ModelConfig& config, DType dtype) {
  TSR_ASSIGN_OR_RETURN(const OpenStep open, open_step(config, dtype));
  absl::flat_hash_map<std::string, const ProgramValue*> planned;
  for (const ProgramValue& value : plan.values) planned[value.name] = &value;
  constexpr const char* kRemedy =
      "; a plan is solved from the step of the same config and dtype (placement-audit trace "
      "--train "
      "CONFIG --open)";
  for (const ProgramValue& value : open.program.values) {
    const auto found = planned.find(value.name);
    if (found == planned.end()) {
      return invalid_argument("plan " + in_quotes(plan.name) + ": it has no value " +
                              in_quotes(value.name) + kRemedy);
    }
    const ProgramValue& seen = *found->second;
    if (seen.role != value.role || seen.dtype != value.dtype ||
        seen.global_shape != value.global_shape) {
      return invalid_argument("plan " + in_quotes(plan.name) + ": " + in_quotes(value.name) +
                              " is " + described(seen) + ", and in the model's step " +
                              described(value) + kRemedy);
    }
    planned.erase(found);
  }
  if (planned.empty()) return absl::OkStatus();
  const auto first = std::ranges::min_element(
      planned, {}, [](const auto& each) -> const std::string& { return each.first; });
  return invalid_argument("plan " + in_quotes(plan.name) + ": it begins with " +
                          in_quotes(first->first) + ", which the model's step has not" + kRemedy);
}

PlanTrainer::PlanTrainer(Runtime& runtime, Program plan, const ModelConfig& config,
                         const TokenData& data, DType dtype)
    : runtime_(runtime),
      config_(config),
      data_(data),
      dtype_(dtype),
      rate_(learning_rate_of(config_)) {
  throw_if_error(check_plan(plan, config_, dtype));
  run_ = value_or_throw(ProgramRun::make(runtime, std::move(plan)));
}

PlanTrainer::~PlanTrainer() = default;

DTensor PlanTrainer::placed(const std::string& name, const Array& whole) const {
  const auto wanted = std::ranges::find(run_->wanted(), name, &WantedValue::name);
  return distribute(runtime_, to_device(runtime_.kernels(), whole), wanted->spec).set_name(name);
}

void PlanTrainer::initialize(std::uint64_t seed) {
  const NoGrad no_grad(runtime_);
  absl::flat_hash_map<std::string, Init> inits;
  for (const NamedInit& each : value_or_throw(open_step(config_, dtype_)).parameters) {
    inits[each.name] = each.init;
  }
  std::vector<std::int64_t> positions(static_cast<std::size_t>(config_.seq));
  std::iota(positions.begin(), positions.end(), 0);
  for (const WantedValue& wanted : run_->wanted()) {
    if (wanted.role == ValueRole::kInput) continue;
    DTensor& value = state_[wanted.name];
    if (wanted.role == ValueRole::kBuffer) {
      const RopeTable table = make_rope_table(config_, positions, wanted.spec.dtype());
      value = placed(wanted.name, wanted.name.ends_with(kRopeCos) ? table.cos : table.sin);
      continue;
    }
    value = zeros(runtime_, wanted.spec);
    value.set_name(wanted.name);
    const bool is_parameter = wanted.role == ValueRole::kParameter;
    tag_memory(*runtime_.world().allocator(), value.local(),
               is_parameter ? MemoryTag::kParameters : MemoryTag::kOptimizerState);
    if (!is_parameter) continue;
    tessera::initialize(value, inits.at(wanted.name), {.seed = seed, .stream = wanted.name});
  }
  num_updates_ = 0;
}

void PlanTrainer::load(const WeightFiles& files) {
  std::vector<WeightFiles::Needed> needed;
  for (const WantedValue& wanted : run_->wanted()) {
    if (is_weight(wanted)) needed.push_back({wanted.name, wanted.spec.global_shape()});
  }
  throw_if_error(files.check(needed));
  initialize(0);
  for (const WantedValue& wanted : run_->wanted()) {
    const std::optional<Coord> coord = wanted.spec.mesh().coord_of(runtime_.rank());
    if (!is_weight(wanted) || !coord) continue;
    const WeightFiles::Needed one = {wanted.name, wanted.spec.global_shape()};
    const Selection selection = selection_of(wanted.spec, *coord);
    const Array stored = Array::empty(shape_of(selection), files.dtype_of(one));
    throw_if_error(files.read(
        one, selection, {stored.data<std::byte>(), static_cast<std::size_t>(stored.num_bytes())}));
    const DTensor& value = state_.at(wanted.name);
    kernels::copy(runtime_.kernels(), to_device(runtime_.kernels(), stored), value.local());
    value.local().storage()->bump_version();
  }
}

/// What the step reads, where the plan wants it.
ProgramTensors PlanTrainer::inputs(std::int64_t step, double lr, StepReport& report) {
  using namespace open_names;
  ProgramTensors given;
  std::int64_t tokens = config_.batch * config_.seq * config_.accum, targets = tokens;
  for (std::int64_t micro = 0; micro < config_.accum; ++micro) {
    const TokenBatch batch = data_.batch(step, micro);
    tokens -= num_marked(batch.padding_BL);
    targets -= num_marked(batch.ignored_BL);
    const auto give = [&](const char* what, const Array& whole) {
      if (whole.is_null()) return;
      const std::string name = of_micro(what, micro);
      given[name] = placed(name, whole);
    };
    give(kIds, batch.ids_BL);
    give(kTargets, batch.targets_BL);
    give(kPadding, batch.padding_BL);
    give(kIgnored, batch.ignored_BL);
    if (!batch.ignored_BL.is_null()) report.valid_tokens = targets;
  }
  const auto give_number = [&](const char* name, double value) {
    given[name] = placed(name, Array::from_values({}, DType::kF64, std::span(&value, 1)));
  };
  give_number(kLr, lr);
  give_number(kUpdate, static_cast<double>(num_updates_ + 1));
  give_number(kTargetShare, share_of(targets));
  if (config_.pad_id) give_number(kInputShare, share_of(tokens));
  return given;
}

StepReport PlanTrainer::step(std::int64_t step) {
  using namespace open_names;
  World& world = runtime_.world();
  const double start_us = world.now_us();
  StepReport report{.step = step,
                    .lr = rate_.at(step),
                    .num_tokens = config_.batch * config_.seq * config_.accum};
  const std::vector<EventLog::Total> before = runtime_.events().totals();
  const NoGrad no_grad(runtime_);
  ProgramTensors given = inputs(step, report.lr, report);
  for (auto& [name, tensor] : state_) given[name] = tensor;
  ProgramTensors left = run_->run(std::move(given));
  report.loss = read_scalar(runtime_, left, kLoss);
  report.grad_norm = read_scalar(runtime_, left, kGradNorm);
  const auto counts = left.find(kExpertCounts);
  if (counts != left.end()) {
    const std::vector<double> all =
        read_to_host(runtime_, full_tensor(counts->second), {.why = "moe.step"}).to_vector();
    for (std::size_t at = 0; at < all.size(); at += static_cast<std::size_t>(config_.num_experts)) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
      report.tokens_per_expert.emplace_back(begin, begin + config_.num_experts);
    }
  }
  for (auto& [name, tensor] : state_) tensor = std::move(left.at(name));
  report.moved = moved_since(before, runtime_.events());
  report.seconds = (world.now_us() - start_us) * 1e-6;
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    throw Error(failed_precondition(
        absl::StrFormat("step %d: loss %g and gradient norm %g must be finite; nothing was updated",
                        step, report.loss, report.grad_norm)));
  }
  ++num_updates_;
  return report;
}

}  // namespace tessera
