#include "checkpoint/shard_writer.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"
#include "runtime/plan/box.h"

namespace tessera {
namespace {

/// One entry of the file: a region of a part.
struct Entry {
  const OwnedPart* part = nullptr;
  Region region;
  Transfer box;  ///< from the part's local array into the region
};

/// Where the interval that begins at `start` begins in the local array.
std::int64_t local_start(const std::vector<Interval>& intervals, std::int64_t start) {
  std::int64_t at = 0;
  for (const Interval& interval : intervals) {
    if (interval.start == start) break;
    at += interval.stop - interval.start;
  }
  return at;
}

std::vector<Entry> entries_of(std::span<const OwnedPart> parts) {
  std::vector<Entry> entries;
  for (const OwnedPart& part : parts) {
    for (Region& region : regions_of(part.selection)) {
      Transfer box;
      for (std::size_t d = 0; d < region.size.size(); ++d) {
        box.dims.push_back({{local_start(part.selection[d], region.offset[d]), 0, region.size[d]}});
      }
      entries.push_back({&part, std::move(region), std::move(box)});
    }
  }
  // Wide dtypes first keeps each tensor aligned; then by name and place.
  const auto key = [](const Entry& entry) {
    return std::tuple(-size_of(entry.part->local.dtype()), std::string_view(entry.part->name),
                      view_of(entry.region.offset));
  };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    const auto [width_a, name_a, offset_a] = key(a);
    const auto [width_b, name_b, offset_b] = key(b);
    if (std::tie(width_a, name_a) != std::tie(width_b, name_b)) {
      return std::tie(width_a, name_a) < std::tie(width_b, name_b);
    }
    return std::lexicographical_compare(offset_a.begin(), offset_a.end(), offset_b.begin(),
                                        offset_b.end());
  });
  return entries;
}

std::vector<ManifestTensor> tensors_of(std::span<const OwnedPart> parts, std::int64_t rank) {
  std::vector<ManifestTensor> tensors;
  for (const OwnedPart& part : parts) {
    ManifestTensor& tensor =
        tensors.emplace_back(ManifestTensor{part.name, part.local.dtype(), part.global_shape});
    for (const Region& region : regions_of(part.selection)) tensor.parts.push_back({region, rank});
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

Status append_entry(HashedFile& file, const Entry& entry) {
  const Array& local = entry.part->local;
  const std::int64_t width = size_of(local.dtype());
  Status status;
  Box(entry.box, view_of(local.shape()), view_of(entry.region.size))
      .for_each_piece([&](std::int64_t src, std::int64_t, std::int64_t count) {
        if (!status.ok()) return;
        status = file.append(
            {local.data<std::byte>() + src * width, static_cast<std::size_t>(count * width)});
      });
  return status;
}

}  // namespace

StatusOr<HashedFile> HashedFile::create(FileSystem& files, const std::string& name,
                                        std::int64_t chunk_bytes) {
  TSR_ASSIGN_OR_RETURN(FolderFile file, FolderFile::create(files, name));
  HashedFile out(std::move(file), chunk_bytes);
  out.buffer_.reserve(out.chunk_bytes_);
  return out;
}

Status HashedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t room = std::min(bytes.size(), chunk_bytes_ - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(room));
    bytes = bytes.subspan(room);
    if (buffer_.size() == chunk_bytes_) TSR_RETURN_IF_ERROR(write_chunk());
  }
  return absl::OkStatus();
}

Status HashedFile::write_chunk() {
  written_.hashes.push_back(hash_of(std::span<const std::byte>(buffer_)));
  written_.bytes += static_cast<std::int64_t>(buffer_.size());
  TSR_RETURN_IF_ERROR(file_.append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

StatusOr<ManifestFile> HashedFile::finish() {
  if (!buffer_.empty()) TSR_RETURN_IF_ERROR(write_chunk());
  TSR_RETURN_IF_ERROR(file_.sync());
  TSR_RETURN_IF_ERROR(file_.close());
  return std::move(written_);
}

StatusOr<WrittenShard> write_shard(FileSystem& files, std::int64_t generation, std::int64_t rank,
                                   std::span<const OwnedPart> parts, std::int64_t chunk_bytes) {
  const std::vector<Entry> entries = entries_of(parts);
  std::vector<ManifestTensor> tensors = tensors_of(parts, rank);
  std::vector<TensorEntry> header;
  for (const Entry& entry : entries) {
    const ManifestTensor named = {entry.part->name, DType::kF32, entry.part->global_shape, {}};
    header.push_back(
        {entry_name(named, entry.region), entry.part->local.dtype(), entry.region.size});
  }
  const std::string folder = generation_folder(generation);
  TSR_ASSIGN_OR_RETURN(HashedFile file,
                       HashedFile::create(files, folder + "/" + shard_name(rank), chunk_bytes));
  const std::string preamble = safetensors_preamble(
      header, {{"generation", std::to_string(generation)}, {"rank", std::to_string(rank)}});
  TSR_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(preamble))));
  for (const Entry& entry : entries) TSR_RETURN_IF_ERROR(append_entry(file, entry));
  WrittenShard written{.tensors = std::move(tensors)};
  TSR_ASSIGN_OR_RETURN(written.file, file.finish());
  TSR_RETURN_IF_ERROR(sync_folder(files, folder));
  return written;
}

}  // namespace tessera
