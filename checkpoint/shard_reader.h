// checkpoint/shard_reader.h: reads a checkpoint's files: only the bytes asked for, and every chunk
// that they lie in against its hash.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Bytes [offset, offset + size) of a part's row-major bytes, and the byte of the target that they
/// go to.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  std::int64_t to = 0;
};
/// f(piece) for the contiguous pieces of `region`, held row-major, that `selection` has, in
/// ascending order; the target is the selection's own row-major array. Elements are `element_bytes`
/// long.
void for_each_piece(const Region& region, const Selection& selection, std::int64_t element_bytes,
                    const std::function<void(const Piece&)>& f);

/// One shard, its header checked against the manifest. Not thread-safe.
class ShardReader {
 public:
  /// Errors: io_error for a file that cannot be read or has another size; InvalidArgument for bytes
  /// that have not their hash (naming the chunk, and the generation where the file is of another
  /// one) or a header that is not what the manifest says.
  static StatusOr<ShardReader> open(FileSystem& files, const Manifest& manifest, std::int64_t rank);
  /// Byte of the file at which the entry begins. Errors: InvalidArgument where there is none.
  StatusOr<std::int64_t> begin_of(const std::string& entry) const;
  /// Errors: as open().
  Status read(std::int64_t offset, std::span<std::byte> out);
  /// Reads the chunks that these bytes lie in and compares their hashes.
  Status verify(std::int64_t offset, std::int64_t size);
  std::int64_t num_bytes_read() const noexcept { return num_bytes_read_; }

 private:
  ShardReader(FolderFile file, const ManifestFile& entry, std::int64_t chunk_bytes)
      : file_(std::move(file)), entry_(&entry), chunk_bytes_(chunk_bytes) {}
  Status load_chunk(std::int64_t chunk);
  Status read_header(const Manifest& manifest, std::int64_t rank);
  Status check_header(const Manifest& manifest, std::int64_t rank, std::string_view header);

  FolderFile file_;
  const ManifestFile* entry_;
  std::int64_t chunk_bytes_;
  std::vector<std::byte> chunk_;
  std::int64_t loaded_ = -1;  ///< the chunk in chunk_, already compared
  std::vector<bool> verified_;
  std::int64_t num_bytes_read_ = 0;
  absl::flat_hash_map<std::string, std::int64_t> begins_;
};

}  // namespace tessera
