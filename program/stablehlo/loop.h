// program/stablehlo/loop.h: which loops of StableHLO have a known number of rounds: those that jax
// makes of scan and fori_loop, where a counter goes up by one number to another. Internal to
// program/stablehlo/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/stablehlo/builder.h"

namespace tessera::stablehlo {

struct Loop {
  std::vector<std::string> names;  ///< of the values that go round: "%iterArg"
  std::size_t condition = 0, body = 0;
};

/// The parts of stablehlo.while in its pretty form; none: in another.
std::optional<Loop> parts_of_loop(const Statement& statement);

struct Rounds {
  std::int64_t count = 1;
  std::vector<bool> passed;  ///< values that the body returns as they came
};
/// From the values before the first round; none: the number of rounds is not known. Errors: those
/// of next_statement().
StatusOr<std::optional<Rounds>> rounds_of(const Builder& builder, const Loop& loop,
                                          const std::vector<BoundId>& before);

/// Appends the step that makes `to`, a value of its own equal to `from`. Errors: InvalidArgument
/// for values of different types.
Status copy_value(Builder& builder, BoundId from, BoundId to, StepOrigin origin,
                  std::size_t offset);
/// What a round ends with as the next one begins: made in the body, and placed alike. Errors: as
/// above.
StatusOr<BoundId> ready_for_next(Builder& builder, BoundId begin, BoundId end,
                                 const StepOrigin& origin, std::size_t offset);

}  // namespace tessera::stablehlo
