#include "runtime/control/meeting.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "runtime/control/host_identity.h"

namespace tessera {
namespace {

using Clock = RankClock;
constexpr const char* kLoopback = "127.0.0.1";

std::string rank_text(std::size_t rank) { return "rank " + std::to_string(rank); }

StatusOr<std::vector<std::string>> texts_of_all(const ControlPlace& place, const std::string& own,
                                                const ExchangeTexts& exchange) {
  std::vector<std::string> texts;
  try {
    texts = exchange(own);
  } catch (const std::exception& error) {
    return unavailable(std::string("the ranks' rendezvous failed: ") + error.what());
  }
  if (static_cast<std::int64_t>(texts.size()) == place.size) return texts;
  return unavailable("the ranks' rendezvous gave " + std::to_string(texts.size()) + " of " +
                     std::to_string(place.size) + " texts");
}

// ---- tokens as text

constexpr const char* kHexDigits = "0123456789abcdef";

std::string to_text(const ControlToken& token) {
  std::string text;
  for (const std::uint8_t byte : token.bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::optional<ControlToken> parse_token(const std::string& text) {
  ControlToken token;
  if (text.size() != 2 * token.bytes.size()) return std::nullopt;
  const std::string digits = kHexDigits;
  for (std::size_t at = 0; at < token.bytes.size(); ++at) {
    const std::size_t high = digits.find(text[2 * at]);
    const std::size_t low = digits.find(text[2 * at + 1]);
    if (high == std::string::npos || low == std::string::npos) return std::nullopt;
    token.bytes[at] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return token;
}

// What a rank publishes: "listens ADDRESS PORT", on rank 0 with the token unless all have it, or
// "fails TEXT".
constexpr std::string_view kListens = "listens";
constexpr std::string_view kFails = "fails ";

StatusOr<Listener> begin(const ControlPlace& place, const ControlOptions& options,
                         const StatusOr<std::vector<std::string>>& networks) {
  if (!networks.ok()) return networks.status();
  const std::string host = options.host.empty() ? host_to_listen_on(*networks) : options.host;
  return listen_on(host, place.rank == 0 ? options.port : 0);
}

Status no_address(std::size_t rank, std::string_view what) {
  return unavailable(rank_text(rank) + " published no address for " + std::string(what));
}

/// The token too, unless it is known.
Status read_all_published(const std::vector<std::string>& texts, bool has_token,
                          ControlMeeting& meeting) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    TSR_ASSIGN_OR_RETURN(const Published said,
                         read_published(rank, texts[rank], "the control channel"));
    if (rank == 0 && !has_token) {
      const std::optional<ControlToken> token = parse_token(said.more);
      if (!token) return no_address(rank, "the control channel");
      meeting.token = *token;
    }
    meeting.endpoints.push_back(said.at);
  }
  return absl::OkStatus();
}

/// Waits for the answer to a message; nullopt at the end of the connection or of the time.
std::optional<control::Message> converse(ControlLink& link, const control::Message& message,
                                         Clock::time_point until) {
  std::string unsent = link.writer.frame_of(message).value_or("");
  while (Clock::now() < until) {
    std::vector<pollfd> entries{
        {link.socket.number(), unsent.empty() ? short{POLLIN} : short{POLLOUT}, 0}};
    poll_until(entries, until);
    if (entries[0].revents == 0) continue;
    std::string bytes;
    const SocketState sent = send_some(link.socket, unsent);
    const SocketState received = receive_some(link.socket, bytes);
    link.reader.append(bytes);
    if (auto answer = link.reader.next()) return answer;
    if (sent == SocketState::kClosed || received == SocketState::kClosed) return std::nullopt;
  }
  return std::nullopt;
}

/// True once the hub has taken this rank in, and has shown that it is the job's.
bool is_taken_in(ControlLink& link, const ControlToken& token, std::int64_t rank,
                 Clock::time_point until) {
  const control::Hello hello = new_hello(rank, 0, control::Purpose::kJoin);
  std::optional<control::Message> answer = converse(link, hello, until);
  const auto* challenge = answer ? std::get_if<control::Challenge>(&*answer) : nullptr;
  if (challenge == nullptr) return false;
  const ControlKeys keys = keys_of(token, hello, *challenge);
  link.writer.seal_with(keys.from_caller);
  link.reader.open_with(keys.from_callee);
  answer = converse(link, control::Proof{}, until);
  return answer && std::holds_alternative<control::Welcome>(*answer);
}

}  // namespace

std::string host_to_listen_on(std::span<const std::string> networks) {
  const bool is_one =
      std::all_of(networks.begin(), networks.end(),
                  [&](const std::string& network) { return network == networks.front(); });
  return is_one ? kLoopback : address_for_others();
}

std::string published(const StatusOr<Listener>& listener) {
  if (!listener.ok()) return std::string(kFails) + std::string(message_of(listener.status()));
  const Endpoint& at = listener->endpoint;
  return std::string(kListens) + " " + at.address + " " + std::to_string(at.port);
}

StatusOr<Published> read_published(std::size_t rank, const std::string& text,
                                   std::string_view what) {
  if (text.starts_with(kFails)) {
    return unavailable(rank_text(rank) + " " + text.substr(kFails.size()));
  }
  std::istringstream words(text);
  std::string verb;
  Published said;
  words >> verb >> said.at.address >> said.at.port;
  const bool is_sound =
      !words.fail() && verb == kListens && said.at.port > 0 && said.at.port < 65536;
  if (!is_sound) return no_address(rank, what);
  words >> said.more;
  return said;
}

StatusOr<ControlMeeting> meet(const ControlPlace& place, const ControlOptions& options,
                              const ExchangeTexts& exchange) {
  StatusOr<Listener> opening = begin(place, options, texts_of_all(place, network_id(), exchange));
  std::string own = published(opening);
  if (opening.ok() && place.rank == 0 && !options.token) own += " " + to_text(random_token());
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> texts, texts_of_all(place, own, exchange));
  ControlMeeting meeting;
  if (options.token) meeting.token.bytes = *options.token;
  TSR_RETURN_IF_ERROR(read_all_published(texts, options.token.has_value(), meeting));
  if (!opening.ok()) return opening.status();  // what was published did not arrive
  meeting.listener = std::move(opening->socket);
  return meeting;
}

StatusOr<ControlLink> join_hub(const ControlPlace& place, const ControlMeeting& meeting,
                               std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const Endpoint& hub = meeting.endpoints.front();
  const auto refuse = [&](const std::string& why) {
    return unavailable("rank " + std::to_string(place.rank) + " cannot reach rank 0 at " +
                       to_string(hub) + ": " + why);
  };
  const std::string no_answer = "no answer within " + std::to_string(limit.count()) + " ms";
  for (int tries_left = kGreetingTries; tries_left > 0; --tries_left) {
    StatusOr<Descriptor> socket = begin_connecting(hub);
    if (!socket.ok()) return refuse(std::string(message_of(socket.status())));
    std::vector<pollfd> entries{{socket->number(), POLLOUT, 0}};
    while (entries[0].revents == 0 && Clock::now() < until) poll_until(entries, until);
    if (entries[0].revents == 0) return refuse(no_answer);
    const Status connected = outcome_of_connecting(*socket);
    if (!connected.ok()) return refuse(std::string(message_of(connected)));

    ControlLink link{.socket = *std::move(socket)};
    if (is_taken_in(link, meeting.token, place.rank, until)) return link;
    if (Clock::now() >= until) return refuse(no_answer);
  }
  return refuse("it does not take this rank in");
}

Status first_error_as(Status (*kind)(std::string_view text), const ExchangeTexts& exchange,
                      const Status& own) {
  const std::vector<std::string> texts =
      exchange(own.ok() ? std::string() : std::string(message_of(own)));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) return kind("rank " + std::to_string(rank) + ": " + texts[rank]);
  }
  return absl::OkStatus();
}

Status agree(const ControlPlace& place, const Status& own, const ExchangeTexts& exchange) {
  const StatusOr<std::vector<std::string>> texts =
      texts_of_all(place, std::string(message_of(own)), exchange);
  if (!own.ok() && !texts.ok()) return own;
  if (!texts.ok()) return texts.status();
  for (const std::string& text : *texts) {
    if (!text.empty()) return unavailable(text);
  }
  return own;
}

}  // namespace tessera
