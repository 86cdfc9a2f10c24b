// runtime/control/frame.h: what the ends of a control channel tell one another, and its bytes. A
// frame is a 32-bit length, a kind and a body, the latter two sealed once the ends have greeted one
// another; a body that does not decode to its last byte is refused, and no length is believed
// before the bytes are there.
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

#include "runtime/control/channel.h"
#include "runtime/control/seal.h"

namespace tessera {

/// How many calls a rank has started, by lane.
using StartedCounts = std::map<LaneKey, std::uint64_t>;
/// True if a rank with these counts has started the call.
inline bool has_started(const StartedCounts& counts, const ControlWait& wait) {
  const auto at = counts.find(wait.lane);
  return at != counts.end() && at->second > wait.sequence;
}

namespace control {

/// What a connection is for: a rank's link to the hub, or one question; beside the channel
/// (sealed_stream.h): how ranks first meet, and their mail.
enum class Purpose : std::uint8_t { kJoin, kVisit, kMeet, kMail };
/// Why a rank starts no more calls.
enum class End : std::uint8_t { kLeft, kFailed, kDied };

struct Hello {  ///< opens every connection, unsealed
  ControlNonce nonce{};
  std::int64_t rank = 0;
  std::int64_t to = 0;  ///< the rank that it means to reach
  Purpose purpose = Purpose::kJoin;
};
struct Challenge {  ///< the answer, unsealed; what follows is sealed, either way
  ControlNonce nonce{};
};
struct Proof {};    ///< the caller's first word: it knows the token
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

using Message =
    std::variant<Hello, Welcome, Poison, Failure, GroupAsked, GroupNumber, Waiting, Running, Probe,
                 ProbeReply, Leave, Gone, Query, Answer, Challenge, Proof>;

constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20;  ///< of kind and body
constexpr std::size_t kMaxHelloBytes = 256;                   ///< from those who are not known yet
constexpr std::size_t kMaxTextBytes = std::size_t{16} << 10;

/// The whole frame, unsealed. Texts are cut at kMaxTextBytes. nullopt for one beyond
/// kMaxFrameBytes.
std::optional<std::string> encode(const Message& message);
/// From kind and body; nullopt for anything that encode() cannot have written.
std::optional<Message> decode(std::string_view frame);

}  // namespace control

/// Turns messages into frames.
class FrameWriter {
 public:
  /// From the next frame on.
  void seal_with(const FrameSeal& seal) { seal_ = seal; }
  /// nullopt for one beyond kMaxFrameBytes.
  std::optional<std::string> frame_of(const control::Message& message);

 private:
  std::optional<FrameSeal> seal_;
};

/// Cuts a stream of bytes into messages. Where frames are sealed, those that do not open are passed
/// over: who can put bytes into a connection cannot speak in it.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  void set_max_bytes(std::size_t max_bytes) noexcept { max_bytes_ = max_bytes; }
  /// From the next frame on.
  void open_with(const FrameSeal& seal) { seal_ = seal; }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  /// nullopt where no whole frame is there yet, and for good once a frame was malformed, or genuine
  /// but not the next.
  std::optional<control::Message> next();
  bool is_broken() const noexcept { return broken_; }
  /// Broken for that a genuine frame was not the next.
  bool lacks_frames() const noexcept { return seal_ && seal_->has_gap(); }
  /// Frames passed over.
  std::uint64_t num_dropped() const noexcept { return num_dropped_; }

 private:
  /// Of kind and body, sealed or not. Empty where none is there, or none to be believed.
  std::optional<std::string> next_frame();

  std::size_t max_bytes_;
  std::string bytes_;
  std::optional<FrameSeal> seal_;
  std::uint64_t num_dropped_ = 0;
  bool broken_ = false;
};

}  // namespace tessera
