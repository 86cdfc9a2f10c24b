#include "processes.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "socket_transport.h"

namespace {

using namespace tessera;

/// What a child tells its parent.
struct Account {
  Status first;
  double seconds = 0;
  std::string report;
};

void write_account(int pipe, const Account& account) {
  const std::string message(message_of(account.first));
  std::string text = std::to_string(static_cast<int>(account.first.code())) + " " +
                     std::to_string(account.seconds) + " " + std::to_string(message.size()) + " ";
  text += message + account.report;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(pipe, text.data() + at, text.size() - at);
    if (wrote <= 0) break;
    at += static_cast<std::size_t>(wrote);
  }
}

Account read_account(int pipe) {
  std::string text;
  char bytes[1 << 16];
  for (ssize_t got = 0; (got = ::read(pipe, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(pipe);
  Account account;
  int code = 0, at = 0;
  std::size_t size = 0;
  if (std::sscanf(text.c_str(), "%d %lf %zu%n", &code, &account.seconds, &size, &at) != 3) {
    account.first = unavailable("a rank's process ended without a word");
    return account;
  }
  const std::size_t message = static_cast<std::size_t>(at) + 1;
  account.first = Status(static_cast<absl::StatusCode>(code), text.substr(message, size));
  account.report = text.substr(message + size);
  return account;
}

/// ends[a][b]: a's end of the socket between a and b.
using Ends = std::vector<std::vector<int>>;
Ends connect(std::size_t size) {
  Ends ends(size, std::vector<int>(size, -1));
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = a + 1; b < size; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
      ends[a][b] = pair[0];
      ends[b][a] = pair[1];
    }
  }
  return ends;
}
void close_all(const Ends& ends, std::size_t but = SIZE_MAX) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    for (const int end : ends[rank]) {
      if (rank != but && end >= 0) ::close(end);
    }
  }
}

}  // namespace

ProcessRun run_processes(int num_ranks, const WorldOptions& options,
                         const std::function<void(World&, std::string&)>& body) {
  const auto size = static_cast<std::size_t>(num_ranks);
  const Ends ends = connect(size);
  std::vector<pid_t> children;
  std::vector<int> pipes;
  for (std::size_t rank = 0; rank < size; ++rank) {
    int pipe[2];
    if (::pipe(pipe) != 0) std::abort();
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      close_all(ends, rank);
      Sockets sockets(static_cast<int>(rank), ends[rank]);
      Account account;
      const auto start = std::chrono::steady_clock::now();
      account.first =
          run_socket_rank(sockets, options, [&](World& world) { body(world, account.report); });
      account.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      write_account(pipe[1], account);
      ::_exit(0);
    }
    ::close(pipe[1]);
    children.push_back(child);
    pipes.push_back(pipe[0]);
  }
  close_all(ends);
  ProcessRun run;
  for (std::size_t rank = 0; rank < size; ++rank) {
    Account account = read_account(pipes[rank]);
    ::waitpid(children[rank], nullptr, 0);
    if (run.first.ok()) run.first = account.first;
    run.seconds = std::max(run.seconds, account.seconds);
    run.reports.push_back(std::move(account.report));
  }
  return run;
}
