#include "checkpoint/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"
#include "io/safetensors.h"
#include "runtime/plan/box.h"

namespace tessera {
namespace {

/// Runs of one dim that the interval [begin, end) of a region shares with a selection.
std::vector<Run> shared_runs(const std::vector<Interval>& intervals, std::int64_t begin,
                             std::int64_t end) {
  std::vector<Run> runs;
  std::int64_t local = 0;
  for (const Interval& interval : intervals) {
    const std::int64_t start = std::max(interval.start, begin);
    const std::int64_t stop = std::min(interval.stop, end);
    if (start < stop) {
      runs.push_back({start - begin, local + start - interval.start, stop - start});
    }
    local += interval.stop - interval.start;
  }
  return runs;
}

std::string size_text(const TensorInfo& info) {
  return std::string(info.dtype_name()) + to_string(info.shape);
}

}  // namespace

void for_each_piece(const Region& region, const Selection& selection, std::int64_t element_bytes,
                    const std::function<void(const Piece&)>& f) {
  Transfer box;
  for (std::size_t d = 0; d < selection.size(); ++d) {
    box.dims.push_back(
        shared_runs(selection[d], region.offset[d], region.offset[d] + region.size[d]));
    if (box.dims.back().empty()) return;
  }
  const Shape target = shape_of(selection);
  Box(box, view_of(region.size), view_of(target))
      .for_each_piece([&](std::int64_t src, std::int64_t dst, std::int64_t count) {
        f({src * element_bytes, count * element_bytes, dst * element_bytes});
      });
}

StatusOr<ShardReader> ShardReader::open(FileSystem& files, const Manifest& manifest,
                                        std::int64_t rank) {
  const ManifestFile& entry = manifest.files[static_cast<std::size_t>(rank)];
  TSR_ASSIGN_OR_RETURN(
      FolderFile file,
      FolderFile::open(files, generation_folder(manifest.generation) + "/" + shard_name(rank)));
  ShardReader reader(std::move(file), entry, manifest.chunk_bytes);
  TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, reader.file_.size_bytes());
  if (bytes != entry.bytes) {
    return io_error(absl::StrFormat("%s: has %d bytes; the manifest says %d", reader.file_.path(),
                                    bytes, entry.bytes));
  }
  reader.verified_.assign(entry.hashes.size(), false);
  TSR_RETURN_IF_ERROR(reader.read_header(manifest, rank));
  return reader;
}

Status ShardReader::load_chunk(std::int64_t chunk) {
  if (chunk == loaded_) return absl::OkStatus();
  const std::int64_t begin = chunk * chunk_bytes_;
  chunk_.resize(static_cast<std::size_t>(std::min(chunk_bytes_, entry_->bytes - begin)));
  loaded_ = -1;
  TSR_RETURN_IF_ERROR(file_.read_at(begin, chunk_));
  num_bytes_read_ += static_cast<std::int64_t>(chunk_.size());
  const auto at = static_cast<std::size_t>(chunk);
  if (hash_of(std::span<const std::byte>(chunk_)) != entry_->hashes[at]) {
    return invalid_argument(absl::StrFormat(
        "%s: bytes %d to %d do not have the hash that the manifest says: the file was damaged, or "
        "is of another generation",
        file_.path(), begin, begin + static_cast<std::int64_t>(chunk_.size())));
  }
  loaded_ = chunk;
  verified_[at] = true;
  return absl::OkStatus();
}

Status ShardReader::read(std::int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    TSR_RETURN_IF_ERROR(load_chunk(offset / chunk_bytes_));
    const auto within = static_cast<std::size_t>(offset % chunk_bytes_);
    const std::size_t count = std::min(out.size(), chunk_.size() - within);
    std::memcpy(out.data(), chunk_.data() + within, count);
    out = out.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
  return absl::OkStatus();
}

Status ShardReader::verify(std::int64_t offset, std::int64_t size) {
  if (size == 0) return absl::OkStatus();
  const std::int64_t last = (offset + size - 1) / chunk_bytes_;
  for (std::int64_t chunk = offset / chunk_bytes_; chunk <= last; ++chunk) {
    if (!verified_[static_cast<std::size_t>(chunk)]) TSR_RETURN_IF_ERROR(load_chunk(chunk));
  }
  return absl::OkStatus();
}

Status ShardReader::read_header(const Manifest& manifest, std::int64_t rank) {
  std::uint64_t length = 0;
  if (entry_->bytes < kSafetensorsLengthBytes) {
    return invalid_argument(
        absl::StrFormat("%s: %d bytes are no safetensors file", file_.path(), entry_->bytes));
  }
  TSR_RETURN_IF_ERROR(read(0, std::as_writable_bytes(std::span(&length, 1))));
  TSR_RETURN_IF_ERROR(
      safetensors_data_begin(file_.path(), length, entry_->bytes, SafetensorsFile::kMaxHeaderBytes)
          .status());
  std::string header(static_cast<std::size_t>(length), '\0');
  TSR_RETURN_IF_ERROR(read(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(header))));
  return check_header(manifest, rank, header);
}

Status ShardReader::check_header(const Manifest& manifest, std::int64_t rank,
                                 std::string_view header) {
  TSR_ASSIGN_OR_RETURN(const SafetensorsHeader parsed,
                       parse_safetensors_header(file_.path(), header, entry_->bytes));
  const auto generation =
      std::find_if(parsed.metadata.begin(), parsed.metadata.end(),
                   [](const auto& member) { return member.first == "generation"; });
  if (generation == parsed.metadata.end() ||
      generation->second != std::to_string(manifest.generation)) {
    return invalid_argument(absl::StrFormat(
        "%s: is of generation %s; the manifest says %d: generations are mixed", file_.path(),
        generation == parsed.metadata.end() ? "none" : in_quotes(generation->second),
        manifest.generation));
  }
  std::map<std::string, const TensorInfo*> found;
  for (const TensorInfo& info : parsed.tensors) found[info.name] = &info;
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const ManifestPart& part : tensor.parts) {
      if (part.file != rank) continue;
      const std::string name = entry_name(tensor, part.region);
      const auto at = found.find(name);
      const std::string wanted = std::string(name_of(tensor.dtype)) + to_string(part.region.size);
      if (at == found.end() || size_text(*at->second) != wanted) {
        return invalid_argument(absl::StrFormat(
            "%s: %s of tensor %s %s; the manifest says %s", file_.path(), to_string(part.region),
            in_quotes(tensor.name),
            at == found.end() ? "is missing" : "is " + size_text(*at->second), wanted));
      }
      begins_[name] = parsed.data_begin + at->second->begin;
      found.erase(at);
    }
  }
  if (found.empty()) return absl::OkStatus();
  return invalid_argument(absl::StrFormat("%s: %s is not in the manifest", file_.path(),
                                          in_quotes(found.begin()->first)));
}

StatusOr<std::int64_t> ShardReader::begin_of(const std::string& entry) const {
  const auto at = begins_.find(entry);
  if (at != begins_.end()) return at->second;
  return invalid_argument(absl::StrFormat("%s: no entry %s", file_.path(), in_quotes(entry)));
}

}  // namespace tessera
