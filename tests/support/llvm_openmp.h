// tests/support/llvm_openmp.h: which OpenMP runtime these programs link.
#pragma once

namespace tessera::testing {

/// Whether it is LLVM's, as in Clang's. It aborts in a forked process that exits, and over some
/// values of its variables before a program begins.
#ifdef __clang__
inline constexpr bool kHasLlvmOpenMp = true;
#else
inline constexpr bool kHasLlvmOpenMp = false;
#endif

}  // namespace tessera::testing
