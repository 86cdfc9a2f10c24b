// tests/support/skip.h: cases that cannot run on this machine are counted, not passed over.
#pragma once

#include <string>

namespace tessera::testing {

/// The current case does not run here. The program says so at its end, in a line "skipped: CASE:
/// why", and ./test counts it. Main thread only.
void skip(const std::string& why);

/// Whether these programs link LLVM's OpenMP runtime, as Clang's do. It aborts in a forked process
/// that exits, and over some values of its variables before a program begins.
#ifdef __clang__
inline constexpr bool kHasLlvmOpenMp = true;
#else
inline constexpr bool kHasLlvmOpenMp = false;
#endif

}  // namespace tessera::testing
