#include "parallel/pipeline.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"
#include "kernels/elementwise.h"
#include "runtime/call/trace.h"

namespace tessera {

using Kind = PipelinePass::Kind;

StageGroup::StageGroup(World& world, const MeshViews& views) : size_(views.config().pp) {
  if (size_ == 1) return;
  const std::int64_t stage_ranks = views.dense().num_ranks();
  rank_ = views.stage_of(world.rank());
  std::vector<std::int64_t> ranks;
  for (std::int64_t stage = 0; stage < size_; ++stage) {
    ranks.push_back(stage * stage_ranks + world.rank() % stage_ranks);
  }
  communicator_ = value_or_throw(world.group(ranks));
}

void StageGroup::all_reduce(std::span<double> values, ReduceOp op, std::string_view what) const {
  if (communicator_ == nullptr || values.empty()) return;
  const Array array = Array::from_values({static_cast<std::int64_t>(values.size())}, DType::kF64,
                                         {values.data(), values.size()});
  communicator_->all_reduce(array, array, op, {.tensor = what, .axes = "pp"});
  std::copy_n(array.data<double>(), values.size(), values.begin());
}

DTensor StageGroup::all_reduce(const DTensor& values, ReduceOp op, std::string_view what) const {
  if (communicator_ == nullptr || num_elements(values.global_shape()) == 0) return values;
  Runtime& runtime = values.runtime();
  const Array sum = kernels::contiguous(runtime.kernels(), values.local());
  const Array out = Array::empty(sum.shape(), sum.dtype(), runtime.kernels().allocator);
  communicator_->all_reduce(sum, out, op, {.tensor = what, .axes = "pp"});
  DTensor result = plain(runtime, out);
  tell_region(runtime, "all_reduce", RegionKind::kCommunicates, {values}, result, Site::current());
  return result;
}

double StageGroup::norm(double own, double p) const {
  if (communicator_ == nullptr) return own;
  const bool largest = std::isinf(p);
  double value = largest ? own : std::pow(own, p);
  all_reduce({&value, 1}, largest ? ReduceOp::kMax : ReduceOp::kSum, "grad_norm");
  return largest ? value : std::pow(value, 1.0 / p);
}

namespace {

/// The pass that gets what `pass` makes; micro −1 where nobody does.
PipelinePass consumer_of(const PipelinePass& pass, const PipelineShape& shape) {
  const std::int64_t stage = pass.stage + (pass.kind == Kind::kForward ? 1 : -1);
  if (stage < 0 || stage == shape.num_stages()) return {pass.kind, stage, -1};
  return {pass.kind, stage, pass.micro};
}

}  // namespace

PipelineRunner::PipelineRunner(Runtime& runtime, const StageGroup& group, PipelineSchedule schedule)
    : runtime_(runtime), group_(group), schedule_(std::move(schedule)) {
  throw_if_error(simulate(schedule_).status());
  const PipelineShape& shape = schedule_.shape;
  if (shape.ranks != group_.size()) {
    throw Error(invalid_argument(
        absl::StrFormat("pipeline: a schedule of %d ranks on pp %d", shape.ranks, group_.size())));
  }
  fed_by_.resize(schedule_.by_rank.size());
  for (std::size_t rank = 0; rank < fed_by_.size(); ++rank) {
    for (const PipelinePass& pass : schedule_.by_rank[rank]) {
      const PipelinePass to = consumer_of(pass, shape);
      const bool is_mine = to.micro >= 0 && shape.rank_of(to.stage) == group_.rank();
      if (is_mine) fed_by_[rank].push_back(to);
    }
  }
}

bool PipelineRunner::gets_input(const PipelinePass& pass) const {
  return pass.kind == Kind::kForward ? pass.stage > 0
                                     : pass.stage + 1 < schedule_.shape.num_stages();
}

// Receives are posted in the order in which the sender sends, whatever order they are needed in.
void PipelineRunner::ask_for(const PipelinePass& pass, const StageFunctions& functions) {
  if (!gets_input(pass) || arrivals_.contains(key_of(pass))) return;
  const std::int64_t from =
      schedule_.shape.rank_of(pass.stage + (pass.kind == Kind::kForward ? -1 : 1));
  const ModuleScope scope(runtime_, "pipeline");
  const std::vector<PipelinePass>& queue = fed_by_[static_cast<std::size_t>(from)];
  std::size_t& next = asked_[static_cast<std::size_t>(from)];
  while (next < queue.size() && !arrivals_.contains(key_of(pass))) {
    const PipelinePass& sent = queue[next++];
    Arrival arrival{empty(runtime_, functions.boundary(sent.micro)), nullptr};
    if (arrival.tensor.local().num_elements() > 0) {
      arrival.work = group_.communicator()->recv_async(
          arrival.tensor.local(), static_cast<int>(from),
          {.tensor = sent.kind == Kind::kForward ? "activation" : "gradient", .axes = "pp"});
    }
    arrivals_.emplace(key_of(sent), std::move(arrival));
  }
}

DTensor PipelineRunner::take(const PipelinePass& pass, const StageFunctions& functions) {
  if (!gets_input(pass)) return {};
  ask_for(pass, functions);
  const Arrival arrival = std::move(arrivals_.extract(key_of(pass)).mapped());
  if (arrival.work != nullptr) arrival.work->wait();
  const ModuleScope scope(runtime_, "pipeline");
  tell_region(runtime_, "receive", RegionKind::kCommunicates, {}, arrival.tensor, Site::current());
  return arrival.tensor;
}

void PipelineRunner::send(const DTensor& x, const PipelinePass& to, std::string_view what) {
  if (x.local().num_elements() == 0) return;
  const ModuleScope scope(runtime_, "pipeline");
  const Array whole = kernels::contiguous(runtime_.kernels(), x.local());
  sends_.push_back(group_.communicator()->send_async(
      whole, static_cast<int>(schedule_.shape.rank_of(to.stage)), {.tensor = what, .axes = "pp"}));
  tell_region(runtime_, "send", RegionKind::kCommunicates, {x}, {}, Site::current());
}

namespace {

/// What leaves a stage lies as the next one expects it.
void check_boundary(const DTensor& x, const Spec& wanted, const PipelinePass& pass) {
  if (x.spec() == wanted) return;
  throw Error(
      internal_error(absl::StrFormat("pipeline: the %s made %s; the boundary is %s",
                                     to_string(pass), x.spec().to_string(), wanted.to_string())));
}

}  // namespace

void PipelineRunner::forward(const PipelinePass& pass, const StageFunctions& functions) {
  Held held;
  held.input = take(pass, functions);
  if (held.input.defined()) held.input.set_requires_grad(true);
  held.output = functions.forward(pass, held.input);
  const PipelinePass to = consumer_of(pass, schedule_.shape);
  if (to.micro >= 0) {
    check_boundary(held.output, functions.boundary(pass.micro), pass);
    send(held.output, to, "activation");
  }
  held_.emplace(std::pair(pass.stage, pass.micro), std::move(held));
}

void PipelineRunner::backward_pass(const PipelinePass& pass, const StageFunctions& functions) {
  const Held held = std::move(held_.extract({pass.stage, pass.micro}).mapped());
  backward(held.output, take(pass, functions));
  const PipelinePass to = consumer_of(pass, schedule_.shape);
  if (to.micro < 0) return;
  const DTensor given = held.input.grad();
  const DTensor grad = given.defined() ? given : zeros_like(held.input.detach());
  check_boundary(grad, functions.boundary(pass.micro), pass);
  send(grad, to, "gradient");
}

void PipelineRunner::run(const StageFunctions& functions) {
  asked_.assign(fed_by_.size(), 0);
  const std::vector<PipelinePass>& passes =
      schedule_.by_rank[static_cast<std::size_t>(group_.rank())];
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const PipelinePass& pass = passes[i];
    ask_for(pass, functions);
    if (i + 1 < passes.size()) ask_for(passes[i + 1], functions);
    const bool is_forward = pass.kind == Kind::kForward;
    const bool alone = schedule_.shape.num_stages() == 1;
    const TraceSpan span(runtime_.world(), alone ? std::string(is_forward ? "forward" : "backward")
                                                 : to_string(pass));
    const MarkScope marks(runtime_,
                          {.stage = static_cast<int>(pass.stage), .micro_batch = pass.micro});
    if (is_forward) {
      forward(pass, functions);
    } else {
      backward_pass(pass, functions);
    }
  }
  for (const std::shared_ptr<Work>& work : sends_) work->wait();
  tell_region(runtime_, "wait", RegionKind::kCommunicates, {}, {}, Site::current());
  sends_.clear();
}

}  // namespace tessera
