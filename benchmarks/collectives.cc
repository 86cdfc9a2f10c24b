// benchmarks/collectives.cc: collectives of 4 rank threads, beside a plain threaded memcpy of the
// same bytes. Times are of one call, as the slowest rank sees it; `bytes_per_second` counts what
// each rank reads in all.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/recorder/recorder.h"
#include "runtime/world.h"

namespace {

using namespace tessera;

constexpr int kRanks = 4;
using Clock = std::chrono::steady_clock;

struct Buffers {
  Array in;
  Array out;
};
using Call = std::function<void(Communicator&, const Buffers&)>;

// Runs `repeats` calls on every rank between two barriers. Units: seconds a call.
double seconds_a_call(const Shape& in, const Shape& out, std::int64_t repeats, const Call& call) {
  std::vector<double> seconds(kRanks);
  const Status status = run_ranks(kRanks, {}, [&](World& world) {
    const std::vector<std::int64_t> ranks = {0, 1, 2, 3};
    Communicator& group = *value_or_throw(world.group(ranks));
    world.events().summarize_only();
    const Buffers buffers{Array::zeros(in, DType::kF32, world.allocator()),
                          Array::zeros(out, DType::kF32, world.allocator())};
    call(group, buffers);
    group.barrier();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < repeats; ++i) call(group, buffers);
    group.barrier();
    seconds[static_cast<std::size_t>(world.rank())] =
        std::chrono::duration<double>(Clock::now() - start).count();
  });
  throw_if_error(status);
  return *std::max_element(seconds.begin(), seconds.end()) / static_cast<double>(repeats);
}

std::int64_t repeats_for(std::int64_t bytes) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 29) / std::max<std::int64_t>(bytes, 1), 8,
                                  20'000);
}

void report(benchmark::State& state, const Shape& in, const Shape& out, const Call& call) {
  const std::int64_t bytes = state.range(0);
  for (auto _ : state) state.SetIterationTime(seconds_a_call(in, out, repeats_for(bytes), call));
  state.SetBytesProcessed(state.iterations() * bytes);
}

// range(0): bytes of the whole tensor, as in other libraries' tables.
std::int64_t elements(const benchmark::State& state) { return state.range(0) / 4; }

void barrier(benchmark::State& state) {
  report(state, {0}, {0}, [](Communicator& group, const Buffers&) { group.barrier(); });
}
void all_reduce(benchmark::State& state) {
  const std::int64_t n = elements(state);
  report(state, {n}, {n}, [](Communicator& group, const Buffers& at) {
    group.all_reduce(at.in, at.out, ReduceOp::kSum);
  });
}
void all_gather(benchmark::State& state) {
  const std::int64_t n = elements(state);
  report(state, {n / kRanks}, {n},
         [](Communicator& group, const Buffers& at) { group.all_gather(at.in, at.out); });
}
void reduce_scatter(benchmark::State& state) {
  const std::int64_t n = elements(state);
  report(state, {n}, {n / kRanks}, [](Communicator& group, const Buffers& at) {
    group.reduce_scatter(at.in, at.out, ReduceOp::kSum);
  });
}
void all_to_all(benchmark::State& state) {
  const std::int64_t n = elements(state);
  const std::vector<std::int64_t> splits(kRanks, n / kRanks);
  report(state, {n}, {n}, [&](Communicator& group, const Buffers& at) {
    group.all_to_all(at.in, at.out, splits, splits);
  });
}

/// The yardstick: 4 threads that each copy as many bytes from one array of theirs to another.
void plain_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::int64_t repeats = repeats_for(state.range(0));
  for (auto _ : state) {
    std::vector<double> seconds(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kRanks; ++t) {
      threads.emplace_back([&, t] {
        std::vector<std::byte> from(bytes), to(bytes);
        const auto start = Clock::now();
        for (std::int64_t i = 0; i < repeats; ++i) {
          std::memcpy(to.data(), from.data(), bytes);
          benchmark::DoNotOptimize(to.data());
          benchmark::ClobberMemory();
        }
        seconds[t] = std::chrono::duration<double>(Clock::now() - start).count();
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.SetIterationTime(*std::max_element(seconds.begin(), seconds.end()) /
                           static_cast<double>(repeats));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

/// What comparing calls costs a rank that compares for all 4: its own signature, and the judgement.
void signatures(benchmark::State& state) {
  const Array array = Array::zeros({1 << 18}, DType::kF32);
  const CallInfo info{.tensor = "layers.0.attention.wq.weight", .axes = "fsdp"};
  CollectiveCall first{.of = AllReduceCall{.in = array, .out = array}};
  std::vector<Signature> peers(kRanks, make_signature(first, info, 0));
  std::vector<const Signature*> calls;
  for (const Signature& peer : peers) calls.push_back(&peer);
  const std::vector<std::int64_t> ranks = {0, 1, 2, 3};
  for (auto _ : state) {
    CollectiveCall call{.of = AllReduceCall{.in = array, .out = array}};
    peers[0] = make_signature(call, info, 0);
    benchmark::DoNotOptimize(compare_calls(calls, ranks));
  }
}

/// What the flight record takes of a call: its start and its end.
void flight_record(benchmark::State& state) {
  const auto recorder = value_or_throw(FlightRecorder::open({}));
  const std::uint32_t group = recorder->add_group(std::vector<std::int64_t>{0});
  const CallInfo info{.tensor = "layers.0.attention.wq.weight", .axes = "fsdp"};
  const Array array = Array::zeros({1 << 18}, DType::kF32);
  CollectiveCall call{.of = AllReduceCall{.in = array, .out = array}};
  const Signature signature = make_signature(call, info, 0);
  for (auto _ : state) recorder->finished(recorder->started(signature, group));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(1 << 10)->Arg(1 << 20)->Arg(1 << 26)->UseManualTime()->Iterations(3)->Unit(
      benchmark::kMicrosecond);
}
BENCHMARK(barrier)->Arg(0)->UseManualTime()->Iterations(3)->Unit(benchmark::kMicrosecond);
BENCHMARK(signatures);
BENCHMARK(flight_record);
BENCHMARK(plain_memcpy)->Apply(sizes);
BENCHMARK(all_gather)->Apply(sizes);
BENCHMARK(all_to_all)->Apply(sizes);
BENCHMARK(reduce_scatter)->Apply(sizes);
BENCHMARK(all_reduce)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
