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

/// And for calls that all ranks come to, with whole kernels between two of them: what is sanitized
/// takes a hundred times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::chrono::seconds kComes{1'800};
#else
constexpr std::chrono::seconds kComes{60};
#endif

}  // namespace tessera::testing
