#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// Some systems refuse a single call beyond 2^31 bytes.
constexpr std::size_t kLargestCall = std::size_t{1} << 30;

Status system_error(const std::string& path, std::string_view doing) {
  const int code = errno;
  return io_error(absl::StrFormat("%s: cannot %s: %s", path, doing, std::strerror(code)));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_in_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// A rename is durable once the folder that holds it is.
Status sync_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_error(folder, "open the folder");
  const int result = ::fsync(descriptor);
  // Some file systems have no fsync of folders and say EINVAL.
  const Status status =
      result != 0 && errno != EINVAL ? system_error(folder, "flush the folder") : absl::OkStatus();
  ::close(descriptor);
  return status;
}

Status write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(path, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<InputFile> InputFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return io_error("a file name holds a zero byte");
  }
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "open");
  InputFile file(descriptor, path, 0);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error(path, "look at the file");
  if (S_ISDIR(info.st_mode)) return io_error(absl::StrFormat("%s: a folder, not a file", path));
  if (!S_ISREG(info.st_mode)) {
    return io_error(absl::StrFormat("%s: not a regular file", path));
  }
  file.size_bytes_ = info.st_size;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  path_.swap(other.path_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status InputFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        ::pread(descriptor_, out.data(), std::min(out.size(), kLargestCall), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, "read");
    if (got == 0) {
      return io_error(absl::StrFormat("%s: ends at byte %d, %d more were to be read there", path_,
                                      offset, out.size()));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

StatusOr<std::string> read_file(const std::string& path, std::int64_t max_bytes) {
  TSR_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  if (file.size_bytes() > max_bytes) {
    return invalid_argument(
        absl::StrFormat("%s: %d bytes; at most %d are read", path, file.size_bytes(), max_bytes));
  }
  std::string text(static_cast<std::size_t>(file.size_bytes()), '\0');
  TSR_RETURN_IF_ERROR(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

StatusOr<std::string> read_standard_input(std::int64_t max_bytes) {
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("standard input", "read");
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > max_bytes) {
      return invalid_argument(
          absl::StrFormat("standard input: more than %d bytes; no more are read", max_bytes));
    }
  }
}

StatusOr<AtomicFile> AtomicFile::create(const std::string& path) {
  if (name_in_folder(path).empty() || path.find('\0') != std::string::npos) {
    return io_error(absl::StrFormat("\"%s\": not the name of a file", path.c_str()));
  }
  // A rename would put a plain file in the place of a device or a pipe.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return io_error(absl::StrFormat("%s: not a regular file; only those are replaced", path));
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string temporary = absl::StrFormat("%s/.%s.%d.%d.tmp", folder_of(path),
                                                  name_in_folder(path), ::getpid(), attempt);
    const int descriptor =
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0) return AtomicFile(descriptor, path, temporary);
    if (errno != EEXIST) return system_error(path, "create");
  }
  return io_error(absl::StrFormat("%s: too many unfinished copies lie beside it", path));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  return write_all(descriptor_, path_, bytes);
}

Status AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return system_error(path_, "flush");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) return system_error(path_, "close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error(path_, "put in place");
  temporary_.clear();
  return sync_folder(path_);
}

Status write_file(const std::string& path, std::string_view text) {
  TSR_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  TSR_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

}  // namespace tessera
