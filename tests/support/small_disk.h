// tests/support/small_disk.h: a disk of a few blocks, for claims about what happens when it is
// full.
#pragma once

#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tessera::testing {

/// A tmpfs of 1 MB that goes with the test. Needs the right to mount.
class SmallDisk {
 public:
  SmallDisk() {
    char pattern[] = "/tmp/tessera_disk_XXXXXX";
    if (::mkdtemp(pattern) == nullptr) {
      why_not_ = std::string("no folder in /tmp: ") + std::strerror(errno);
      return;
    }
    path_ = pattern;
    if (::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0) return;
    why_not_ = std::string("a tmpfs cannot be mounted here: ") + std::strerror(errno);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (why_not_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  /// Empty where it is there; else why not.
  const std::string& why_not() const noexcept { return why_not_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Units: bytes.
  std::size_t free_bytes() const {
    struct statvfs info {};
    return ::statvfs(path_.c_str(), &info) == 0 ? info.f_bavail * info.f_frsize : 0;
  }

 private:
  std::string path_, why_not_;
};

}  // namespace tessera::testing
