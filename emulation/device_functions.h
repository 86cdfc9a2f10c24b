// emulation/device_functions.h: what CUDA offers device code, by CUDA's names, on the emulation's
// blocks. What is not here does not compile: __shared__ above all, for which kernels/cuda/launch.h
// has a word that gives each block memory of its own.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "emulation/block.h"

#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

// Names that CUDA has for variables.
#define threadIdx (::tessera::emulation::position().thread)
#define blockIdx (::tessera::emulation::position().block)
#define blockDim (::tessera::emulation::position().block_dim)
#define gridDim (::tessera::emulation::position().grid_dim)

namespace tessera::emulation {

constexpr int warpSize = kWarpSize;

inline void __syncthreads() { block_barrier(false); }
inline int __syncthreads_count(int predicate) { return block_barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return block_barrier(predicate != 0) > 0; }
inline int __syncthreads_and(int predicate) { return block_barrier(predicate == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { warp_barrier(mask); }

inline unsigned lane_of_thread() {
  const Position& at = position();
  return (at.thread.x + at.block_dim.x * (at.thread.y + at.block_dim.y * at.thread.z)) % kWarpSize;
}
template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T value_of(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T exchange(unsigned mask, T value, unsigned source) {
  return value_of<T>(warp_exchange(mask, bits_of(value), source));
}

// Lanes are numbered within segments of `width`, a power of two; where a lane would read beyond its
// segment, it reads itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned self = lane_of_thread(), segment = static_cast<unsigned>(width);
  return exchange(mask, value,
                  (self & ~(segment - 1)) | (static_cast<unsigned>(lane) & (segment - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned self = lane_of_thread(), segment = static_cast<unsigned>(width);
  const unsigned source = self ^ static_cast<unsigned>(lane_mask);
  return exchange(mask, value, source / segment > self / segment ? self : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = lane_of_thread(), segment = static_cast<unsigned>(width);
  const unsigned source = self + delta;
  return exchange(mask, value, source / segment != self / segment ? self : source);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = lane_of_thread(), segment = static_cast<unsigned>(width);
  return exchange(mask, value, self % segment < delta ? self : self - delta);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return warp_ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return warp_ballot(mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return warp_ballot(mask, predicate == 0) == 0;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  unsigned sum = 0;
  const unsigned lanes = mask & live_lanes();
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) != 0) sum += exchange(mask, value, lane);
  }
  return sum;
}

// Atomics order nothing by themselves: a fence before one publishes, a fence after one receives.
inline void __threadfence() { memory_fence(); }
inline void __threadfence_block() { memory_fence(); }
inline void __threadfence_system() { memory_fence(); }

/// The word at `at` becomes change(word), at once; returns what it was.
template <class T, class Change>
T change_atomically(T* at, Change&& change) {
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  static_assert(sizeof(T) == sizeof(Word), "CUDA's atomics here are of 4 and 8 bytes");
  auto* word = reinterpret_cast<Word*>(at);
  before_atomic(at);
  Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &seen,
                                      std::bit_cast<Word>(change(std::bit_cast<T>(seen))), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  after_atomic(at);
  return std::bit_cast<T>(seen);
}
// The second operand is of the first's type, as CUDA's overloads have it.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return static_cast<T>(seen + value); });
}
template <class T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return static_cast<T>(seen - value); });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return seen < value ? value : seen; });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return value < seen ? value : seen; });
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return static_cast<T>(seen | value); });
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T seen) { return static_cast<T>(seen & value); });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return change_atomically(at, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T seen) { return seen == expected ? value : seen; });
}
/// Counts up to `last`, then begins at 0 again.
inline unsigned atomicInc(unsigned* at, unsigned last) {
  return change_atomically(at, [last](unsigned seen) { return seen >= last ? 0u : seen + 1; });
}

template <class T>
T __ldg(const T* at) {
  return *at;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __clzll(long long bits) {
  return std::countl_zero(static_cast<unsigned long long>(bits));
}
/// The lowest set bit, counted from 1; 0 where there is none.
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
// Rounded one by one: no compiler may contract them.
inline float __fmul_rn(float a, float b) {
  volatile float product = a * b;
  return product;
}
inline float __fadd_rn(float a, float b) {
  volatile float sum = a + b;
  return sum;
}
inline double __dmul_rn(double a, double b) {
  volatile double product = a * b;
  return product;
}
inline double __dadd_rn(double a, double b) {
  volatile double sum = a + b;
  return sum;
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
[[noreturn]] inline void __trap() { device_fault("__trap()"); }

}  // namespace tessera::emulation
