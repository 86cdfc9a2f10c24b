#include "checkpoint/hf_export.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/shard_writer.h"

namespace tessera {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;
constexpr const char* kUnfinishedIndex = ".model.safetensors.index.json.tmp";

struct Entry {
  const ManifestTensor* tensor;
  HfPart part;
  std::int64_t num_bytes() const { return num_elements(part.shape) * size_of(tensor->dtype); }
};
using File = std::vector<Entry>;

std::vector<File> files_of(const Manifest& manifest, std::int64_t max_file_bytes) {
  std::vector<File> files;
  std::int64_t bytes = 0;
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (HfPart& part : hf_parts(tensor.name, view_of(tensor.shape))) {
      Entry entry{&tensor, std::move(part)};
      // One dtype a file keeps every tensor aligned without gaps.
      const bool fits = !files.empty() && bytes + entry.num_bytes() <= max_file_bytes &&
                        files.back().front().tensor->dtype == tensor.dtype;
      if (!fits) {
        files.emplace_back();
        bytes = 0;
      }
      bytes += entry.num_bytes();
      files.back().push_back(std::move(entry));
    }
  }
  return files;
}

Status write_entry(StoredTensors& from, const Entry& entry, HashedFile& file) {
  const std::int64_t width = size_of(entry.tensor->dtype);
  // A block is of rows of the tensor there: of the second dim here, where experts are stacked.
  const bool is_expert = entry.part.shape.size() != entry.part.region.size.size();
  const Region rows =
      is_expert
          ? Region{Shape(entry.part.region.offset.begin() + 1, entry.part.region.offset.end()),
                   entry.part.shape}
          : entry.part.region;
  std::vector<std::byte> bytes;
  return for_each_block(rows, width, kBlockBytes, [&](const Region& block) -> Status {
    Region here = block;
    if (is_expert) {
      here.offset.insert(here.offset.begin(), entry.part.region.offset[0]);
      here.size.insert(here.size.begin(), 1);
    }
    bytes.resize(static_cast<std::size_t>(num_elements(here.size) * width));
    TSR_RETURN_IF_ERROR(from.read(*entry.tensor, selection_of(here), bytes));
    return file.append(bytes);
  });
}

Status write_file(StoredTensors& from, const File& entries, HashedFile& file) {
  std::vector<TensorEntry> header;
  for (const Entry& entry : entries) {
    header.push_back({entry.part.name, entry.tensor->dtype, entry.part.shape});
  }
  const std::string preamble = safetensors_preamble(header, {{"format", "pt"}});
  TSR_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(preamble))));
  for (const Entry& entry : entries) TSR_RETURN_IF_ERROR(write_entry(from, entry, file));
  return file.finish().status();
}

std::string name_of_file(std::size_t index, std::size_t count) {
  return absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

Status write_index(FileSystem& to, const std::vector<File>& files, HfExport& done) {
  Json map{Json::Object()};
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const Entry& entry : files[i]) {
      map.set(entry.part.name, name_of_file(i, files.size()));
      done.num_bytes += entry.num_bytes();
      ++done.num_tensors;
    }
  }
  const Json index = Json::object({{"metadata", Json::object({{"total_size", done.num_bytes}})},
                                   {"weight_map", std::move(map)}});
  const std::string text = index.to_string() + "\n";
  TSR_RETURN_IF_ERROR(sync_folder(to, ""));
  TSR_ASSIGN_OR_RETURN(FolderFile file, FolderFile::create(to, kUnfinishedIndex));
  Status status = file.append(std::as_bytes(std::span(text)));
  if (status.ok()) status = file.sync();
  if (status.ok()) status = file.close();
  if (status.ok()) status = rename_file(to, kUnfinishedIndex, std::string(kHfIndexName));
  if (!status.ok()) to.remove(kUnfinishedIndex);
  return status.ok() ? sync_folder(to, "") : status;
}

}  // namespace

StatusOr<HfExport> export_hf(StoredTensors& from, FileSystem& to, std::int64_t max_file_bytes) {
  const std::vector<File> files = files_of(from.manifest(), max_file_bytes);
  if (files.empty()) {
    return invalid_argument(from.path() + ": has no tensor of this model's names");
  }
  HfExport done{.num_files = static_cast<std::int64_t>(files.size())};
  std::vector<std::string> written;
  Status status;
  for (std::size_t i = 0; i < files.size() && status.ok(); ++i) {
    const std::string name = name_of_file(i, files.size());
    StatusOr<HashedFile> file = HashedFile::create(to, name, kDefaultChunkBytes);
    status = file.status();
    if (!status.ok()) break;
    written.push_back(name);
    status = write_file(from, files[i], *file);
  }
  if (status.ok()) status = write_index(to, files, done);
  if (status.ok()) return done;
  for (const std::string& name : written) to.remove(name);
  return status;
}

}  // namespace tessera
