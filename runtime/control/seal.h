// runtime/control/seal.h: what makes a control frame its sender's own. A sealed frame is a number,
// from 0 up, the content and a tag: HMAC-SHA256 of both, cut to 16 bytes, by a key that only the
// two ends of one connection know and use in this direction alone.
#pragma once

#include <sodium/crypto_auth_hmacsha256.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// One end's part in a key; never used again.
using ControlNonce = std::array<std::uint8_t, 16>;
/// From the system's generator. Ends the process where that gives none.
ControlNonce random_nonce();

using ControlHash = std::array<std::uint8_t, crypto_auth_hmacsha256_BYTES>;
/// HMAC-SHA256: nobody without the key can tell it from chance.
ControlHash hmac_of(std::string_view key, std::string_view text);

/// One direction of a connection: its sender's end or its receiver's.
class FrameSeal {
 public:
  using Key = ControlHash;
  static constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kBytes = kNumberBytes + kTagBytes;  ///< beside the content

  explicit FrameSeal(const Key& key);

  /// The content with the next number and its tag.
  std::string seal(std::string_view content);
  /// The content; nullopt for a frame that is forged, of another connection, or was there before.
  std::optional<std::string_view> open(std::string_view frame);
  /// A frame was genuine and not the next: others are missing, and nothing more is opened.
  bool has_gap() const noexcept { return has_gap_; }

 private:
  ControlHash tag_of(std::string_view numbered) const;

  crypto_auth_hmacsha256_state keyed_;
  std::uint64_t next_ = 0;
  bool has_gap_ = false;
};

}  // namespace tessera
