// Dispatchers beside one another: forward passes of 4 ranks as threads, with bytes and times; and
// one rank among 2,048 with a layer of DeepSeek-V3, simulated. bench_mpi_moe_dispatchers has the
// passes of processes.
#include "benchmarks/dispatch_pass.h"
#include "moe/layer/simulated_peers.h"
#include "runtime/sim/sim_world.h"

namespace {

using namespace tessera;
using namespace tessera::bench;

/// Experts over 64 ranks in 8 nodes, each token in 4 of them.
constexpr PassShape kDeepSeekV3 = {.ep = 64,
                                   .experts = 256,
                                   .top_k = 8,
                                   .dim = 7168,
                                   .tokens = 4096,
                                   .dtype = DType::kBF16,
                                   .groups = 8,
                                   .limited = 4};
constexpr std::int64_t kRanks = 2048, kPerNode = 8;
// The shared expert's three products, 2 · tokens · 7,168 · 2,048 each, which a pass may hide
// behind.
constexpr double kSharedUs = 3 * 2.0 * 4096 * 7168 * 2048 / 400e12 * 1e6;

void print_simulated(const Way& way) {
  const Shape mesh_shape = {kRanks / kDeepSeekV3.ep, kDeepSeekV3.ep};
  const ExpertGroup group = {value_or_throw(Mesh::make(view_of(mesh_shape), {"dp", "ep"})), {1}};
  const std::unique_ptr<Dispatcher> dispatcher =
      value_or_throw(Dispatcher::make({"simulated", group, kDeepSeekV3.experts, way.config}));
  const SimulatedPeers peers(
      *dispatcher, {.top_k = kDeepSeekV3.top_k, .rank = 0, .ids_of = [](std::int64_t rank) {
                      return ids_of(kDeepSeekV3, rank);
                    }});
  SimOptions options{.topology = value_or_throw(topology_preset("cluster")),
                     .value_bytes = std::int64_t{64} << 20};
  options.arrive = [&](const CollectiveCall& call, std::span<const std::int64_t> ranks) {
    peers.arrive(call, ranks);
  };
  const auto world = value_or_throw(make_sim_world(0, kRanks, options));
  Runtime runtime(*world);
  runtime.events().trace(INT64_MAX, world->allocator());
  Pass pass(runtime, group, kDeepSeekV3, way.config);
  const Pass::Times times = pass.run();
  const Moved moved = moved_in(runtime.events().events(), 0, kPerNode);
  const double exposed = times.planned + std::max(times.there - kSharedUs, 0.0) + times.back;
  std::printf("| %s | %.0f MiB | %.0f MiB | %lld | %lld | %lld | %.2f ms | %.2f ms | %.2f ms |\n",
              way.name, static_cast<double>(moved.bytes) / (1 << 20),
              static_cast<double>(moved.bytes_far) / (1 << 20),
              static_cast<long long>(moved.messages), static_cast<long long>(moved.peers_touched),
              static_cast<long long>(moved.host_reads), times.there / 1e3, times.back / 1e3,
              exposed / 1e3);
}

}  // namespace

int main() {
  const Status status =
      run_ranks(4, {.threads_per_rank = 1}, [](World& world) { print_measured(world); });
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 4;
  }
  std::printf(
      "\nsimulated: rank 0 of 2,048, 64 of which share 256 experts; 4,096 tokens of BF16 [7168] "
      "for 8 experts in 4 of 8 nodes\n\n"
      "| dispatcher | bytes received | from other nodes | messages | buffers reached | host reads "
      "| there | back | exposed |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  const std::int64_t bound = 2 * kDeepSeekV3.tokens * kDeepSeekV3.top_k;
  const std::vector<Way> ways = {
      {"all_to_all", {}},
      {"all_gather", {.dispatcher = "all_gather"}},
      {"hierarchical", {.dispatcher = "hierarchical", .ranks_per_node = kPerNode}},
      {"peer, nodes of 8", {.dispatcher = "peer", .ranks_per_node = kPerNode}},
      {"peer, one memory of 64", {.dispatcher = "peer"}},
      {"hierarchical, rows_bound",
       {.dispatcher = "hierarchical", .ranks_per_node = kPerNode, .rows_bound = 4 * bound}},
      {"peer, nodes of 8, rows_bound",
       {.dispatcher = "peer", .ranks_per_node = kPerNode, .rows_bound = 4 * bound}}};
  for (const Way& way : ways) print_simulated(way);
  return 0;
}
