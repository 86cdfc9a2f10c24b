// tests/checkpoint/fault_fs.h: a folder in memory that keeps a log of what was done to it, fails
// when told to, and can be seen as a crash at any point would leave it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "runtime/environment.h"

namespace tessera::testing {

enum class Call : std::uint8_t {
  kMakeFolder,
  kCreate,
  kOpen,
  kWrite,
  kRead,
  kSize,
  kSync,
  kClose,
  kSyncFolder,
  kRename,
  kRemove,
  kRemoveFolder,
  kList,
  kLock
};

/// Root and one level of folders.
class FaultFs : public FileSystem {
 public:
  /// Asked before each call, with its number from 0; an errno fails the call, 0 lets it be.
  using Fault = std::function<int(std::int64_t number, Call call)>;
  /// What becomes of a change that no sync had made durable before the crash.
  enum class Fate : std::uint8_t { kKept, kDropped, kTorn };
  using Judge = std::function<Fate(std::size_t op)>;

  void set_fault(Fault fault) { fault_ = std::move(fault); }
  /// Most bytes that one write takes.
  void set_write_limit(std::size_t bytes) { write_limit_ = bytes; }
  std::int64_t num_calls() const noexcept { return num_calls_; }
  std::size_t num_ops() const noexcept { return log_.size(); }
  /// Forgets the log: what is there now is durable.
  void settle();
  /// The folder after a crash that followed the first `prefix` changes. The lock is free.
  std::unique_ptr<FaultFs> after_crash(std::size_t prefix, const Judge& judge) const;

  /// What the log says was made durable: "gen-1/shard-0.safetensors", a folder's name, or "" for
  /// the root.
  struct Sync {
    std::size_t op = 0;
    std::string name;
  };
  std::vector<Sync> syncs() const;
  /// Crashes are seen as if this sync had never been asked for.
  void leave_out(std::optional<std::size_t> sync) { left_out_ = sync; }
  /// Called before a file is created, outside of every lock.
  void set_before_create(std::function<void(const std::string& name)> before) {
    before_create_ = std::move(before);
  }

  /// Whole files by "name" or "folder/name", to look at and to damage.
  std::map<std::string, std::string> files() const;
  std::vector<std::string> folders() const;
  void put_file(const std::string& name, const std::string& bytes);
  void remove_file(const std::string& name);
  /// The file's handle would read these bytes; cost: a copy.
  std::string file(const std::string& name) const { return files().at(name); }

  const std::string& path() const noexcept override { return path_; }
  int make_folder(const std::string& name) override;
  int create(const std::string& name) override;
  int open(const std::string& name) override;
  std::int64_t write(int handle, std::span<const std::byte> bytes) override;
  std::int64_t read(int handle, std::int64_t offset, std::span<std::byte> out) override;
  std::int64_t size(int handle) override;
  int sync(int handle) override;
  int close(int handle) override;
  int sync_folder(const std::string& name) override;
  int rename(const std::string& from, const std::string& to) override;
  int remove(const std::string& name) override;
  int remove_folder(const std::string& name) override;
  int list(const std::string& name, std::vector<std::string>& names) override;
  int lock() override;
  int num_open() const noexcept { return static_cast<int>(handles_.size()); }

 private:
  struct Node {
    bool is_folder = false;
    std::string data;
    std::map<std::string, int> names;
  };
  struct State {
    std::vector<Node> nodes = {{.is_folder = true}};
  };
  /// One change: names of a folder (an entry that goes, an entry that comes), or bytes of a file.
  struct Op {
    enum class Kind : std::uint8_t { kNames, kWrite, kSync } kind = Kind::kSync;
    int node = 0;  ///< the folder, or the file
    std::string goes, comes;
    std::string name;  ///< of what a sync is of
    int entry = -1;    ///< what comes
    std::size_t offset = 0;
    std::string bytes;
  };
  static constexpr int kLockHandle = 1'000'000;

  int begin(Call call);
  int find(const std::string& name) const;
  /// Folder and last part of a name; −1 where there is no such folder.
  std::pair<int, std::string> parent_of(const std::string& name) const;
  int new_handle(int node);
  std::string name_of(int node) const;
  void apply(State& state, const Op& op) const;
  void record(Op op);

  mutable Mutex mutex_;
  std::string path_ = "memory";
  State base_, now_;
  std::vector<Op> log_;
  std::map<int, int> handles_;
  int next_handle_ = 3;
  bool locked_ = false;
  std::int64_t num_calls_ = 0;
  std::size_t write_limit_ = SIZE_MAX;
  Fault fault_;
  std::optional<std::size_t> left_out_;
  std::function<void(const std::string&)> before_create_;
};

}  // namespace tessera::testing
