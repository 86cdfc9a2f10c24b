// kernels/parallel_tasks.h: independent pieces of work of unequal size, shared among a rank's
// library threads. Which thread runs a piece never changes what it computes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {

/// Calls body(i) for every i in [0, count), in any order, on at most `threads` threads; inside such
/// a loop in the caller. The first exception of a body is thrown after the loop.
void parallel_tasks(int threads, std::int64_t count, absl::FunctionRef<void(std::int64_t i)> body);

/// The same for pieces that need memory: begin() is called once by each thread that has any work,
/// and what it returns for that thread's pieces.
using Worker = absl::AnyInvocable<void(std::int64_t i)>;
void parallel_workers(int threads, std::int64_t count, absl::FunctionRef<Worker()> begin);

/// Threads worth waking for a product with these extents (multiply-adds: their product).
inline int product_threads(int threads, std::initializer_list<std::int64_t> extents) noexcept {
  constexpr double kAddsPerElement = 16;  // what one element of a map costs
  double adds = 1;
  for (const std::int64_t extent : extents) adds *= static_cast<double>(extent);
  constexpr double kMost = 1e15;
  return usable_threads(threads,
                        static_cast<std::int64_t>(std::min(adds, kMost) / kAddsPerElement));
}

}  // namespace tessera::kernels
