#include "runtime/control/channel.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/control/meeting.h"
#include "runtime/control/server.h"
#include "runtime/control/state.h"
#include "runtime/control/visit.h"

namespace tessera {
namespace {

/// A hub that is alive answers in microseconds; one that is stopped, never.
constexpr std::chrono::milliseconds kVerdictLimit{250};
constexpr std::chrono::milliseconds kSpreadLimit{250};
constexpr std::chrono::milliseconds kGroupLimit{5000};
/// A process that is there answers at once, whatever its rank's own thread does.
constexpr std::chrono::milliseconds kSilenceLimit{1000};
constexpr std::chrono::milliseconds kFarewellRound{200};
/// Visits at a time: each takes a descriptor.
constexpr std::size_t kMaxVisits = 64;

class SocketChannel final : public ControlChannel {
 public:
  SocketChannel(const ControlPlace& place, WakeUp wake_up) : state_(place, std::move(wake_up)) {}
  ~SocketChannel() override {
    if (server_ != nullptr) leave();
  }

  Status start(ControlMeeting meeting, const ControlOptions& options) {
    ControlLink hub;
    if (place().rank != 0) {
      TSR_ASSIGN_OR_RETURN(hub, join_hub(place(), meeting, options.connect_timeout));
    }
    token_ = meeting.token;
    endpoints_ = std::move(meeting.endpoints);
    TSR_ASSIGN_OR_RETURN(server_,
                         ControlServer::start(state_, token_, options.stranger_limit,
                                              std::move(meeting.listener), std::move(hub)));
    return absl::OkStatus();
  }

  void poison(const Status& status) override {
    if (status.ok()) return;
    const control::Poison poison = state_.fail(status);
    if (!state_.wait_for_verdict(kVerdictLimit)) spread(poison);
  }
  bool failed() const noexcept override { return state_.failed(); }
  Status first_failure() const override { return state_.first_failure(); }
  void describe_dead(std::function<std::string(std::int64_t rank)> describe) override {
    state_.set_describe_dead(std::move(describe));
  }

  StatusOr<std::uint32_t> group_id(std::span<const std::int64_t> ranks) override {
    const std::vector<std::int64_t> list(ranks.begin(), ranks.end());
    if (const auto known = group_ids_.find(list); known != group_ids_.end()) return known->second;
    const control::GroupAsked asked{++num_group_requests_, list};
    if (!control::encode(asked)) {
      return invalid_argument("a group of " + std::to_string(list.size()) +
                              " ranks is more than a control frame holds");
    }
    state_.say(asked);
    TSR_ASSIGN_OR_RETURN(const std::uint32_t id, state_.wait_for_group(asked.request, kGroupLimit));
    group_ids_.emplace(list, id);
    return id;
  }

  std::atomic<std::uint64_t>& started(const LaneKey& lane) override { return state_.started(lane); }
  void waits(ControlWait wait) override { state_.waits(std::move(wait)); }
  void stops_waiting() override { state_.stops_waiting(); }

  std::vector<PartyState> ask(const ControlWait& wait, std::chrono::milliseconds limit) override {
    std::vector<PartyState> parties;
    std::vector<ControlHost> asked;
    std::vector<std::size_t> places;  // of those asked, among the parties
    for (const std::int64_t rank : wait.parties) {
      const bool is_other = rank >= 0 && rank < place().size && rank != place().rank;
      parties.push_back(state_without_asking(rank, wait));
      if (!is_other || parties.back().kind != PartyState::Kind::kSilent) continue;
      asked.push_back(host_of(rank));
      places.push_back(parties.size() - 1);
    }
    const auto answers = visit(asked, visitor(), control::Query{wait.lane, wait.sequence}, limit);
    for (std::size_t at = 0; at < answers.size(); ++at) {
      if (!answers[at]) continue;
      const auto* answer = std::get_if<control::Answer>(&*answers[at]);
      if (answer != nullptr) note(*answer, parties[places[at]]);
    }
    return parties;
  }
  std::optional<std::int64_t> missing_for_good(const ControlWait& wait) const override {
    return state_.missing_for_good(wait);
  }

  void leave() override { state_.leave(); }
  bool wait_until_all_left(std::chrono::milliseconds limit) override {
    return state_.wait_until_all_left(limit);
  }
  bool farewell(std::chrono::milliseconds limit) override {
    const auto until = RankClock::now() + limit;
    std::map<std::int64_t, int> silent_rounds;
    if (state_.is_hub_gone()) bid_farewell(state_.those_still_here(), silent_rounds);
    while (!state_.wait_until_all_ended(kFarewellRound)) {
      if (RankClock::now() >= until) return false;
      std::vector<std::int64_t> here = state_.those_still_here();
      std::erase_if(here, [&](std::int64_t rank) {
        return silent_rounds[rank] * kFarewellRound >= kSilenceLimit;
      });
      if (here.empty()) return false;
      bid_farewell(here, silent_rounds);
    }
    return true;
  }
  void sleep(std::chrono::microseconds limit) override { state_.sleep(limit); }

 private:
  const ControlPlace& place() const noexcept { return state_.place(); }
  ControlVisitor visitor() const { return {token_, place().rank}; }
  ControlHost host_of(std::int64_t rank) const {
    return {rank, endpoints_[static_cast<std::size_t>(rank)]};
  }

  /// The hub does not answer: everyone is told directly.
  void spread(const control::Poison& poison) {
    std::vector<ControlHost> others;
    for (std::int64_t rank = 0; rank < place().size; ++rank) {
      if (rank != place().rank) others.push_back(host_of(rank));
    }
    visit(others, visitor(), poison, kSpreadLimit);
  }

  /// Tells these ranks that this one has left, and hears whether they have.
  void bid_farewell(const std::vector<std::int64_t>& ranks,
                    std::map<std::int64_t, int>& silent_rounds) {
    const control::Message own = state_.own_farewell();
    for (std::size_t first = 0; first < ranks.size(); first += kMaxVisits) {
      const auto batch =
          std::span(ranks).subspan(first, std::min(kMaxVisits, ranks.size() - first));
      std::vector<ControlHost> asked;
      for (const std::int64_t rank : batch) asked.push_back(host_of(rank));
      const auto answers = visit(asked, visitor(), own, kFarewellRound);
      for (std::size_t at = 0; at < batch.size(); ++at) {
        if (!answers[at]) {
          ++silent_rounds[batch[at]];
          continue;
        }
        silent_rounds[batch[at]] = 0;
        const auto* leave = std::get_if<control::Leave>(&*answers[at]);
        if (leave != nullptr) state_.hear_farewell(batch[at], *leave);
      }
    }
  }

  static void note(const control::Answer& answer, PartyState& party) {
    party.kind = answer.arrived ? PartyState::Kind::kArrived : PartyState::Kind::kNotArrived;
    party.doing = answer.doing;
  }
  /// Of this rank itself and of those who have left; silent for the rest.
  PartyState state_without_asking(std::int64_t rank, const ControlWait& wait) const {
    PartyState party{.rank = rank};
    if (rank == place().rank) {
      note(state_.answer(control::Query{wait.lane, wait.sequence}), party);
    } else if (const std::optional<PartyState> left = state_.state_of_left(rank, wait)) {
      party = *left;
    }
    return party;
  }

  ControlState state_;
  ControlToken token_;
  std::vector<Endpoint> endpoints_;
  std::map<std::vector<std::int64_t>, std::uint32_t> group_ids_;
  std::uint64_t num_group_requests_ = 0;
  std::unique_ptr<ControlServer> server_;  // last: its thread uses the state
};

Status check(const ControlPlace& place, const ExchangeTexts& exchange) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size) {
    return invalid_argument("rank " + std::to_string(place.rank) + " of " +
                            std::to_string(place.size) + " is none");
  }
  if (!exchange) return invalid_argument("the ranks of a control channel need a rendezvous");
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<ControlChannel>> ControlChannel::open(const ControlPlace& place,
                                                               const ControlOptions& options,
                                                               const ExchangeTexts& exchange) {
  TSR_RETURN_IF_ERROR(check(place, exchange));
  StatusOr<ControlMeeting> meeting = meet(place, options, exchange);
  Status status = meeting.status();
  std::unique_ptr<SocketChannel> channel;
  if (status.ok()) {
    StatusOr<WakeUp> wake_up = WakeUp::make();
    status = wake_up.status();
    if (wake_up.ok()) {
      channel = std::make_unique<SocketChannel>(place, *std::move(wake_up));
      status = channel->start(*std::move(meeting), options);
    }
  }
  TSR_RETURN_IF_ERROR(agree(place, status, exchange));
  return std::unique_ptr<ControlChannel>(std::move(channel));
}

}  // namespace tessera
