// What kernels do on the emulated device, against what CUDA says of them. On a machine with a card
// these cases hold there as well.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/emulation/device_memory.h"
#include "tests/emulation/samples.h"

namespace tessera::testing {
namespace {

std::vector<int> counted(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

TEST_CASE("each thread of a grid computes its element", "[emulation][kernels]") {
  const TestStream stream;
  const int n = GENERATE(1, 127, 128, 1000);
  const DeviceArray<float> in(std::vector<float>(static_cast<std::size_t>(n), 2.5f)), out(n);
  REQUIRE(scale(in.get(), out.get(), n, 2.0f, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(out.values() == std::vector<float>(static_cast<std::size_t>(n), 6.0f));
}

TEST_CASE("threads of a block meet at barriers and share memory", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> in(counted(384)), out(384);
  const bool is_dynamic = GENERATE(false, true);
  REQUIRE((is_dynamic ? reverse_blocks_dynamic : reverse_blocks)(in.get(), out.get(), 384,
                                                                 stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int i = 0; i < 384; ++i) expected.push_back(i / 128 * 128 + 127 - i % 128);
  CHECK(out.values() == expected);
}

TEST_CASE("a sum of all blocks, by the block that comes last", "[emulation][kernels]") {
  const TestStream stream;
  const int n = GENERATE(1, 255, 256, 5000);
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(i % 7));
  const DeviceArray<float> in(values), scratch(32), out(1);
  const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
  for (int again = 0; again < 2; ++again) {
    REQUIRE(sum(in.get(), n, scratch.get(), counter.get(), out.get(), stream) == cudaSuccess);
  }
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(out.values()[0] == std::accumulate(values.begin(), values.end(), 0.0f));
  CHECK(counter.values()[0] == 0);
}

TEST_CASE("atomics count what many threads add", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(i * i % 10);
  const DeviceArray<int> in(keys), counts(std::vector<int>(10, 0));
  REQUIRE(histogram(in.get(), 1000, counts.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(counts.values() == std::vector<int>{100, 200, 0, 0, 200, 100, 200, 0, 0, 200});
}

TEST_CASE("atomics of every kind", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> values;
  for (int i = 0; i < 200; ++i) values.push_back(i * 37 % 101 - 50);
  for (int& value : values) value = std::abs(value) + 3;
  const DeviceArray<int> in(values), greatest(std::vector<int>{-7}), least(std::vector<int>{1000});
  const DeviceArray<unsigned> bits(std::vector<unsigned>{0}), round(std::vector<unsigned>{0});
  const DeviceArray<unsigned long long> total(std::vector<unsigned long long>{5});
  REQUIRE(atomics(in.get(), 200, greatest.get(), least.get(), bits.get(), round.get(), total.get(),
                  stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  unsigned all_bits = 0;
  for (const int value : values) all_bits |= 1u << (value & 31);
  CHECK(greatest.values()[0] == *std::max_element(values.begin(), values.end()));
  CHECK(least.values()[0] == *std::min_element(values.begin(), values.end()));
  CHECK(bits.values()[0] == all_bits);
  CHECK(round.values()[0] == 0);  // 200 steps round 10 numbers
  CHECK(total.values()[0] ==
        5u + static_cast<unsigned>(std::accumulate(values.begin(), values.end(), 0)));
}

TEST_CASE("lanes of a warp exchange values", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<double> values;
  for (int i = 0; i < 32; ++i) values.push_back(i + 0.25);
  const DeviceArray<double> in(values), out(128);
  REQUIRE(exchanges(in.get(), out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  const std::vector<double> got = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    CAPTURE(lane);
    CHECK(got[static_cast<std::size_t>(lane)] == (lane ^ 5) + 0.25);
    CHECK(got[static_cast<std::size_t>(32 + lane)] == (lane + 3 < 32 ? lane + 3 : lane) + 0.25);
    CHECK(got[static_cast<std::size_t>(64 + lane)] == (lane < 3 ? lane : lane - 3) + 0.25);
    CHECK(got[static_cast<std::size_t>(96 + lane)] == 7.25);
  }
}

TEST_CASE("exchanges stay within segments of a warp", "[emulation][kernels]") {
  const TestStream stream;
  const int width = GENERATE(1, 4, 8, 32);
  const DeviceArray<int> in(std::vector<int>(32, 1)), out(32);
  REQUIRE(scan_segments(in.get(), out.get(), width, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane) expected.push_back(lane % width + 1);
  CHECK(out.values() == expected);
}

TEST_CASE("lanes that part meet among themselves", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> in(counted(32)), out(32);
  REQUIRE(sum_by_parity(in.get(), out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane) expected.push_back(lane % 2 == 0 ? 240 : 256);
  CHECK(out.values() == expected);
}

TEST_CASE("warps and blocks vote", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> values(192, 1);
  for (int i = 0; i < 64; ++i) values[static_cast<std::size_t>(i)] = i % 3 - 1;
  for (int i = 64; i < 128; ++i) values[static_cast<std::size_t>(i)] = 0;
  const DeviceArray<int> in(values), counts(3);
  const DeviceArray<unsigned> ballots(6);
  REQUIRE(votes(in.get(), 192, ballots.get(), counts.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(counts.values() == std::vector<int>{21, 0, 64});
  CHECK(ballots.values() == std::vector<unsigned>{0x24924924u, 0x49249249u, 0, 0, ~0u, ~0u});
}

TEST_CASE("a barrier does not wait for threads that ended", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> out(40);
  REQUIRE(early_ends(out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected = counted(40);
  std::reverse(expected.begin(), expected.end());
  CHECK(out.values() == expected);
}

TEST_CASE("blocks and threads have three coordinates", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<unsigned> out(192);
  REQUIRE(positions(out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<unsigned> expected;
  for (unsigned block = 0; block < 12; ++block) {
    for (unsigned thread = 0; thread < 16; ++thread) {
      const unsigned of_block = (block % 2 * 10 + block / 2 % 3) * 10 + block / 6;
      expected.push_back(of_block * 1000 + (thread % 4 * 10 + thread / 4 % 2) * 10 + thread / 8);
    }
  }
  CHECK(out.values() == expected);
}

}  // namespace tessera::testing
