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

/// The own clock's time at which the other clock stood at zero, from the sample with the shortest
/// round trip. It is off by at most half of that trip. Requires one sample.
constexpr double zero_of_other_clock(std::span<const ClockSample> samples) noexcept {
  ClockSample best = samples[0];
  for (const ClockSample& sample : samples) {
    if (sample.answered - sample.asked < best.answered - best.asked) best = sample;
  }
  return (best.asked + best.answered) / 2 - best.answer;
}

}  // namespace tessera
