#include "runtime/control/rendezvous_words.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <sstream>
#include <utility>

#include "runtime/control/host_identity.h"

namespace tessera::rendezvous {
namespace {

ControlToken derived(std::string_view key, std::string_view text) {
  const ControlHash hash = hmac_of(key, text);
  ControlToken token;
  std::copy_n(hash.begin(), token.bytes.size(), token.bytes.begin());
  return token;
}

}  // namespace

ControlToken key_of(const Launch& launch) { return derived("tessera meeting 1", launch.job); }

ControlToken token_of(const ControlToken& key, const ControlNonce& nonce) {
  return derived(key.text(), "control" + std::string(nonce.begin(), nonce.end()));
}

std::string to_text(const Attendance& who) {
  std::string text = std::to_string(who.rank) + " " + std::to_string(who.size) + "\n" + who.process;
  for (const AlikeFact& fact : who.alike) text += "\n" + fact.name + "=" + fact.value;
  return text;
}
Attendance read_attendance(const std::string& text) {
  Attendance who{.rank = -1};
  std::istringstream lines(text);
  lines >> who.rank >> who.size;
  lines.ignore();
  std::getline(lines, who.process);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = std::min(line.find('='), line.size() - 1);
    who.alike.push_back({line.substr(0, at), line.substr(at + 1)});
  }
  return who;
}
Attendance own_attendance(const Launch& launch, const RendezvousOptions& options) {
  return {launch.rank, launch.size, "process " + std::to_string(::getpid()) + " on " + host_name(),
          options.alike};
}

std::string named(const Attendance& who) {
  return "rank " + std::to_string(who.rank) + " (" + who.process + ")";
}

std::string difference(const Attendance& one, const Attendance& other) {
  const auto differs = [&](const std::string& what, const std::string& here,
                           const std::string& there) {
    return what + " differs: " + here + " at " + named(one) + ", " + there + " at " + named(other) +
           "; all ranks need the same";
  };
  if (one.size != other.size) {
    return differs("WORLD_SIZE", std::to_string(one.size), std::to_string(other.size));
  }
  for (std::size_t at = 0; at < std::min(one.alike.size(), other.alike.size()); ++at) {
    if (one.alike[at].value == other.alike[at].value) continue;
    return differs(one.alike[at].name, one.alike[at].value, other.alike[at].value);
  }
  return {};
}

std::string to_text(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + " " + text;
  return all;
}
std::optional<std::vector<std::string>> read_texts(std::string_view all) {
  std::vector<std::string> texts;
  while (!all.empty()) {
    const std::size_t blank = all.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    const auto size =
        static_cast<std::size_t>(std::atoll(std::string(all.substr(0, blank)).c_str()));
    all.remove_prefix(blank + 1);
    if (size > all.size()) return std::nullopt;
    texts.emplace_back(all.substr(0, size));
    all.remove_prefix(size);
  }
  return texts;
}

std::string ports_text(const Launch& launch) {
  const std::string first = std::to_string(launch.first_port);
  if (launch.num_ports == 1) return "port " + first;
  return "ports " + first + " to " + std::to_string(launch.first_port + launch.num_ports - 1);
}

StatusOr<std::vector<std::string>> addresses_in(const Launch& launch) {
  StatusOr<std::vector<std::string>> found = addresses_of(launch.address);
  if (found.ok()) return found;
  return unavailable("MASTER_ADDR \"" + launch.address + "\" is no host that this one knows: " +
                     std::string(message_of(found.status())));
}

void wait_for(std::vector<pollfd> entries, milliseconds limit) {
  poll_until(entries, Clock::now() + limit);
}

std::optional<Search::Found> Search::look(const std::vector<Endpoint>& endpoints) {
  std::list<Attempt> attempts;
  for (const Endpoint& at : endpoints) {
    StatusOr<Descriptor> socket = begin_connecting(at);
    if (!socket.ok()) {
      outcome_ = std::string(message_of(socket.status()));
      continue;
    }
    const control::Hello hello = new_hello(own_.rank, 0, control::Purpose::kMeet);
    attempts.push_back({at, SealedStream::call(*std::move(socket), key_, hello)});
    attempts.back().stream.write(kAttends + to_text(own_));
  }
  const Clock::time_point until = Clock::now() + kStrangerLimit;
  bool someone_else = false;
  while (!attempts.empty() && Clock::now() < until) {
    std::vector<pollfd> entries;
    for (const Attempt& each : attempts) entries.push_back(each.stream.entry());
    poll_until(entries, until);
    auto entry = entries.begin();
    for (auto at = attempts.begin(); at != attempts.end(); ++entry) {
      if (entry->revents == 0) {
        ++at;
        continue;
      }
      const Status connected = at->stream.outcome_of_connecting();
      if (connected.ok()) {
        at->stream.pump();
        if (std::optional<std::string> word = at->stream.read()) {
          return Found{std::move(at->stream), *std::move(word)};
        }
        someone_else = someone_else || at->stream.is_over();
      } else {
        outcome_ = std::string(message_of(connected));
      }
      const bool is_over = !connected.ok() || at->stream.is_over();
      at = is_over ? attempts.erase(at) : std::next(at);
    }
  }
  if (!attempts.empty()) outcome_ = "no answer";
  if (someone_else) outcome_ = "what answers there is no rank of this job and this restart of it";
  return std::nullopt;
}

}  // namespace tessera::rendezvous
