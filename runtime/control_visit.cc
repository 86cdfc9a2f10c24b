#include "runtime/control_visit.h"

#include <poll.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tessera {
namespace {

struct Visit {
  Descriptor socket;
  control::Hello hello;
  std::string unsent;
  FrameWriter writer;
  FrameReader reader{control::kMaxFrameBytes};
  bool has_asked = false;
};

/// The other end has answered the greeting: proves this one's right to ask, and asks.
void ask(Visit& visit, const ControlToken& token, const control::Challenge& challenge,
         const control::Message& question) {
  const ControlKeys keys = keys_of(token, visit.hello, challenge);
  visit.writer.seal_with(keys.from_caller);
  visit.reader.open_with(keys.from_callee);
  visit.unsent += visit.writer.frame_of(control::Proof{}).value_or("");
  visit.unsent += visit.writer.frame_of(question).value_or("");
  visit.has_asked = true;
}

/// Sends and receives what goes. nullopt until there is an answer; closes the socket where there
/// will be none.
std::optional<control::Message> go_on(Visit& visit, const ControlToken& token,
                                      const control::Message& question) {
  std::string bytes;
  const Flow received = receive_some(visit.socket, bytes);
  visit.reader.append(bytes);
  std::optional<control::Message> answer = visit.reader.next();
  bool is_wrong = false;
  if (answer && !visit.has_asked) {
    const auto* challenge = std::get_if<control::Challenge>(&*answer);
    is_wrong = challenge == nullptr;
    if (!is_wrong) ask(visit, token, *challenge, question);
    answer.reset();
  }
  const Flow sent = send_some(visit.socket, visit.unsent);
  const bool over =
      sent == Flow::kClosed || received == Flow::kClosed || visit.reader.is_broken() || is_wrong;
  if (answer || over) visit.socket.close();
  return answer;
}

}  // namespace

std::vector<std::optional<control::Message>> visit(std::span<const ControlHost> hosts,
                                                   const ControlVisitor& visitor,
                                                   const control::Message& question,
                                                   std::chrono::milliseconds limit) {
  const auto until = RankClock::now() + limit;
  std::vector<std::optional<control::Message>> answers(hosts.size());
  std::vector<Visit> visits(hosts.size());
  for (std::size_t at = 0; at < visits.size(); ++at) {
    StatusOr<Descriptor> socket = begin_connecting(hosts[at].endpoint);
    if (!socket.ok()) continue;
    Visit& visit = visits[at];
    visit.socket = *std::move(socket);
    visit.hello = new_hello(visitor.rank, hosts[at].rank, control::Purpose::kVisit);
    visit.unsent = visit.writer.frame_of(visit.hello).value_or("");
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
      if (entries[at].revents != 0) {
        answers[open[at]] = go_on(visits[open[at]], visitor.token, question);
      }
    }
  }
  return answers;
}

}  // namespace tessera
