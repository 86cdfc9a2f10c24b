#include "runtime/control_visit.h"

#include <poll.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tessera {
namespace {

struct Visit {
  Descriptor socket;
  std::string unsent;
  FrameReader reader{control::kMaxFrameBytes};
};

/// Sends and receives what goes. nullopt until there is an answer; closes the socket where there
/// will be none.
std::optional<control::Message> go_on(Visit& visit) {
  std::string bytes;
  const Flow sent = send_some(visit.socket, visit.unsent);
  const Flow received = receive_some(visit.socket, bytes);
  visit.reader.append(bytes);
  std::optional<control::Message> answer = visit.reader.next();
  const bool over = sent == Flow::kClosed || received == Flow::kClosed || visit.reader.is_broken();
  if (answer || over) visit.socket.close();
  return answer;
}

}  // namespace

std::vector<std::optional<control::Message>> visit(std::span<const Endpoint> endpoints,
                                                   const control::Hello& hello,
                                                   const control::Message& question,
                                                   std::chrono::milliseconds limit) {
  const auto until = RankClock::now() + limit;
  std::vector<std::optional<control::Message>> answers(endpoints.size());
  const std::optional<std::string> greeting = control::encode(hello);
  const std::optional<std::string> words = control::encode(question);
  if (!greeting || !words) return answers;
  std::vector<Visit> visits(endpoints.size());
  for (std::size_t at = 0; at < visits.size(); ++at) {
    StatusOr<Descriptor> socket = begin_connecting(endpoints[at]);
    if (!socket.ok()) continue;
    visits[at].socket = *std::move(socket);
    visits[at].unsent = *greeting + *words;
  }
  while (RankClock::now() < until) {
    std::vector<pollfd> entries;
    std::vector<std::size_t> open;
    for (std::size_t at = 0; at < visits.size(); ++at) {
      if (!visits[at].socket.is_open()) continue;
      const short events = visits[at].unsent.empty() ? POLLIN : POLLOUT;
      entries.push_back({visits[at].socket.number(), events, 0});
      open.push_back(at);
    }
    if (open.empty()) break;
    poll_until(entries, until);
    for (std::size_t at = 0; at < open.size(); ++at) {
      if (entries[at].revents != 0) answers[open[at]] = go_on(visits[open[at]]);
    }
  }
  return answers;
}

}  // namespace tessera
