// The side of a rank other than 0 at a rendezvous.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "runtime/control/rendezvous_words.h"

namespace tessera {
namespace rendezvous {
namespace {

class Guest final : public Rendezvous {
 public:
  Guest(const Launch& launch, const RendezvousOptions& options)
      : launch_(launch),
        options_(options),
        key_(key_of(launch)),
        own_(own_attendance(launch, options)) {}
  Status find();
  void part();
  std::vector<std::string> exchange(const std::string& own) override;
  ControlToken token() const override { return token_of(key_, nonce_); }

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
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, addresses_in(launch_));
  std::vector<Endpoint> endpoints;
  for (const std::string& address : addresses) {
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

StatusOr<std::unique_ptr<Rendezvous>> meet_as_guest(const Launch& launch,
                                                    const RendezvousOptions& options) {
  auto guest = std::make_unique<Guest>(launch, options);
  const Status status = guest->find();
  if (status.ok()) return std::unique_ptr<Rendezvous>(std::move(guest));
  if (options.on_failure) options.on_failure(status);
  guest->part();
  return status;
}

}  // namespace rendezvous

StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::meet(const Launch& launch,
                                                       const RendezvousOptions& options) {
  return launch.rank == 0 ? rendezvous::meet_as_host(launch, options)
                          : rendezvous::meet_as_guest(launch, options);
}

}  // namespace tessera
