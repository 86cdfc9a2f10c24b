#include "runtime/control/visit.h"

#include <poll.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tessera {
namespace {

/// One host's part in a visit.
class Visit {
 public:
  Visit(const ControlHost& host, const ControlVisitor& visitor, const control::Message& question)
      : host_(host), visitor_(visitor), question_(question) {
    begin();
  }
  bool is_open() const noexcept { return socket_.is_open(); }
  pollfd entry() const noexcept {
    return {socket_.number(), unsent_.empty() ? short{POLLIN} : short{POLLOUT}, 0};
  }
  /// Sends and receives what goes. nullopt until there is an answer; closed where there will be
  /// none.
  std::optional<control::Message> go_on();

 private:
  void begin();
  void ask(const control::Challenge& challenge);

  ControlHost host_;
  const ControlVisitor& visitor_;
  const control::Message& question_;
  int tries_left_ = kGreetingTries;
  Descriptor socket_;
  control::Hello hello_;
  std::string unsent_;
  FrameWriter writer_;
  FrameReader reader_{0};
  bool has_asked_ = false;
};

void Visit::begin() {
  --tries_left_;
  StatusOr<Descriptor> socket = begin_connecting(host_.endpoint);
  socket_ = socket.ok() ? *std::move(socket) : Descriptor();
  hello_ = new_hello(visitor_.rank, host_.rank, control::Purpose::kVisit);
  writer_ = FrameWriter();
  reader_ = FrameReader(control::kMaxFrameBytes);
  unsent_ = writer_.frame_of(hello_).value_or("");
  has_asked_ = false;
}

/// The other end has answered the greeting: proves this one's right to ask, and asks.
void Visit::ask(const control::Challenge& challenge) {
  const ControlKeys keys = keys_of(visitor_.token, hello_, challenge);
  writer_.seal_with(keys.from_caller);
  reader_.open_with(keys.from_callee);
  unsent_ += writer_.frame_of(control::Proof{}).value_or("");
  unsent_ += writer_.frame_of(question_).value_or("");
  has_asked_ = true;
}

std::optional<control::Message> Visit::go_on() {
  std::string bytes;
  const SocketState received = receive_some(socket_, bytes);
  reader_.append(bytes);
  std::optional<control::Message> answer = reader_.next();
  if (answer && !has_asked_) {
    const auto* challenge = std::get_if<control::Challenge>(&*answer);
    if (challenge != nullptr) ask(*challenge);
    answer.reset();
  }
  const SocketState sent = send_some(socket_, unsent_);
  const bool over =
      sent == SocketState::kClosed || received == SocketState::kClosed || reader_.is_broken();
  if (!answer && !over) return std::nullopt;
  const bool was_there = unsent_.empty();  // and took no more strangers just then
  socket_.close();
  if (!answer && was_there && tries_left_ > 0) begin();
  return answer;
}

}  // namespace

std::vector<std::optional<control::Message>> visit(std::span<const ControlHost> hosts,
                                                   const ControlVisitor& visitor,
                                                   const control::Message& question,
                                                   std::chrono::milliseconds limit) {
  const auto until = RankClock::now() + limit;
  std::vector<std::optional<control::Message>> answers(hosts.size());
  std::vector<Visit> visits;
  for (const ControlHost& host : hosts) visits.emplace_back(host, visitor, question);
  while (RankClock::now() < until) {
    std::vector<pollfd> entries;
    std::vector<std::size_t> open;
    for (std::size_t at = 0; at < visits.size(); ++at) {
      if (!visits[at].is_open()) continue;
      entries.push_back(visits[at].entry());
      open.push_back(at);
    }
    if (open.empty()) break;
    poll_until(entries, until);
    for (std::size_t at = 0; at < open.size(); ++at) {
      if (entries[at].revents != 0) answers[open[at]] = visits[open[at]].go_on();
    }
  }
  return answers;
}

}  // namespace tessera
