// checkpoint/weight_files.h: weights that came from elsewhere: one safetensors file, or a folder of
// them with an index, by this project's names or by those of Hugging Face's DeepSeek-V3.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "checkpoint/hf_names.h"
#include "io/safetensors.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Open files whose headers were read. Reading from several threads is safe.
class WeightFiles {
 public:
  /// A file; or a folder with model.safetensors.index.json, or with model.safetensors. Errors:
  /// io_error; InvalidArgument for a malformed index, one that leads out of the folder, or one that
  /// does not fit its files.
  static StatusOr<WeightFiles> open(const std::string& path);
  const std::string& path() const noexcept { return path_; }
  /// Whether names are those of Hugging Face's DeepSeek-V3.
  bool has_hf_names() const { return find("model.embed_tokens.weight") != nullptr; }

  /// A needed tensor, by this project's name.
  struct Needed {
    std::string name;
    Shape shape;
  };
  /// Every tensor needed is there with its shape and a floating dtype, and there is nothing else
  /// but what others need. Errors: InvalidArgument naming path and tensor, what was seen and what
  /// is allowed.
  Status check(std::span<const Needed> needed,
               const std::function<bool(std::string_view name)>& others_need = nullptr) const;
  /// The dtype of a tensor that check() has seen.
  DType dtype_of(const Needed& needed) const;
  /// The selected elements of a tensor that check() has seen, row-major, in dtype_of(). Reads no
  /// other bytes. Errors: io_error.
  Status read(const Needed& needed, const Selection& selection, std::span<std::byte> out) const;

 private:
  explicit WeightFiles(std::string path) : path_(std::move(path)) {}
  Status check_tensor(const Needed& tensor, std::set<std::string>& used) const;
  Status open_folder_of(const std::string& index_path);
  Status add_file(const std::string& path);
  const TensorInfo* find(const std::string& name) const;
  std::vector<HfPart> parts_of(const Needed& needed) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  /// By tensor's name, which is the file's.
  absl::flat_hash_map<std::string_view, std::size_t> file_of_;
};

}  // namespace tessera
