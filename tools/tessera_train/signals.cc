#include "tools/tessera_train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "placement/printable.h"
#include "runtime/recorder/file.h"

namespace tessera {
namespace {

sigset_t served_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&set, each);
  return set;
}

/// What a rank's record says of now: its open calls, or the last one that is over.
std::vector<std::string> state_of(const RankRecords& records) {
  std::vector<std::string> lines;
  for (const RecordedCall& call : records.calls) {
    if (!call.is_over()) lines.push_back("waits in " + to_string(call));
  }
  if (!lines.empty()) return lines;
  if (records.calls.empty()) return {"has started no call"};
  return {"runs; its last call was " + to_string(records.calls.back())};
}

}  // namespace

Signals::Signals() {
  // A reader that closes the pipe ends the output, not the run; a file beyond the user's limit ends
  // a save with an error.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  const sigset_t served = served_signals();
  pthread_sigmask(SIG_BLOCK, &served, nullptr);
  thread_ = std::thread([this] { serve(); });
}

Signals::~Signals() {
  is_ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
}

int Signals::asked_to_end() const noexcept { return first_signal_.load(std::memory_order_acquire); }

void Signals::watch(const std::string& dir, std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  dir_ = dir;
  ranks_.push_back(rank);
}

void Signals::note_training(bool is_training) { is_training_ = is_training; }

void Signals::keep_records() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(has_kept_, true)) copy_records();
}

void Signals::serve() {
  const sigset_t served = served_signals();
  while (true) {
    int signal = 0;
    if (sigwait(&served, &signal) != 0) continue;
    if (signal == SIGUSR1) {
      show_ranks();
    } else if (signal == SIGUSR2) {
      if (is_ending_) return;
    } else if (first_signal_.exchange(signal) != 0) {
      ::_exit(128 + signal);
    } else if (is_training_) {  // what mpirun sends after a failure is no news
      std::fprintf(stderr, "tessera-train: %s: ends after this step; once more: at once\n",
                   signal == SIGTERM ? "SIGTERM" : "SIGINT");
    }
  }
}

void Signals::show_ranks() {
  const std::lock_guard lock(mutex_);
  for (const std::int64_t rank : ranks_) {
    const auto number = static_cast<long long>(rank);
    const StatusOr<RankRecords> records = read_records(dir_ + "/" + flight::file_name_of(rank));
    if (!records.ok()) {
      std::fprintf(stderr, "rank %lld: %s\n", number,
                   printable(message_of(records.status())).c_str());
      continue;
    }
    for (const std::string& line : state_of(*records)) {
      std::fprintf(stderr, "rank %lld %s\n", number, line.c_str());
    }
  }
  copy_records();
}

void Signals::copy_records() {
  if (dir_.empty()) return;
  const std::string copy = absl::StrFormat("%s.%d.%d", dir_, ::getpid(), ++num_copies_);
  std::error_code error;
  std::filesystem::create_directories(copy, error);
  for (const std::int64_t rank : ranks_) {
    if (error) break;
    const std::string name = "/" + flight::file_name_of(rank);
    std::filesystem::copy_file(dir_ + name, copy + name,
                               std::filesystem::copy_options::overwrite_existing, error);
  }
  const std::string said = error ? copy + ": " + error.message() : copy;
  std::fprintf(stderr, "flight records: %s\n", printable(said).c_str());
}

int asked_to_end(World& world, const Signals& signals) {
  const Array asked = Array::empty({1}, DType::kI64, world.host_allocator());
  *asked.data<std::int64_t>() = signals.asked_to_end();
  everyone(world).all_reduce(asked, asked, ReduceOp::kMax,
                             {.tensor = "signal", .log = CallLog::kNo});
  return static_cast<int>(*asked.data<std::int64_t>());
}

}  // namespace tessera
