// A transport of one's own: ranks are processes of one host, and what they tell each other goes
// over Unix sockets. Tessera does the rest: checks, events, timeouts, failures.
#pragma once

#include <functional>

#include "runtime/world.h"
#include "sockets.h"

/// Runs `body` as this process's rank. Returns the first error of any rank ("rank 3: …"), or OK.
tessera::Status run_socket_rank(Sockets& sockets, const tessera::WorldOptions& options,
                                const std::function<void(tessera::World&)>& body);
