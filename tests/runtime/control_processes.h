// tests/runtime/control_processes.h: control channels of one job as processes of their own, which
// can be killed and stopped. The parent is no rank: it passes the ranks' texts on, and hears what
// they say.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "runtime/control/channel.h"
#include "tests/support/patience.h"

namespace tessera::testing {

/// One end of a line of texts between parent and child.
class Line {
 public:
  explicit Line(int descriptor) : descriptor_(descriptor) {}
  void say(const std::string& text) const {
    if (::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
  }
  /// "(nothing)" where nothing comes within `limit`, or the other end is gone.
  std::string hear(std::chrono::milliseconds limit = 2 * kSoon) const {
    pollfd entry{descriptor_, POLLIN, 0};
    std::string text(std::size_t{16} << 10, '\0');
    if (::poll(&entry, 1, static_cast<int>(limit.count())) <= 0) return "(nothing)";
    const ssize_t size = ::recv(descriptor_, text.data(), text.size(), 0);
    if (size <= 0) return "(nothing)";
    text.resize(static_cast<std::size_t>(size));
    return text;
  }
  void close() const { ::close(descriptor_); }

 private:
  int descriptor_;
};

/// A rank, in its own process.
struct ProcessSeat {
  std::int64_t rank = 0;
  ControlChannel& channel;
  Line parent;
};

/// Thread-safety: made while the test has no other thread.
class ProcessJob {
 public:
  using Body = std::function<void(ProcessSeat&)>;
  ProcessJob(int size, const Body& body) {
    for (int rank = 0; rank < size; ++rank) start(rank, size, body);
    for (int round = 0; round < kNumExchanges; ++round) {
      std::vector<std::string> texts;
      // A text may be empty, which a line cannot carry: all begin with a mark.
      for (const Line& line : lines_) texts.push_back(line.hear());
      for (const Line& line : lines_) {
        for (const std::string& text : texts) line.say(text);
      }
    }
  }
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;
  ~ProcessJob() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    for (const Line& line : lines_) line.close();
  }

  const Line& line(int rank) const { return lines_[static_cast<std::size_t>(rank)]; }
  void signal(int rank, int number) const {
    ::kill(children_[static_cast<std::size_t>(rank)], number);
    if (number == SIGSTOP) {
      ::waitpid(children_[static_cast<std::size_t>(rank)], nullptr, WUNTRACED);
    }
  }

 private:
  static constexpr int kNumExchanges = 3;

  void start(int rank, int size, const Body& body) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child > 0) {
      ::close(ends[1]);
      children_.push_back(child);
      lines_.emplace_back(ends[0]);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    for (const Line& other : lines_) other.close();
    try {
      run(rank, size, Line(ends[1]), body);
    } catch (const std::exception& error) {
      Line(ends[1]).say(error.what());
    }
    ::_exit(0);
  }

  static void run(int rank, int size, const Line& parent, const Body& body) {
    const auto exchange = [&](const std::string& own) {
      parent.say("=" + own);
      std::vector<std::string> texts;
      for (int at = 0; at < size; ++at) texts.push_back(parent.hear().substr(1));
      return texts;
    };
    auto channel = ControlChannel::open({rank, size}, {}, exchange);
    if (!channel.ok()) return parent.say(channel.status().ToString());
    ProcessSeat seat{rank, **channel, parent};
    body(seat);
  }

  std::vector<pid_t> children_;
  std::vector<Line> lines_;
};

}  // namespace tessera::testing
