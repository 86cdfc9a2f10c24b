#include "runtime/control/seal.h"

#include <sodium/core.h>
#include <sodium/randombytes.h>
#include <sodium/utils.h>

#include <cstdlib>

namespace tessera {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

ControlNonce random_nonce() {
  static const bool is_ready = ::sodium_init() >= 0;  // after that any thread may ask
  if (!is_ready) std::abort();
  ControlNonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

ControlHash hmac_of(std::string_view key, std::string_view text) {
  ControlHash hash;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(key), key.size());
  crypto_auth_hmacsha256_update(&state, bytes_of(text), text.size());
  crypto_auth_hmacsha256_final(&state, hash.data());
  return hash;
}

FrameSeal::FrameSeal(const Key& key) {
  crypto_auth_hmacsha256_init(&keyed_, key.data(), key.size());
}

ControlHash FrameSeal::tag_of(std::string_view numbered) const {
  ControlHash tag;
  crypto_auth_hmacsha256_state state = keyed_;
  crypto_auth_hmacsha256_update(&state, bytes_of(numbered), numbered.size());
  crypto_auth_hmacsha256_final(&state, tag.data());
  return tag;
}

std::string FrameSeal::seal(std::string_view content) {
  std::string frame;
  frame.reserve(content.size() + kBytes);
  for (std::size_t at = 0; at < kNumberBytes; ++at) {
    frame.push_back(static_cast<char>(next_ >> (8 * at) & 255));
  }
  ++next_;
  frame.append(content);
  const ControlHash tag = tag_of(frame);
  frame.append(tag.begin(), tag.begin() + kTagBytes);
  return frame;
}

std::optional<std::string_view> FrameSeal::open(std::string_view frame) {
  if (has_gap_ || frame.size() < kBytes) return std::nullopt;
  const std::string_view numbered = frame.substr(0, frame.size() - kTagBytes);
  const ControlHash tag = tag_of(numbered);
  if (sodium_memcmp(tag.data(), frame.data() + numbered.size(), kTagBytes) != 0) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < kNumberBytes; ++at) {
    number |= std::uint64_t{static_cast<std::uint8_t>(frame[at])} << (8 * at);
  }
  has_gap_ = number > next_;
  if (number != next_) return std::nullopt;
  ++next_;
  return numbered.substr(kNumberBytes);
}

}  // namespace tessera
