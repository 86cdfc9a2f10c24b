#include "checkpoint/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// Some systems refuse a single call beyond 2^31 bytes.
constexpr std::size_t kLargestCall = std::size_t{1} << 30;

template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

}  // namespace

Status call_error(const FileSystem& files, const std::string& name, std::string_view doing,
                  std::int64_t result) {
  if (result >= 0) return absl::OkStatus();
  const std::string path = name.empty() ? files.path() : files.path() + "/" + name;
  char buffer[256] = {};
  const char* text = ::strerror_r(static_cast<int>(-result), buffer, sizeof buffer);
  return io_error(absl::StrFormat("%s: cannot %s: %s", path, doing, text));
}

StatusOr<FolderFile> FolderFile::create(FileSystem& files, const std::string& name) {
  const int handle = retried([&] { return files.create(name); });
  TSR_RETURN_IF_ERROR(call_error(files, name, "create", handle));
  return FolderFile(files, name, handle);
}

StatusOr<FolderFile> FolderFile::open(FileSystem& files, const std::string& name) {
  const int handle = retried([&] { return files.open(name); });
  if (handle == -ELOOP) {
    return io_error(files.path() + "/" + name + ": a symbolic link; those are not followed");
  }
  TSR_RETURN_IF_ERROR(call_error(files, name, "open", handle));
  return FolderFile(files, name, handle);
}

FolderFile::FolderFile(FolderFile&& other) noexcept
    : files_(other.files_),
      name_(std::move(other.name_)),
      handle_(std::exchange(other.handle_, -1)) {}

FolderFile& FolderFile::operator=(FolderFile&& other) noexcept {
  std::swap(files_, other.files_);
  name_.swap(other.name_);
  std::swap(handle_, other.handle_);
  return *this;
}

FolderFile::~FolderFile() {
  if (handle_ >= 0) files_->close(handle_);
}

StatusOr<std::int64_t> FolderFile::size_bytes() const {
  const std::int64_t size = retried([&] { return files_->size(handle_); });
  TSR_RETURN_IF_ERROR(call_error(*files_, name_, "look at the file", size));
  return size;
}

Status FolderFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), kLargestCall));
    const std::int64_t written = retried([&] { return files_->write(handle_, now); });
    TSR_RETURN_IF_ERROR(call_error(*files_, name_, "write", written));
    if (written == 0) return call_error(*files_, name_, "write", -EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

Status FolderFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto now = out.first(std::min(out.size(), kLargestCall));
    const std::int64_t got = retried([&] { return files_->read(handle_, offset, now); });
    TSR_RETURN_IF_ERROR(call_error(*files_, name_, "read", got));
    if (got == 0) {
      return io_error(absl::StrFormat("%s: ends at byte %d, %d more were to be read there", path(),
                                      offset, out.size()));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

Status FolderFile::sync() {
  return call_error(*files_, name_, "flush", retried([&] { return files_->sync(handle_); }));
}

// After close(), even one that fails, the handle is gone: it is never tried again.
Status FolderFile::close() {
  const int result = files_->close(std::exchange(handle_, -1));
  return result == -EINTR ? absl::OkStatus() : call_error(*files_, name_, "close", result);
}

Status make_folder(FileSystem& files, const std::string& name) {
  return call_error(files, name, "make the folder",
                    retried([&] { return files.make_folder(name); }));
}

Status sync_folder(FileSystem& files, const std::string& name) {
  return call_error(files, name, "flush the folder",
                    retried([&] { return files.sync_folder(name); }));
}

Status rename_file(FileSystem& files, const std::string& from, const std::string& to) {
  return call_error(files, to, "put in place", retried([&] { return files.rename(from, to); }));
}

StatusOr<std::vector<std::string>> list_folder(FileSystem& files, const std::string& name) {
  std::vector<std::string> names;
  const int result = retried([&] {
    names.clear();
    return files.list(name, names);
  });
  TSR_RETURN_IF_ERROR(call_error(files, name, "read the folder", result));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera
