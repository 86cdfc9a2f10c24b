// How ranks come together that know an address and a number of ports, and the mail that they have
// then: threads stand in for processes.
#include <poll.h>

#include <atomic>
#include <thread>

#include "runtime/control/rendezvous.h"
#include "runtime/control/socket.h"
#include "runtime/nccl/process_mail.h"
#include "testing/arrays.h"
#include "tests/support/patience.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using Change = std::function<void(Launch& launch, RendezvousOptions& options)>;

/// Of a job of its own on this host.
Launch launch_of_test() {
  static std::atomic<int> number = 0;
  const int job = ++number;
  Launch launch{.launcher = "a test", .is_one_host = true, .address = "127.0.0.1"};
  launch.first_port = 20'000 + (::getpid() * 3 + job) % 700 * kMeetingPorts;
  launch.num_ports = kMeetingPorts;
  launch.job = "test " + std::to_string(::getpid()) + " " + std::to_string(job);
  return launch;
}

/// A process's part: what meet() returned, and what `then` did once ranks had met.
struct Part {
  Status status;
  Status told;
  std::vector<std::string> texts;
};
using Then = std::function<void(Rendezvous& met, const Launch& launch, Part& part)>;

std::vector<Part> meet(const Launch& job, const std::vector<int>& ranks, int size,
                       const Change& change, const Then& then = nullptr) {
  std::vector<Part> parts(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    threads.emplace_back([&, at] {
      Part& part = parts[at];
      Launch launch = job;
      launch.rank = launch.local_rank = ranks[at];
      launch.size = size;
      RendezvousOptions options{.timeout = testing::kSoon,
                                .alike = {{"NCCL version", "2.28.9"}},
                                .on_failure = [&](const Status& told) { part.told = told; }};
      if (change) change(launch, options);
      StatusOr<std::unique_ptr<Rendezvous>> met = Rendezvous::meet(launch, options);
      part.status = met.status();
      if (!met.ok() || !then) return;
      try {
        then(**met, launch, part);
      } catch (const Error& error) {
        part.status = error.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return parts;
}

bool says(const Status& status, const std::string& text) {
  return message_of(status).find(text) != std::string_view::npos;
}
void check_all_say(const std::vector<Part>& parts, const std::string& text) {
  for (const Part& part : parts) {
    CAPTURE(part.status.ToString());
    CHECK(part.status.code() == absl::StatusCode::kUnavailable);
    CHECK(says(part.status, text));
    CHECK(part.told == part.status);
  }
}

}  // namespace

TEST_CASE("ranks that meet exchange texts and have one token", "[runtime][control][meet]") {
  const int size = GENERATE(1, 2, 5);
  std::vector<int> ranks;
  for (int rank = size - 1; rank >= 0; --rank) ranks.push_back(rank);
  const std::string large(100'000, 'x');
  const auto parts = meet(
      launch_of_test(), ranks, size, nullptr, [&](Rendezvous& met, const Launch& own, Part& part) {
        part.texts = met.exchange("rank " + std::to_string(own.rank));
        for (const std::string& each : met.exchange(own.rank == 0 ? large : "")) {
          part.texts.push_back(std::to_string(each.size()));
        }
        const ControlToken token = met.token();
        part.texts.emplace_back(token.bytes.begin(), token.bytes.end());
      });
  for (const Part& part : parts) {
    CHECK(part.status == absl::OkStatus());
    CHECK(part.texts == parts.front().texts);
    REQUIRE(std::ssize(part.texts) == 2 * size + 1);
    CHECK(part.texts[static_cast<std::size_t>(size) - 1] == "rank " + std::to_string(size - 1));
    CHECK(part.texts[static_cast<std::size_t>(size)] == "100000");
  }
}

TEST_CASE("rank 0 takes the next port where one is taken, and strangers are turned away",
          "[runtime][control][meet]") {
  const Launch job = launch_of_test();
  // Another program, which never answers, and another job of ours.
  const Listener silent = value_or_throw(listen_on("127.0.0.1", job.first_port));
  Launch other = job;
  other.job += " another";
  std::vector<Part> theirs;
  std::thread their_thread([&] { theirs = meet(other, {0, 1}, 2, nullptr); });
  const auto parts = meet(job, {0, 1, 2}, 3, nullptr);
  their_thread.join();
  for (const Part& part : parts) CHECK(part.status == absl::OkStatus());
  for (const Part& part : theirs) CHECK(part.status == absl::OkStatus());
}

TEST_CASE("a meeting without all its ranks says who came", "[runtime][control][meet]") {
  const auto short_time = [](Launch&, RendezvousOptions& options) {
    options.timeout = milliseconds(500);
  };
  check_all_say(meet(launch_of_test(), {0, 2, 3}, 4, short_time),
                " within 0.5 s: came: 0, 2, 3; did not come: 1");
  check_all_say(meet(launch_of_test(), {1, 2}, 3, short_time),
                "has not found rank 0 at MASTER_ADDR 127.0.0.1, ports ");
}

TEST_CASE("ranks that do not fit end the meeting on all", "[runtime][control][meet]") {
  check_all_say(meet(launch_of_test(), {0, 1, 1, 2}, 4, nullptr), "RANK 1 came twice: process ");
  check_all_say(meet(launch_of_test(), {0, 0, 1}, 3, nullptr), "RANK 0 came twice: process ");
  check_all_say(meet(launch_of_test(), {0, 1, 2}, 4,
                     [](Launch& launch, auto&) { launch.size -= launch.rank == 1 ? 1 : 0; }),
                "WORLD_SIZE differs: 4 at rank 0 (process ");
  check_all_say(meet(launch_of_test(), {0, 1, 2}, 4,
                     [](const Launch& launch, RendezvousOptions& options) {
                       if (launch.rank == 2) options.alike[0].value = "2.27.3";
                     }),
                "NCCL version differs: 2.28.9 at rank 0 (process ");
}

TEST_CASE("a rank that ends while others exchange texts is named", "[runtime][control][meet]") {
  const auto parts = meet(launch_of_test(), {0, 1, 2}, 3, nullptr,
                          [](Rendezvous& met, const Launch& own, Part& part) {
                            met.exchange("here");
                            if (own.rank != 1) part.texts = met.exchange("still here");
                          });
  for (const std::size_t at : {0U, 2U}) {
    CAPTURE(parts[at].status.ToString());
    CHECK(says(parts[at].status, "rank 1 (process "));
    CHECK(says(parts[at].status, ") ended while the ranks met"));
  }
}

TEST_CASE("mail between processes comes as it was sent, long texts in between short ones",
          "[runtime][control][mail]") {
  const std::string large(1'000'000, 'y');
  const auto parts = meet(
      launch_of_test(), {0, 1, 2}, 3, nullptr, [&](Rendezvous& met, const Launch& own, Part& part) {
        const ExchangeTexts exchange = [&](const std::string& text) { return met.exchange(text); };
        const auto mail =
            value_or_throw(open_process_mail({own.rank, own.size}, met.token(), exchange));
        for (std::int64_t to = 0; to < own.size; ++to) {
          mail->send(to, {.sequence = 1}, large);
          mail->send(to, {.sequence = 2}, "rank " + std::to_string(own.rank));
          mail->send(to, {.sequence = 3}, "");
        }
        const auto until = std::chrono::steady_clock::now() + testing::kSoon;
        const auto take = [&](std::int64_t from, std::uint64_t sequence) {
          std::optional<std::string> text;
          while (!text && std::chrono::steady_clock::now() < until) {
            text = mail->take(from, {.sequence = sequence});
            if (!text) std::this_thread::yield();
          }
          return text.value_or("nothing");
        };
        for (std::int64_t from = 0; from < own.size; ++from) {
          part.texts.push_back(take(from, 2));
          part.texts.push_back(take(from, 1) == large ? "large" : "other");
          part.texts.push_back(take(from, 3));
        }
        met.exchange("done");
      });
  for (const Part& part : parts) {
    CHECK(part.status == absl::OkStatus());
    CHECK(part.texts == std::vector<std::string>{"rank 0", "large", "", "rank 1", "large", "",
                                                 "rank 2", "large", ""});
  }
}

TEST_CASE("mail from a process that has ended is not waited for", "[runtime][control][mail]") {
  const auto parts =
      meet(launch_of_test(), {0, 1}, 2, nullptr, [&](Rendezvous& met, const Launch& own, Part&) {
        const ExchangeTexts exchange = [&](const std::string& text) { return met.exchange(text); };
        auto mail = value_or_throw(open_process_mail({own.rank, own.size}, met.token(), exchange));
        if (own.rank == 1) return mail->send(0, {.sequence = 1}, "the last");
        const auto until = std::chrono::steady_clock::now() + testing::kSoon;
        while (std::chrono::steady_clock::now() < until) {
          static_cast<void>(mail->take(1, {.sequence = 2}));
          std::this_thread::sleep_for(milliseconds(10));
        }
      });
  CHECK(parts[0].status == unavailable("rank 0 has lost its connection with rank 1: it has ended"));
  CHECK(parts[1].status == absl::OkStatus());
}

TEST_CASE("who does not know the job's token is not heard", "[runtime][control][meet]") {
  const Launch job = launch_of_test();
  std::atomic<bool> over = false;
  std::thread stranger([&] {
    int number = 0;
    while (!over) {
      StatusOr<Descriptor> socket = begin_connecting({"127.0.0.1", job.first_port});
      if (!socket.ok()) continue;
      std::vector<pollfd> entries{{socket->number(), POLLOUT, 0}};
      poll_until(entries, std::chrono::steady_clock::now() + milliseconds(10));
      std::string bytes = ++number % 2 == 0 ? std::string(4, '\xff') : "GET / HTTP/1.1\r\n\r\n";
      send_some(*socket, bytes);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto parts =
      meet(job, {0, 1, 2}, 3, nullptr, [](Rendezvous& met, const Launch&, Part& part) {
        for (int round = 0; round < 20; ++round) part.texts = met.exchange(std::to_string(round));
      });
  over = true;
  stranger.join();
  for (const Part& part : parts) {
    CHECK(part.status == absl::OkStatus());
    CHECK(part.texts == std::vector<std::string>(3, "19"));
  }
}

}  // namespace tessera
