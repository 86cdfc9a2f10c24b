#include "parallel/context_attention.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/local_map.h"
#include "parallel/ring_attention.h"

namespace tessera {
namespace {

constexpr int kSequenceDim = 2;

Placements placements_of(const DTensor& q, const DTensor& k, const DTensor& v, int cp_axis) {
  const Placements placed = value_or_throw(q.spec().placements());
  const bool alike = k.mesh() == q.mesh() && v.mesh() == q.mesh() &&
                     value_or_throw(k.spec().placements()) == placed &&
                     value_or_throw(v.spec().placements()) == placed;
  const bool in_range = cp_axis >= 0 && cp_axis < q.mesh().ndim();
  if (alike && in_range &&
      placed[static_cast<std::size_t>(cp_axis)] == Placement(Shard{kSequenceDim})) {
    return placed;
  }
  throw Error(invalid_argument(absl::StrFormat(
      "context_attention: query %s, key %s and value %s must be placed alike, with S(2) on axis %d",
      q.spec().to_string(), k.spec().to_string(), v.spec().to_string(), cp_axis)));
}

/// Keys in the order of their positions, from the order of the ranks' places.
DTensor by_position(const DTensor& x, const TokenOrder& order) {
  if (order.is_plain()) return x;
  struct Run {
    std::int64_t position, place, size;
  };
  std::vector<Run> runs;
  std::int64_t place = 0;
  for (std::int64_t rank = 0; rank < order.num_ranks(); ++rank) {
    for (const Interval& run : order.runs(rank)) {
      runs.push_back({run.start, place, run.stop - run.start});
      place += runs.back().size;
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.position < b.position; });
  std::vector<DTensor> parts;
  for (const Run& run : runs) {
    parts.push_back(slice(x, kSequenceDim, run.place, run.place + run.size));
  }
  return cat(parts, kSequenceDim);
}

/// This rank's queries, run by run, over the keys that the run sees.
DTensor attend_runs(const DTensor& q, const DTensor& k, const DTensor& v,
                    const ContextAttention& context, std::int64_t cp_rank) {
  const std::vector<Interval>& runs = context.order.runs(cp_rank);
  const DTensor keys = by_position(k, context.order), values = by_position(v, context.order);
  std::vector<DTensor> parts;
  std::int64_t place = 0;
  const auto attend = [&](const Interval& run) {
    const std::int64_t size = run.stop - run.start;
    const std::int64_t seen = context.args.causal ? run.stop : context.order.seq();
    parts.push_back(attention(
        slice(q, kSequenceDim, place, place + size), slice(keys, kSequenceDim, 0, seen),
        slice(values, kSequenceDim, 0, seen), context.args.scale, context.args.causal, run.start));
    place += size;
  };
  if (runs.empty()) attend({0, 0});  // a rank without tokens takes part in the gradient's reduction
  for (const Interval& run : runs) attend(run);
  return parts.size() == 1 ? parts[0] : cat(parts, kSequenceDim);
}

/// k and v whole along cp, moved together.
std::array<DTensor, 2> gathered(const DTensor& k, const DTensor& v, const Placements& to) {
  const auto whole = [&](const DTensor& x) {
    return value_or_throw(Spec::make(x.mesh(), x.global_shape(), x.dtype(), to));
  };
  const std::array specs = {whole(k), whole(v)};
  const std::vector<DTensor> moved = redistribute_all(std::array{k, v}, specs);
  return {moved[0], moved[1]};
}

}  // namespace

DTensor context_attention(const DTensor& q, const DTensor& k, const DTensor& v,
                          const ContextAttention& context, const Site& site) {
  const auto axis = static_cast<std::size_t>(context.cp_axis);
  const Placements placed = placements_of(q, k, v, context.cp_axis);
  const bool is_ring = context.method == ContextMethod::kRing;
  Placements keys_placed = placed;
  GradPlacements keys_grad(placed.begin(), placed.end());
  std::array<DTensor, 2> keys = {k, v};
  if (!is_ring) {
    keys_placed[axis] = Replicate{};
    keys_grad[axis] = Partial{};
    keys = gathered(k, v, keys_placed);
    if (context.order.is_plain()) {
      return attention(q, keys[0], keys[1], context.args.scale, context.args.causal, 0, site);
    }
  }
  const Mesh& mesh = q.mesh();
  const GradPlacements own_grad(placed.begin(), placed.end());
  const std::array<LocalArg, 3> args = {LocalArg{"query", q, placed, own_grad},
                                        LocalArg{"key", keys[0], keys_placed, keys_grad},
                                        LocalArg{"value", keys[1], keys_placed, keys_grad}};
  Shape shape = q.global_shape();
  shape[3] = v.size(3);
  const std::array<LocalResult, 1> results = {LocalResult{"result", mesh, placed, shape}};
  const auto region = [&](const LocalInputs& in) -> std::vector<DTensor> {
    if (is_ring) {
      const RingAttention ring{{mesh, {context.cp_axis}}, context.order, context.args};
      return {ring_attention(in["query"], in["key"], in["value"], ring, site)};
    }
    const std::int64_t cp_rank = (*mesh.coord_of(q.runtime().rank()))[axis];
    return {attend_runs(in["query"], in["key"], in["value"], context, cp_rank)};
  };
  return local_map(q.runtime(), "context_attention", args, results, region, site)[0];
}

}  // namespace tessera
