// The disk behind FileSystem. Every name is resolved from the folder's descriptor, one part at a
// time, without following links.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "checkpoint/file_system.h"

namespace tessera {
namespace {

int result_of(int result) { return result < 0 ? -errno : result; }

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const noexcept { return value_; }
  int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

bool is_plain_part(const std::string& part) {
  return !part.empty() && part != "." && part != ".." && part.find('/') == std::string::npos &&
         part.find('\0') == std::string::npos;
}

class DiskFolder : public FileSystem {
 public:
  DiskFolder(std::string path, Descriptor root) : path_(std::move(path)), root_(std::move(root)) {}

  const std::string& path() const noexcept override { return path_; }

  int make_folder(const std::string& name) override {
    if (!is_plain_part(name)) return -EINVAL;
    return result_of(::mkdirat(root_.value(), name.c_str(), 0777));
  }
  int create(const std::string& name) override {
    return at(name, [](int folder, const char* last) {
      return ::openat(folder, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    });
  }
  int open(const std::string& name) override {
    // O_NONBLOCK: opening a named pipe must not wait for its writer.
    const int handle = at(name, [](int folder, const char* last) {
      return ::openat(folder, last, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    });
    if (handle < 0) return handle;
    struct stat info {};
    if (::fstat(handle, &info) == 0 && S_ISREG(info.st_mode)) return handle;
    ::close(handle);
    return S_ISDIR(info.st_mode) ? -EISDIR : -EINVAL;
  }
  std::int64_t write(int handle, std::span<const std::byte> bytes) override {
    const ssize_t written = ::write(handle, bytes.data(), bytes.size());
    return written < 0 ? -errno : written;
  }
  std::int64_t read(int handle, std::int64_t offset, std::span<std::byte> out) override {
    const ssize_t got = ::pread(handle, out.data(), out.size(), offset);
    return got < 0 ? -errno : got;
  }
  std::int64_t size(int handle) override {
    struct stat info {};
    return ::fstat(handle, &info) < 0 ? -errno : info.st_size;
  }
  int sync(int handle) override { return result_of(::fsync(handle)); }
  int close(int handle) override { return result_of(::close(handle)); }
  int sync_folder(const std::string& name) override {
    const Descriptor folder(open_folder_at(name));
    if (folder.value() < 0) return -errno;
    const int result = result_of(::fsync(folder.value()));
    return result == -EINVAL ? 0 : result;  // some file systems have no fsync of folders
  }
  int rename(const std::string& from, const std::string& to) override {
    if (!is_plain_part(from) || !is_plain_part(to)) return -EINVAL;
    return result_of(::renameat(root_.value(), from.c_str(), root_.value(), to.c_str()));
  }
  int remove(const std::string& name) override {
    return at(name, [](int folder, const char* last) { return ::unlinkat(folder, last, 0); });
  }
  int remove_folder(const std::string& name) override {
    if (!is_plain_part(name)) return -EINVAL;
    return result_of(::unlinkat(root_.value(), name.c_str(), AT_REMOVEDIR));
  }
  int list(const std::string& name, std::vector<std::string>& names) override {
    Descriptor folder(open_folder_at(name));
    if (folder.value() < 0) return -errno;
    DIR* stream = ::fdopendir(folder.value());
    if (stream == nullptr) return -errno;
    folder.release();
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
      const std::string each = entry->d_name;
      if (each != "." && each != "..") names.push_back(each);
      errno = 0;
    }
    const int result = -errno;
    ::closedir(stream);
    return result;
  }
  void forget_cached(const std::string& name) override {
    const Descriptor file(open(name));
    if (file.value() >= 0) ::posix_fadvise(file.value(), 0, 0, POSIX_FADV_DONTNEED);
  }
  int lock() override {
    Descriptor file(
        ::openat(root_.value(), ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.value() < 0 || ::flock(file.value(), LOCK_EX | LOCK_NB) < 0) return -errno;
    return file.release();
  }

 private:
  int open_folder_at(const std::string& name) const {
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if (name.empty()) return ::openat(root_.value(), ".", flags);
    if (is_plain_part(name)) return ::openat(root_.value(), name.c_str(), flags);
    errno = EINVAL;
    return -1;
  }
  /// call(folder, last part) for "last" or "folder/last".
  template <class Call>
  int at(const std::string& name, const Call& call) const {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) {
      return is_plain_part(name) ? result_of(call(root_.value(), name.c_str())) : -EINVAL;
    }
    const std::string last = name.substr(slash + 1);
    if (!is_plain_part(last)) return -EINVAL;
    const Descriptor folder(open_folder_at(name.substr(0, slash)));
    if (folder.value() < 0) return -errno;
    return result_of(call(folder.value(), last.c_str()));
  }

  std::string path_;
  Descriptor root_;
};

/// Makes the name of a new folder durable, as far as its parent may be read. Returns an errno.
int sync_parent(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.value() < 0 || ::fsync(folder.value()) == 0) return 0;
  return errno == EINVAL ? 0 : errno;  // some file systems have no fsync of folders
}

}  // namespace

StatusOr<std::unique_ptr<FileSystem>> open_folder(const std::string& path, MissingFolder missing) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return io_error("\"" + path + "\": not the name of a folder");
  }
  int error = 0;
  if (missing == MissingFolder::kMake) {
    if (::mkdir(path.c_str(), 0777) == 0) {
      error = sync_parent(path);
    } else if (errno != EEXIST) {
      error = errno;
    }
  }
  Descriptor root(error == 0 ? ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  if (root.value() < 0 && error == 0) error = errno;
  auto folder = std::make_unique<DiskFolder>(path, std::move(root));
  TSR_RETURN_IF_ERROR(call_error(*folder, "", "open the folder", -error));
  return folder;
}

}  // namespace tessera
