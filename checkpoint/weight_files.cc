#include "checkpoint/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/shard_reader.h"
#include "io/json.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxFiles = 10'000;  // open at the same time
constexpr std::int64_t kMaxIndexBytes = std::int64_t{64} << 20;

bool is_name_in_folder(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

StatusOr<WeightFiles> WeightFiles::open(const std::string& path) {
  WeightFiles files(path);
  const std::string index = path + "/" + std::string(kHfIndexName);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    TSR_RETURN_IF_ERROR(files.add_file(path));
  } else if (std::filesystem::exists(index, ignored)) {
    TSR_RETURN_IF_ERROR(files.open_folder_of(index));
  } else {
    TSR_RETURN_IF_ERROR(files.add_file(path + "/model.safetensors"));
  }
  return files;
}

Status WeightFiles::add_file(const std::string& path) {
  TSR_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  file_of_.reserve(file_of_.size() + file.tensors().size());
  for (const TensorInfo& info : file.tensors()) {
    if (!file_of_.emplace(info.name, files_.size()).second) {
      return invalid_argument(
          absl::StrFormat("%s: tensor %s is in two files", path_, in_quotes(info.name)));
    }
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

Status WeightFiles::open_folder_of(const std::string& index_path) {
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(index_path, kMaxIndexBytes));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(text, index_path, {.bytes = kMaxIndexBytes}));
  const JsonView root = document.root();
  TSR_RETURN_IF_ERROR(root.check_keys({"weight_map"}, {"metadata"}));
  TSR_ASSIGN_OR_RETURN(const JsonView map, root.at("weight_map"));
  std::set<std::string> names;
  TSR_RETURN_IF_ERROR(map.for_each_member([&](const std::string&, const JsonView& file) -> Status {
    TSR_ASSIGN_OR_RETURN(const std::string name, file.text());
    if (!is_name_in_folder(name)) {
      return file.error(in_quotes(name) + " is no name of a file in the index' own folder");
    }
    names.insert(name);
    if (names.size() <= kMaxFiles) return absl::OkStatus();
    return map.error(absl::StrFormat("names more than %d files; no more are read", kMaxFiles));
  }));
  for (const std::string& name : names) TSR_RETURN_IF_ERROR(add_file(path_ + "/" + name));
  TSR_RETURN_IF_ERROR(
      map.for_each_member([&](const std::string& tensor, const JsonView& file) -> Status {
        TSR_ASSIGN_OR_RETURN(const std::string name, file.text());
        const auto at = file_of_.find(tensor);
        if (at != file_of_.end() && files_[at->second].path() == path_ + "/" + name) {
          return absl::OkStatus();
        }
        return file.error("tensor " + in_quotes(tensor) + " is not in that file");
      }));
  TSR_ASSIGN_OR_RETURN(const std::int64_t named, map.size());
  if (named == static_cast<std::int64_t>(file_of_.size())) return absl::OkStatus();
  return map.error(absl::StrFormat("names %d tensors; its files have %d", named, file_of_.size()));
}

const TensorInfo* WeightFiles::find(const std::string& name) const {
  const auto at = file_of_.find(name);
  return at == file_of_.end() ? nullptr : files_[at->second].find(name);
}

std::vector<HfPart> WeightFiles::parts_of(const Needed& needed) const {
  if (has_hf_names()) return hf_parts(needed.name, view_of(needed.shape));
  return {{needed.name, whole_region(view_of(needed.shape)), needed.shape}};
}

Status WeightFiles::check_tensor(const Needed& tensor, std::set<std::string>& used) const {
  const TensorInfo* first = nullptr;
  const std::vector<HfPart> parts = parts_of(tensor);
  if (parts.empty()) {
    return invalid_argument(
        absl::StrFormat("%s: tensor %s has no name in these files", path_, in_quotes(tensor.name)));
  }
  for (const HfPart& part : parts) {
    const TensorInfo* info = find(part.name);
    if (info == nullptr) {
      return invalid_argument(
          absl::StrFormat("%s: tensor %s is missing; the model needs it with shape %s", path_,
                          part.name, to_string(part.shape)));
    }
    if (info->shape != part.shape) {
      return invalid_argument(absl::StrFormat("%s: tensor %s has shape %s; the model needs %s",
                                              path_, part.name, to_string(info->shape),
                                              to_string(part.shape)));
    }
    if (!info->dtype || !is_floating(*info->dtype)) {
      return invalid_argument(
          absl::StrFormat("%s: tensor %s has dtype %s; F64, F32, BF16 and F16 are allowed", path_,
                          part.name, info->dtype_name()));
    }
    if (first == nullptr) first = info;
    if (info->dtype != first->dtype) {
      return invalid_argument(
          absl::StrFormat("%s: tensor %s has dtype %s, but %s has %s; experts of a layer have one",
                          path_, part.name, info->dtype_name(), first->name, first->dtype_name()));
    }
    used.insert(part.name);
  }
  return absl::OkStatus();
}

Status WeightFiles::check(std::span<const Needed> needed,
                          const std::function<bool(std::string_view)>& others_need) const {
  std::set<std::string> used;
  for (const Needed& tensor : needed) TSR_RETURN_IF_ERROR(check_tensor(tensor, used));
  for (const SafetensorsFile& file : files_) {
    for (const TensorInfo& info : file.tensors()) {
      if (used.contains(info.name) || (others_need && others_need(info.name))) continue;
      return invalid_argument(absl::StrFormat("%s: tensor %s is no parameter of this model", path_,
                                              in_quotes(info.name)));
    }
  }
  return absl::OkStatus();
}

DType WeightFiles::dtype_of(const Needed& needed) const {
  return *find(parts_of(needed).front().name)->dtype;
}

Status WeightFiles::read(const Needed& needed, const Selection& selection,
                         std::span<std::byte> out) const {
  const std::int64_t width = size_of(dtype_of(needed));
  for (const HfPart& part : parts_of(needed)) {
    const SafetensorsFile& file = files_[file_of_.at(part.name)];
    Status status;
    for_each_piece(part.region, selection, width, [&](const Piece& piece) {
      if (!status.ok()) return;
      status = file.read_range(
          part.name, piece.offset,
          out.subspan(static_cast<std::size_t>(piece.to), static_cast<std::size_t>(piece.size)));
    });
    TSR_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace tessera
