#include "checkpoint/load.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/agree.h"
#include "checkpoint/chunk_hash.h"
#include "checkpoint/generation.h"
#include "checkpoint/shard_reader.h"
#include "kernels/elementwise.h"

namespace tessera {
namespace {

constexpr int kMaxAttempts = 5;
// Files that stay open between checking and reading; the rest are opened again.
constexpr std::size_t kMaxOpenFiles = 256;

StatusOr<ManifestText> manifest_text(FileSystem& files, std::optional<std::int64_t> generation) {
  TSR_ASSIGN_OR_RETURN(std::optional<ManifestText> text, read_manifest_text(files, generation));
  if (text) return *std::move(text);
  return io_error(files.path() + ": holds no checkpoint: there is no " +
                  std::string(kManifestName));
}

StatusOr<Manifest> checked_manifest(FileSystem& files, const ManifestText& text) {
  const std::string path = files.path() + "/" + text.name;
  TSR_ASSIGN_OR_RETURN(Manifest manifest, parse_manifest(text.text, path));
  TSR_RETURN_IF_ERROR(check_manifest_coverage(manifest, path));
  TSR_RETURN_IF_ERROR(check_manifest_files(files, manifest));
  return manifest;
}

std::string described(DType dtype, const Shape& shape) {
  return std::string(name_of(dtype)) + to_string(shape);
}

Status check_tensor(const std::string& path, const ManifestTensor* stored,
                    const StateTensor& wanted) {
  const DTensor& tensor = wanted.tensor;
  const std::string needs = described(tensor.dtype(), tensor.global_shape());
  if (stored == nullptr) {
    return invalid_argument(absl::StrFormat("%s: tensor %s is missing; %s is needed", path,
                                            in_quotes(wanted.name), needs));
  }
  if (stored->dtype == tensor.dtype() && stored->shape == tensor.global_shape()) {
    return absl::OkStatus();
  }
  return invalid_argument(absl::StrFormat("%s: tensor %s is %s; %s is needed", path,
                                          in_quotes(wanted.name),
                                          described(stored->dtype, stored->shape), needs));
}

/// This rank's reading of one checkpoint.
class Reading {
 public:
  Reading(FileSystem& files, std::int64_t rank, std::span<const StateTensor> tensors)
      : files_(files), rank_(rank), tensors_(tensors) {}

  /// Everything that can be wrong, without changing a tensor.
  Status check(const LoadOptions& options);
  /// Reads into the tensors.
  Status fill();
  /// The tensor's own memory, or what is copied there once it is read.
  const Array& on_host_of(const StateTensor& wanted);
  /// One letter per tensor of the manifest: whether this rank asks for it.
  std::string asked() const;
  Status check_extra(std::span<const std::string> asked_by_rank, const LoadOptions& options) const;

  const Manifest& manifest() const noexcept { return manifest_; }
  std::uint64_t manifest_hash() const noexcept { return manifest_hash_; }
  bool has_moved() const;
  std::int64_t num_bytes_read() const noexcept { return num_bytes_read_; }

 private:
  struct WantedPart {
    const StateTensor* wanted;
    const ManifestTensor* tensor;
    Region region;
  };
  /// f(reader, byte of the file, piece) for all that this rank needs of one file.
  template <class F>
  Status visit(ShardReader& reader, const std::vector<WantedPart>& parts, const F& f);
  StatusOr<ShardReader*> reader_of(std::int64_t file);
  void close_if_many(std::int64_t file);
  void collect();

  FileSystem& files_;
  std::int64_t rank_;
  std::span<const StateTensor> tensors_;
  Manifest manifest_;
  std::string manifest_path_;
  std::uint64_t manifest_hash_ = 0;
  std::map<std::int64_t, std::vector<WantedPart>> by_file_;
  std::map<std::int64_t, ShardReader> readers_;
  std::map<const StateTensor*, Array> staged_;  // of tensors that do not lie on the host
  std::int64_t num_bytes_read_ = 0;
};

bool overlaps(const Region& region, const Selection& selection) {
  for (std::size_t d = 0; d < selection.size(); ++d) {
    const std::int64_t begin = region.offset[d], end = begin + region.size[d];
    const bool any = std::any_of(selection[d].begin(), selection[d].end(), [&](const Interval& at) {
      return at.start < end && at.stop > begin;
    });
    if (!any) return false;
  }
  return true;
}

void Reading::collect() {
  for (const StateTensor& wanted : tensors_) {
    const Spec& spec = wanted.tensor.spec();
    const std::optional<Coord> coord = spec.mesh().coord_of(rank_);
    if (!coord) continue;
    const Selection selection = selection_of(spec, *coord);
    const ManifestTensor* tensor = manifest_.find(wanted.name);
    for (const ManifestPart& part : tensor->parts) {
      if (overlaps(part.region, selection)) {
        by_file_[part.file].push_back({&wanted, tensor, part.region});
      }
    }
  }
}

StatusOr<ShardReader*> Reading::reader_of(std::int64_t file) {
  auto at = readers_.find(file);
  if (at == readers_.end()) {
    TSR_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::open(files_, manifest_, file));
    at = readers_.emplace(file, std::move(reader)).first;
  }
  return &at->second;
}

void Reading::close_if_many(std::int64_t file) {
  const auto at = readers_.find(file);
  if (readers_.size() <= kMaxOpenFiles) return;
  num_bytes_read_ += at->second.num_bytes_read();
  readers_.erase(at);
}

template <class F>
Status Reading::visit(ShardReader& reader, const std::vector<WantedPart>& parts, const F& f) {
  for (const WantedPart& each : parts) {
    const Region& region = each.region;
    const Spec& spec = each.wanted->tensor.spec();
    const Selection selection = selection_of(spec, *spec.mesh().coord_of(rank_));
    Status status;
    const StatusOr<std::int64_t> begin = reader.begin_of(entry_name(*each.tensor, region));
    if (!begin.ok()) return begin.status();
    for_each_piece(region, selection, size_of(each.tensor->dtype), [&](const Piece& piece) {
      if (status.ok()) status = f(reader, *begin + piece.offset, piece, *each.wanted);
    });
    if (status.ok()) continue;
    return Status(status.code(), to_absl(absl::StrFormat(
                                     "%s (tensor %s, range %s)", std::string(message_of(status)),
                                     in_quotes(each.tensor->name), to_string(region))));
  }
  return absl::OkStatus();
}

Status Reading::check(const LoadOptions& options) {
  TSR_ASSIGN_OR_RETURN(const ManifestText text, manifest_text(files_, options.generation));
  manifest_hash_ = hash_of(text.text);
  manifest_path_ = files_.path() + "/" + text.name;
  TSR_ASSIGN_OR_RETURN(manifest_, checked_manifest(files_, text));
  for (const StateTensor& wanted : tensors_) {
    if (wanted.tensor.spec().has_partial() || !wanted.tensor.local().is_contiguous()) {
      return invalid_argument(
          absl::StrFormat("tensor %s is %s: only whole, contiguous parts are loaded",
                          in_quotes(wanted.name), wanted.tensor.spec().to_string()));
    }
    TSR_RETURN_IF_ERROR(check_tensor(manifest_path_, manifest_.find(wanted.name), wanted));
  }
  if (options.check) TSR_RETURN_IF_ERROR(options.check(manifest_.values));
  collect();
  for (const auto& [file, parts] : by_file_) {
    TSR_ASSIGN_OR_RETURN(ShardReader* const reader, reader_of(file));
    TSR_RETURN_IF_ERROR(visit(*reader, parts,
                              [](ShardReader& from, std::int64_t at, const Piece& piece,
                                 const StateTensor&) { return from.verify(at, piece.size); }));
    close_if_many(file);
  }
  return absl::OkStatus();
}

Status Reading::fill() {
  for (const auto& [file, parts] : by_file_) {
    TSR_ASSIGN_OR_RETURN(ShardReader* const reader, reader_of(file));
    TSR_RETURN_IF_ERROR(visit(
        *reader, parts,
        [this](ShardReader& from, std::int64_t at, const Piece& piece, const StateTensor& into) {
          std::byte* to = on_host_of(into).data<std::byte>() + piece.to;
          return from.read(at, {to, static_cast<std::size_t>(piece.size)});
        }));
    num_bytes_read_ += reader->num_bytes_read();
    readers_.erase(file);
  }
  for (const auto& [wanted, values] : staged_) {
    KernelContext& kernels = wanted->tensor.runtime().kernels();
    kernels::copy(kernels, to_device(kernels, values), wanted->tensor.local());
  }
  staged_.clear();
  for (const StateTensor& wanted : tensors_) {
    if (!wanted.tensor.local().is_null()) wanted.tensor.local().storage()->bump_version();
  }
  return absl::OkStatus();
}

const Array& Reading::on_host_of(const StateTensor& wanted) {
  const Array& local = wanted.tensor.local();
  if (local.is_on_host()) return local;
  Array& staged = staged_[&wanted];
  if (staged.is_null()) staged = Array::empty(local.shape(), local.dtype());
  return staged;
}

std::string Reading::asked() const {
  std::string letters(manifest_.tensors.size(), 'n');
  for (const StateTensor& wanted : tensors_) {
    const auto at = manifest_.find(wanted.name) - manifest_.tensors.data();
    letters[static_cast<std::size_t>(at)] = 'y';
  }
  return letters;
}

Status Reading::check_extra(std::span<const std::string> asked_by_rank,
                            const LoadOptions& options) const {
  const bool asks =
      std::any_of(asked_by_rank.begin(), asked_by_rank.end(),
                  [](const auto& letters) { return letters.find('y') != std::string::npos; });
  if (!asks) {
    return invalid_argument(manifest_path_ + ": no tensor is asked for: nothing would be loaded");
  }
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const std::string& name = manifest_.tensors[i].name;
    if (options.may_ignore && options.may_ignore(name)) continue;
    const bool any = std::any_of(asked_by_rank.begin(), asked_by_rank.end(),
                                 [&](const std::string& letters) { return letters[i] == 'y'; });
    if (any) continue;
    return invalid_argument(
        absl::StrFormat("%s: tensor %s is nothing that is asked for: the "
                        "checkpoint is of another model",
                        manifest_path_, in_quotes(name)));
  }
  return absl::OkStatus();
}

/// Whether a save has put another manifest in place since this one was read.
bool Reading::has_moved() const {
  const StatusOr<ManifestText> text = manifest_text(files_, {});
  return text.ok() && hash_of(text->text) != manifest_hash_;
}

}  // namespace

Status check_manifest_files(FileSystem& files, const Manifest& manifest) {
  const std::string folder = generation_folder(manifest.generation);
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(files, folder));
  std::vector<std::string> wanted;
  for (std::int64_t rank = 0; rank < manifest.world_size(); ++rank) {
    wanted.push_back(shard_name(rank));
  }
  std::sort(wanted.begin(), wanted.end());
  const auto [missing, extra] =
      std::mismatch(wanted.begin(), wanted.end(), names.begin(), names.end());
  const std::string path = files.path() + "/" + folder + "/";
  if (missing != wanted.end() && (extra == names.end() || *missing < *extra)) {
    for (const ManifestTensor& tensor : manifest.tensors) {
      for (const ManifestPart& part : tensor.parts) {
        if (shard_name(part.file) != *missing) continue;
        return invalid_argument(absl::StrFormat("%s%s: is missing; it holds %s of tensor %s", path,
                                                *missing, to_string(part.region),
                                                in_quotes(tensor.name)));
      }
    }
    return invalid_argument(path + *missing + ": is missing");
  }
  if (extra == names.end()) return absl::OkStatus();
  return invalid_argument(path + in_quotes(*extra) + ": is not in the manifest");
}

StatusOr<Manifest> read_manifest(FileSystem& files, std::optional<std::int64_t> generation) {
  TSR_ASSIGN_OR_RETURN(const ManifestText text, manifest_text(files, generation));
  return checked_manifest(files, text);
}

Loaded load_checkpoint(World& world, FileSystem& files, std::span<const StateTensor> tensors,
                       const LoadOptions& options) {
  const bool may_move = !options.generation;
  for (int attempt = 1;; ++attempt) {
    Reading reading(files, world.rank(), tensors);
    const Status checked = reading.check(options);
    const std::vector<std::string> seen =
        agree(world, absl::OkStatus(),
              hash_to_text(reading.manifest_hash()) +
                  (may_move && !checked.ok() && reading.has_moved() ? "moved" : ""));
    const bool same = std::all_of(seen.begin(), seen.end(),
                                  [&](const std::string& each) { return each == seen[0]; });
    const bool moved = std::any_of(seen.begin(), seen.end(),
                                   [](const std::string& each) { return each.ends_with("moved"); });
    if (attempt < kMaxAttempts && (moved || !same)) continue;
    agree(world, checked);
    agree(world,
          same ? absl::OkStatus() : io_error(files.path() + ": ranks read different checkpoints"));
    const std::vector<std::string> asked = agree(world, absl::OkStatus(), reading.asked());
    throw_if_error(reading.check_extra(asked, options));
    const Status filled = reading.fill();
    agree(world, filled.ok() ? filled
                             : Status(filled.code(),
                                      to_absl("the checkpoint changed while it was read, and the "
                                              "tensors are partly overwritten: " +
                                              std::string(message_of(filled)))));
    return {reading.manifest().values, reading.manifest().generation, reading.num_bytes_read()};
  }
}

}  // namespace tessera
