#include "tests/moe/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "moe/train/weights.h"
#include "testing/results.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace tessera::testing {
namespace {

std::vector<double> first_logits(Model& model, const TokenData& data) {
  const ModelContext& context = model.context();
  const NoGrad no_grad(context.runtime);
  const DTensor ids = context.place_tokens(data.batch(0, 0).ids_BL);
  const std::vector<double> all = to_host(full_tensor(model.logits(ids))).to_vector();
  for (MoeLayer* layer : model.moe_layers()) layer->balancer().forget_counts();
  std::vector<double> corner;
  const std::int64_t positions = std::min<std::int64_t>(4, context.model.seq);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t id = 0; id < 8; ++id) {
      corner.push_back(all[static_cast<std::size_t>(position * context.model.vocab + id)]);
    }
  }
  return corner;
}

double norm_of(const DTensor& x) { return std::sqrt(item(sum_of_squares(x.detach()))); }

struct Job {
  ModelConfig config;
  TokenData data;
};
Job job_of(const RunOptions& options) {
  const Json expected = expected_results(options.model);
  ModelConfig config =
      value_or_throw(parse_model_config(expected.find("config")->to_string(), options.model));
  if (options.change_config) options.change_config(config);
  if (options.tokens) {
    TokenData data = value_or_throw(TokenData::of(options.tokens(config), config));
    return {std::move(config), std::move(data)};
  }
  const std::vector<std::string> files = {options.change_config
                                              ? test_file("../../LICENSE")
                                              : parity_path(options.model, "tokens.safetensors")};
  TokenData data = value_or_throw(TokenData::read(files, config));
  return {std::move(config), std::move(data)};
}

/// Rank 0's view with every rank's parameters: of pipeline stages a rank knows its own only.
RunResult all_parameters(std::vector<RunResult> ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    ranks[0].final_l2.insert(ranks[rank].final_l2.begin(), ranks[rank].final_l2.end());
    ranks[0].elements.merge(ranks[rank].elements);
  }
  return std::move(ranks[0]);
}

/// Adds a tensor's norm, and on the first rank of its mesh its elements.
void add_final(RunResult& result, const DTensor& tensor) {
  const auto whole = [](const DTensor& x) { return to_host(full_tensor(x.detach())).to_vector(); };
  result.final_l2[tensor.name()] = norm_of(tensor);
  Elements elements{whole(tensor), {}};
  if (tensor.grad().defined()) elements.grad = whole(tensor.grad());
  if (tensor.mesh().first_rank() != tensor.runtime().rank()) return;
  result.elements[tensor.name()] = std::move(elements);
}

/// "KIND i is a, not b" for the first element that differs, or "".
std::string first_difference(const char* kind, const std::vector<double>& run,
                             const std::vector<double>& reference) {
  if (run.size() != reference.size()) {
    return absl::StrFormat("%d of %s, not %d", run.size(), kind, reference.size());
  }
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (std::abs(run[i] - reference[i]) <= kElementTolerance) continue;
    return absl::StrFormat("%s %d is %.17g, not %.17g", kind, i, run[i], reference[i]);
  }
  return "";
}

RunResult train_rank(World& world, const RunOptions& options, const Job& job) {
  const auto& [config, data] = job;
  Runtime runtime(world);
  const MeshViews views = value_or_throw(MeshViews::make(options.parallel, world.size()));
  Model model(runtime, views, config, options.dtype);
  if (options.change_config) {
    model.parameters().initialize(7);
  } else {
    load_weights(value_or_throw(WeightFiles::open(parity_path(options.model, "init.safetensors"))),
                 model);
  }
  RunResult result;
  if (model.is_whole()) result.logits0 = first_logits(model, data);
  Trainer trainer(model, data, options.mode);
  for (std::int64_t step = 0; step < options.num_steps; ++step) {
    result.steps.push_back(trainer.step(step));
  }
  for (Parameter& parameter : model.parameters().all()) add_final(result, parameter.stored());
  for (MoeLayer* layer : model.moe_layers()) {
    const DTensor& bias = layer->balancer().expert_bias_E();
    if (bias.defined()) add_final(result, bias);
  }
  if (options.inspect) result.inspected = options.inspect(model, trainer);
  return result;
}

}  // namespace

std::string test_file(std::string_view name) {
  const char* const moved = std::getenv("TESSERA_TEST_DATA");  // to another machine: gpu_check
  std::string path = moved != nullptr ? moved : test_data();
  path += '/';
  path += name;
  return path;
}

std::string parity_path(const std::string& model, const std::string& file) {
  return test_file("parity/" + model + "/" + file);
}

Json expected_results(const std::string& model) {
  const std::string path = parity_path(model, "expected.json");
  return value_or_throw(parse_json(value_or_throw(read_file(path, 1 << 20)), path));
}

void shrink(ModelConfig& config) {
  config.dim = 16;
  config.n_layers = 2;
  config.n_heads = 2;
  config.kv_lora_rank = 8;
  config.qk_nope_head_dim = 8;
  config.rope_dim = 4;
  config.v_head_dim = 8;
  config.dense_hidden_dim = 32;
  config.moe_hidden_dim = 16;
  config.vocab = 256;
  config.seq = 16;
  config.batch = 4;
  config.accum = 1;
}

void shrink_to_capture(ModelConfig& config, bool pads) {
  shrink(config);
  config.accum = 2;
  config.steps = 4;
  if (!pads) return;
  config.routing.capacity_factor = 2.0;
  config.routing.pad_to_capacity = true;
  config.routing.z_loss_coeff = 0.01;
}

std::string element_difference(const RunResult& run, const RunResult& reference) {
  for (const auto& [name, wanted] : reference.elements) {
    const auto got = run.elements.find(name);
    if (got == run.elements.end()) return name + ": missing";
    std::string text = first_difference("value", got->second.values, wanted.values);
    if (text.empty()) text = first_difference("gradient", got->second.grad, wanted.grad);
    if (!text.empty()) return name + ": " + text;
  }
  if (run.elements.size() == reference.elements.size()) return "";
  return absl::StrFormat("%d tensors, not %d", run.elements.size(), reference.elements.size());
}

void check_same(const RunResult& run, const RunResult& reference) {
  REQUIRE(run.steps.size() == reference.steps.size());
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - reference.steps[step].loss) < 1e-9);
    CHECK(std::abs(run.steps[step].grad_norm - reference.steps[step].grad_norm) < 1e-9);
    CHECK(run.steps[step].tokens_per_expert == reference.steps[step].tokens_per_expert);
    CHECK(run.steps[step].valid_tokens == reference.steps[step].valid_tokens);
    const RoutingReport& a = run.steps[step].routing;
    const RoutingReport& b = reference.steps[step].routing;
    CHECK(a.aux_loss.has_value() == b.aux_loss.has_value());
    CHECK(std::abs(a.aux_loss.value_or(0) - b.aux_loss.value_or(0)) < 1e-12);
    CHECK(std::abs(a.z_loss.value_or(0) - b.z_loss.value_or(0)) < 1e-12);
    CHECK(a.dropped == b.dropped);
  }
  CHECK(!reference.elements.empty());
  CHECK(element_difference(run, reference) == "");
}

std::vector<RunResult> train_all(const RunOptions& options) {
  const Job job = job_of(options);
  return results_of(options.num_ranks,
                    {.timeout = kCallTimeout,
                     .threads_per_rank = options.threads_per_rank,
                     .allocator = options.allocator},
                    [&](World& world) { return train_rank(world, options, job); })
      .value();
}

RunResult train(const RunOptions& options) { return all_parameters(train_all(options)); }

RunResult train_on_threads(const RunOptions& options) {
  const Job job = job_of(options);
  const auto in_one_process = [&](World&) {
    std::vector<RunResult> ranks(static_cast<std::size_t>(options.num_ranks));
    throw_if_error(
        run_ranks(options.num_ranks, {.timeout = kCallTimeout, .allocator = options.allocator},
                  [&](World& world) {
                    ranks[static_cast<std::size_t>(world.rank())] = train_rank(world, options, job);
                  }));
    return all_parameters(std::move(ranks));
  };
  return results_of(1, {}, in_one_process).value()[0];
}

}  // namespace tessera::testing
