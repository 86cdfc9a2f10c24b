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

/// How many times as long whole kernels take where they are sanitized, device threads most of all.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSlowdown = 30;
#else
constexpr int kSlowdown = 1;
#endif
/// A limit of time for calls that all ranks come to, with kernels between two of them.
constexpr std::chrono::seconds kCallTimeout = kSlowdown * std::chrono::seconds(60);

}  // namespace tessera::testing
