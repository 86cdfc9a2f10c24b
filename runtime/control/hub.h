// runtime/control/hub.h: what rank 0 knows of all ranks and decides for them: the first failure,
// numbers of groups, who has gone, and whether any rank can still go on. It has no sockets and no
// clock: letters come in, letters go out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/control/frame.h"

namespace tessera {

/// Thread-safety: none.
class ControlHub {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::int64_t kEveryone = -1;
  /// How long all ranks must have been seen stuck before they are asked whether they are. Who waits
  /// for a rank that has left names it itself meanwhile.
  static constexpr std::chrono::milliseconds kGrace{100};

  struct Letter {
    std::int64_t to = kEveryone;
    control::Message message;
  };
  using Letters = std::vector<Letter>;

  explicit ControlHub(std::int64_t size) : places_(static_cast<std::size_t>(size)) {}

  /// A message of a rank (0 included). Kinds that no rank sends to the hub are left alone.
  Letters receive(std::int64_t from, const control::Message& message, Time now);
  /// Has left or died: the end of its link is no news.
  bool has_gone(std::int64_t rank) const { return place(rank).state == State::kGone; }
  /// The link to a rank has ended. `how`: "died", or what else is known, for the text of the
  /// failure.
  Letters lost(std::int64_t rank, const std::string& how, Time now);
  /// When tick() has something to do; nullopt while nothing pends.
  std::optional<Time> due() const noexcept { return judge_at_; }
  Letters tick(Time now);

 private:
  enum class State : std::uint8_t { kRunning, kWaiting, kGone };
  struct Place {
    State state = State::kRunning;
    control::Waiting waiting;  ///< while kWaiting
    StartedCounts started;     ///< as last heard
    bool probe_answered = false;
  };
  Place& place(std::int64_t rank) { return places_[static_cast<std::size_t>(rank)]; }
  const Place& place(std::int64_t rank) const { return places_[static_cast<std::size_t>(rank)]; }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(places_.size()); }
  bool has_place(std::int64_t rank) const noexcept { return rank >= 0 && rank < size(); }

  void fail(const Status& status, Letters& out);
  void end(std::int64_t rank, control::End end, StartedCounts started, Letters& out);
  /// Something has changed: what was being judged is void.
  void look_again(Time now);
  bool all_stuck() const;
  bool lacks_a_party(std::int64_t rank) const;
  void answer_probe(std::int64_t from, const control::ProbeReply& reply, Letters& out);
  std::string describe_all() const;

  std::vector<Place> places_;
  bool failed_ = false;
  std::map<std::vector<std::int64_t>, std::uint32_t> groups_;
  std::optional<Time> judge_at_;       ///< all ranks look stuck; they are asked then
  std::uint64_t epoch_ = 0;            ///< of the last probe
  std::optional<std::int64_t> asked_;  ///< answers that the probe under way still lacks
};

}  // namespace tessera
