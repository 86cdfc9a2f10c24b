#include "tests/checkpoint/fault_fs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tessera::testing {

int FaultFs::begin(Call call) {
  const std::int64_t number = num_calls_++;
  return fault_ ? -fault_(number, call) : 0;
}

std::pair<int, std::string> FaultFs::parent_of(const std::string& name) const {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return {0, name};
  const auto at = now_.nodes[0].names.find(name.substr(0, slash));
  if (at == now_.nodes[0].names.end()) return {-1, ""};
  return {at->second, name.substr(slash + 1)};
}

int FaultFs::find(const std::string& name) const {
  if (name.empty()) return 0;
  const auto [folder, last] = parent_of(name);
  if (folder < 0) return -1;
  const auto& names = now_.nodes[static_cast<std::size_t>(folder)].names;
  const auto at = names.find(last);
  return at == names.end() ? -1 : at->second;
}

int FaultFs::new_handle(int node) {
  handles_[next_handle_] = node;
  return next_handle_++;
}

void FaultFs::apply(State& state, const Op& op) const {
  Node& node = state.nodes[static_cast<std::size_t>(op.node)];
  if (op.kind == Op::Kind::kNames) {
    if (!op.goes.empty()) node.names.erase(op.goes);
    if (!op.comes.empty()) node.names[op.comes] = op.entry;
  } else if (op.kind == Op::Kind::kWrite) {
    node.data.resize(std::max(node.data.size(), op.offset + op.bytes.size()));
    node.data.replace(op.offset, op.bytes.size(), op.bytes);
  }
}

void FaultFs::record(Op op) {
  apply(now_, op);
  log_.push_back(std::move(op));
}

void FaultFs::settle() {
  const std::lock_guard lock(mutex_);
  base_ = now_;
  log_.clear();
  num_calls_ = 0;
}

std::unique_ptr<FaultFs> FaultFs::after_crash(std::size_t prefix, const Judge& judge) const {
  const std::lock_guard lock(mutex_);
  auto out = std::make_unique<FaultFs>();
  State& state = out->now_;
  state = base_;
  // Nodes made since exist; whether a name leads to them is for the changes to say.
  for (std::size_t i = base_.nodes.size(); i < now_.nodes.size(); ++i) {
    state.nodes.push_back({.is_folder = now_.nodes[i].is_folder});
  }
  for (std::size_t i = 0; i < prefix; ++i) {
    const Op& op = log_[i];
    if (op.kind == Op::Kind::kSync) continue;
    bool durable = false;
    for (std::size_t later = i; later < prefix; ++later) {
      const bool sync = log_[later].kind == Op::Kind::kSync && log_[later].node == op.node;
      durable = durable || (sync && left_out_ != later);
    }
    const Fate fate = durable ? Fate::kKept : judge(i);
    if (fate == Fate::kDropped) continue;
    Op applied = op;
    if (fate == Fate::kTorn) applied.bytes.resize(op.bytes.size() / 2);
    out->apply(state, applied);
  }
  out->base_ = state;
  return out;
}

std::vector<FaultFs::Sync> FaultFs::syncs() const {
  const std::lock_guard lock(mutex_);
  std::vector<Sync> all;
  for (std::size_t i = 0; i < log_.size(); ++i) {
    if (log_[i].kind == Op::Kind::kSync) all.push_back({i, log_[i].name});
  }
  return all;
}

std::string FaultFs::name_of(int node) const {
  for (const auto& [name, id] : now_.nodes[0].names) {
    if (id == node) return name;
    for (const auto& [inner, inner_id] : now_.nodes[static_cast<std::size_t>(id)].names) {
      if (inner_id == node) return name + "/" + inner;
    }
  }
  return "";
}

std::map<std::string, std::string> FaultFs::files() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> all;
  const auto collect = [&](const Node& folder, const std::string& prefix,
                           const auto& self) -> void {
    for (const auto& [name, id] : folder.names) {
      const Node& node = now_.nodes[static_cast<std::size_t>(id)];
      if (node.is_folder) {
        self(node, prefix + name + "/", self);
      } else {
        all[prefix + name] = node.data;
      }
    }
  };
  collect(now_.nodes[0], "", collect);
  return all;
}

std::vector<std::string> FaultFs::folders() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [name, id] : now_.nodes[0].names) {
    if (now_.nodes[static_cast<std::size_t>(id)].is_folder) all.push_back(name);
  }
  return all;
}

void FaultFs::put_file(const std::string& name, const std::string& bytes) {
  remove_file(name);
  const std::lock_guard lock(mutex_);
  now_.nodes.push_back({.data = bytes});
  const auto [folder, last] = parent_of(name);
  now_.nodes[static_cast<std::size_t>(folder)].names[last] =
      static_cast<int>(now_.nodes.size()) - 1;
}

void FaultFs::remove_file(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [folder, last] = parent_of(name);
  now_.nodes[static_cast<std::size_t>(folder)].names.erase(last);
}

int FaultFs::make_folder(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kMakeFolder)) return error;
  if (find(name) >= 0) return -EEXIST;
  now_.nodes.push_back({.is_folder = true});
  record(
      {.kind = Op::Kind::kNames, .comes = name, .entry = static_cast<int>(now_.nodes.size()) - 1});
  return 0;
}

int FaultFs::create(const std::string& name) {
  if (before_create_) before_create_(name);
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kCreate)) return error;
  const auto [folder, last] = parent_of(name);
  if (folder < 0) return -ENOENT;
  if (find(name) >= 0) return -EEXIST;
  now_.nodes.emplace_back();
  const int node = static_cast<int>(now_.nodes.size()) - 1;
  record({.kind = Op::Kind::kNames, .node = folder, .comes = last, .entry = node});
  return new_handle(node);
}

int FaultFs::open(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kOpen)) return error;
  const int node = find(name);
  if (node < 0) return -ENOENT;
  if (now_.nodes[static_cast<std::size_t>(node)].is_folder) return -EISDIR;
  return new_handle(node);
}

std::int64_t FaultFs::write(int handle, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kWrite)) return error;
  const int node = handles_.at(handle);
  const std::size_t count = std::min(bytes.size(), write_limit_);
  record({.kind = Op::Kind::kWrite,
          .node = node,
          .offset = now_.nodes[static_cast<std::size_t>(node)].data.size(),
          .bytes = std::string(reinterpret_cast<const char*>(bytes.data()), count)});
  return static_cast<std::int64_t>(count);
}

std::int64_t FaultFs::read(int handle, std::int64_t offset, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kRead)) return error;
  const std::string& data = now_.nodes[static_cast<std::size_t>(handles_.at(handle))].data;
  const auto at = std::min(data.size(), static_cast<std::size_t>(offset));
  const std::size_t count = std::min(out.size(), data.size() - at);
  if (count > 0) std::memcpy(out.data(), data.data() + at, count);
  return static_cast<std::int64_t>(count);
}

std::int64_t FaultFs::size(int handle) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kSize)) return error;
  return static_cast<std::int64_t>(
      now_.nodes[static_cast<std::size_t>(handles_.at(handle))].data.size());
}

int FaultFs::sync(int handle) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kSync)) return error;
  const int node = handles_.at(handle);
  record({.kind = Op::Kind::kSync, .node = node, .name = name_of(node)});
  return 0;
}

// The handle is gone even where closing fails, as on Linux.
int FaultFs::close(int handle) {
  const std::lock_guard lock(mutex_);
  if (handle == kLockHandle) {
    locked_ = false;
    return 0;
  }
  handles_.erase(handle);
  return begin(Call::kClose);
}

int FaultFs::sync_folder(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kSyncFolder)) return error;
  const int node = find(name);
  if (node < 0) return -ENOENT;
  record({.kind = Op::Kind::kSync, .node = node, .name = name});
  return 0;
}

int FaultFs::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kRename)) return error;
  const int node = find(from);
  if (node < 0) return -ENOENT;
  record({.kind = Op::Kind::kNames, .goes = from, .comes = to, .entry = node});
  return 0;
}

int FaultFs::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kRemove)) return error;
  if (find(name) < 0) return -ENOENT;
  const auto [folder, last] = parent_of(name);
  record({.kind = Op::Kind::kNames, .node = folder, .goes = last});
  return 0;
}

int FaultFs::remove_folder(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kRemoveFolder)) return error;
  const int node = find(name);
  if (node < 0) return -ENOENT;
  if (!now_.nodes[static_cast<std::size_t>(node)].names.empty()) return -ENOTEMPTY;
  record({.kind = Op::Kind::kNames, .goes = name});
  return 0;
}

int FaultFs::list(const std::string& name, std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kList)) return error;
  const int node = find(name);
  if (node < 0) return -ENOENT;
  for (const auto& [each, id] : now_.nodes[static_cast<std::size_t>(node)].names) {
    names.push_back(each);
  }
  return 0;
}

int FaultFs::lock() {
  const std::lock_guard lock(mutex_);
  if (const int error = begin(Call::kLock)) return error;
  if (locked_) return -EWOULDBLOCK;
  locked_ = true;
  return kLockHandle;
}

}  // namespace tessera::testing
