#include "checkpoint/stored_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"
#include "checkpoint/generation.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxOpenFiles = 64;
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;

/// How the bytes of two blocks differ, added to `difference`.
void compare_block(const Array& a, const Array& b, TensorDifference& difference) {
  const std::int64_t width = size_of(a.dtype());
  if (a.num_bytes() == 0 ||
      std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.num_bytes())) == 0) {
    return;
  }
  const std::vector<double> first = a.to_vector(), second = b.to_vector();
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * width;
    if (std::memcmp(a.bytes() + at, b.bytes() + at, static_cast<std::size_t>(width)) == 0) continue;
    ++difference.num_elements;
    const double distance = std::abs(first[i] - second[i]);
    if (!(distance <= difference.max_difference)) difference.max_difference = distance;
  }
}

StatusOr<TensorDifference> compare_values(StoredTensors& first, StoredTensors& second,
                                          const ManifestTensor& a, const ManifestTensor& b) {
  TensorDifference difference{.name = a.name};
  const auto compare = [&](const Region& block) -> Status {
    const Array left = Array::empty(block.size, a.dtype);
    const Array right = Array::empty(block.size, b.dtype);
    const auto bytes_of = [](const Array& array) {
      return std::span(array.bytes(), static_cast<std::size_t>(array.num_bytes()));
    };
    TSR_RETURN_IF_ERROR(first.read(a, selection_of(block), bytes_of(left)));
    TSR_RETURN_IF_ERROR(second.read(b, selection_of(block), bytes_of(right)));
    compare_block(left, right, difference);
    return absl::OkStatus();
  };
  TSR_RETURN_IF_ERROR(
      for_each_block(whole_region(view_of(a.shape)), size_of(a.dtype), kBlockBytes, compare));
  difference.text =
      absl::StrFormat("%d of %d elements differ, by %g at most", difference.num_elements,
                      num_elements(a.shape), difference.max_difference);
  return difference;
}

std::string described(const ManifestTensor& tensor) {
  return std::string(name_of(tensor.dtype)) + to_string(tensor.shape);
}

Status verify_shard(FileSystem& files, const Manifest& manifest, std::int64_t rank) {
  TSR_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::open(files, manifest, rank));
  return reader.verify(0, manifest.files[static_cast<std::size_t>(rank)].bytes);
}

}  // namespace

StatusOr<StoredTensors> StoredTensors::open(FileSystem& files,
                                            std::optional<std::int64_t> generation) {
  TSR_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(files, generation));
  return StoredTensors(files, std::move(manifest));
}

StatusOr<ShardReader*> StoredTensors::reader_of(std::int64_t file) {
  auto at = readers_.find(file);
  if (at == readers_.end()) {
    if (readers_.size() == kMaxOpenFiles) readers_.erase(readers_.begin());
    TSR_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::open(*files_, manifest_, file));
    at = readers_.emplace(file, std::move(reader)).first;
  }
  return &at->second;
}

Status StoredTensors::read(const ManifestTensor& tensor, const Selection& selection,
                           std::span<std::byte> out) {
  for (const ManifestPart& part : tensor.parts) {
    Status status;
    ShardReader* reader = nullptr;
    std::int64_t begin = 0;
    for_each_piece(part.region, selection, size_of(tensor.dtype), [&](const Piece& piece) {
      if (!status.ok()) return;
      if (reader == nullptr) {
        const StatusOr<ShardReader*> opened = reader_of(part.file);
        const StatusOr<std::int64_t> at =
            opened.ok() ? (*opened)->begin_of(entry_name(tensor, part.region)) : opened.status();
        status = at.status();
        if (!status.ok()) return;
        reader = *opened;
        begin = *at;
      }
      status = reader->read(
          begin + piece.offset,
          out.subspan(static_cast<std::size_t>(piece.to), static_cast<std::size_t>(piece.size)));
    });
    TSR_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

Status for_each_block(const Region& region, std::int64_t element_bytes, std::int64_t max_bytes,
                      const std::function<Status(const Region&)>& f) {
  if (num_elements(region.size) == 0) return absl::OkStatus();
  if (region.size.empty()) return f(region);
  const std::int64_t row_bytes = num_elements(region.size) / region.size[0] * element_bytes;
  const std::int64_t rows = std::max<std::int64_t>(1, max_bytes / row_bytes);
  for (std::int64_t row = 0; row < region.size[0]; row += rows) {
    Region block = region;
    block.offset[0] += row;
    block.size[0] = std::min(rows, region.size[0] - row);
    TSR_RETURN_IF_ERROR(f(block));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> verify_checkpoint(FileSystem& files,
                                                     std::optional<std::int64_t> generation) {
  TSR_ASSIGN_OR_RETURN(const std::optional<ManifestText> text,
                       read_manifest_text(files, generation));
  if (!text) return read_manifest(files).status();
  const std::string path = files.path() + "/" + text->name;
  TSR_ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(text->text, path));
  std::vector<std::string> problems;
  const auto note = [&](const Status& status) {
    if (!status.ok()) problems.emplace_back(message_of(status));
  };
  note(check_manifest_coverage(manifest, path));
  note(check_manifest_files(files, manifest));
  for (std::int64_t rank = 0; rank < manifest.world_size(); ++rank) {
    note(verify_shard(files, manifest, rank));
  }
  return problems;
}

std::string_view name_of(TensorDifference::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"only_first", "only_second", "dtype", "shape", "values"};
  return kNames[static_cast<int>(kind)];
}

StatusOr<std::vector<TensorDifference>> diff_checkpoints(FileSystem& first_files,
                                                         FileSystem& second_files) {
  using Kind = TensorDifference::Kind;
  TSR_ASSIGN_OR_RETURN(StoredTensors first, StoredTensors::open(first_files));
  TSR_ASSIGN_OR_RETURN(StoredTensors second, StoredTensors::open(second_files));
  std::vector<TensorDifference> differences;
  for (const ManifestTensor& a : first.manifest().tensors) {
    const ManifestTensor* b = second.manifest().find(a.name);
    if (b == nullptr) {
      differences.push_back({a.name, Kind::kOnlyFirst, described(a)});
    } else if (a.dtype != b->dtype || a.shape != b->shape) {
      differences.push_back({a.name, a.shape != b->shape ? Kind::kShape : Kind::kDType,
                             described(a) + " and " + described(*b)});
    } else {
      TSR_ASSIGN_OR_RETURN(TensorDifference values, compare_values(first, second, a, *b));
      if (values.num_elements > 0) differences.push_back(std::move(values));
    }
  }
  for (const ManifestTensor& b : second.manifest().tensors) {
    if (first.manifest().find(b.name) != nullptr) continue;
    differences.push_back({b.name, Kind::kOnlySecond, described(b)});
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return differences;
}

}  // namespace tessera
