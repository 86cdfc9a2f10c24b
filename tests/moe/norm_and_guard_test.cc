// The gradient norm over both views, the guard before the update, and the optimizer's settings in
// whole training runs.
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "parallel/grad_norm.h"
#include "tests/moe/training_run.h"
#include "tests/support/on_world.h"

namespace tessera::testing {
namespace {

RunOptions small_run(const ParallelConfig& parallel, int num_ranks) {
  RunOptions options{.parallel = parallel, .num_ranks = num_ranks, .num_steps = 2};
  options.change_config = shrink;
  return options;
}

}  // namespace

TEST_CASE("the gradient norm over both meshes is that of one rank for every p",
          "[moe][grad_norm][C52]") {
  struct Case {
    ParallelConfig parallel;
    int num_ranks;
    bool has_experts = true;
  };
  const Case cases[] = {{{.dp_shard = 2, .tp = 2, .ep = 2}, 4},
                        {{.dp_replicate = 2, .dp_shard = 1, .tp = 2, .ep = 2}, 4},
                        {{.dp_shard = 2, .tp = 2}, 4, false},
                        {{.dp_shard = 2, .ep = 2, .pp = 2}, 4}};
  const Case& which = cases[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  const auto with_norms = [&](RunOptions options) {
    options.num_steps = 1;
    options.change_config = [&which](ModelConfig& config) {
      shrink(config);
      if (!which.has_experts) config.n_dense_layers = config.n_layers;
    };
    options.inspect = [](Model& model, Trainer&) {
      std::vector<double> norms;
      for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
        norms.push_back(model.stage_group().norm(grad_norm(model.parameters(), p), p));
      }
      return norms;
    };
    return options;
  };
  const RunResult one = train(with_norms(small_run({}, 1)));
  for (const RunResult& rank : train_all(with_norms(small_run(which.parallel, which.num_ranks)))) {
    for (std::size_t i = 0; i < one.inspected.size(); ++i) {
      CAPTURE(i);
      CHECK(rank.inspected[i] == Approx(one.inspected[i]).epsilon(1e-10));
    }
    CHECK(rank.steps[0].grad_norm == Approx(one.steps[0].grad_norm).epsilon(1e-10));
  }
}

TEST_CASE("a value that is not finite on one rank stops all ranks before the update",
          "[moe][guard][C73]") {
  const double p = GENERATE(2.0, std::numeric_limits<double>::infinity());
  RunOptions options = small_run({.dp_shard = 2, .tp = 2, .ep = 2}, 4);
  options.num_steps = 1;
  options.change_config = [p](ModelConfig& config) {
    shrink(config);
    config.norm_type = p;
  };
  options.inspect = [](Model& model, Trainer& trainer) -> std::vector<double> {
    const auto sums = [&] {
      std::vector<double> values;
      for (Parameter& parameter : model.parameters().all()) {
        const std::vector<double> local = parameter.stored().local().to_vector();
        double sum = 0.0;
        for (const double value : local) sum += std::isnan(value) ? 0.0 : value;
        values.push_back(sum);
      }
      return values;
    };
    Parameter& poisoned = *model.parameters().find("lm_head.weight");
    if (model.context().runtime.rank() == 3) {
      KernelContext ctx = context_of(model.context().runtime.world());
      kernels::fill(ctx, NAN, poisoned.stored().local().slice(0, 0, 1));
    }
    const std::vector<double> before = sums();
    bool refused = false;
    try {
      trainer.step(1);
    } catch (const Error& error) {
      refused = std::string(error.what()).find("nothing was updated") != std::string::npos;
    }
    return {refused ? 1.0 : 0.0, sums() == before ? 1.0 : 0.0,
            static_cast<double>(trainer.optimizer().num_steps())};
  };
  for (const RunResult& rank : train_all(options)) {
    CHECK(rank.inspected == std::vector<double>{1.0, 1.0, 1.0});
  }
}

TEST_CASE("AdamW, Adam and SGD update parts of tensors as whole ones, decay included",
          "[moe][optimizer][C53][C54]") {
  const OptimizerKind kind =
      GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd);
  const auto with_kind = [kind](RunOptions options) {
    options.change_config = [kind](ModelConfig& config) {
      shrink(config);
      config.optimizer = kind;
      config.weight_decay = 0.3;
      config.momentum = 0.9;
      config.warmup = 0;
      config.lr = 1e-2;
      config.param_groups = {{.pattern = "norm", .weight_decay = 0.0},
                             {.pattern = "experts", .lr_scale = 0.5},
                             {.pattern = ""}};
    };
    return options;
  };
  const RunOptions options =
      GENERATE(small_run({.tp = 2}, 2), small_run({.dp_shard = 2, .tp = 2, .ep = 4}, 4));
  const RunResult many = train(with_kind(options));
  const RunResult one = train(with_kind(small_run({}, 1)));
  CHECK(element_difference(many, one) == "");
}

}  // namespace tessera::testing
