// Weights by the names of Hugging Face's DeepSeek-V3: out of a checkpoint, and into a model on any
// mesh.
#include <filesystem>
#include <set>

#include "checkpoint/agree.h"
#include "checkpoint/hf_export.h"
#include "io/file.h"
#include "moe/train/weights.h"
#include "testing/results.h"
#include "tests/moe/checkpoint_run.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, std::vector<double>>;

/// Elements of the weights, by name.
Tensors weights_of(Model& model) {
  Tensors tensors;
  for (const auto& [name, tensor] : weight_tensors(model)) {
    tensors[name] = full_tensor(tensor.detach()).to_vector();
  }
  return tensors;
}

/// Saves a model on this world and exports it on rank 0. Collective.
Tensors export_model(World& world, const SharedFolder& folder, const ParallelConfig& parallel,
                     const ModelConfig& config) {
  TinyRun run(world, parallel, DType::kF32, 3, config);
  const auto files = folder.open();
  run.save(*files, 0);
  Status status;
  if (world.rank() == 0) {
    StoredTensors stored = value_or_throw(StoredTensors::open(*files));
    const auto to = value_or_throw(open_folder(folder.path() + "/hf", MissingFolder::kMake));
    status = export_hf(stored, *to, /*max_file_bytes=*/20'000).status();
  }
  agree(world, status);
  return weights_of(run.model);
}

ModelConfig with_lora(ModelConfig config) {
  config.q_lora_rank = 6;
  return config;
}

}  // namespace

TEST_CASE("weights go to Hugging Face's names and back, onto any mesh", "[moe][checkpoint][C63]") {
  const bool lora = GENERATE(false, true);
  const ModelConfig config = lora ? with_lora(tiny_config()) : tiny_config();
  const auto ranks = results_of(4, {}, [&](World& world) {
                       const SharedFolder folder(world);
                       const Tensors before =
                           export_model(world, folder, {.dp_shard = 2, .tp = 2, .ep = 4}, config);
                       const WeightFiles files =
                           value_or_throw(WeightFiles::open(folder.path() + "/hf"));
                       TinyRun other(world, {.dp_replicate = 2, .tp = 2}, DType::kF32, 99, config);
                       throw_if_error(check_weights(files, other.model));
                       load_weights(files, other.model);
                       return std::vector<bool>{before == weights_of(other.model),
                                                before.size() > 20, files.has_hf_names()};
                     }).value();
  for (const auto& rank : ranks) CHECK(rank == std::vector<bool>{true, true, true});
}

TEST_CASE("every expert is a tensor of its own there, without a dim of experts",
          "[moe][checkpoint][C63]") {
  const auto found = results_of(1, {}, [](World& world) {
    const SharedFolder folder(world);
    const Tensors before = export_model(world, folder, {}, with_lora(tiny_config()));
    const std::string hf = folder.path() + "/hf";
    std::set<std::string> names;
    std::vector<std::string> wrong;
    std::int64_t num_files = 0;
    for (const auto& entry : fs::directory_iterator(hf)) {
      if (entry.path().extension() != ".safetensors") continue;
      ++num_files;
      const SafetensorsFile file = value_or_throw(SafetensorsFile::open(entry.path().string()));
      if (file.metadata() != Metadata{{"format", "pt"}}) wrong.emplace_back("metadata");
      for (const TensorInfo& info : file.tensors()) {
        names.insert(info.name);
        if (info.name.find(".experts.") != std::string::npos && info.shape.size() != 2) {
          wrong.push_back(info.name);
        }
        const std::string prefix = "model.layers.1.mlp.experts.4.up_proj.weight";
        if (info.name != prefix) continue;
        const std::vector<double>& stacked =
            before.at("layers.1.moe.routed_experts.inner_experts.w3_EFD");
        std::vector<float> values(10 * 24);
        throw_if_error(file.read(prefix, std::as_writable_bytes(std::span(values))));
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (values[i] != stacked[4 * 240 + i]) wrong.push_back(prefix);
        }
      }
    }
    if (num_files < 2) wrong.emplace_back("one file");
    for (const char* each :
         {"model.embed_tokens.weight", "model.layers.0.mlp.gate_proj.weight",
          "model.layers.0.self_attn.q_a_proj.weight", "model.layers.1.input_layernorm.weight",
          "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
          "model.layers.1.mlp.gate.e_score_correction_bias",
          "model.layers.1.mlp.shared_experts.down_proj.weight", "model.norm.weight",
          "lm_head.weight"}) {
      if (!names.contains(each)) wrong.emplace_back(each);
    }
    // 4 tensors of the model, 9 of each layer's attention and norms, 3 of the dense layer; gate,
    // bias, 3 of the shared expert and 3 of each of 6 experts of the other.
    if (names.size() != 3 + 2 * 9 + 3 + 2 + 3 + 18) {
      wrong.push_back(std::to_string(names.size()) + " names");
    }
    return wrong;
  });
  CHECK(found.ranks.at(0).value_or(std::vector<std::string>{"failed"}).empty());
  CHECK(found.first.ok());
}

TEST_CASE("an index that leads elsewhere or does not fit its files is refused",
          "[moe][checkpoint][R35]") {
  const auto found = results_of(1, {}, [](World& world) {
    const SharedFolder folder(world);
    export_model(world, folder, {}, tiny_config());
    const std::string hf = folder.path() + "/hf", index = hf + "/" + std::string(kHfIndexName);
    const std::string text = value_or_throw(read_file(index, 1 << 20));
    const auto refusal = [&](const std::string& from, const std::string& to) {
      std::string changed = text;
      throw_if_error(write_file(index, changed.replace(changed.find(from), from.size(), to)));
      const StatusOr<WeightFiles> files = WeightFiles::open(hf);
      return files.ok() ? std::string("opened") : std::string(message_of(files.status()));
    };
    const std::string file = text.substr(text.find("model-00001"), 32);
    return std::vector<std::string>{
        refusal(file, "../" + file),
        refusal(file, "/etc/passwd"),
        refusal(file, ".."),
        refusal("\"lm_head.weight\"", "\"lm_head.other\""),
        refusal("\"weight_map\":{", "\"weight_map\":{\"more\":\"" + file + "\","),
        refusal("\"weight_map\"", "\"weights\""),
        refusal("", "")};
  });
  const std::vector<std::string> texts = found.ranks.at(0).value();
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(texts[static_cast<std::size_t>(i)],
               Catch::Contains("is no name of a file in the index' own folder"));
  }
  CHECK_THAT(texts[3], Catch::Contains("tensor \"lm_head.other\" is not in that file"));
  CHECK_THAT(texts[4], Catch::Contains("tensor \"more\" is not in that file"));
  CHECK_THAT(texts[5], Catch::Contains("unknown key \"weights\""));
  CHECK(texts[6] == "opened");
}

}  // namespace tessera::testing
