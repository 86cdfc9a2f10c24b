#include "checkpoint/generation.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "checkpoint/agree.h"
#include "checkpoint/shard_reader.h"
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
    at->parts.append(tensor.parts);
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
    Array local = to_host(tensor.local());
    if (!local.is_contiguous()) {
      local = Array::empty(tensor.local().shape(), tensor.dtype());
      kernels::copy(tensor.runtime().kernels(), tensor.local(), local);
    }
    parts.push_back({name, tensor.global_shape(), selection_of(spec, *coord), std::move(local)});
  }
  return parts;
}

namespace {

StatusOr<std::string> manifest_file_text(FileSystem& files, const std::string& name) {
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

/// The last generation and those before it that have a manifest among `names`, the last one first.
std::vector<std::int64_t> generations_among(const std::vector<std::string>& names,
                                            std::int64_t last) {
  std::vector<std::int64_t> generations = {last};
  for (const std::string& name : names) {
    const std::int64_t kept = generation_of_kept_manifest(name);
    if (kept >= 0 && kept < last) generations.push_back(kept);
  }
  std::sort(generations.begin(), generations.end(), std::greater<>());
  return generations;
}

/// A new file of this text, durable but for its name; none where that fails.
Status write_text(FileSystem& files, const std::string& name, const std::string& text) {
  TSR_ASSIGN_OR_RETURN(FolderFile file, FolderFile::create(files, name));
  Status status = file.append(std::as_bytes(std::span(text)));
  if (status.ok()) status = file.sync();
  if (status.ok()) status = file.close();
  if (!status.ok()) files.remove(name);
  return status;
}

}  // namespace

StatusOr<std::vector<std::int64_t>> stored_generations(FileSystem& files) {
  TSR_ASSIGN_OR_RETURN(const std::optional<ManifestText> last, read_manifest_text(files));
  if (!last) return std::vector<std::int64_t>();
  TSR_ASSIGN_OR_RETURN(const Manifest manifest,
                       parse_manifest(last->text, files.path() + "/" + last->name));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files, ""));
  return generations_among(names, manifest.generation);
}

StatusOr<std::optional<ManifestText>> read_manifest_text(FileSystem& files,
                                                         std::optional<std::int64_t> generation) {
  ManifestText last{std::string(kManifestName), {}};
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files, ""));
  if (!std::binary_search(names.begin(), names.end(), last.name)) return std::nullopt;
  if (!generation) {
    TSR_ASSIGN_OR_RETURN(last.text, manifest_file_text(files, last.name));
    return last;
  }
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> stored, stored_generations(files));
  if (*generation == stored[0]) return read_manifest_text(files);
  if (std::find(stored.begin(), stored.end(), *generation) == stored.end()) {
    return io_error(absl::StrFormat("%s: generation %d is not kept; there are %s", files.path(),
                                    *generation, absl::StrJoin(stored, ", ")));
  }
  ManifestText kept{kept_manifest_name(*generation), {}};
  TSR_ASSIGN_OR_RETURN(kept.text, manifest_file_text(files, kept.name));
  const std::string path = files.path() + "/" + kept.name;
  TSR_ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(kept.text, path));
  if (manifest.generation == *generation) return kept;
  return invalid_argument(
      absl::StrFormat("%s: is of generation %d; generations are mixed", path, manifest.generation));
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
  if (options_.keep < 1) {
    return invalid_argument(absl::StrFormat("%s: %d generations to keep; at least 1 is allowed",
                                            files_.path(), options_.keep));
  }
  do {
    lock_ = files_.lock();
  } while (lock_ == -EINTR);
  if (lock_ == -EWOULDBLOCK) {
    return io_error(files_.path() + ": another save is under way in this folder");
  }
  TSR_RETURN_IF_ERROR(call_error(files_, "", "lock the folder", lock_));
  TSR_ASSIGN_OR_RETURN(const std::optional<ManifestText> last, read_manifest_text(files_));
  if (last) {
    TSR_ASSIGN_OR_RETURN(const Manifest manifest,
                         parse_manifest(last->text, files_.path() + "/" + last->name));
    previous_ = manifest.generation;
    previous_manifest_ = last->text;
  }
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files_, ""));
  const auto kept = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return generation_of_kept_manifest(name) >= 0;
  });
  if (!last && kept != names.end()) {
    return invalid_argument(files_.path() + "/" + *kept +
                            ": is there without a manifest.json; put one back (a copy of it will "
                            "do), or remove it");
  }
  const std::vector<std::int64_t> stored = generations_among(names, previous_);
  std::int64_t latest = previous_;
  for (const std::string& name : names) {
    // The manifest of a save that ended before it took its place.
    const bool unfinished = generation_of_kept_manifest(name) >= previous_;
    if (name == kUnfinishedManifest || unfinished) files_.remove(name);
    const std::int64_t generation = generation_of(name);
    latest = std::max(latest, generation);
    const bool is_stored = std::find(stored.begin(), stored.end(), generation) != stored.end();
    if (generation >= 0 && !is_stored) remove_generation(files_, generation);
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
  TSR_ASSIGN_OR_RETURN(WrittenShard written, write_shard(files_, generation_, world_.rank(), parts,
                                                         options_.chunk_bytes));
  if (options_.read_back == ReadBack::kOn) TSR_RETURN_IF_ERROR(read_back(written));
  return written;
}

Manifest NewGeneration::report_of(const WrittenShard& written) const {
  Manifest report{.generation = generation_, .chunk_bytes = options_.chunk_bytes};
  report.files.resize(static_cast<std::size_t>(world_.size()));
  report.files[static_cast<std::size_t>(world_.rank())] = written.file;
  report.tensors = written.tensors;
  return report;
}

Status NewGeneration::read_back(const WrittenShard& written) {
  files_.forget_cached(generation_folder(generation_) + "/" + shard_name(world_.rank()));
  const Manifest report = report_of(written);
  const auto compare = [&]() -> Status {
    TSR_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::open(files_, report, world_.rank()));
    return reader.verify(0, written.file.bytes);
  };
  const Status status = compare();
  if (status.ok()) return status;
  return io_error("read back after it was written: " + std::string(message_of(status)));
}

void NewGeneration::commit(const StatusOr<WrittenShard>& written, const Json& values) {
  agree(world_, written.status());
  const bool leads = world_.rank() == 0;
  // Once rank 0 has all reports, only it knows whether the generation is the checkpoint by now,
  // whatever ends the others' calls: from here on it alone removes one that is not.
  if (!leads) leaves_ = Leaves::kNothing;
  std::vector<std::string> reports;
  collect_texts(world_, to_text(report_of(*written)),
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
  const std::string kept = kept_manifest_name(previous_);
  const bool keeps = options_.keep > 1 && previous_ > 0;
  if (keeps) TSR_RETURN_IF_ERROR(write_text(files_, kept, previous_manifest_));
  // The generation's folder, and the name just made, are there for good.
  Status status = sync_folder(files_, "");
  if (status.ok()) status = replace_manifest(to_text(manifest));
  if (!status.ok() && keeps) files_.remove(kept);
  return status;
}

Status NewGeneration::replace_manifest(const std::string& text) {
  TSR_RETURN_IF_ERROR(write_text(files_, kUnfinishedManifest, text));
  Status status;
  if (options_.read_back == ReadBack::kOn) {
    files_.forget_cached(kUnfinishedManifest);
    const StatusOr<std::string> again = manifest_file_text(files_, kUnfinishedManifest);
    status = again.status();
    if (again.ok() && *again != text) {
      status = io_error(files_.path() + "/" + kUnfinishedManifest +
                        ": read back after it was written, it is another text");
    }
  }
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
  std::vector<std::int64_t> stay = generations_among(*names, generation_);
  stay.resize(std::min(stay.size(), static_cast<std::size_t>(options_.keep)));
  const auto goes = [&](std::int64_t generation) {
    return generation >= 0 && std::find(stay.begin(), stay.end(), generation) == stay.end();
  };
  // Its manifest goes first, for good: without one a generation is what a crash left.
  bool listed = false;
  for (const std::string& name : *names) {
    if (!goes(generation_of_kept_manifest(name))) continue;
    files_.remove(name);
    listed = true;
  }
  if (listed && !sync_folder(files_, "").ok()) return;
  for (const std::string& name : *names) {
    const std::int64_t generation = generation_of(name);
    if (goes(generation)) remove_generation(files_, generation);
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
