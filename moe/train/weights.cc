#include "moe/train/weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "moe/train/train_state.h"

namespace tessera {
namespace {

std::vector<WeightFiles::Needed> needed_by(Model& model) {
  std::vector<WeightFiles::Needed> needed;
  for (const StateTensor& each : weight_tensors(model)) {
    needed.push_back({each.name, each.tensor.global_shape()});
  }
  return needed;
}

/// Whether a name of a file may be a parameter of another rank's pipeline stages: those ranks judge
/// it.
bool is_of_other_stages(std::string_view name, const Model& model) {
  if (model.is_whole()) return false;
  constexpr std::string_view kHfPrefix = "model.";
  if (name.starts_with(kHfPrefix)) name.remove_prefix(kHfPrefix.size());
  for (const char* end :
       {"tok_embeddings.weight", "embed_tokens.weight", "norm.weight", "lm_head.weight"}) {
    if (name == end) return true;
  }
  const std::vector<std::int64_t> own = model.layers();
  for (std::int64_t layer = 0; layer < model.context().model.n_layers; ++layer) {
    if (!name.starts_with("layers." + std::to_string(layer) + ".")) continue;
    return std::find(own.begin(), own.end(), layer) == own.end();
  }
  return false;
}

}  // namespace

Status check_weights(const WeightFiles& files, Model& model) {
  return files.check(needed_by(model),
                     [&](std::string_view name) { return is_of_other_stages(name, model); });
}

void load_weights(const WeightFiles& files, Model& model) {
  Runtime& runtime = model.context().runtime;
  for (const auto& [name, tensor] : weight_tensors(model)) {
    const std::optional<Coord> coord = tensor.mesh().coord_of(runtime.rank());
    if (!coord) continue;
    const WeightFiles::Needed needed = {name, tensor.global_shape()};
    const Selection selection = selection_of(tensor.spec(), *coord);
    const Array stored = Array::empty(shape_of(selection), files.dtype_of(needed));
    throw_if_error(
        files.read(needed, selection,
                   {stored.data<std::byte>(), static_cast<std::size_t>(stored.num_bytes())}));
    kernels::copy(runtime.kernels(), to_device(runtime.kernels(), stored), tensor.local());
    tensor.local().storage()->bump_version();
  }
}

}  // namespace tessera
