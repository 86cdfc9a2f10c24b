#include "moe/weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"

namespace tessera {
namespace {

/// Every tensor of the model that a file must hold.
std::vector<DTensor> stored_tensors(Model& model) {
  std::vector<DTensor> tensors;
  for (Parameter& parameter : model.parameters().all()) tensors.push_back(parameter.stored());
  for (MoeLayer* layer : model.moe_layers()) {
    if (layer->balancer().expert_bias_E().defined()) {
      tensors.push_back(layer->balancer().expert_bias_E());
    }
  }
  return tensors;
}

/// Whether a name may be a parameter of another rank's pipeline stages: those ranks judge it.
bool is_of_other_stages(const std::string& name, const Model& model) {
  if (model.is_whole()) return false;
  for (const char* end : {"tok_embeddings.weight", "norm.weight", "lm_head.weight"}) {
    if (name == end) return true;
  }
  const std::vector<std::int64_t> own = model.layers();
  for (std::int64_t layer = 0; layer < model.context().config.n_layers; ++layer) {
    if (!name.starts_with("layers." + std::to_string(layer) + ".")) continue;
    return std::find(own.begin(), own.end(), layer) == own.end();
  }
  return false;
}

Status check_tensor(const SafetensorsFile& file, const DTensor& tensor) {
  const TensorInfo* info = file.find(tensor.name());
  if (info == nullptr) {
    return invalid_argument(
        absl::StrFormat("%s: tensor %s is missing; the model needs it with shape %s", file.path(),
                        tensor.name(), to_string(tensor.global_shape())));
  }
  if (info->shape != tensor.global_shape()) {
    return invalid_argument(absl::StrFormat("%s: tensor %s has shape %s; the model needs %s",
                                            file.path(), tensor.name(), to_string(info->shape),
                                            to_string(tensor.global_shape())));
  }
  if (!info->dtype || !is_floating(*info->dtype)) {
    return invalid_argument(
        absl::StrFormat("%s: tensor %s has dtype %s; F64, F32 and BF16 are allowed", file.path(),
                        tensor.name(), info->dtype_name));
  }
  return absl::OkStatus();
}

}  // namespace

Status check_weights(const SafetensorsFile& file, Model& model) {
  const std::vector<DTensor> needed = stored_tensors(model);
  for (const DTensor& tensor : needed) TSR_RETURN_IF_ERROR(check_tensor(file, tensor));
  if (file.tensors().size() == needed.size()) return absl::OkStatus();
  for (const TensorInfo& info : file.tensors()) {
    bool known = is_of_other_stages(info.name, model);
    for (const DTensor& tensor : needed) known = known || tensor.name() == info.name;
    if (!known) {
      return invalid_argument(absl::StrFormat("%s: tensor %s is no parameter of this model",
                                              file.path(), in_quotes(info.name)));
    }
  }
  return absl::OkStatus();
}

void load_weights(const SafetensorsFile& file, Model& model) {
  Runtime& runtime = model.context().runtime;
  const NoGrad no_grad(runtime);
  for (const DTensor& tensor : stored_tensors(model)) {
    const TensorInfo& info = *value_or_throw(file.at(tensor.name()));
    const Array full = Array::empty(info.shape, *info.dtype);
    throw_if_error(
        file.read(info.name, {full.bytes(), static_cast<std::size_t>(info.size_bytes())}));
    const Spec source = tensor.spec().with_dtype(*info.dtype);
    kernels::copy(runtime.kernels(), distribute(runtime, full, source).local(), tensor.local());
  }
}

}  // namespace tessera
