// tests/checkpoint/watched_folder.h: a folder of the disk that tells of each call before it is
// made.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/checkpoint/fault_fs.h"

namespace tessera::testing {

/// Thread-safety: that of `before` and of the folder.
class WatchedFolder final : public FileSystem {
 public:
  using Before = std::function<void(Call)>;
  WatchedFolder(FileSystem& inner, Before before) : inner_(inner), before_(std::move(before)) {}

  const std::string& path() const noexcept override { return inner_.path(); }
  int make_folder(const std::string& name) override {
    return told(Call::kMakeFolder).make_folder(name);
  }
  int create(const std::string& name) override { return told(Call::kCreate).create(name); }
  int open(const std::string& name) override { return told(Call::kOpen).open(name); }
  std::int64_t write(int handle, std::span<const std::byte> bytes) override {
    return told(Call::kWrite).write(handle, bytes);
  }
  std::int64_t read(int handle, std::int64_t offset, std::span<std::byte> out) override {
    return told(Call::kRead).read(handle, offset, out);
  }
  std::int64_t size(int handle) override { return told(Call::kSize).size(handle); }
  int sync(int handle) override { return told(Call::kSync).sync(handle); }
  int close(int handle) override { return told(Call::kClose).close(handle); }
  int sync_folder(const std::string& name) override {
    return told(Call::kSyncFolder).sync_folder(name);
  }
  int rename(const std::string& from, const std::string& to) override {
    return told(Call::kRename).rename(from, to);
  }
  int remove(const std::string& name) override { return told(Call::kRemove).remove(name); }
  int remove_folder(const std::string& name) override {
    return told(Call::kRemoveFolder).remove_folder(name);
  }
  int list(const std::string& name, std::vector<std::string>& names) override {
    return told(Call::kList).list(name, names);
  }
  int lock() override { return told(Call::kLock).lock(); }

 private:
  FileSystem& told(Call call) {
    before_(call);
    return inner_;
  }

  FileSystem& inner_;
  Before before_;
};

}  // namespace tessera::testing
