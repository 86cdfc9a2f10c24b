// runtime/control/visit.h: one question to several ranks at once, each at its own address, so that
// it works whoever else is stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/control/frame.h"
#include "runtime/control/greeting.h"
#include "runtime/control/socket.h"

namespace tessera {

/// A rank, as a visitor of others.
struct ControlVisitor {
  ControlToken token;
  std::int64_t rank = 0;
};
/// A rank to be visited.
struct ControlHost {
  std::int64_t rank = 0;
  Endpoint endpoint;
};

/// What each of `hosts` answers to `question`; nullopt for those that have not within `limit`, and
/// for whoever answers there without knowing the token.
std::vector<std::optional<control::Message>> visit(std::span<const ControlHost> hosts,
                                                   const ControlVisitor& visitor,
                                                   const control::Message& question,
                                                   std::chrono::milliseconds limit);

}  // namespace tessera
