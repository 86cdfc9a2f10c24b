// FSDP units in training: what moves, when, and that no policy changes a result.
#include "parallel/fsdp.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

void two_micro_batches(ModelConfig& config) { config.accum = 2; }

/// Collectives of one step that a unit's bucket has made, by module and reason.
struct Calls {
  std::map<std::pair<std::string, std::string>, std::vector<Event>> of;
  std::vector<Event> all;

  explicit Calls(EventLog& events) {
    for (const Event& event : events.events()) {
      if (event.kind != Event::Kind::kCollective) continue;
      all.push_back(event);
      of[{event.module, event.why}].push_back(event);
    }
  }
  double count(const std::string& unit, const std::string& why) const {
    const auto at = of.find({unit, why});
    return at == of.end() ? 0.0 : static_cast<double>(at->second.size());
  }
  double bytes(const std::string& unit, const std::string& why) const {
    double sum = 0;
    const auto at = of.find({unit, why});
    if (at == of.end()) return 0.0;
    for (const Event& event : at->second) sum += static_cast<double>(event.bytes_received);
    return sum;
  }
  double issued(const std::string& unit, const std::string& why) const {
    return of.at({unit, why}).front().start_us;
  }
  /// When the modules below `unit` first communicated, after `from`.
  double first_inside(const std::string& unit, double from) const {
    double first = INFINITY;
    for (const Event& event : all) {
      if (event.module.starts_with(unit + ".") && event.start_us > from) {
        first = std::min(first, event.start_us);
      }
    }
    return first;
  }
};

const std::string kForward = "gather", kAgain = "gather for backward",
                  kReduce = "gradients of a bucket", kLate = "kept gradients of a bucket";

/// What `look` finds in the events of one more step, on each rank.
std::vector<std::vector<double>> look_at_step(
    RunOptions options, const std::function<std::vector<double>(const Calls&, Model&)>& look) {
  options.num_steps = 1;
  options.inspect = [&look](Model& model, Trainer& trainer) {
    EventLog& events = model.context().runtime.events();
    events.clear();
    trainer.step(1);
    return look(Calls(events), model);
  };
  std::vector<std::vector<double>> seen;
  for (RunResult& rank : train_all(options)) seen.push_back(std::move(rank.inspected));
  return seen;
}

void check_losses(const RunResult& run, const RunResult& reference) {
  REQUIRE(run.steps.size() == reference.steps.size());
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - reference.steps[step].loss) < 1e-9);
    CHECK(std::abs(run.steps[step].grad_norm - reference.steps[step].grad_norm) < 1e-9);
  }
}

}  // namespace

TEST_CASE("no FSDP policy changes losses or parameters", "[moe][fsdp][C45][C50][C51][C55]") {
  const RunOptions one = {.num_steps = 2, .change_config = two_micro_batches};
  static const RunResult reference = train(one);
  const auto reshard = GENERATE(ReshardAfterForward::kDefault, ReshardAfterForward::kAlways,
                                ReshardAfterForward::kNever);
  const auto gradients = GENERATE(GradientPolicy::kEachMicroBatch, GradientPolicy::kLastMicroBatch);
  const auto prefetch = GENERATE(Prefetch::kNext, Prefetch::kOff);
  CAPTURE(static_cast<int>(reshard), static_cast<int>(gradients), static_cast<int>(prefetch));
  RunOptions many = one;
  const bool replicated = gradients == GradientPolicy::kLastMicroBatch;
  many.parallel = {.dp_replicate = replicated ? 2 : 1,
                   .dp_shard = replicated ? 2 : 4,
                   .tp = 2,
                   .ep = 2,
                   .fsdp = {.reshard = reshard, .gradients = gradients, .prefetch = prefetch}};
  many.num_ranks = 8;
  check_same(train(many), reference);
}

TEST_CASE("units come back in recomputed layers and with micro-batches under way",
          "[moe][fsdp][recompute][pipeline]") {
  const RunOptions one = {.num_steps = 2, .change_config = two_micro_batches};
  static const RunResult reference = train(one);
  const auto reshard = GENERATE(ReshardAfterForward::kDefault, ReshardAfterForward::kAlways,
                                ReshardAfterForward::kNever);
  const FsdpPolicy policy = {.reshard = reshard};
  const ParallelConfig parallel = GENERATE_COPY(
      ParallelConfig{
          .dp_shard = 2, .tp = 2, .ep = 2, .recompute = Recompute::kFull, .fsdp = policy},
      ParallelConfig{.dp_shard = 4, .ep = 2, .recompute = Recompute::kSelective, .fsdp = policy},
      ParallelConfig{.dp_shard = 2, .pp = 2, .pp_microbatches = 4, .fsdp = policy});
  CAPTURE(static_cast<int>(reshard), parallel.pp, static_cast<int>(parallel.recompute));
  RunOptions many = one;
  many.parallel = parallel;
  many.num_ranks = 4;
  check_losses(train(many), reference);
}

TEST_CASE("a recomputed layer is gathered once in each pass, the next one ahead",
          "[moe][fsdp][recompute]") {
  const auto seen = look_at_step(
      {.parallel = {.dp_shard = 4, .ep = 4, .recompute = Recompute::kFull}, .num_ranks = 4},
      [](const Calls& calls, Model&) {
        const double again = calls.issued("layers.1", kAgain);
        return std::vector<double>{calls.count("layers.1", kForward),
                                   calls.count("layers.1", kAgain),
                                   calls.count("layers.1", kReduce),
                                   static_cast<double>(calls.issued("layers.0", kAgain) <
                                                       calls.first_inside("layers.1", again))};
      });
  for (const auto& rank : seen) CHECK(rank == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("a unit moves by one exchange a group of ranks, its gradients by one bucket",
          "[moe][fsdp][C45]") {
  // Dense parameters are cut over 4 ranks, experts over 2 of them.
  const auto seen = look_at_step(
      {.parallel = {.dp_shard = 4, .tp = 2, .ep = 4}, .num_ranks = 8},
      [](const Calls& calls, Model& model) {
        const std::string moe = "layers." + std::to_string(model.context().model.n_layers - 1);
        return std::vector<double>{calls.count(moe, kForward),
                                   calls.count(moe, kAgain),
                                   calls.count("layers.0", kForward),
                                   calls.count("layers.0", kAgain),
                                   calls.count("lm_head", kForward),
                                   calls.count("lm_head", kAgain),
                                   calls.count("tok_embeddings", kForward),
                                   calls.count("tok_embeddings", kAgain),
                                   calls.count("tok_embeddings", kReduce)};
      });
  for (const auto& rank : seen) {
    // The head is kept for its backward pass; the embedding's gradient does not read its weight.
    CHECK(rank == std::vector<double>{2, 2, 1, 1, 1, 0, 1, 0, 1});
  }
}

TEST_CASE("reshard_after_forward says how often a unit is gathered", "[moe][fsdp]") {
  struct Case {
    ReshardAfterForward reshard;
    std::vector<double> gathers;  // of a layer and of the head, in two micro-batches
  };
  const Case each = GENERATE(Case{ReshardAfterForward::kDefault, {2, 2, 2, 0}},
                             Case{ReshardAfterForward::kAlways, {2, 2, 2, 2}},
                             Case{ReshardAfterForward::kNever, {1, 0, 1, 0}});
  const auto seen = look_at_step({.parallel = {.dp_shard = 2, .fsdp = {.reshard = each.reshard}},
                                  .num_ranks = 2,
                                  .change_config = two_micro_batches},
                                 [](const Calls& calls, Model&) {
                                   return std::vector<double>{calls.count("layers.1", kForward),
                                                              calls.count("layers.1", kAgain),
                                                              calls.count("lm_head", kForward),
                                                              calls.count("lm_head", kAgain)};
                                 });
  for (const auto& rank : seen) CHECK(rank == each.gathers);
}

TEST_CASE("the next unit's gather is issued before the present unit computes, both ways",
          "[moe][fsdp][C58]") {
  const Prefetch prefetch = GENERATE(Prefetch::kNext, Prefetch::kOff);
  const auto seen =
      look_at_step({.parallel = {.dp_shard = 2, .tp = 2, .ep = 4, .fsdp = {.prefetch = prefetch}},
                    .num_ranks = 4},
                   [](const Calls& calls, Model&) {
                     // Layers exchange tokens with other ranks, and wait for counts: what is late
                     // there, is late.
                     const double forward = calls.first_inside("layers.0", 0);
                     const double again = calls.issued("layers.1", kAgain);
                     return std::vector<double>{
                         static_cast<double>(calls.issued("layers.1", kForward) < forward),
                         static_cast<double>(calls.issued("layers.0", kAgain) <
                                             calls.first_inside("layers.1", again)),
                         static_cast<double>(calls.issued("layers.1", kReduce) > again)};
                   });
  const double ahead = prefetch == Prefetch::kNext ? 1.0 : 0.0;
  for (const auto& rank : seen) CHECK(rank == std::vector<double>{ahead, ahead, 1.0});
}

TEST_CASE("parameters travel in BF16, gradients in F32, once a step where they are kept",
          "[moe][fsdp][C45]") {
  const auto gradients = GENERATE(GradientPolicy::kEachMicroBatch, GradientPolicy::kLastMicroBatch);
  const auto seen = look_at_step(
      {.parallel = {.dp_shard = 4, .fsdp = {.gradients = gradients}},
       .num_ranks = 4,
       .dtype = DType::kBF16,
       .change_config = two_micro_batches},
      [](const Calls& calls, Model& model) {
        double gathered = 0, own = 0;
        for (Parameter& each : model.parameters().all()) {
          if (!each.name().starts_with("layers.1.")) continue;
          const bool is_gate = each.name().find("gate") != std::string::npos;
          const double full = static_cast<double>(num_elements(each.stored().global_shape()));
          const auto local = static_cast<double>(each.stored().local().num_elements());
          gathered += (full - local) * (is_gate ? 4 : 2);
          own += local * 4;
        }
        return std::vector<double>{calls.bytes("layers.1", kForward) - 2 * gathered,
                                   calls.bytes("layers.1", kReduce) / (3 * own),
                                   calls.bytes("layers.1", kLate) / (3 * own)};
      });
  const bool kept = gradients == GradientPolicy::kLastMicroBatch;
  for (const auto& rank : seen) {
    // A reduction receives the shard's summands of three others.
    CHECK(rank == std::vector<double>{0, kept ? 0.0 : 2.0, kept ? 1.0 : 0.0});
  }
}

}  // namespace tessera::testing
