// tests/support/patience.h: how long a test waits for what takes milliseconds on an idle machine.
// What would go wrong instead takes a timeout of a minute or has no end, so that the two are told
// apart on a machine that is busy with other work, too. Figures stand in docs/, by benchmarks.
#pragma once

#include <chrono>

namespace tessera::testing {

constexpr std::chrono::seconds kSoon{15};
constexpr double kSoonSeconds = 15.0;
constexpr double kSoonMs = 15'000.0;
/// A limit of time for calls that a rank never comes to, which those that it does come to keep on a
/// machine that starves it.
constexpr std::chrono::milliseconds kMissed{2'000};

}  // namespace tessera::testing
