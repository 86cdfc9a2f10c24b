// checkpoint/hf_export.h: a checkpoint's weights as Hugging Face's DeepSeek-V3 has them:
// safetensors files and model.safetensors.index.json.
#pragma once

#include <cstdint>

#include "checkpoint/stored_tensors.h"
#include "placement/api.h"

namespace tessera TSR_API {

inline constexpr std::string_view kHfIndexName = "model.safetensors.index.json";

struct HfExport {
  std::int64_t num_files = 0;
  std::int64_t num_tensors = 0;
  std::int64_t num_bytes = 0;  ///< of tensors
};
/// Writes every tensor that has a name there; the rest (an optimizer's state) is left out. Files
/// hold at most `max_file_bytes` of tensors, or one tensor. The index is put in place last. Errors:
/// those of StoredTensors; InvalidArgument for a checkpoint without such tensors; io_error, also
/// where a file of that name is there already; what was written is then removed. Cost: memory of
/// one block of rows.
StatusOr<HfExport> export_hf(StoredTensors& from, FileSystem& to, std::int64_t max_file_bytes);

}  // namespace tessera
