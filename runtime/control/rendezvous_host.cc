// Rank 0's side of a rendezvous.
#include <poll.h>

#include <algorithm>
#include <list>
#include <utility>

#include "runtime/control/rendezvous_words.h"

namespace tessera::rendezvous {
namespace {

class Host final : public Rendezvous {
 public:
  Host(const Launch& launch, const RendezvousOptions& options)
      : launch_(launch),
        options_(options),
        own_(own_attendance(launch, options)),
        key_(key_of(launch)) {
    nonce_ = random_nonce();
    seats_.resize(static_cast<std::size_t>(launch.size), nullptr);
  }
  /// Takes a port of its own, and finds out whether another process is rank 0 already.
  Status listen();
  Status wait_for_all();
  /// After a failure: everyone hears of it, and who comes late too.
  void part(const Status& verdict);
  std::vector<std::string> exchange(const std::string& own) override;
  ControlToken token() const override { return token_of(key_, nonce_); }

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
  Status ask_holder(int port);
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
  const ControlToken key_;
  ControlNonce nonce_;
  std::vector<std::string> addresses_;
  std::vector<Listener> listeners_;
  std::list<Guest> guests_;
  std::vector<Guest*> seats_;  ///< by rank; null: has not come (and of rank 0)
};

Status Host::listen() {
  TSR_ASSIGN_OR_RETURN(addresses_, addresses_in(launch_));
  Status first;
  for (int port = launch_.first_port; port < launch_.first_port + launch_.num_ports; ++port) {
    const Status status = listen_at(port);
    if (status.ok()) return status;
    if (first.ok()) first = status;
    TSR_RETURN_IF_ERROR(ask_holder(port));
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

Status Host::ask_holder(int port) {
  Search search(key_, own_);
  const auto found = search.look({{addresses_.front(), port}});
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
  if (listeners_.empty()) return;
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

}  // namespace

StatusOr<std::unique_ptr<Rendezvous>> meet_as_host(const Launch& launch,
                                                   const RendezvousOptions& options) {
  auto host = std::make_unique<Host>(launch, options);
  Status status = launch.size > 1 ? host->listen() : absl::OkStatus();
  if (status.ok()) status = host->wait_for_all();
  if (status.ok()) return std::unique_ptr<Rendezvous>(std::move(host));
  if (options.on_failure) options.on_failure(status);
  host->part(status);
  return status;
}

}  // namespace tessera::rendezvous
