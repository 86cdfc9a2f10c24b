// runtime/control_frame.h: what the ends of a control channel tell one another, and its bytes. A
// frame is a 32-bit length, a kind and a body; a body that does not decode to its last byte is
// refused, and no length is believed before the bytes are there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/control.h"

namespace tessera {

/// How many calls a rank has started, by lane.
using StartedCounts = std::map<LaneKey, std::uint64_t>;
/// True if a rank with these counts has started the call.
inline bool has_started(const StartedCounts& counts, const ControlWait& wait) {
  const auto at = counts.find(wait.lane);
  return at != counts.end() && at->second > wait.sequence;
}

/// Known to the ranks of one job only.
struct ControlToken {
  std::array<std::uint8_t, 16> bytes{};
  /// Takes the same time wherever two tokens differ.
  bool matches(const ControlToken& other) const noexcept;
};

namespace control {

/// What a connection is for: a rank's link to the hub, or one question.
enum class Purpose : std::uint8_t { kJoin, kVisit };
/// Why a rank starts no more calls.
enum class End : std::uint8_t { kLeft, kFailed, kDied };

struct Hello {  ///< opens every connection
  ControlToken token;
  std::int64_t rank = 0;
  Purpose purpose = Purpose::kJoin;
};
struct Welcome {};  ///< the hub has taken this rank in; a visitor's poison has been heard

struct Poison {
  std::int32_t code = 0;  ///< of absl::StatusCode
  std::string text;
};
struct Failure {  ///< the hub's verdict, for everyone
  std::int32_t code = 0;
  std::string text;
};

struct GroupAsked {
  std::uint64_t request = 0;
  std::vector<std::int64_t> ranks;
};
struct GroupNumber {
  std::uint64_t request = 0;
  std::uint32_t id = 0;
};

struct Waiting {
  std::uint64_t number = 0;  ///< of this wait, from 1 up
  ControlWait wait;
  StartedCounts started;
};
struct Running {};  ///< it waits no more
struct Probe {
  std::uint64_t epoch = 0;
};
struct ProbeReply {
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;  ///< 0: does not wait
  StartedCounts started;
};

struct Leave {
  StartedCounts started;
};
struct Gone {  ///< for everyone
  std::int64_t rank = 0;
  End end = End::kLeft;
  StartedCounts started;
};

struct Query {
  LaneKey lane;
  std::uint64_t sequence = 0;
};
struct Answer {
  bool arrived = false;
  std::string doing;
};

using Message = std::variant<Hello, Welcome, Poison, Failure, GroupAsked, GroupNumber, Waiting,
                             Running, Probe, ProbeReply, Leave, Gone, Query, Answer>;

constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20;  ///< of kind and body
constexpr std::size_t kMaxHelloBytes = 256;                   ///< from those who are not known yet
constexpr std::size_t kMaxTextBytes = std::size_t{16} << 10;

/// The whole frame. Texts are cut at kMaxTextBytes. nullopt for one beyond kMaxFrameBytes.
std::optional<std::string> encode(const Message& message);
/// From kind and body; nullopt for anything that encode() cannot have written.
std::optional<Message> decode(std::string_view frame);

}  // namespace control

/// Cuts a stream of bytes into messages.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  void set_max_bytes(std::size_t max_bytes) noexcept { max_bytes_ = max_bytes; }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  /// nullopt where no whole frame is there yet, and for good once a frame was malformed.
  std::optional<control::Message> next();
  bool is_broken() const noexcept { return broken_; }

 private:
  std::size_t max_bytes_;
  std::string bytes_;
  bool broken_ = false;
};

}  // namespace tessera
