// tests/moe/trace_difference.h: a traced step's transfers against those of a simulated one.
#pragma once

#include <span>
#include <string>

#include "program/program.h"
#include "runtime/call/event.h"

namespace tessera::testing {

/// Where a traced step's transfers first differ from the simulated ones: by kind, order, or bytes.
/// This rank receives at most what the rank with most does, and just that where all receive alike.
/// Empty where they are the same.
std::string trace_difference(const Program& program, std::span<const Event> events);

}  // namespace tessera::testing
