#include "runtime/control/greeting.h"

#include <string>
#include <string_view>

namespace tessera {
namespace {

/// What a key is for goes into it, so that no other use of the token ever gives the same one.
constexpr std::string_view kFromCaller = "tessera control 1: from the caller";
constexpr std::string_view kFromCallee = "tessera control 1: from the callee";

FrameSeal seal_of(const ControlToken& token, const std::string& greeting,
                  std::string_view direction) {
  return FrameSeal(hmac_of(token.text(), greeting + std::string(direction)));
}

}  // namespace

ControlToken random_token() { return {random_nonce()}; }

control::Hello new_hello(std::int64_t rank, std::int64_t to, control::Purpose purpose) {
  return {random_nonce(), rank, to, purpose};
}
control::Challenge new_challenge() { return {random_nonce()}; }

ControlKeys keys_of(const ControlToken& token, const control::Hello& hello,
                    const control::Challenge& challenge) {
  // Frames of fixed sizes, one after the other: no two greetings give the same text.
  const std::string greeting =
      control::encode(hello).value_or("") + control::encode(challenge).value_or("");
  return {seal_of(token, greeting, kFromCaller), seal_of(token, greeting, kFromCallee)};
}

}  // namespace tessera
