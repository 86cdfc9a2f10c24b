#include "tests/moe/checkpoint_run.h"

#include <unistd.h>

#include <filesystem>

#include "checkpoint/agree.h"

namespace tessera::testing {
namespace {

TokenData tokens_of(const ModelConfig& config) {
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  return value_or_throw(TokenData::read(files, config));
}

}  // namespace

ModelConfig tiny_config() {
  const Json expected = expected_results("softmax");
  ModelConfig config =
      value_or_throw(parse_model_config(expected.find("config")->to_string(), "expected.json"));
  config.dim = 24;
  config.n_layers = 2;
  config.kv_lora_rank = 8;
  config.qk_nope_head_dim = 8;
  config.rope_dim = 4;
  config.v_head_dim = 8;
  config.dense_hidden_dim = 20;
  config.moe_hidden_dim = 10;
  config.num_experts = 6;
  config.seq = 12;
  config.batch = 4;
  return config;
}

SharedFolder::SharedFolder(World& world) : world_(world) {
  char pattern[] = "/tmp/tessera_ckpt_XXXXXX";
  const std::string own = world.rank() == 0 ? ::mkdtemp(pattern) : "";
  path_ = agree(world, absl::OkStatus(), own)[0];
}

SharedFolder::~SharedFolder() {
  if (std::uncaught_exceptions() == exceptions_) {
    try {
      agree(world_, absl::OkStatus());  // others may still be reading
    } catch (const Error&) {            // one of them has failed
    }
  }
  if (world_.rank() == 0) std::filesystem::remove_all(path_);
}

std::unique_ptr<FileSystem> SharedFolder::open() const {
  return value_or_throw(open_folder(path_ + "/ckpt", MissingFolder::kMake));
}

TinyRun::TinyRun(World& world, const ParallelConfig& parallel, DType dtype, std::uint64_t seed,
                 const ModelConfig& model_config)
    : runtime(world),
      config(model_config),
      data(tokens_of(config)),
      views(value_or_throw(MeshViews::make(parallel, world.size()))),
      model(runtime, views, config, dtype),
      trainer(model, data) {
  model.parameters().initialize(seed);
}

std::vector<double> TinyRun::steps(std::int64_t from, std::int64_t to) {
  std::vector<double> losses;
  for (std::int64_t step = from; step < to; ++step) losses.push_back(trainer.step(step).loss);
  return losses;
}

std::map<std::string, std::vector<double>> TinyRun::whole_tensors() {
  std::map<std::string, std::vector<double>> tensors;
  for (const auto& [name, tensor] : train_tensors(model, trainer)) {
    tensors[name] = full_tensor(tensor.detach()).to_vector();
  }
  return tensors;
}

std::vector<double> TinyRun::whole_state() {
  std::vector<double> values;
  for (const auto& [name, part] : whole_tensors()) {
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

void TinyRun::save(FileSystem& files, std::int64_t step) {
  save_checkpoint(runtime.world(), files, train_tensors(model, trainer),
                  train_values(model, trainer, {.step = step, .seed = 3}));
}

}  // namespace tessera::testing
