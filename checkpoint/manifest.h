// checkpoint/manifest.h: what a checkpoint holds: files with hashes, tensors with the parts they
// lie in, and values such as the step. manifest.json says it; a checkpoint is what its manifest
// says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/part_list.h"
#include "io/json.h"
#include "placement/api.h"
#include "placement/dtype.h"

namespace tessera TSR_API {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::int64_t kManifestVersion = 1;
inline constexpr std::int64_t kMaxManifestBytes = kMaxJsonBytes;
inline constexpr std::int64_t kDefaultChunkBytes = std::int64_t{1} << 20;
/// Of 18 digits: its folder is told by its name.
inline constexpr std::int64_t kMaxGeneration = 999'999'999'999'999'999;

/// "gen-7"; and the generation that a name says, −1 for any other name.
std::string generation_folder(std::int64_t generation);
std::int64_t generation_of(std::string_view name);
/// "manifest-7.json": the manifest of a generation that is kept beside a later one; and the
/// generation that such a name says, −1 for any other name.
std::string kept_manifest_name(std::int64_t generation);
std::int64_t generation_of_kept_manifest(std::string_view name);
/// "shard-3.safetensors"
std::string shard_name(std::int64_t rank);

struct ManifestFile {
  std::int64_t bytes = 0;
  std::vector<std::uint64_t> hashes;  ///< one per chunk
  bool operator==(const ManifestFile&) const = default;
};

struct ManifestTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  PartList parts = PartList(view_of(shape));
  std::int64_t num_bytes() const { return num_elements(shape) * size_of(dtype); }
  bool operator==(const ManifestTensor&) const = default;
};
/// Name of a part in its file: the tensor's own where it is whole, else "NAME[0:4, 8:16]".
std::string entry_name(const ManifestTensor& tensor, const Region& region);

struct Manifest {
  std::int64_t generation = 0;
  std::int64_t chunk_bytes = kDefaultChunkBytes;
  std::vector<ManifestFile> files;  ///< by rank that wrote them
  std::vector<ManifestTensor> tensors;
  Json values = Json(Json::Object());  ///< step, seed, config, …

  std::int64_t world_size() const noexcept { return static_cast<std::int64_t>(files.size()); }
  /// Null where there is none of that name. Cost: O(log n); tensors are sorted by name.
  const ManifestTensor* find(std::string_view name) const;
  bool operator==(const Manifest&) const = default;
};

/// A document that ends with a hash of itself. Tensors are written by name.
std::string to_text(const Manifest& manifest);
/// Errors: InvalidArgument "source: /path: …" for what is malformed, a text that does not have its
/// own hash, a name that stands twice, a part outside of its tensor or in no file. Whether parts
/// cover their tensors is check_manifest_coverage()'s.
StatusOr<Manifest> parse_manifest(std::string_view text, std::string_view source);
/// Every tensor is covered exactly once. Errors: InvalidArgument naming tensor and range.
Status check_manifest_coverage(const Manifest& manifest, std::string_view source);

}  // namespace tessera
