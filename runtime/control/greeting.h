// runtime/control/greeting.h: how the ends of a control connection prove to one another that they
// are of one job, without saying the job's token. The caller says hello with a nonce, the callee
// answers with its own; a key for each direction follows from the token, both nonces, the ranks and
// the purpose. Then every frame is sealed, the caller's first being its proof: what was recorded of
// one connection means nothing in another.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/control/frame.h"

namespace tessera {

/// Known to the ranks of one job only, who never send it over a control connection.
struct ControlToken {
  std::array<std::uint8_t, 16> bytes{};
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};
ControlToken random_token();

/// How often who is turned away tries: strangers in great number may have taken its place.
constexpr int kGreetingTries = 3;

/// Each with a nonce of its own.
control::Hello new_hello(std::int64_t rank, std::int64_t to, control::Purpose purpose);
control::Challenge new_challenge();

struct ControlKeys {
  FrameSeal from_caller, from_callee;
};
/// The same at both ends, if they have the same token.
ControlKeys keys_of(const ControlToken& token, const control::Hello& hello,
                    const control::Challenge& challenge);

}  // namespace tessera
