// program/unfold.h: a program without repeats, every round's steps and values written out.
#pragma once

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

inline constexpr std::int64_t kMaxUnfoldedSteps = 1'000'000;

/// The numbers of the rounds around a name, the outermost first, take the places of
/// its "*"s; those left over follow it after "#". A value declared with a count has the number of
/// the innermost repeat of that count; in modules what is left over is left out. Requires a program
/// as read_program() gives it. Errors: OutOfRange for more than `max_steps` steps and rounds;
/// InvalidArgument for a value with a count that is used outside of a repeat of that count or
/// carried into, and where two values would have one name. Cost: O(steps).
StatusOr<Program> unfold(const Program& program, std::int64_t max_steps = kMaxUnfoldedSteps);

/// What was read, written out where its steps name what other rounds made (docs/program.md): for
/// those that know a value by one name, and a module by its path. Errors: its own, and unfold()'s.
StatusOr<Program> plain_rounds(StatusOr<Program> read);

}  // namespace tessera
