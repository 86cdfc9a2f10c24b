// emulation/block.h: the threads of one block at a time, each a fiber, all on the thread of the
// stream that launched them. They are switched where CUDA lets one wait for others: at barriers of
// the block and of a warp, and where lanes exchange values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "emulation/vector_types.h"

namespace tessera::emulation {

constexpr unsigned kWarpSize = 32;
constexpr unsigned kMaxBlockThreads = 1024;
constexpr std::size_t kMaxSharedBytes = std::size_t{227} << 10;  // of one block, as on sm_90
/// What fresh memory holds, byte by byte: a NaN of every floating type, -1 of every integer.
constexpr int kPoison = 0xff;

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
};

/// Where the device thread that runs stands.
struct Position {
  uint3 thread{};
  uint3 block{};
  dim3 block_dim;
  dim3 grid_dim;
};
/// Of the device thread that runs on this thread. Set by BlockRunner.
const Position& position() noexcept;

/// Runs grids. One a stream: a BlockRunner is used by one thread.
class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  /// Runs body(argument) once for each device thread, block after block in the order of their
  /// numbers. Returns null, or what went wrong in the first block where something did; the text
  /// lives until the next run. A faulty block is given up where it stands, and no later one runs.
  /// Requires: a shape that the limits above allow.
  const char* run(const LaunchShape& shape, void (*body)(void*), void* argument);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// What device code calls (device_functions.h gives it CUDA's names). All of it belongs to the
// device thread that runs; outside of one, the process ends with a message.

/// How many live threads of the block came with `value`: all of them wait until all have come.
int block_barrier(bool value);
/// The lanes of `mask` that have not ended wait until all of them have come.
void warp_barrier(std::uint32_t mask);
/// The bits that lane `source` of this warp brings to the same exchange.
std::uint64_t warp_exchange(std::uint32_t mask, std::uint64_t bits, unsigned source);
/// A bit for each lane of `mask` that brings true.
std::uint32_t warp_ballot(std::uint32_t mask, bool value);
/// Bit i: lane i of this warp has not ended.
std::uint32_t live_lanes();
/// The block's own memory of LaunchShape::shared_bytes, aligned to 16, fresh in each block.
void* dynamic_shared();
/// The block's own memory for the variable that `variable` names, fresh in each block.
void* static_shared(const void* variable, std::size_t bytes);
/// What this thread wrote before is seen by threads that read its next atomics and fence
/// themselves.
void memory_fence();
/// Told of atomics, before and after each, for memory_fence().
void before_atomic(const void* at);
void after_atomic(const void* at);
/// Ends the grid with an error that says `what`.
[[noreturn]] void device_fault(const char* what);

}  // namespace tessera::emulation
