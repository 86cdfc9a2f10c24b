#include "runtime/control/rendezvous.h"

#include <poll.h>
#include <sodium/crypto_auth_hmacsha256.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <list>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/control/host_identity.h"
#include "runtime/control/sealed_stream.h"
#include "runtime/control/socket.h"

namespace tessera {
namespace {

using Clock = RankClock;
using std::chrono::milliseconds;

/// How long a connection may take to show what it is, and rank 0 to say that a guest has its place.
constexpr milliseconds kStrangerLimit{2'000};
/// How long after a failure a process stays, for the others to hear of it.
constexpr milliseconds kPartingLimit{1'000};
/// What rank 0 may take longer than a guest, for it may have started later.
constexpr milliseconds kVerdictSlack{10'000};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{500};
/// Strangers that rank 0 hears at a time.
constexpr std::size_t kMostStrangers = 4'096;

// The first character of a text says what it is.
constexpr char kAttends = 'A';  ///< a guest's first word: who it is
constexpr char kSeated = 'S';   ///< rank 0's answer
constexpr char kBegins = 'B';   ///< all are there; with a nonce
constexpr char kVerdict = 'V';
constexpr char kText = 'T';  ///< a rank's part in an exchange, and all of them

ControlToken derived(std::string_view key, std::string_view text) {
  crypto_auth_hmacsha256_state state;
  std::array<std::uint8_t, crypto_auth_hmacsha256_BYTES> hash;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                text.size());
  crypto_auth_hmacsha256_final(&state, hash.data());
  ControlToken token;
  std::copy_n(hash.begin(), token.bytes.size(), token.bytes.begin());
  return token;
}

/// Who a process is, as it tells rank 0.
struct Attendance {
  std::int64_t rank = 0;
  std::int64_t size = 0;
  std::string process;  ///< "process 812 on host7"
  std::vector<AlikeFact> alike = {};
};

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

/// Why two processes are not of one job; empty where they are.
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

/// Tells of times: "within 60 s".
class Deadline {
 public:
  explicit Deadline(milliseconds limit) : limit_(limit), start_(Clock::now()) {}
  bool is_over(milliseconds slack = {}) const {
    return limit_ >= milliseconds::zero() && Clock::now() >= start_ + limit_ + slack;
  }
  std::string text() const {
    return absl::StrFormat("within %g s", std::chrono::duration<double>(limit_).count());
  }

 private:
  milliseconds limit_;
  Clock::time_point start_;
};

/// Waits for any of them to have something to do.
void wait_for(std::vector<pollfd> entries, milliseconds limit) {
  poll_until(entries, Clock::now() + limit);
}

// ---- rank 0

class Host final : public Rendezvous {
 public:
  Host(const Launch& launch, const RendezvousOptions& options)
      : launch_(launch), options_(options), own_(own_attendance(launch, options)) {
    key_ = derived("tessera meeting 1", launch.job);
    nonce_ = random_nonce();
    seats_.resize(static_cast<std::size_t>(launch.size), nullptr);
  }
  /// Takes a port of its own, and finds out whether another process is rank 0 already.
  Status listen();
  Status wait_for_all();
  /// After a failure: everyone hears of it, and who comes late too.
  void part(const Status& verdict);
  std::vector<std::string> exchange(const std::string& own) override;
  ControlToken token() const override { return job_token(key_, nonce_); }

  static ControlToken job_token(const ControlToken& key, const ControlNonce& nonce) {
    return derived(std::string(key.bytes.begin(), key.bytes.end()),
                   "control" + std::string(nonce.begin(), nonce.end()));
  }

 private:
  struct Guest {
    SealedStream stream;
    Clock::time_point until;
    std::optional<Attendance> who = std::nullopt;
    std::optional<std::string> text = std::nullopt;  ///< of the exchange under way
    bool is_gone = false;
  };
  Status listen_at(int port);
  /// Whether the process that has this port is of this job.
  Status ask_holder(const std::vector<std::string>& addresses, int port);
  /// What there is to do, for `limit` at most.
  Status go_on(milliseconds limit);
  Status hear(Guest& guest);
  Status seat(Guest& guest, const std::string& text);
  /// Until all that was written has gone.
  void flush();
  std::string absent() const;

  const Launch launch_;
  const RendezvousOptions options_;
  const Attendance own_;
  ControlToken key_;
  ControlNonce nonce_;
  std::vector<std::string> addresses_;
  std::vector<Listener> listeners_;
  std::list<Guest> guests_;
  std::vector<Guest*> seats_;  ///< by rank; null: has not come (and of rank 0)
};

/// A guest's look for rank 0 at all addresses and ports at once.
class Search {
 public:
  Search(const ControlToken& key, Attendance own) : key_(key), own_(std::move(own)) {}
  /// The connection on which rank 0 has answered, with its first word.
  struct Found {
    SealedStream stream;
    std::string first_word;
  };
  std::optional<Found> look(const std::vector<Endpoint>& endpoints);
  /// What came of the last look, for texts.
  const std::string& outcome() const { return outcome_; }

 private:
  struct Attempt {
    Endpoint at;
    SealedStream stream;
  };
  const ControlToken key_;
  const Attendance own_;
  std::string outcome_;
};

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

Status Host::listen() {
  StatusOr<std::vector<std::string>> found = addresses_of(launch_.address);
  if (!found.ok()) {
    return unavailable("MASTER_ADDR \"" + launch_.address + "\" is no host that this one knows: " +
                       std::string(message_of(found.status())));
  }
  addresses_ = *std::move(found);
  Status first;
  for (int port = launch_.first_port; port < launch_.first_port + launch_.num_ports; ++port) {
    const Status status = listen_at(port);
    if (status.ok()) return status;
    if (first.ok()) first = status;
    TSR_RETURN_IF_ERROR(ask_holder(addresses_, port));
  }
  return unavailable("rank 0 finds no free port for the ranks to meet at, of " +
                     ports_text(launch_) + ": " + std::string(message_of(first)) +
                     "; TESSERA_PORT names another");
}

// Where all ranks are on this host nobody else can reach it.
Status Host::listen_at(int port) {
  const bool stays_here = launch_.is_one_host || is_loopback_address(addresses_.front());
  const std::string any = addresses_.front().find(':') == std::string::npos ? "0.0.0.0" : "::";
  StatusOr<Listener> listener = listen_on(stays_here ? addresses_.front() : any, port);
  TSR_RETURN_IF_ERROR(listener.status());
  listeners_.push_back(*std::move(listener));
  return absl::OkStatus();
}

Status Host::ask_holder(const std::vector<std::string>& addresses, int port) {
  Search search(key_, own_);
  const auto found = search.look({{addresses.front(), port}});
  if (!found || found->first_word.front() != kVerdict) return absl::OkStatus();
  return unavailable(found->first_word.substr(1));
}

Status Host::seat(Guest& guest, const std::string& text) {
  if (text.empty() || text.front() != kAttends) {
    guest.is_gone = true;
    return absl::OkStatus();
  }
  guest.who = read_attendance(text.substr(1));
  const std::string why = difference(own_, *guest.who);
  if (!why.empty()) return unavailable(why);
  if (guest.who->rank < 0 || guest.who->rank >= launch_.size) {
    guest.is_gone = true;
    return absl::OkStatus();
  }
  Guest*& place = seats_[static_cast<std::size_t>(guest.who->rank)];
  if (guest.who->rank == 0 || place != nullptr) {
    const Attendance& other = guest.who->rank == 0 ? own_ : *place->who;
    return unavailable("RANK " + std::to_string(other.rank) + " came twice: " + other.process +
                       " and " + guest.who->process + "; each process needs a RANK of its own");
  }
  place = &guest;
  guest.stream.write(std::string(1, kSeated));
  guest.stream.pump();
  return absl::OkStatus();
}

Status Host::hear(Guest& guest) {
  guest.stream.pump();
  while (const std::optional<std::string> text = guest.stream.read()) {
    if (!guest.who) {
      TSR_RETURN_IF_ERROR(seat(guest, *text));
    } else if (!text->empty() && text->front() == kText) {
      guest.text = text->substr(1);
    }
  }
  if (!guest.stream.is_over() || (guest.who && guest.text)) return absl::OkStatus();
  guest.is_gone = true;
  if (!guest.who) return absl::OkStatus();
  return unavailable(named(*guest.who) + " ended while the ranks met");
}

Status Host::go_on(milliseconds limit) {
  std::vector<pollfd> entries;
  for (const Listener& listener : listeners_) {
    entries.push_back({listener.socket.number(), POLLIN, 0});
  }
  for (const Guest& guest : guests_) entries.push_back(guest.stream.entry());
  wait_for(entries, limit);
  Status first;
  for (Guest& guest : guests_) first.Update(hear(guest));
  for (const Listener& listener : listeners_) {
    while (guests_.size() < static_cast<std::size_t>(launch_.size) + kMostStrangers) {
      std::optional<Descriptor> socket = accept_from(listener.socket);
      if (!socket) break;
      guests_.push_back({SealedStream::answer(*std::move(socket), key_, control::Purpose::kMeet),
                         Clock::now() + kStrangerLimit});
    }
  }
  guests_.remove_if([](const Guest& guest) {
    return !guest.who && (guest.is_gone || Clock::now() >= guest.until);
  });
  return first;
}

std::string Host::absent() const {
  std::string came = "0", missing;
  for (std::size_t rank = 1; rank < seats_.size(); ++rank) {
    std::string& list = seats_[rank] == nullptr ? missing : came;
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  return missing.empty() ? "" : "came: " + came + "; did not come: " + missing;
}

Status Host::wait_for_all() {
  const Deadline deadline(options_.timeout);
  while (!absent().empty()) {
    TSR_RETURN_IF_ERROR(go_on(milliseconds(100)));
    if (deadline.is_over() && !absent().empty()) {
      return unavailable("not all of the " + std::to_string(launch_.size) +
                         " ranks have come to rank 0 at " + to_string(listeners_.front().endpoint) +
                         " " + deadline.text() + ": " + absent());
    }
  }
  const std::string begins = kBegins + std::string(nonce_.begin(), nonce_.end());
  for (Guest& guest : guests_) {
    if (guest.who) guest.stream.write(begins);
  }
  flush();
  return absl::OkStatus();
}

// One that ends meanwhile is missed at the next exchange, if there is any.
void Host::flush() {
  const auto is_behind = [](const Guest& guest) {
    return guest.who && guest.stream.has_unsent() && !guest.stream.is_over();
  };
  const Deadline deadline(options_.timeout);
  for (Guest& guest : guests_) guest.stream.pump();
  while (!deadline.is_over() && std::any_of(guests_.begin(), guests_.end(), is_behind)) {
    static_cast<void>(go_on(milliseconds(100)));
  }
}

void Host::part(const Status& verdict) {
  const std::string text = kVerdict + std::string(message_of(verdict));
  const Clock::time_point until = Clock::now() + kPartingLimit;
  std::list<const Guest*> told;
  while (Clock::now() < until) {
    for (Guest& guest : guests_) {
      const bool is_new = std::find(told.begin(), told.end(), &guest) == told.end();
      if (!guest.who || !is_new) continue;
      guest.stream.write(text);
      guest.stream.pump();
      told.push_back(&guest);
    }
    static_cast<void>(go_on(milliseconds(20)));
  }
}

std::vector<std::string> Host::exchange(const std::string& own) {
  const Deadline deadline(options_.timeout);
  const auto texts = [&]() -> std::optional<std::vector<std::string>> {
    std::vector<std::string> all = {own};
    for (std::size_t rank = 1; rank < seats_.size(); ++rank) {
      if (!seats_[rank]->text) return std::nullopt;
      all.push_back(*seats_[rank]->text);
    }
    return all;
  };
  std::optional<std::vector<std::string>> all = texts();
  Status status;
  while (status.ok() && !all) {
    status = go_on(milliseconds(100));
    all = texts();
    if (!all && deadline.is_over())
      status = unavailable("a rank does not answer " + deadline.text());
  }
  if (!status.ok()) {
    part(status);
    throw Error(status);
  }
  const std::string sent = kText + to_text(*all);
  for (std::size_t rank = 1; rank < seats_.size(); ++rank) {
    seats_[rank]->text.reset();
    seats_[rank]->stream.write(sent);
  }
  flush();
  return *std::move(all);
}

// ---- the others

class Guest final : public Rendezvous {
 public:
  Guest(const Launch& launch, const RendezvousOptions& options)
      : launch_(launch),
        options_(options),
        key_(derived("tessera meeting 1", launch.job)),
        own_(own_attendance(launch, options)) {}
  Status find();
  void part();
  std::vector<std::string> exchange(const std::string& own) override;
  ControlToken token() const override { return Host::job_token(key_, nonce_); }

 private:
  /// Rank 0's next text of this kind. Errors: Unavailable, the verdict among them.
  StatusOr<std::string> next(char kind, const Deadline& deadline);
  std::string own_name() const { return "rank " + std::to_string(launch_.rank); }

  const Launch launch_;
  const RendezvousOptions options_;
  const ControlToken key_;
  const Attendance own_;
  ControlNonce nonce_{};
  std::optional<SealedStream> host_;
  std::optional<std::string> first_word_;
};

Status Guest::find() {
  const Deadline deadline(options_.timeout);
  const StatusOr<std::vector<std::string>> addresses = addresses_of(launch_.address);
  if (!addresses.ok()) {
    return unavailable("MASTER_ADDR \"" + launch_.address + "\" is no host that this one knows: " +
                       std::string(message_of(addresses.status())));
  }
  std::vector<Endpoint> endpoints;
  for (const std::string& address : *addresses) {
    for (int port = 0; port < launch_.num_ports; ++port) {
      endpoints.push_back({address, launch_.first_port + port});
    }
  }
  Search search(key_, own_);
  for (milliseconds pause = kFirstPause; !host_; pause = std::min(2 * pause, kLongestPause)) {
    if (std::optional<Search::Found> found = search.look(endpoints)) {
      host_.emplace(std::move(found->stream));
      first_word_ = std::move(found->first_word);
      break;
    }
    if (deadline.is_over()) {
      return unavailable(own_name() + " has not found rank 0 at MASTER_ADDR " + launch_.address +
                         ", " + ports_text(launch_) + ", " + deadline.text() + ": " +
                         search.outcome());
    }
    wait_for({}, pause);
  }
  TSR_RETURN_IF_ERROR(next(kSeated, deadline).status());
  TSR_ASSIGN_OR_RETURN(const std::string nonce, next(kBegins, deadline));
  std::copy_n(nonce.begin(), std::min(nonce.size(), nonce_.size()), nonce_.begin());
  return absl::OkStatus();
}

StatusOr<std::string> Guest::next(char kind, const Deadline& deadline) {
  while (true) {
    std::optional<std::string> text = std::exchange(first_word_, std::nullopt);
    if (!text) text = host_->read();
    if (text && !text->empty()) {
      if (text->front() == kVerdict) return unavailable(text->substr(1));
      if (text->front() == kind) return text->substr(1);
      return unavailable("rank 0 said something else than was due while the ranks met");
    }
    if (host_->is_over()) return unavailable("rank 0 ended while the ranks met");
    if (deadline.is_over(kVerdictSlack)) {
      return unavailable("rank 0 does not answer " + own_name() + " " + deadline.text());
    }
    wait_for({host_->entry()}, milliseconds(100));
    host_->pump();
  }
}

// Until rank 0 has told everyone.
void Guest::part() {
  const Clock::time_point until = Clock::now() + kPartingLimit;
  while (host_ && !host_->is_over() && Clock::now() < until) {
    wait_for({host_->entry()}, milliseconds(20));
    host_->pump();
    while (host_->read()) {
    }
  }
}

std::vector<std::string> Guest::exchange(const std::string& own) {
  host_->write(kText + own);
  host_->pump();
  const std::string all = value_or_throw(next(kText, Deadline(options_.timeout)));
  std::optional<std::vector<std::string>> texts = read_texts(all);
  if (!texts) throw Error(unavailable("rank 0 said something that cannot be read"));
  return *std::move(texts);
}

}  // namespace

StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::meet(const Launch& launch,
                                                       const RendezvousOptions& options) {
  const auto tell = [&](const Status& failure) {
    if (options.on_failure) options.on_failure(failure);
  };
  if (launch.rank == 0) {
    auto host = std::make_unique<Host>(launch, options);
    Status status = launch.size > 1 ? host->listen() : absl::OkStatus();
    if (status.ok()) status = host->wait_for_all();
    if (status.ok()) return std::unique_ptr<Rendezvous>(std::move(host));
    tell(status);
    host->part(status);
    return status;
  }
  auto guest = std::make_unique<Guest>(launch, options);
  const Status status = guest->find();
  if (status.ok()) return std::unique_ptr<Rendezvous>(std::move(guest));
  tell(status);
  guest->part();
  return status;
}

}  // namespace tessera
