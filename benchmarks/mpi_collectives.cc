// benchmarks/mpi_collectives.cc: collectives of 4 processes, beside the raw MPI calls and beside 4
// rank threads of one process, interleaved in one run. Start it with `mpirun -n 4`. Times are of
// one call, the median over rounds; ratios are medians of a round's ratios.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "runtime/mpi_world.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 9;

/// Arrays of one collective and the calls of each contender on them.
struct Case {
  const char* name;
  Shape in, out;
  std::function<void(Communicator&, const Array&, const Array&)> ours;
  std::function<void(const float*, float*)> raw;
};

std::vector<Case> cases_of(std::int64_t bytes, int ranks) {
  const std::int64_t n = bytes / 4, part = n / ranks;
  const int count = static_cast<int>(n), share = static_cast<int>(part);
  const std::vector<std::int64_t> splits(static_cast<std::size_t>(ranks), part);
  return {
      {"all_reduce",
       {n},
       {n},
       [](Communicator& group, const Array& in, const Array& out) {
         group.all_reduce(in, out, ReduceOp::kSum);
       },
       [=](const float* in, float* out) {
         MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_gather",
       {part},
       {n},
       [](Communicator& group, const Array& in, const Array& out) { group.all_gather(in, out); },
       [=](const float* in, float* out) {
         MPI_Allgather(in, share, MPI_FLOAT, out, share, MPI_FLOAT, MPI_COMM_WORLD);
       }},
      {"reduce_scatter",
       {n},
       {part},
       [](Communicator& group, const Array& in, const Array& out) {
         group.reduce_scatter(in, out, ReduceOp::kSum);
       },
       [=](const float* in, float* out) {
         MPI_Reduce_scatter_block(in, out, share, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_to_all",
       {n},
       {n},
       [splits](Communicator& group, const Array& in, const Array& out) {
         group.all_to_all(in, out, splits, splits);
       },
       [=](const float* in, float* out) {
         MPI_Alltoall(in, share, MPI_FLOAT, out, share, MPI_FLOAT, MPI_COMM_WORLD);
       }},
      {"broadcast",
       {n},
       {n},
       [](Communicator& group, const Array& in, const Array&) { group.broadcast(in, 0); },
       [=](const float* in, float*) {
         MPI_Bcast(const_cast<float*>(in), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
       }},
  };
}

// Processes that have nothing to do sleep, so that they take no core from the others.
void sleep_until_all_are_here() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int here = 0; here == 0;) {
    MPI_Test(&request, &here, MPI_STATUS_IGNORE);
    if (here == 0) usleep(1000);
  }
}

std::vector<std::int64_t> ranks_of(World& world) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

double microseconds_a_call(std::int64_t repeats, const std::function<void()>& barrier,
                           const std::function<void()>& call) {
  call();
  barrier();
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < repeats; ++i) call();
  barrier();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
         static_cast<double>(repeats);
}

double time_threads(const Case& each, int ranks, std::int64_t repeats) {
  std::vector<double> times(static_cast<std::size_t>(ranks));
  throw_if_error(run_ranks(ranks, {.threads_per_rank = 1}, [&](World& world) {
    Communicator& group = *value_or_throw(world.group(ranks_of(world)));
    world.events().summarize_only();
    const Array in = Array::zeros(each.in, DType::kF32, world.allocator());
    const Array out = Array::zeros(each.out, DType::kF32, world.allocator());
    times[static_cast<std::size_t>(world.rank())] = microseconds_a_call(
        repeats, [&] { group.barrier(); }, [&] { each.ours(group, in, out); });
  }));
  return *std::max_element(times.begin(), times.end());
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  std::vector<double> raw, mpi, threads, mpi_ratio, threads_ratio;
};

void measure(World& world, const Case& each, std::int64_t repeats, Times& times) {
  Communicator& group = *value_or_throw(world.group(ranks_of(world)));
  const int ranks = static_cast<int>(world.size());
  const Array in = Array::zeros(each.in, DType::kF32, world.allocator());
  const Array out = Array::zeros(each.out, DType::kF32, world.allocator());
  for (int round = 0; round < kRounds; ++round) {
    const double raw = microseconds_a_call(
        repeats, [] { MPI_Barrier(MPI_COMM_WORLD); },
        [&] {
          each.raw(reinterpret_cast<const float*>(in.bytes()),
                   reinterpret_cast<float*>(out.bytes()));
        });
    const double ours = microseconds_a_call(
        repeats, [&] { group.barrier(); }, [&] { each.ours(group, in, out); });
    const double threads = world.rank() == 0 ? time_threads(each, ranks, repeats) : 0.0;
    sleep_until_all_are_here();
    times.raw.push_back(raw);
    times.mpi.push_back(ours);
    times.threads.push_back(threads);
    times.mpi_ratio.push_back(ours / raw);
    times.threads_ratio.push_back(raw / threads);
  }
}

void run(World& world, const std::vector<std::int64_t>& sizes) {
  world.events().summarize_only();
  const bool speaks = world.rank() == 0;
  if (speaks) {
    std::printf("%-15s %9s %11s %11s %9s %11s %14s\n", "collective", "bytes", "raw MPI us",
                "our MPI us", "ours/raw", "threads us", "raw/threads");
  }
  for (const std::int64_t bytes : sizes) {
    const std::int64_t repeats = std::clamp<std::int64_t>((std::int64_t{1} << 27) / bytes, 3, 2000);
    for (const Case& each : cases_of(bytes, static_cast<int>(world.size()))) {
      Times times;
      measure(world, each, repeats, times);
      if (!speaks) continue;
      std::printf("%-15s %9lld %11.1f %11.1f %9.2f %11.1f %14.2f\n", each.name,
                  static_cast<long long>(bytes), median_of(times.raw), median_of(times.mpi),
                  median_of(times.mpi_ratio), median_of(times.threads),
                  median_of(times.threads_ratio));
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes = {1LL << 10, 64LL << 10, 1LL << 20, 64LL << 20};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) sizes.push_back(std::max(16LL, std::atoll(argv[i])));
  const auto session = value_or_throw(MpiSession::start());
  const Status status =
      run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) { run(world, sizes); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_mpi_collectives: %s\n", std::string(message_of(status)).c_str());
  session->abort(1);
}
