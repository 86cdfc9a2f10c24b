#include "checkpoint/generation.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/agree.h"
#include "kernels/elementwise.h"
#include "runtime/gather_texts.h"

namespace tessera {
namespace {

constexpr const char* kUnfinishedManifest = ".manifest.json.tmp";

bool is_shard(const std::string& name) {
  constexpr std::string_view kPrefix = "shard-", kSuffix = ".safetensors";
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

/// Tensors of all ranks' reports, by name.
Status merge(const Manifest& report, Manifest& manifest) {
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  for (const ManifestTensor& tensor : report.tensors) {
    const auto at =
        std::lower_bound(manifest.tensors.begin(), manifest.tensors.end(), tensor, by_name);
    if (at == manifest.tensors.end() || at->name != tensor.name) {
      manifest.tensors.insert(at, tensor);
      continue;
    }
    if (at->dtype != tensor.dtype || at->shape != tensor.shape) {
      return invalid_argument(absl::StrFormat("tensor %s is %s%s on one rank and %s%s on another",
                                              in_quotes(tensor.name), name_of(at->dtype),
                                              to_string(at->shape), name_of(tensor.dtype),
                                              to_string(tensor.shape)));
    }
    at->parts.insert(at->parts.end(), tensor.parts.begin(), tensor.parts.end());
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<OwnedPart>> owned_parts(std::int64_t rank,
                                             std::span<const StateTensor> tensors) {
  std::vector<OwnedPart> parts;
  for (const auto& [name, tensor] : tensors) {
    const Spec& spec = tensor.spec();
    if (spec.has_partial()) {
      return invalid_argument(
          absl::StrFormat("tensor %s is %s: summands are not stored; reduce it first",
                          in_quotes(name), spec.to_string()));
    }
    const std::optional<Coord> coord = spec.mesh().coord_of(rank);
    if (!coord || !owns_part(spec, *coord, name)) continue;
    Array local = tensor.local();
    if (!local.is_contiguous()) {
      local = Array::empty(tensor.local().shape(), tensor.dtype());
      kernels::copy(tensor.runtime().kernels(), tensor.local(), local);
    }
    parts.push_back({name, tensor.global_shape(), selection_of(spec, *coord), std::move(local)});
  }
  return parts;
}

StatusOr<std::optional<std::string>> read_manifest_text(FileSystem& files) {
  const std::string name(kManifestName);
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files, ""));
  if (!std::binary_search(names.begin(), names.end(), name)) return std::nullopt;
  TSR_ASSIGN_OR_RETURN(const FolderFile file, FolderFile::open(files, name));
  TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, file.size_bytes());
  if (bytes > kMaxManifestBytes) {
    return invalid_argument(absl::StrFormat("%s: %d bytes; at most %d are read", file.path(), bytes,
                                            kMaxManifestBytes));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  TSR_RETURN_IF_ERROR(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

void remove_generation(FileSystem& files, std::int64_t generation) {
  const std::string folder = generation_folder(generation);
  const auto names = list_folder(files, folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (is_shard(name)) files.remove(folder + "/" + name);
  }
  files.remove_folder(folder);
}

NewGeneration::NewGeneration(World& world, FileSystem& files, const SaveOptions& options)
    : world_(world), files_(files), options_(options) {
  const Status status = world.rank() == 0 ? prepare() : absl::OkStatus();
  try {
    generation_ = std::stoll(agree(world, status, std::to_string(generation_))[0]);
  } catch (...) {
    if (lock_ >= 0) files_.close(lock_);
    throw;
  }
  leaves_ = Leaves::kFiles;
}

Status NewGeneration::prepare() {
  do {
    lock_ = files_.lock();
  } while (lock_ == -EINTR);
  if (lock_ == -EWOULDBLOCK) {
    return io_error(files_.path() + ": another save is under way in this folder");
  }
  TSR_RETURN_IF_ERROR(call_error(files_, "", "lock the folder", lock_));
  std::int64_t current = 0;
  TSR_ASSIGN_OR_RETURN(const std::optional<std::string> text, read_manifest_text(files_));
  if (text) {
    const StatusOr<Manifest> manifest =
        parse_manifest(*text, files_.path() + "/" + std::string(kManifestName));
    TSR_RETURN_IF_ERROR(manifest.status());
    current = manifest->generation;
  }
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files_, ""));
  std::int64_t latest = current;
  for (const std::string& name : names) {
    if (name == kUnfinishedManifest) files_.remove(name);
    const std::int64_t generation = generation_of(name);
    latest = std::max(latest, generation);
    if (generation >= 0 && generation != current) remove_generation(files_, generation);
  }
  if (latest >= kMaxGeneration) {
    return invalid_argument(files_.path() + "/" + generation_folder(latest) +
                            ": no number is left for a generation after it; remove it");
  }
  generation_ = latest + 1;
  return make_folder(files_, generation_folder(generation_));
}

Status NewGeneration::try_shard() {
  const std::string name = generation_folder(generation_) + "/" + shard_name(world_.rank());
  TSR_ASSIGN_OR_RETURN(FolderFile file, FolderFile::create(files_, name));
  Status status = file.append(std::as_bytes(std::span("\n", 1)));
  if (status.ok()) status = file.sync();
  const Status closed = file.close();
  files_.remove(name);
  return status.ok() ? closed : status;
}

StatusOr<WrittenShard> NewGeneration::write(std::span<const OwnedPart> parts) {
  return write_shard(files_, generation_, world_.rank(), parts, options_.chunk_bytes);
}

void NewGeneration::commit(const StatusOr<WrittenShard>& written, const Json& values) {
  // A report is a manifest of this rank's file and parts.
  Manifest report{.generation = generation_, .chunk_bytes = options_.chunk_bytes};
  if (written.ok()) {
    report.files.resize(static_cast<std::size_t>(world_.size()));
    report.files[static_cast<std::size_t>(world_.rank())] = written->file;
    report.tensors = written->tensors;
  }
  agree(world_, written.status());
  const bool leads = world_.rank() == 0;
  // Once rank 0 has all reports, only it knows whether the generation is the checkpoint by now,
  // whatever ends the others' calls: from here on it alone removes one that is not.
  if (!leads) leaves_ = Leaves::kNothing;
  std::vector<std::string> reports;
  collect_texts(world_, to_text(report),
                [&](std::string_view text) { reports.emplace_back(text); });
  agree(world_, leads ? put_in_place(reports, values) : absl::OkStatus());
  agree(world_, leads ? sync_folder(files_, "") : absl::OkStatus());
  if (leads) remove_older();
}

Status NewGeneration::put_in_place(std::span<const std::string> reports, const Json& values) {
  Manifest manifest{.generation = generation_, .chunk_bytes = options_.chunk_bytes};
  manifest.values = values;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    TSR_ASSIGN_OR_RETURN(
        const Manifest report,
        parse_manifest(reports[rank], "the report of rank " + std::to_string(rank)));
    manifest.files.push_back(report.files[rank]);
    TSR_RETURN_IF_ERROR(merge(report, manifest));
  }
  const std::string path = files_.path() + "/" + std::string(kManifestName);
  TSR_RETURN_IF_ERROR(check_manifest_coverage(manifest, path));
  TSR_RETURN_IF_ERROR(sync_folder(files_, ""));  // the generation's folder is there for good
  TSR_ASSIGN_OR_RETURN(FolderFile file, FolderFile::create(files_, kUnfinishedManifest));
  const std::string text = to_text(manifest);
  Status status = file.append(std::as_bytes(std::span(text)));
  if (status.ok()) status = file.sync();
  if (status.ok()) status = file.close();
  if (status.ok()) status = rename_file(files_, kUnfinishedManifest, std::string(kManifestName));
  if (!status.ok()) {
    files_.remove(kUnfinishedManifest);
    return status;
  }
  // From here on the new generation is the checkpoint; its files stay whatever comes.
  leaves_ = Leaves::kNothing;
  return status;
}

void NewGeneration::remove_older() {
  const auto names = list_folder(files_, "");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::int64_t generation = generation_of(name);
    if (generation >= 0 && generation != generation_) remove_generation(files_, generation);
  }
}

NewGeneration::~NewGeneration() {
  if (leaves_ == Leaves::kFiles) {
    if (world_.rank() == 0) {
      remove_generation(files_, generation_);
    } else {
      files_.remove(generation_folder(generation_) + "/" + shard_name(world_.rank()));
    }
  }
  if (lock_ >= 0) files_.close(lock_);
}

}  // namespace tessera
