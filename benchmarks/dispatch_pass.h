// benchmarks/dispatch_pass.h: one pass of tokens to their experts and back under one dispatcher,
// and what it moves; for the programs that compare dispatchers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "dtensor/runtime.h"
#include "kernels/elementwise.h"
#include "moe/layer/dispatcher.h"
#include "runtime/world.h"

namespace tessera::bench {

/// What every rank of an expert group has.
struct PassShape {
  std::int64_t ep = 4, experts = 8, top_k = 3, dim = 256, tokens = 512;
  DType dtype = DType::kF32;
  std::int64_t groups = 1;  ///< of experts, of which a token chooses among `limited`
  std::int64_t limited = 1;
};

inline std::uint64_t mixed(std::uint64_t value) {  // SplitMix64
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}
/// Distinct experts of each token, even over all, in groups of its own choice.
inline std::vector<std::int64_t> ids_of(const PassShape& shape, std::int64_t rank) {
  std::vector<std::int64_t> ids;
  const std::int64_t per_group = shape.experts / shape.groups;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    std::uint64_t state = mixed(static_cast<std::uint64_t>(rank * shape.tokens + t));
    const auto draw = [&](std::int64_t count) {
      state = mixed(state);
      return static_cast<std::int64_t>(state % static_cast<std::uint64_t>(count));
    };
    std::vector<std::int64_t> groups, chosen;
    while (std::ssize(groups) < shape.limited) {
      const std::int64_t group = draw(shape.groups);
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
    while (std::ssize(chosen) < shape.top_k) {
      const std::int64_t group = groups[chosen.size() % groups.size()];
      const std::int64_t id = group * per_group + draw(per_group);
      if (std::ranges::find(chosen, id) == chosen.end()) chosen.push_back(id);
    }
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  return ids;
}

/// Forward passes of one rank.
class Pass {
 public:
  Pass(Runtime& runtime, const ExpertGroup& group, const PassShape& shape,
       const DispatchConfig& config)
      : runtime_(runtime),
        dispatcher_(value_or_throw(Dispatcher::make({"experts", group, shape.experts, config}))) {
    const auto plain_of = [&](const Array& array) { return plain(runtime, array); };
    const std::int64_t T = shape.tokens, K = shape.top_k;
    const std::vector<std::int64_t> ids = ids_of(shape, runtime.rank());
    const Array ids_TK = Array::empty({T, K}, DType::kI64, runtime.kernels().allocator);
    std::copy(ids.begin(), ids.end(), ids_TK.data<std::int64_t>());
    x_TD_ = plain_of(filled({T, shape.dim}, shape.dtype));
    weights_TK_ = plain_of(filled({T, K}, DType::kF32));
    tokens_.ids_TK = plain_of(ids_TK);
    tokens_.tokens_by_rank.assign(static_cast<std::size_t>(group.size()), T);
  }

  /// Units: microseconds of the World, since before the plan.
  struct Times {
    double planned = 0, there = 0, back = 0;
  };
  Times run() {
    const NoGrad no_grad(runtime_);
    World& world = runtime_.world();
    const double start = world.now_us();
    const RoutePlan plan = dispatcher_->plan(tokens_);
    const double planned = world.now_us();
    plan.routes[0]->begin(x_TD_);
    const ExpertRows rows = plan.routes[0]->arrive();
    const double there = world.now_us();
    plan.routes[0]->begin_return(rows.rows_RD, weights_TK_);
    static_cast<void>(plan.routes[0]->finish_return());
    return {planned - start, there - planned, world.now_us() - there};
  }

 private:
  Array filled(const Shape& shape, DType dtype) {
    Array values = Array::empty(shape, dtype, runtime_.kernels().allocator);
    kernels::fill(runtime_.kernels(), 0.25, values);
    return values;
  }

  Runtime& runtime_;
  std::unique_ptr<Dispatcher> dispatcher_;
  DTensor x_TD_, weights_TK_;
  RoutedTokens tokens_;
};

/// Of one rank's pass.
struct Moved {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;          ///< received
  std::int64_t bytes_far = 0;      ///< of these from other nodes
  std::int64_t messages = 0;       ///< received, one a peer and call; rows written or read: none
  std::int64_t peers_touched = 0;  ///< whose memory is written or read, by call
  std::int64_t host_reads = 0;
};
inline Moved moved_in(const std::vector<Event>& events, std::int64_t rank, std::int64_t per_node) {
  Moved all;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kHostRead) ++all.host_reads;
    if (event.kind != Event::Kind::kCollective) continue;
    ++all.calls;
    all.bytes += event.bytes_received;
    const bool by_memory = event.name.ends_with("_peer_rows");
    (by_memory ? all.peers_touched : all.messages) += std::ssize(event.trace.received);
    for (const Flow& flow : event.trace.received) {
      if (flow.rank / per_node != rank / per_node) all.bytes_far += flow.bytes;
    }
  }
  return all;
}

struct Way {
  const char* name;
  DispatchConfig config;
};

/// On each of the ranks of one node, the same on all; rank 0 prints a table. Times are medians over
/// rounds of the slowest rank; ratios medians of the rounds' ratios to the first way.
inline void print_measured(World& world, const PassShape& shape, const std::vector<Way>& ways,
                           int rounds) {
  Runtime runtime(world);
  const Shape mesh_shape = {shape.ep};
  const ExpertGroup group = {value_or_throw(Mesh::make(view_of(mesh_shape), {"ep"})), {0}};
  Communicator& all = *value_or_throw(world.group_along(group.mesh, group.ep_axes));
  std::vector<Pass> passes;
  passes.reserve(ways.size());
  for (const Way& way : ways) passes.emplace_back(runtime, group, shape, way.config);
  std::vector<Moved> moved;
  for (Pass& pass : passes) {  // warm, and what it moves
    runtime.events().clear();
    runtime.events().trace(INT64_MAX, world.allocator());
    static_cast<void>(pass.run());
    moved.push_back(moved_in(runtime.events().events(), world.rank(), shape.ep));
  }
  runtime.events().clear();
  std::vector<std::vector<double>> us(ways.size()), ratios(ways.size());
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      all.barrier();
      const Pass::Times times = passes[i].run();
      const Array slowest = Array::empty({1}, DType::kF64);
      *slowest.data<double>() = times.planned + times.there + times.back;
      all.all_reduce(slowest, slowest, ReduceOp::kMax);
      us[i].push_back(*slowest.data<double>());
      ratios[i].push_back(us[i].back() / us[0].back());
    }
    runtime.events().clear();
  }
  if (world.rank() != 0) return;
  std::printf(
      "| dispatcher | bytes received | messages | buffers reached | host reads | time | beside the "
      "first |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < ways.size(); ++i) {
    std::printf("| %s | %.2f MiB | %lld | %lld | %lld | %.0f us | %.2fx |\n", ways[i].name,
                static_cast<double>(moved[i].bytes) / (1 << 20),
                static_cast<long long>(moved[i].messages),
                static_cast<long long>(moved[i].peers_touched),
                static_cast<long long>(moved[i].host_reads), median(us[i]), median(ratios[i]));
  }
}

/// Those that suit one node.
inline std::vector<Way> ways_in_a_node(const PassShape& shape) {
  const std::int64_t bound = 2 * shape.tokens * shape.top_k;
  return {{"all_to_all", {}},
          {"peer", {.dispatcher = "peer"}},
          {"all_gather", {.dispatcher = "all_gather"}},
          {"all_to_all, rows_bound", {.rows_bound = bound}},
          {"peer, rows_bound", {.dispatcher = "peer", .rows_bound = bound}}};
}
/// The debug model's tokens; larger rows.
inline std::vector<PassShape> measured_shapes() {
  return {{}, {.experts = 16, .top_k = 4, .dim = 2048, .tokens = 2048, .dtype = DType::kBF16}};
}
inline void print_measured(World& world) {
  for (const PassShape& shape : measured_shapes()) {
    if (world.rank() == 0) {
      std::printf("\n%lld ranks, each with %lld tokens of %s [%lld] for %lld of %lld experts\n\n",
                  static_cast<long long>(shape.ep), static_cast<long long>(shape.tokens),
                  std::string(name_of(shape.dtype)).c_str(), static_cast<long long>(shape.dim),
                  static_cast<long long>(shape.top_k), static_cast<long long>(shape.experts));
    }
    print_measured(world, shape, ways_in_a_node(shape), shape.dim > 1000 ? 15 : 100);
  }
}

}  // namespace tessera::bench
