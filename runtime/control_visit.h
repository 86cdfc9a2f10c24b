// runtime/control_visit.h: one question to several ranks at once, each at its own address, so that
// it works whoever else is stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/control_frame.h"
#include "runtime/control_socket.h"

namespace tessera {

/// What each of `endpoints` answers to `hello` and then `question`; nullopt for those that have
/// not within `limit`.
std::vector<std::optional<control::Message>> visit(std::span<const Endpoint> endpoints,
                                                   const control::Hello& hello,
                                                   const control::Message& question,
                                                   std::chrono::milliseconds limit);

}  // namespace tessera
