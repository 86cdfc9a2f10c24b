// Whole training runs with routing's options: the same on every mesh as on one rank, in F64.
#include <cmath>
#include <functional>

#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

using Change = std::function<void(ModelConfig&)>;

void make_small(ModelConfig& config) {
  config.seq = 13;
  config.batch = 4;
  config.n_layers = 2;
  config.n_dense_layers = 1;
}

struct MeshCase {
  ParallelConfig parallel;
  int num_ranks;
};
MeshCase mesh_case(std::size_t at) {
  static const std::vector<MeshCase> all = {{{.dp_shard = 2, .tp = 2, .ep = 2}, 4},
                                            {{.dp_replicate = 2, .tp = 2}, 4},
                                            {{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4}, 8}};
  return all[at];
}

/// Runs `change` on a few meshes and on one rank; returns the latter.
RunResult check_on_meshes(const Change& change) {
  const auto changed = [change](ModelConfig& config) {
    make_small(config);
    change(config);
  };
  const RunOptions one = {.num_steps = 2, .change_config = changed};
  const RunResult reference = train(one);
  for (std::size_t at = 0; at < 3; ++at) {
    const MeshCase mesh = mesh_case(at);
    if (!runs_here(mesh.num_ranks)) continue;
    CAPTURE(at);
    RunOptions many = one;
    many.parallel = mesh.parallel;
    many.num_ranks = mesh.num_ranks;
    check_same(train(many), reference);
  }
  return reference;
}

}  // namespace

TEST_CASE("losses of routing train alike on every mesh, in accumulated steps too",
          "[moe][routing][C21][C44]") {
  const RunResult run = check_on_meshes([](ModelConfig& config) {
    config.accum = 2;
    config.routing.seq_aux_coeff = 0.05;
    config.routing.batch_aux_coeff = 0.02;
    config.routing.global_aux_coeff = 0.03;
    config.routing.z_loss_coeff = 0.01;
    config.routing.bias_centred = false;
  });
  CHECK(*run.steps[0].routing.aux_loss > 0.09);  // about the sum of coefficients at random weights
  CHECK(*run.steps[0].routing.z_loss > 0.0);
  CHECK_FALSE(run.steps[0].routing.dropped.has_value());
  CHECK_THAT(to_json_line(run.steps[0]), Catch::Contains("\"aux_loss\":0."));
  CHECK_THAT(to_json_line(run.steps[0]), Catch::Contains("\"z_loss\":0."));
}

TEST_CASE("jitter, forced balance and gated shared experts train alike on every mesh",
          "[moe][routing]") {
  const bool balanced = GENERATE(false, true);
  CAPTURE(balanced);
  const RunResult run = check_on_meshes([balanced](ModelConfig& config) {
    config.score_func = ScoreFunction::kSqrtSoftplus;
    config.routing.force_balance = balanced;
    config.routing.input_jitter = 0.2;
    config.routing.shared_expert_gate = true;
  });
  if (!balanced) return;
  for (const auto& counts : run.steps[0].tokens_per_expert) {
    for (const std::int64_t count : counts) {
      // 52 tokens with K slots each, dealt round robin.
      const std::int64_t slots = 52 * 3;
      CHECK(count >= slots / static_cast<std::int64_t>(counts.size()));
      CHECK(count <= slots / static_cast<std::int64_t>(counts.size()) + 1);
    }
  }
}

TEST_CASE("dropped assignments train alike on every mesh and are reported",
          "[moe][routing][capacity]") {
  const RunResult run = check_on_meshes([](ModelConfig& config) {
    config.routing.capacity_factor = 0.75;
    config.routing.seq_aux_coeff = 0.01;
  });
  // 52 tokens choose 3 of 8 experts, each with room for ceil(19.5 · 0.75) = 15.
  std::int64_t over = 0;
  for (const std::int64_t count : run.steps[0].tokens_per_expert[0]) {
    over += std::max(std::int64_t{0}, count - 15);
  }
  CHECK(over > 0);
  CHECK(run.steps[0].routing.dropped == over);
  CHECK_THAT(to_json_line(run.steps[0]), Catch::Contains("\"dropped\":" + std::to_string(over)));
}

TEST_CASE("recomputed layers see the same noise, losses and drops", "[moe][routing][C43][C44]") {
  const auto change = [](ModelConfig& config) {
    make_small(config);
    config.accum = 2;
    config.routing.input_jitter = 0.1;
    config.routing.seq_aux_coeff = 0.05;
    config.routing.global_aux_coeff = 0.05;
    config.routing.z_loss_coeff = 0.01;
    config.routing.capacity_factor = 0.75;
  };
  RunOptions options = {
      .parallel = {.dp_shard = 2}, .num_ranks = 2, .num_steps = 2, .change_config = change};
  const RunResult recorded = train(options);
  options.parallel.recompute = GENERATE(Recompute::kFull, Recompute::kSelective);
  check_same(train(options), recorded);
}

TEST_CASE("losses of routing ride through pipeline stages", "[moe][routing][C44]") {
  const auto change = [](ModelConfig& config) {
    make_small(config);
    config.n_layers = 3;
    config.routing.seq_aux_coeff = 0.05;
    config.routing.z_loss_coeff = 0.01;
    config.accum = 2;
  };
  const RunOptions one = {.num_steps = 2, .change_config = change};
  RunOptions staged = one;
  staged.parallel = {.pp = 2};
  staged.num_ranks = 2;
  const RunResult two = train(staged), reference = train(one);
  for (std::size_t step = 0; step < 2; ++step) {
    CHECK(std::abs(two.steps[step].loss - reference.steps[step].loss) < 1e-9);
    CHECK(std::abs(two.steps[step].grad_norm - reference.steps[step].grad_norm) < 1e-9);
    CHECK(*two.steps[step].routing.aux_loss == Approx(*reference.steps[step].routing.aux_loss));
    CHECK(*two.steps[step].routing.z_loss == Approx(*reference.steps[step].routing.z_loss));
  }
}

TEST_CASE("gradients of the sequence loss do not depend on micro-batching", "[moe][routing][C44]") {
  // Two micro-batches of 2 hold the same sequences as one batch of 4 (see TokenData::batch).
  const auto with = [](std::int64_t batch, std::int64_t accum) {
    return [=](ModelConfig& config) {
      make_small(config);
      config.batch = batch;
      config.accum = accum;
      config.routing.seq_aux_coeff = 0.1;
      config.routing.z_loss_coeff = 0.01;
    };
  };
  const RunResult at_once = train({.num_steps = 2, .change_config = with(4, 1)});
  check_same(train({.num_steps = 2, .change_config = with(2, 2)}), at_once);
}

TEST_CASE("noise moves the loss and repeats", "[moe][routing]") {
  const auto jitter = [](double value) {
    return [=](ModelConfig& config) {
      make_small(config);
      config.routing.input_jitter = value;
    };
  };
  const auto noisy = train({.num_steps = 1, .change_config = jitter(0.3)});
  const auto quiet = train({.num_steps = 1, .change_config = jitter(0.0)});
  const auto again = train({.num_steps = 1, .change_config = jitter(0.3)});
  CHECK(noisy.steps[0].loss != quiet.steps[0].loss);
  CHECK(noisy.steps[0].loss == again.steps[0].loss);
}

}  // namespace tessera::testing
