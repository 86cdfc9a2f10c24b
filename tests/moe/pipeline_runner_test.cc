// A pipeline of toy stages: any schedule that simulate() accepts runs, whatever order its receivers
// want things in, and sends wait for nobody.
#include <cmath>
#include <limits>

#include "dtensor/ops.h"
#include "parallel/pipeline.h"
#include "testing/results.h"

namespace tessera::testing {
namespace {

using Kind = PipelinePass::Kind;

/// Each stage multiplies by its own weight: micro-batch i holds `size` times i + 1.
struct Toy {
  std::int64_t size = 3;
  double weight_of(std::int64_t stage) const { return 2.0 + static_cast<double>(stage); }
};

struct ToyResult {
  double loss = 0.0;                     ///< of the last stage's rank, else 0
  std::vector<double> weight_gradients;  ///< of this rank's stages, ascending
  std::int64_t transfers = 0;
};

ToyResult run_toy(World& world, const PipelineSchedule& schedule, const Toy& toy,
                  const std::function<void(const PipelinePass&)>& before_forward) {
  Runtime runtime(world);
  const MeshViews all = value_or_throw(MeshViews::make({.pp = world.size()}, world.size()));
  const MeshViews views = value_or_throw(all.at_stage(world.rank()));
  const StageGroup group(world, views);
  PipelineRunner runner(runtime, group, schedule);
  const Spec spec =
      value_or_throw(Spec::make(views.dense(), {toy.size}, DType::kF64, views.on_dense({})));
  const Spec scalar =
      value_or_throw(Spec::make(views.dense(), {}, DType::kF64, views.on_dense({})));
  std::map<std::int64_t, DTensor> weights;
  for (std::int64_t stage = world.rank(); stage < schedule.shape.num_stages();
       stage += world.size()) {
    weights[stage] = full(runtime, scalar, toy.weight_of(stage)).set_requires_grad(true);
  }
  ToyResult result;
  StageFunctions functions;
  functions.boundary = [&](std::int64_t) { return spec; };
  functions.forward = [&](const PipelinePass& pass, const DTensor& input) {
    if (before_forward) before_forward(pass);
    const DTensor x =
        pass.stage == 0 ? full(runtime, spec, static_cast<double>(pass.micro + 1)) : input;
    const DTensor y = mul(x, weights.at(pass.stage));
    if (pass.stage + 1 < schedule.shape.num_stages()) return y;
    const DTensor loss = sum(y);
    result.loss += item(loss.detach());
    return loss;
  };
  runner.run(functions);
  for (auto& [stage, weight] : weights) result.weight_gradients.push_back(item(weight.grad()));
  for (const Event& event : world.events().events()) result.transfers += event.axes == "pp";
  return result;
}

/// Against the closed form: the loss is size · Σ(i + 1) · Πw, and dw is the loss over w.
void check_toy(const std::vector<ToyResult>& ranks, const PipelineShape& shape, const Toy& toy) {
  double loss = static_cast<double>(toy.size * shape.micro_batches * (shape.micro_batches + 1) / 2);
  for (std::int64_t stage = 0; stage < shape.num_stages(); ++stage) loss *= toy.weight_of(stage);
  CHECK(ranks.back().loss == loss);
  for (std::int64_t stage = 0; stage < shape.num_stages(); ++stage) {
    CAPTURE(stage);
    const ToyResult& rank = ranks[static_cast<std::size_t>(shape.rank_of(stage))];
    CHECK(rank.weight_gradients[static_cast<std::size_t>(stage / shape.ranks)] ==
          Approx(loss / toy.weight_of(stage)).epsilon(1e-14));
  }
  std::int64_t transfers = 0;
  for (const ToyResult& rank : ranks) transfers += rank.transfers;
  // An activation and a gradient cross each border once; both ends write an event.
  CHECK(transfers == 4 * (shape.num_stages() - 1) * shape.micro_batches);
}

}  // namespace

TEST_CASE("toy stages under both schedules have the gradients of the closed form",
          "[moe][pipeline][C59]") {
  const PipelineOrder order = GENERATE(PipelineOrder::k1F1B, PipelineOrder::kInterleaved1F1B);
  const std::int64_t ranks = GENERATE(2, 3, 4);
  const PipelineShape shape = {.ranks = ranks,
                               .stages_per_rank = order == PipelineOrder::k1F1B ? 1 : 3,
                               .micro_batches = 2 * ranks};
  const PipelineSchedule schedule = value_or_throw(make_schedule(order, shape));
  const Toy toy;
  check_toy(results_of(static_cast<int>(ranks), {},
                       [&](World& world) { return run_toy(world, schedule, toy, nullptr); })
                .value(),
            shape, toy);
}

TEST_CASE("toy stages run any number of micro-batches through interleaved stages",
          "[moe][pipeline][C59]") {
  const std::int64_t ranks = GENERATE(2, 3, 4);
  const std::int64_t micro_batches = GENERATE(1, 3, 5, 7);
  CAPTURE(ranks, micro_batches);
  const PipelineShape shape = {
      .ranks = ranks, .stages_per_rank = 2, .micro_batches = micro_batches};
  const PipelineSchedule schedule = value_or_throw(make_interleaved_1f1b(shape));
  const Toy toy;
  check_toy(results_of(static_cast<int>(ranks), {},
                       [&](World& world) { return run_toy(world, schedule, toy, nullptr); })
                .value(),
            shape, toy);
}

TEST_CASE("a receiver may want micro-batches in another order than they are sent",
          "[moe][pipeline]") {
  const PipelineShape shape = {.ranks = 2, .micro_batches = 3};
  const PipelineSchedule schedule = {shape,
                                     {{{Kind::kForward, 0, 0},
                                       {Kind::kForward, 0, 1},
                                       {Kind::kForward, 0, 2},
                                       {Kind::kBackward, 0, 1},
                                       {Kind::kBackward, 0, 0},
                                       {Kind::kBackward, 0, 2}},
                                      {{Kind::kForward, 1, 2},
                                       {Kind::kForward, 1, 1},
                                       {Kind::kForward, 1, 0},
                                       {Kind::kBackward, 1, 2},
                                       {Kind::kBackward, 1, 0},
                                       {Kind::kBackward, 1, 1}}}};
  const Toy toy;
  check_toy(results_of(2, {}, [&](World& world) { return run_toy(world, schedule, toy, nullptr); })
                .value(),
            shape, toy);
}

TEST_CASE("sends wait for no receiver", "[moe][pipeline]") {
  // Rank 1 begins only when rank 0 has handed over two activations, too large for any eager
  // protocol.
  const Toy toy = {.size = 1 << 18};
  const PipelineShape shape = {.ranks = 2, .micro_batches = 3};
  PipelineSchedule schedule = value_or_throw(make_1f1b(shape));
  std::vector<PipelinePass>& first = schedule.by_rank[0];
  std::stable_partition(first.begin(), first.end(),
                        [](const PipelinePass& pass) { return pass.kind == Kind::kForward; });
  const auto body = [&](World& world) {
    const std::int64_t both[] = {1, 0};  // a group of its own beside that of the stages
    Communicator& signal = *value_or_throw(world.group(both));
    const Array flag = Array::zeros({1}, DType::kF64);
    if (world.rank() == 1) signal.recv(flag, 1);
    return run_toy(world, schedule, toy, [&](const PipelinePass& pass) {
      if (pass == PipelinePass{Kind::kForward, 0, 2}) signal.send(flag, 0);
    });
  };
  check_toy(results_of(2, {}, body).value(), shape, toy);
}

TEST_CASE("norms over stages count every stage once", "[moe][pipeline][C52]") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto body = [&](World& world) {
    const StageGroup group(world, value_or_throw(MeshViews::make({.pp = 4}, 4)));
    const double own = world.rank() == 2 ? 0.0 : static_cast<double>(world.rank() + 1);
    return std::vector<double>{group.norm(own, 2.0), group.norm(own, 1.0), group.norm(own, kInf)};
  };
  for (const std::vector<double>& norms : results_of(4, {}, body).value()) {
    CHECK(norms[0] == Approx(std::sqrt(1.0 + 4.0 + 16.0)).epsilon(1e-15));
    CHECK(norms[1] == Approx(7.0).epsilon(1e-15));
    CHECK(norms[2] == 4.0);
  }
}

}  // namespace tessera::testing
