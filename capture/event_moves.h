// capture/event_moves.h: the collectives of a rank's event log as the moves of a program's step.
// Internal to capture/.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dtensor/runtime.h"
#include "program/program.h"
#include "runtime/call/event.h"

namespace tessera {

/// Of collectives that ran on `meshes`, of which the first that has an event's axes is its own:
/// each rank of it is taken to receive what this one does.
std::vector<ProgramMove> moves_of_events(std::span<const Event> events,
                                         std::span<const Mesh* const> meshes);

/// The same for one redistribution, with the plan's bytes where events and plan have the same
/// collectives.
std::vector<ProgramMove> moves_of_redistribution(Runtime& runtime, std::span<const Event> events,
                                                 const Spec* from, const Spec* to);

}  // namespace tessera
