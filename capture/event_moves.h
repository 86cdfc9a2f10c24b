// capture/event_moves.h: the collectives of a rank's event log as the moves of a program's step.
// Internal to capture/ and execute/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/runtime.h"
#include "program/program.h"
#include "runtime/call/event.h"

namespace tessera {

/// An event's collective as programs call it: the exact sizes of "all_to_all_v" and in whose memory
/// rows go to are no part of the name.
std::string collective_of(const std::string& event);

/// Of collectives that ran on `meshes`, of which the first that has an event's axes is its own:
/// each rank of it is taken to receive what this one does.
std::vector<ProgramMove> moves_of_events(std::span<const Event> events,
                                         std::span<const Mesh* const> meshes);

/// The same for one redistribution, with the plan's bytes where events and plan have the same
/// collectives.
std::vector<ProgramMove> moves_of_redistribution(Runtime& runtime, std::span<const Event> events,
                                                 const Spec* from, const Spec* to);

}  // namespace tessera
