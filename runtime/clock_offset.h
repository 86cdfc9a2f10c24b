// runtime/clock_offset.h: where another machine's clock stands, from a few questions and answers.
#pragma once

#include <span>

namespace tessera {

/// One question to the other side. Units: any one of time.
struct ClockSample {
  double asked = 0;     ///< by the own clock
  double answer = 0;    ///< the other clock's time, read between the two
  double answered = 0;  ///< by the own clock
};

/// Where the other clock stood at zero.
struct ClockZero {
  double at = 0;          ///< by the own clock
  double most_error = 0;  ///< which `at` is off by at most
};
/// From the sample with the shortest round trip, to half of that trip. Requires one sample.
constexpr ClockZero zero_of_other_clock(std::span<const ClockSample> samples) noexcept {
  ClockSample best = samples[0];
  for (const ClockSample& sample : samples) {
    if (sample.answered - sample.asked < best.answered - best.asked) best = sample;
  }
  return {.at = (best.asked + best.answered) / 2 - best.answer,
          .most_error = (best.answered - best.asked) / 2};
}

}  // namespace tessera
