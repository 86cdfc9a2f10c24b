// checkpoint/file_system.h: the system calls that a checkpoint makes in its folder, one function
// each, so that a test can stand in for the disk; and files over them with errors that name the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// A folder. Names are relative to it and have at most one slash; no part of a name is ever
/// followed through a symbolic link. Every function returns what the system call would, or −errno;
/// each may be interrupted (−EINTR). Thread-safety: all ranks of a process share one.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// For errors.
  virtual const std::string& path() const noexcept = 0;

  virtual int make_folder(const std::string& name) = 0;
  /// A new file, for writing; its handle. −EEXIST where there is one.
  virtual int create(const std::string& name) = 0;
  /// A regular file, for reading; its handle.
  virtual int open(const std::string& name) = 0;
  /// May write fewer bytes than given.
  virtual std::int64_t write(int handle, std::span<const std::byte> bytes) = 0;
  /// May read fewer bytes than asked for; 0 at the end.
  virtual std::int64_t read(int handle, std::int64_t offset, std::span<std::byte> out) = 0;
  virtual std::int64_t size(int handle) = 0;
  virtual int sync(int handle) = 0;
  virtual int close(int handle) = 0;
  /// Makes the names in a folder durable; "" is the folder itself.
  virtual int sync_folder(const std::string& name) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& name) = 0;
  virtual int remove_folder(const std::string& name) = 0;
  /// Names in a folder, in no order.
  virtual int list(const std::string& name, std::vector<std::string>& names) = 0;
  /// Asks the system to drop what it keeps of a file in memory, so that it is read from the disk.
  /// Not every system does; none says whether it did.
  virtual void forget_cached(const std::string& name) { static_cast<void>(name); }
  /// The folder's one lock: a handle that close() gives back, or −EWOULDBLOCK while it is held.
  virtual int lock() = 0;
};

/// What a folder that is not there becomes.
enum class MissingFolder : std::uint8_t { kError, kMake };
/// The folder `path` of the disk. Errors: io_error.
StatusOr<std::unique_ptr<FileSystem>> open_folder(const std::string& path, MissingFolder missing);

/// io_error "PATH/NAME: cannot DOING: what the system says" for a result below 0.
Status call_error(const FileSystem& files, const std::string& name, std::string_view doing,
                  std::int64_t result);

/// An open file of a folder; closed by the destructor.
class FolderFile {
 public:
  static StatusOr<FolderFile> create(FileSystem& files, const std::string& name);
  static StatusOr<FolderFile> open(FileSystem& files, const std::string& name);
  FolderFile(FolderFile&& other) noexcept;
  FolderFile& operator=(FolderFile&& other) noexcept;
  FolderFile(const FolderFile&) = delete;
  FolderFile& operator=(const FolderFile&) = delete;
  ~FolderFile();

  /// "FOLDER/NAME", for errors.
  std::string path() const { return files_->path() + "/" + name_; }
  const std::string& name() const noexcept { return name_; }
  StatusOr<std::int64_t> size_bytes() const;
  Status append(std::span<const std::byte> bytes);
  /// Fills `out`. Errors: io_error, also where the file ends before.
  Status read_at(std::int64_t offset, std::span<std::byte> out) const;
  Status sync();
  Status close();

 private:
  FolderFile(FileSystem& files, std::string name, int handle)
      : files_(&files), name_(std::move(name)), handle_(handle) {}

  FileSystem* files_;
  std::string name_;
  int handle_ = -1;
};

// The calls above, again where they were interrupted, with errors that name the file.
Status make_folder(FileSystem& files, const std::string& name);
Status sync_folder(FileSystem& files, const std::string& name);
Status rename_file(FileSystem& files, const std::string& from, const std::string& to);
StatusOr<std::vector<std::string>> list_folder(FileSystem& files, const std::string& name);

}  // namespace tessera
