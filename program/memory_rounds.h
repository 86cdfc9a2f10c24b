// program/memory_rounds.h: a program's steps one after another, as far as they have to be followed:
// of many rounds a few at the begin and at the end, between which each adds the same. Internal to
// program/.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "program/memory_script.h"

namespace tessera {

inline constexpr std::int64_t kMaxFollowedSteps = 5'000'000;
inline constexpr std::int64_t kMostCarriedRounds = 64;

/// Memory from the step that makes it to the one after which it ends. Positions count steps as
/// followed; −1: before the first.
struct Lifetime {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  int value = 0;
  std::int64_t begin = 0, end = kNever;
};

/// What happens before the step at a position.
struct RoundMark {
  enum class Kind : std::uint8_t {
    kBegin,      ///< round `number` begins
    kBeginLike,  ///< the same, and the rounds that are left out are like it
    kLeftOut,    ///< it has ended, and `number` rounds more
    kEnd         ///< so has the repeat
  };
  Kind kind = Kind::kBegin;
  std::int64_t position = 0;
  int repeat = 0;
  std::int64_t number = 0;
};

struct FollowedSteps {
  std::vector<int> written;         ///< by position: index in Script::written
  std::vector<Lifetime> lifetimes;  ///< by begin; of a value with a count those of followed rounds
  std::vector<RoundMark> marks;     ///< by position
};

/// Errors: OutOfRange for more than kMaxFollowedSteps, and for values that are carried through more
/// than kMostCarriedRounds names; InvalidArgument for values with a count outside of a repeat of
/// that count, or carried into.
StatusOr<FollowedSteps> follow(const Script& script);

}  // namespace tessera
