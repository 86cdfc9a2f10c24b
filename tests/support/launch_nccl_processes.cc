// Ranks as processes over NCCL emulated, each on a card of its own: children of the test program,
// which meet as torchrun's do.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/nccl_world.h"
#include "testing/launch_processes.h"
#include "testing/results.h"
#include "testing/wire.h"
#include "tests/support/test_device.h"

namespace tessera::testing {
namespace {

/// A job of its own, at ports that jobs of other programs seldom look at.
Launch launch_of(int rank, int num_ranks) {
  static int number = 0;
  if (rank == 0) ++number;
  Launch launch{.launcher = "a test", .rank = rank, .size = num_ranks, .local_rank = rank};
  launch.is_one_host = true;
  launch.address = "127.0.0.1";
  launch.first_port = 20'000 + (::getpid() + number) % 700 * kMeetingPorts;
  launch.num_ports = kMeetingPorts;
  launch.job = std::to_string(::getpid()) + " " + std::to_string(number);
  return launch;
}

Account run_here(const Launch& launch, const WorldOptions& options, const RankBody& body) {
  NcclOptions on_cards{.world = options};
  on_cards.world.allocator = [](std::int64_t card) {
    return device_of_card(card)->make_allocator();
  };
  on_cards.world.checks = CallChecks::kOn;
  if (launch.size > 1 && options.threads_per_rank == 0) on_cards.world.threads_per_rank = 1;
  Account account;
  const auto start = std::chrono::steady_clock::now();
  account.first = run_emulated_nccl_process(launch, on_cards,
                                            [&](World& world) { body(world, account.report); });
  account.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return account;
}

void write_all(int pipe, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(pipe, text.data() + at, text.size() - at);
    if (wrote <= 0) return;
    at += static_cast<std::size_t>(wrote);
  }
}
std::string read_all(int pipe) {
  std::string text;
  char bytes[1 << 16];
  for (ssize_t got = 0; (got = ::read(pipe, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(pipe);
  return text;
}

}  // namespace

Backend backend() noexcept { return Backend::kProcesses; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  std::vector<pid_t> children;
  std::vector<int> pipes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Launch own = launch_of(rank, num_ranks);
    int pipe[2];
    if (::pipe(pipe) != 0) std::abort();
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      write_all(pipe[1], encode(run_here(own, options, body)));
      ::_exit(0);
    }
    ::close(pipe[1]);
    children.push_back(child);
    pipes.push_back(pipe[0]);
  }
  Launched launched;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    const std::string text = read_all(pipes[rank]);
    ::waitpid(children[rank], nullptr, 0);
    Account account{.first = unavailable("a rank's process ended without a word")};
    if (!text.empty()) account = decode<Account>(text);
    add_account(launched, std::move(account));
  }
  return launched;
}

}  // namespace tessera::testing
