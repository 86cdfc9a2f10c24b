// benchmarks/redistribute.cc: redistributions among 4 rank threads on 2 cores, beside the floor of
// two plain threads in the same rounds, and beside what other libraries took elsewhere. Times are
// medians over rounds, of the slowest rank; ratios are medians of a round's ratios. `work` is the
// ratio of processor times: on a busy machine 4 threads get more of it than 2.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "benchmarks/redistribute_floor.h"
#include "runtime/world.h"

namespace {

using namespace tessera;
using namespace tessera::bench;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;

/// A transition, and what others took for it on 8192x4096 floats, ms: see docs/performance.md.
struct Move {
  const char* name;
  Shape mesh;
  std::vector<const char*> from, to;
  double most;  ///< ratio to the floor that is to be kept
  const char* elsewhere;
};

const std::vector<Move>& moves() {
  static const std::vector<Move> kMoves = {
      {"S0 -> S1", {4}, {"S(0)"}, {"S(1)"}, 1.2, "5.5   15.7    48.6   39   367"},
      {"2x2 (S0,S1) -> (S1,S0)",
       {2, 2},
       {"S(0)", "S(1)"},
       {"S(1)", "S(0)"},
       1.2,
       "7.1   15.1    91.7   14   357"},
      {"SS -> S (2x2)",
       {2, 2},
       {"SS(0,2)", "S(0)"},
       {"S(0)", "S(0)"},
       1.2,
       "  -      -       -   14   407"},
      {"S0 -> R", {4}, {"S(0)"}, {"R"}, 1.2, " 35      -       -  115   325"},
      {"P -> S0", {4}, {"P(sum)"}, {"S(0)"}, 1.35, "183      -       -   90   208"},
      {"P -> R", {4}, {"P(sum)"}, {"R"}, 1.35, "154      -       -  136   210"},
  };
  return kMoves;
}

Spec spec_of(const Mesh& mesh, const Shape& shape, const std::vector<const char*>& texts) {
  Placements placements;
  for (const char* text : texts) placements.push_back(value_or_throw(parse_placement(text)));
  return value_or_throw(Spec::make(mesh, shape, DType::kF32, placements));
}

struct Pair {
  Spec src, dst;
  Plan plan;
};
Pair pair_of(const Move& move, const Shape& shape) {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(move.mesh)));
  Pair pair{spec_of(mesh, shape, move.from), spec_of(mesh, shape, move.to), {}};
  pair.plan = value_or_throw(plan(pair.src, pair.dst));
  return pair;
}

Array part_of(const Spec& spec, std::int64_t rank, const std::shared_ptr<Allocator>& allocator) {
  const Array part =
      Array::empty(spec.local_shape(*spec.mesh().coord_of(rank)), DType::kF32, allocator);
  float* data = part.data<float>();
  for (std::int64_t i = 0; i < part.num_elements(); ++i) {
    data[i] = static_cast<float>((i * 7 + rank * 3) % 1024);
  }
  return part;
}

/// The floor of one transition: every rank's target, and the blocks that go there.
struct Floor {
  std::vector<Array> targets;
  std::vector<std::vector<Block>> blocks;

  Floor(const Pair& pair, const std::vector<Array>& sources) {
    const PlanStep direct{.kind = PlanStep::Kind::kExchange, .src = pair.src, .dst = pair.dst};
    for (int rank = 0; rank < kRanks; ++rank) {
      targets.push_back(
          Array::zeros(pair.dst.local_shape(*pair.dst.mesh().coord_of(rank)), DType::kF32));
      blocks.emplace_back();
    }
    if (pair.src.has_partial()) {
      add_sums(pair, sources);
      return;
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (const Transfer& box : transfers_into(direct, static_cast<std::int64_t>(rank))) {
        add_blocks(box, sources[static_cast<std::size_t>(box.peer)], targets[rank], blocks[rank]);
      }
    }
  }

 private:
  // Every quarter of the rows is added up once, and written where it is wanted.
  void add_sums(const Pair& pair, const std::vector<Array>& sources) {
    const bool everywhere = pair.dst.is_replicated();
    const std::int64_t quarter = sources[0].num_elements() / kRanks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const std::int64_t at = static_cast<std::int64_t>(rank) * quarter;
      Block block{.row_floats = quarter};
      for (const Array& source : sources) block.sources.push_back(source.data<float>() + at);
      for (std::size_t to = 0; to < kRanks; ++to) {
        if (everywhere) block.targets.push_back(targets[to].data<float>() + at);
        if (!everywhere && to == rank) block.targets.push_back(targets[to].data<float>());
      }
      blocks[rank].push_back(std::move(block));
    }
  }
};

/// What the rank threads share in one measurement.
struct Shared {
  std::vector<Array> sources{kRanks}, results{kRanks};
  std::vector<Clock::time_point> begin{kRanks}, end{kRanks};
  std::vector<double> processor = std::vector<double>(kRanks);

  double seconds() const {
    return std::chrono::duration<double>(*std::max_element(end.begin(), end.end()) -
                                         *std::min_element(begin.begin(), begin.end()))
        .count();
  }
};

struct Times {
  std::vector<double> ours, plain, streamed;                ///< ms on the clock
  std::vector<double> our_work, plain_work, streamed_work;  ///< ms of processor time
  bool right = true;

  void add(double clock, double processor, const Spent& plainly, const Spent& in_streams) {
    ours.push_back(clock * 1e3);
    plain.push_back(plainly.clock * 1e3);
    streamed.push_back(in_streams.clock * 1e3);
    our_work.push_back(processor);
    plain_work.push_back(plainly.processor);
    streamed_work.push_back(in_streams.processor);
  }
};
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median_of(ratios);
}

bool agrees(const std::vector<Array>& results, const std::vector<Array>& targets) {
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const auto bytes = static_cast<std::size_t>(targets[rank].num_bytes());
    if (std::memcmp(results[rank].bytes(), targets[rank].bytes(), bytes) != 0) return false;
  }
  return true;
}

Times measure_large(const Move& move, const Shape& shape, int rounds) {
  const Pair pair = pair_of(move, shape);
  Shared shared;
  Times times;
  throw_if_error(run_ranks(kRanks, {.threads_per_rank = 1}, [&](World& world) {
    world.events().summarize_only();
    const auto self = static_cast<std::size_t>(world.rank());
    Communicator& group = *value_or_throw(world.group(std::vector<std::int64_t>{0, 1, 2, 3}));
    const PlanProgram program(world, pair.plan);
    shared.sources[self] = part_of(pair.src, world.rank(), world.allocator());
    group.barrier();
    std::optional<Floor> floor;
    if (self == 0) floor.emplace(pair, shared.sources);
    for (int round = -2; round < rounds; ++round) {  // the first two warm the pools up
      group.barrier();
      const double before = thread_seconds();
      shared.begin[self] = Clock::now();
      shared.results[self] = execute(world, program, shared.sources[self]);
      shared.end[self] = Clock::now();
      shared.processor[self] = thread_seconds() - before;
      group.barrier();
      if (self == 0) {
        const Spent plain = floor_time(floor->blocks, Stores::kPlain);
        const Spent streamed = floor_time(floor->blocks, Stores::kStreamed);
        if (round < 0) times.right = times.right && agrees(shared.results, floor->targets);
        const double work = std::accumulate(shared.processor.begin(), shared.processor.end(), 0.0);
        if (round >= 0) times.add(shared.seconds(), work, plain, streamed);
      }
      group.barrier();
      shared.results[self] = {};
    }
    group.barrier();
    shared.sources[self] = {};
  }));
  return times;
}

/// Microseconds of one move in a row of `repeats`, by round.
std::vector<double> measure_row(const Move& move, const Shape& shape, int rounds, int repeats) {
  const Pair pair = pair_of(move, shape);
  Shared shared;
  std::vector<double> times;
  throw_if_error(run_ranks(kRanks, {.threads_per_rank = 1}, [&](World& world) {
    world.events().summarize_only();
    const auto self = static_cast<std::size_t>(world.rank());
    Communicator& group = *value_or_throw(world.group(std::vector<std::int64_t>{0, 1, 2, 3}));
    const PlanProgram program(world, pair.plan);
    const Array local = part_of(pair.src, world.rank(), world.allocator());
    for (int round = -1; round < rounds; ++round) {
      group.barrier();
      shared.begin[self] = Clock::now();
      for (int i = 0; i < repeats; ++i) execute(world, program, local);
      shared.end[self] = Clock::now();
      group.barrier();
      if (self == 0 && round >= 0) times.push_back(shared.seconds() * 1e6 / repeats);
    }
  }));
  return times;
}

struct BucketTimes {
  std::vector<double> bucket, single, ratio;
};
BucketTimes measure_bucket(const Move& move, const Shape& shape, std::size_t tensors, int rounds) {
  const Pair pair = pair_of(move, shape);
  Shared shared;
  BucketTimes times;
  throw_if_error(run_ranks(kRanks, {.threads_per_rank = 1}, [&](World& world) {
    world.events().summarize_only();
    const auto self = static_cast<std::size_t>(world.rank());
    Communicator& group = *value_or_throw(world.group(std::vector<std::int64_t>{0, 1, 2, 3}));
    const std::vector<PlanProgram> programs(tensors, PlanProgram(world, pair.plan));
    std::vector<Array> locals, results(tensors);
    for (std::size_t i = 0; i < tensors; ++i) {
      locals.push_back(part_of(pair.src, world.rank(), world.allocator()));
    }
    for (int round = -2; round < rounds; ++round) {
      double us[2] = {};
      for (const int bucket : {0, 1}) {
        group.barrier();
        shared.begin[self] = Clock::now();
        if (bucket == 1) {
          results = execute_all(world, programs, locals);
        } else {
          for (std::size_t i = 0; i < tensors; ++i) {
            results[i] = execute(world, programs[i], locals[i]);
          }
        }
        shared.end[self] = Clock::now();
        group.barrier();
        us[bucket] = shared.seconds() * 1e6;
      }
      if (self != 0 || round < 0) continue;
      times.bucket.push_back(us[1]);
      times.single.push_back(us[0]);
      times.ratio.push_back(us[0] / us[1]);
    }
  }));
  return times;
}

/// What a plan adds to its collective, us: an all_gather of 1 KiB on as many ranks as cores.
double measure_overhead(int ranks, int rounds, int repeats) {
  const Mesh mesh = value_or_throw(Mesh::make(std::vector<std::int64_t>{ranks}));
  const Spec src = spec_of(mesh, {256, 1}, {"S(0)"}), dst = spec_of(mesh, {256, 1}, {"R"});
  const Plan gather = value_or_throw(plan(src, dst));
  std::vector<double> added;
  throw_if_error(run_ranks(ranks, {.threads_per_rank = 1}, [&](World& world) {
    world.events().summarize_only();
    Communicator& group = *value_or_throw(world.group_along(mesh, std::vector<int>{0}));
    const PlanProgram program(world, gather);
    const Array local = part_of(src, world.rank(), world.allocator());
    const auto us_of = [&](const auto& call) {
      group.barrier();
      const auto begin = Clock::now();
      for (int i = 0; i < repeats; ++i) call();
      group.barrier();
      return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeats;
    };
    for (int round = -1; round < rounds; ++round) {
      const double plain = us_of([&] {
        const Array out = Array::empty({256, 1}, DType::kF32, world.allocator());
        group.all_gather(local, out);
      });
      const double ours = us_of([&] { execute(world, program, local); });
      if (world.rank() == 0 && round >= 0) added.push_back(ours - plain);
    }
  }));
  return median_of(added);
}

void print_large(const Shape& shape, int rounds) {
  std::printf("float32 [%lld, %lld], 4 rank threads, warm pooled output, ms\n",
              static_cast<long long>(shape[0]), static_cast<long long>(shape[1]));
  std::printf("%-24s %8s %8s %8s %7s %7s %7s   measured elsewhere on a machine like this, ms:\n",
              "", "ours", "memcpy", "streamed", "ratio", "work", "target");
  std::printf("%-78s OpenMPI  COSTA ScaLAPACK  jax  gloo\n", "");
  for (const Move& move : moves()) {
    const Times times = measure_large(move, shape, rounds);
    const bool streams = median_of(times.streamed) < median_of(times.plain);
    const double clock = median_ratio(times.ours, streams ? times.streamed : times.plain);
    const double work =
        median_ratio(times.our_work, streams ? times.streamed_work : times.plain_work);
    std::printf("%-24s %8.2f %8.2f %8.2f %7.2f %7.2f %7.2f   %s%s\n", move.name,
                median_of(times.ours), median_of(times.plain), median_of(times.streamed), clock,
                work, move.most, move.elsewhere, times.right ? "" : "   WRONG RESULT");
    std::fflush(stdout);
  }
}

void print_small(int rounds) {
  std::printf("\nlatency of a move in a row of moves, us%18s %10s\n", "64 KiB", "1 KiB");
  for (const Move& move : moves()) {
    std::printf("%-46s %10.1f %10.1f\n", move.name,
                median_of(measure_row(move, {128, 128}, rounds, 500)),
                median_of(measure_row(move, {16, 16}, rounds, 500)));
    std::fflush(stdout);
  }
  std::printf("\nbucket of 100 tensors of 64 KiB, us%21s %10s %10s\n", "bucket", "100 moves",
              "ratio");
  for (const Move& move : moves()) {
    const BucketTimes times = measure_bucket(move, {128, 128}, 100, rounds);
    std::printf("%-46s %10.1f %10.1f %10.1f\n", move.name, median_of(times.bucket),
                median_of(times.single), median_of(times.ratio));
    std::fflush(stdout);
  }
  std::printf("\nwhat a plan adds to its collective on 2 ranks, us: %.2f\n",
              measure_overhead(2, rounds, 2000));
}

}  // namespace

/// bench_redistribute [ROUNDS] [large|small|all]
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const std::string which = argc > 2 ? argv[2] : "all";
  if (which != "small") print_large({8192, 4096}, rounds);
  if (which != "large") print_small(rounds);
  return 0;
}
