// Tokens that are padding train nothing: the loss is the mean over the others, wherever they are.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "moe/train/simulate.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// Tokens 1 … 199 of sequence `number`, then padding; `length` of `size` are tokens.
struct Sequence {
  std::int64_t number = 0, length = 0, size = 0;
  std::int32_t pad = 0;

  void append_to(std::vector<std::int32_t>& tokens) const {
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t token = 1 + (number * 37 + i * i * 11 + i * 5) % 199;
      tokens.push_back(i < length ? static_cast<std::int32_t>(token) : pad);
    }
  }
};

/// Of the sequences of a run in turn; steps beyond the list begin it again.
using Lengths = std::vector<std::int64_t>;
std::function<RecordedTokens(const ModelConfig&)> sequences(const Lengths& lengths) {
  return [=](const ModelConfig& c) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t s = 0; s < c.steps * c.accum * c.batch; ++s) {
      const std::size_t at = static_cast<std::size_t>(s) % lengths.size();
      Sequence{s, lengths[at], c.seq + 1, static_cast<std::int32_t>(c.pad_id.value_or(0))}
          .append_to(tokens);
    }
    return RecordedTokens{tokens};
  };
}

/// Two steps of 2 micro-batches of 4 sequences of 16 places; losses of routing that are means over
/// the step.
void make_padded(ModelConfig& config) {
  shrink(config);
  config.accum = 2;
  config.steps = 2;
  config.pad_id = 0;
  config.routing.seq_aux_coeff = 0.02;
  config.routing.z_loss_coeff = 0.01;
}

/// In the first micro-batch the second half of the batch is padding: a rank of dp 2, or a piece,
/// has nothing else.
const Lengths kUneven = {17, 9, 0, 0, 5, 1, 17, 12};

int ranks_of(const ParallelConfig& parallel) {
  return static_cast<int>(parallel.pp * parallel.dp_replicate * parallel.dp_shard * parallel.cp *
                          parallel.tp);
}

/// Gradients of the last step, of all parameters in turn.
std::vector<double> all_gradients(Model& model, Trainer&) {
  std::vector<double> all;
  for (const Parameter& parameter : model.parameters().all()) {
    const std::vector<double> each = full_tensor(parameter.stored().grad()).to_vector();
    all.insert(all.end(), each.begin(), each.end());
  }
  return all;
}

std::int64_t routed(const StepReport& step) {
  std::int64_t sum = 0;
  for (const auto& counts : step.tokens_per_expert) {
    sum += std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  return sum;
}

}  // namespace

TEST_CASE("a padded batch has the token mean of its sequences, each trained by itself",
          "[moe][padding][C16][C51]") {
  const Lengths lengths = {17, 4, 11, 1};
  const auto options = [&](std::int64_t seq, std::int64_t batch) {
    RunOptions out = {.num_steps = 1, .inspect = all_gradients};
    out.change_config = [=](ModelConfig& config) {
      shrink(config);
      config.seq = seq;
      config.batch = batch;
      config.steps = 1;
      config.bias_coeff.reset();
      if (batch > 1) config.pad_id = 0;
    };
    return out;
  };
  RunOptions padded = options(16, 4);
  padded.tokens = sequences(lengths);
  const RunResult together = train(padded);
  double loss = 0.0, num_targets = 0.0;
  std::vector<double> gradients(together.inspected.size());
  for (std::size_t s = 0; s < 3; ++s) {  // the last sequence has no target
    RunOptions one = options(lengths[s] - 1, 1);
    one.tokens = [&](const ModelConfig& c) {
      std::vector<std::int32_t> tokens;
      Sequence{static_cast<std::int64_t>(s), lengths[s], c.seq + 1}.append_to(tokens);
      return RecordedTokens{tokens};
    };
    const RunResult alone = train(one);
    const auto targets = static_cast<double>(lengths[s] - 1);
    num_targets += targets;
    loss += targets * alone.steps[0].loss;
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] += targets * alone.inspected[i];
  }
  CHECK(together.steps[0].valid_tokens == 29);
  CHECK(together.steps[0].loss == Approx(loss / num_targets).epsilon(1e-12));
  double largest = 0.0, apart = 0.0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    largest = std::max(largest, std::abs(gradients[i] / num_targets));
    apart = std::max(apart, std::abs(gradients[i] / num_targets - together.inspected[i]));
  }
  CHECK(largest > 1e-3);
  CHECK(apart < 1e-12);
  // 1 MoE layer of top 3; 16 + 4 + 11 + 1 inputs are tokens.
  CHECK(routed(together.steps[0]) == 3 * 32);
}

TEST_CASE("ranks with different numbers of valid tokens train like one rank",
          "[moe][padding][C16][C51]") {
  RunOptions options = {.num_steps = 2, .change_config = make_padded};
  options.tokens = sequences(kUneven);
  static const RunResult one = train(options);
  options.parallel =
      GENERATE(ParallelConfig{.dp_shard = 2}, ParallelConfig{.dp_replicate = 2, .tp = 2},
               ParallelConfig{.cp = 2, .cp_method = ContextMethod::kRing, .cp_load_balance = true},
               ParallelConfig{.tp = 2, .sequence_parallel = false}, ParallelConfig{.pp = 2},
               ParallelConfig{.dp_shard = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
               ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .recompute = Recompute::kFull},
               ParallelConfig{.dp_shard = 2,
                              .tp = 2,
                              .ep = 2,
                              .etp = 2,
                              .recompute = Recompute::kSelective,
                              .dispatch = {.expert_alignment = 16, .chunks = 2}},
               ParallelConfig{.cp = 2, .tp = 2, .ep = 4, .dispatch = {.dispatcher = "all_gather"}},
               ParallelConfig{.dp_shard = 2, .ep = 2, .pp = 2},
               ParallelConfig{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4});
  options.num_ranks = ranks_of(options.parallel);
  const ParallelConfig& p = options.parallel;
  CAPTURE(p.dp_replicate, p.dp_shard, p.cp, p.tp, p.ep, p.etp, p.pp);
  check_same(train(options), one);
  // Targets of a sequence of n tokens are n - 1, inputs at most 16.
  CHECK(one.steps[0].valid_tokens == 16 + 8 + 4 + 16 + 11);
  CHECK(routed(one.steps[0]) == 3 * (16 + 9 + 5 + 1 + 16 + 12));
  CHECK_THAT(to_json_line(one.steps[0]), Catch::Contains("\"valid_tokens\":55"));
}

TEST_CASE("padding finds no room in experts that are padded to their capacity",
          "[moe][padding][capacity][C16][C51]") {
  const auto limited = [](bool filled) {
    return [=](ModelConfig& config) {
      make_padded(config);
      config.routing.capacity_factor = 0.5;
      config.routing.capacity_scope = CapacityScope::kSequence;  // whatever a piece holds
      config.routing.pad_to_capacity = filled;
    };
  };
  RunOptions options = {.num_steps = 2, .change_config = limited(false)};
  options.tokens = sequences(kUneven);
  static const RunResult one = train(options);
  CHECK(*one.steps[0].routing.dropped > 0);
  CHECK(routed(one.steps[0]) == 3 * (16 + 9 + 5 + 1 + 16 + 12));
  options.change_config = limited(true);
  options.parallel = GENERATE(ParallelConfig{}, ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2},
                              ParallelConfig{.dp_shard = 2, .ep = 2, .pp = 2});
  options.num_ranks = ranks_of(options.parallel);
  check_same(train(options), one);
}

TEST_CASE("labels take the place of the next token, and some do not count", "[moe][padding][C51]") {
  // The labels that padding implies, written out: pads are then routed, but not in the loss.
  const auto change = [](ModelConfig& config) {
    shrink(config);
    config.accum = 2;
    config.steps = 2;
    config.bias_coeff.reset();
  };
  RunOptions options = {.num_steps = 1, .change_config = [=](ModelConfig& config) {
                          change(config);
                          config.pad_id = 0;
                        }};
  options.tokens = sequences(kUneven);
  const RunResult padded = train(options);
  options.change_config = change;
  options.tokens = [](const ModelConfig& c) {
    RecordedTokens recorded = sequences(kUneven)(c);
    for (std::size_t i = 0; i < recorded.tokens.size(); ++i) {
      if (i % static_cast<std::size_t>(c.seq + 1) == 0) continue;
      recorded.labels.push_back(recorded.tokens[i] == 0 ? kIgnoredLabel : recorded.tokens[i]);
    }
    return recorded;
  };
  const RunResult labelled = train(options);
  CHECK(labelled.steps[0].valid_tokens == 55);
  CHECK(labelled.steps[0].loss == Approx(padded.steps[0].loss).epsilon(1e-12));
  CHECK(labelled.steps[0].grad_norm == Approx(padded.steps[0].grad_norm).epsilon(1e-10));
  CHECK(routed(labelled.steps[0]) == 3 * 2 * 4 * 16);
  options.parallel = {.dp_shard = 2, .ep = 2};
  options.num_ranks = 2;
  check_same(train(options), labelled);
}

TEST_CASE("it makes no difference how padded sequences are cut into micro-batches",
          "[moe][padding][C44][C51]") {
  const auto run = [](std::int64_t batch, std::int64_t accum) {
    RunOptions options = {.num_steps = 2};
    options.change_config = [=](ModelConfig& config) {
      make_padded(config);
      config.batch = batch;
      config.accum = accum;
    };
    options.tokens = sequences(kUneven);
    return train(options);
  };
  check_same(run(2, 4), run(8, 1));
}

TEST_CASE("which id is padding makes no difference", "[moe][padding][C16]") {
  const auto run = [](std::int64_t pad) {
    RunOptions options = {.num_steps = 2};
    options.change_config = [=](ModelConfig& config) {
      make_padded(config);
      config.pad_id = pad;
      config.routing.capacity_factor = 0.75;
    };
    options.tokens = sequences(kUneven);
    return train(options);
  };
  check_same(run(255), run(0));
}

TEST_CASE("a step of nothing but padding has a loss of zero and changes no gradient",
          "[moe][padding][C16]") {
  RunOptions options = {.num_steps = 2, .change_config = make_padded};
  options.tokens = sequences({0, 0, 0, 0, 0, 0, 0, 0, 17, 3, 9, 0, 0, 0, 0, 0});
  const RunResult one = train(options);
  CHECK(one.steps[0].loss == 0.0);
  CHECK(one.steps[0].grad_norm == 0.0);
  CHECK(one.steps[0].valid_tokens == 0);
  CHECK(routed(one.steps[0]) == 0);
  CHECK(*one.steps[0].routing.z_loss == 0.0);
  CHECK(one.steps[1].loss > 1.0);
  CHECK(one.steps[1].valid_tokens == 16 + 2 + 8);
  options.parallel = GENERATE(ParallelConfig{.dp_shard = 2, .ep = 2}, ParallelConfig{.pp = 2});
  options.num_ranks = 2;
  check_same(train(options), one);
}

TEST_CASE("data of another pad_id than the model's, and a simulation of padding, are refused",
          "[moe][padding][config]") {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  make_padded(config);
  const auto tokens = sequences(kUneven)(config);
  ModelConfig plain = config;
  plain.pad_id.reset();
  const TokenData unpadded = value_or_throw(TokenData::of(tokens, plain));
  const auto texts =
      results_of(1, {}, [&](World& world) -> std::string {
        Runtime runtime(world);
        Model model(runtime, value_or_throw(MeshViews::make({}, 1)), config, DType::kF32);
        try {
          const Trainer trainer(model, unpadded);
        } catch (const Error& error) {
          return error.what();
        }
        return "accepted";
      }).value();
  CHECK_THAT(texts[0], Catch::Contains("another pad_id than the model's"));
  config.routing.force_balance = true;
  const TokenData padded = value_or_throw(TokenData::of(tokens, config));
  const auto simulated =
      simulate_step(config, {.dp_shard = 2}, {.rank = 0, .num_ranks = 2}, padded);
  REQUIRE(!simulated.ok());
  CHECK_THAT(std::string(message_of(simulated.status())), Catch::Contains("pad_id is 0"));
}

}  // namespace tessera::testing
