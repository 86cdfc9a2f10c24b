// tools/tessera_train/signals.h: what signals ask of a run. SIGTERM and SIGINT: to end after the
// step under way, a second one at once. SIGUSR1: what each rank of this process is doing, without
// disturbing it. SIGPIPE: nothing; who reads the output may go.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/world.h"

namespace tessera {

/// One in a program, made before any other thread: a thread of its own takes the signals, and all
/// others leave them alone.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  /// SIGTERM or SIGINT where one has come to this process, else 0. Thread-safety: any thread.
  int asked_to_end() const noexcept;
  /// From here on SIGUSR1 copies the records of these ranks, which lie in `dir`, into a folder
  /// beside it, and tells of the calls that are open. Thread-safety: any thread.
  void watch(const std::string& dir, std::int64_t rank);
  /// Whether there is a step to end after. Thread-safety: any thread.
  void note_training(bool is_training);
  /// Copies the records, once: a run that ends well removes its own. Thread-safety: any thread.
  void keep_records();

 private:
  void serve();
  void show_ranks();

  void copy_records();  // under mutex_

  std::mutex mutex_;
  std::string dir_;
  std::vector<std::int64_t> ranks_;
  int num_copies_ = 0;
  bool has_kept_ = false;
  std::atomic<int> first_signal_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::atomic<bool> is_training_ = false;
  std::thread thread_;
};

/// The signal that any process of the job was asked to end by, the same on all ranks; 0 where there
/// was none. Collective: yes, over the world.
int asked_to_end(World& world, const Signals& signals);

}  // namespace tessera
