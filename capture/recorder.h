// capture/recorder.h: the observer that writes a Program: each step that it is told of, the
// collectives and host reads that the log has since the one before, and what has ended since.
// Internal to capture/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/value_table.h"
#include "dtensor/observer.h"
#include "program/program.h"

namespace tessera {

class ProgramRecorder final : public ProgramObserver {
 public:
  ProgramRecorder(Runtime& runtime, std::string name);
  ~ProgramRecorder() override;
  ProgramRecorder(const ProgramRecorder&) = delete;
  ProgramRecorder& operator=(const ProgramRecorder&) = delete;

  void declare(const DTensor& tensor, ValueRole role, const std::string& name,
               const std::string& module);
  /// The value that a tensor is; declared or made where it is new.
  std::string value_of(const DTensor& tensor);
  Program finish();

  void on_call(const CallSeen& seen) override;
  void on_move(const MoveSeen& seen) override;
  void on_move_begun(const void* bucket, const MoveBegun& seen) override;
  void on_move_ended(const void* bucket, std::span<const DTensor> results) override;
  void on_region(const RegionSeen& seen) override;
  void on_host_read(const HostReadSeen& seen) override;
  void on_made(const DTensor& made) override;

 private:
  struct Source {
    std::string value;
    const Spec* spec = nullptr;
  };
  /// One of several values that move together.
  struct BucketPart {
    std::string value;
    const Spec* from = nullptr;
    const Spec* to = nullptr;
    std::string_view name;  ///< of the tensor that it becomes
  };

  using Axes = std::vector<std::string>;

  std::vector<Event> take_events();
  bool is_kept(const RegionSeen& seen) const;
  void add_stray(std::span<const Event> events);
  void add_ended();
  void add_step(decltype(AnyStep::what) what, const StepOrigin& origin);
  void add_move(const Source& from, const MoveSeen& seen);
  std::vector<std::string> add_bucket(std::span<const BucketPart> parts, BucketLife life,
                                      const Site& site);
  /// From now on results are the values so called; an empty name: none.
  void bind(std::span<const std::string> names, std::span<const DTensor> results);
  std::string moved_name(std::string_view name, const std::string& how);

  ProgramValue described(const DTensor& tensor, std::string name);
  ProgramValue described(const Spec* spec, std::string name);
  /// A new value for what a step made or wrote.
  ProgramValue result(const DTensor& tensor, const std::string& wish, const Axes& varies);
  std::string in_module(const std::string& name) const;
  const Axes& varies_of(const std::string& name) const;
  static void add_axes(const Axes& more, Axes& axes);
  void add_varying(const DTensor& tensor, Axes& axes);
  std::vector<const Mesh*> known_meshes() const;
  std::optional<int> mesh_of(const Spec* spec);
  Json::Array arguments(const CallSeen& seen);
  StepOrigin origin(const Site& site) const;
  std::optional<StepPhase> phase() const;

  Runtime& runtime_;
  Program program_;
  ValueTable values_;
  absl::flat_hash_map<std::string, ValueRole> roles_;  ///< of values that are no temporaries
  absl::flat_hash_map<std::string, Axes> varies_;      ///< of plain values
  absl::flat_hash_map<const Spec*, std::optional<int>> meshes_;
  absl::flat_hash_map<const void*, std::weak_ptr<Storage>> made_;  ///< memory without a value yet
  absl::flat_hash_map<const void*, std::vector<std::string>> buckets_;  ///< results under way
  std::size_t next_event_ = 0;
};

}  // namespace tessera
