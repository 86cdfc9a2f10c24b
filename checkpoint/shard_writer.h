// checkpoint/shard_writer.h: one rank's file of a checkpoint, or any safetensors file written in
// pieces: bounded memory, and a hash of every chunk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "io/safetensors.h"
#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// A new file, written from its beginning to its end through a buffer of one chunk.
class HashedFile {
 public:
  /// Errors: io_error, also where the file is there already.
  static StatusOr<HashedFile> create(FileSystem& files, const std::string& name,
                                     std::int64_t chunk_bytes);
  Status append(std::span<const std::byte> bytes);
  /// Flushes to the disk and closes. Returns size and hashes.
  StatusOr<ManifestFile> finish();

 private:
  HashedFile(FolderFile file, std::int64_t chunk_bytes)
      : file_(std::move(file)), chunk_bytes_(static_cast<std::size_t>(chunk_bytes)) {}
  Status write_chunk();

  FolderFile file_;
  std::size_t chunk_bytes_;
  std::vector<std::byte> buffer_;
  ManifestFile written_;
};

/// A tensor's part on this rank, to be written: `selection` of the global tensor, in `local`.
struct OwnedPart {
  std::string name;
  Shape global_shape;
  Selection selection;
  Array local;  ///< contiguous
};

/// What a rank wrote.
struct WrittenShard {
  ManifestFile file;
  std::vector<ManifestTensor> tensors;  ///< by name; every part is of `rank`'s file
};
/// Writes the file `folder`/shard-RANK.safetensors and makes it durable. Cost: memory of one chunk.
StatusOr<WrittenShard> write_shard(FileSystem& files, std::int64_t generation, std::int64_t rank,
                                   std::span<const OwnedPart> parts, std::int64_t chunk_bytes);

}  // namespace tessera
