// io/file.h: whole files in, whole files out, with errors that name the file and what the system
// said. A file is written beside its place and renamed into it, so that no reader ever sees half of
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// An open regular file, read by position; closed by the destructor.
class InputFile {
 public:
  /// Errors: io_error for a file that is missing, unreadable or not a regular file.
  static StatusOr<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const noexcept { return path_; }
  /// Units: bytes, when it was opened.
  std::int64_t size_bytes() const noexcept { return size_bytes_; }
  /// Fills `out` from byte `offset` on. Errors: io_error, also where the file has become shorter.
  Status read_at(std::int64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(int descriptor, std::string path, std::int64_t size_bytes)
      : descriptor_(descriptor), path_(std::move(path)), size_bytes_(size_bytes) {}

  int descriptor_ = -1;
  std::string path_;
  std::int64_t size_bytes_ = 0;
};

/// The file's bytes. Errors: io_error as above; InvalidArgument for more than `max_bytes`.
StatusOr<std::string> read_file(const std::string& path, std::int64_t max_bytes);
/// The bytes of standard input up to its end, under the same bound.
StatusOr<std::string> read_standard_input(std::int64_t max_bytes);

/// A file that appears under its name only by commit(). Until then its bytes lie beside it under a
/// name of their own, made with O_EXCL and O_NOFOLLOW; the destructor removes them unless
/// committed.
class AtomicFile {
 public:
  /// Errors: io_error.
  static StatusOr<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  Status append(std::span<const std::byte> bytes);
  /// Flushes to the disk, renames, and flushes the folder. Errors: io_error; the old file is then
  /// intact.
  Status commit();

 private:
  AtomicFile(int descriptor, std::string path, std::string temporary)
      : descriptor_(descriptor), path_(std::move(path)), temporary_(std::move(temporary)) {}

  int descriptor_ = -1;
  std::string path_;
  std::string temporary_;
};

/// Replaces or makes `path`. Errors: io_error; the old file is then intact.
Status write_file(const std::string& path, std::string_view text);

}  // namespace tessera
