// A router's scores, choice and weights in one launch: a row is a team of a warp's lanes, which
// hold it in registers from its logits to its weights.
#include <bit>
#include <cmath>

#include "kernels/cuda/index_positions.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/line_entries.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_functions.h"
#include "kernels/pointwise_activation.h"
#include "kernels/route_steps.h"
#include "kernels/select_keys.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

// A lane holds few elements, so that short rows share a warp; those of long rows hold many.
constexpr int kFewHeld = 8, kManyHeld = 32;
constexpr std::int64_t kMostExperts = std::int64_t{kManyHeld} * kLanes;
constexpr std::int64_t kMostChosen = kLanes;  // a lane of the team each

template <class T>
struct RouteRows {
  const T *logits, *bias;  // bias: null where there is none
  PositionReader given;    // its data: null where the kernel chooses
  T *scores, *weights;
  std::int64_t* ids;
  std::int64_t count;
  int experts, chosen, team, team_log2;
  bool is_packed;  // every row begins at a pack, and is whole packs
  RouteOptions options;
};

template <class T>
__device__ ComputeType<T> rounded_to(ComputeType<T> value) {
  return convert<ComputeType<T>>(convert<T>(value));
}

/// A lane's part of a row: packs of neighbouring elements, pack p · team + place. Elements behind
/// the row's end are 0.
template <class T, int kHeld>
struct RowPart {
  using C = ComputeType<T>;
  using Entry = EntryOf<C>;
  using Key = decltype(ordered_key(C{}));
  static constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));
  static_assert(kHeld % kPack == 0);

  int experts, team, place;
  C held[kHeld];
  Entry ranked[kHeld];  // what is left to choose in its order; behind that, such as stand for none

  __device__ int element(int j) const { return (j / kPack * team + place) * kPack + j % kPack; }
  __device__ bool has(int j) const { return element(j) < experts; }

  __device__ void load_from(const T* row, bool is_packed) {
    TSR_UNROLL
    for (int p = 0; p < kHeld; p += kPack) {
      Pack<T, kPack> pack{};
      if (is_packed) {
        if (has(p)) pack = reinterpret_cast<const Pack<T, kPack>*>(row)[element(p) / kPack];
      } else {
        TSR_UNROLL
        for (int v = 0; v < kPack; ++v) {
          if (has(p + v)) pack.of[v] = row[element(p + v)];
        }
      }
      TSR_UNROLL
      for (int v = 0; v < kPack; ++v) held[p + v] = convert<C>(pack.of[v]);
    }
  }
  __device__ void store_to(T* row, bool is_packed) const {
    TSR_UNROLL
    for (int p = 0; p < kHeld; p += kPack) {
      Pack<T, kPack> pack;
      TSR_UNROLL
      for (int v = 0; v < kPack; ++v) pack.of[v] = convert<T>(held[p + v]);
      if (is_packed) {
        if (has(p)) reinterpret_cast<Pack<T, kPack>*>(row)[element(p) / kPack] = pack;
      } else {
        TSR_UNROLL
        for (int v = 0; v < kPack; ++v) {
          if (has(p + v)) row[element(p + v)] = pack.of[v];
        }
      }
    }
  }

  __device__ void apply_softmax() {
    C max = -std::numeric_limits<C>::infinity();
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) {
      if (has(j)) max = held[j] > max || held[j] != held[j] ? held[j] : max;
    }
    max = warp_max(max, team);
    C sum = 0;
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) {
      const C below = has(j) ? held[j] - max : -std::numeric_limits<C>::infinity();
      held[j] = functions::Exp::apply(below);  // without a branch
      sum += held[j];
    }
    const C scale = C(1) / warp_sum(sum, team);
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) held[j] *= scale;
  }
  /// Logits become scores. What function it is, is asked once for all that a lane holds.
  __device__ void score(RouteScore function) {
    if (function == RouteScore::kSoftmax) {
      apply_softmax();
    } else if (function == RouteScore::kSigmoid) {
      TSR_UNROLL
      for (int j = 0; j < kHeld; ++j) held[j] = functions::Sigmoid::apply(held[j]);
    } else if (function == RouteScore::kSqrtSoftplus) {
      TSR_UNROLL
      for (int j = 0; j < kHeld; ++j) {
        const double params[] = {1.0, 20.0};
        const C softplus = scalar::Softplus::apply<C>(held[j], params);
        held[j] = std::sqrt(rounded_to<T>(softplus));
      }
    }
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) held[j] = rounded_to<T>(held[j]);
  }

  /// All can be chosen, by their scores and what is added to them.
  __device__ void rank_by(const T* bias) {
    C moved[kHeld];
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) moved[j] = held[j];
    if (bias != nullptr) {
      TSR_UNROLL
      for (int j = 0; j < kHeld; ++j) {
        if (has(j)) moved[j] += convert<C>(bias[element(j)]);
      }
    }
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) {
      const Key key = has(j) ? ordered_key(rounded_to<T>(moved[j])) : Key{0};
      ranked[j] = Entry::of(key, element(j));
    }
    sort_ranked();
  }
  /// The row's first that was not taken. All its lanes call.
  __device__ int take_first() {
    const Entry first = first_of_warp(ranked[0], team);
    const bool is_own = !first.before(ranked[0]);
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) {
      if (is_own) ranked[j] = j + 1 < kHeld ? ranked[j + 1] : Entry{};
    }
    return static_cast<int>(first.index());
  }
  /// The score of the row's `expert`, another for each lane; 0 where there is none such.
  __device__ C score_of(int expert) const {
    const int pack = expert / kPack;
    C score = 0;
    TSR_UNROLL
    for (int j = 0; j < kHeld; ++j) {
      const C other = __shfl_sync(kAllLanes, held[j], pack & (team - 1), team);
      if ((j / kPack * team + (pack & (team - 1))) * kPack + j % kPack == expert) score = other;
    }
    return score;
  }

 private:
  /// Batcher's network: what is compared with what is known when it is compiled.
  __device__ void sort_ranked() {
    TSR_UNROLL
    for (int sorted = 1; sorted < kHeld; sorted *= 2) {
      TSR_UNROLL
      for (int apart = sorted; apart > 0; apart /= 2) {
        TSR_UNROLL
        for (int low = 0; low + apart < kHeld; ++low) {
          const bool is_compared = low >= apart % sorted &&
                                   (low - apart % sorted) / apart % 2 == 0 &&
                                   low / (2 * sorted) == (low + apart) / (2 * sorted);
          if (is_compared) put_in_order(ranked[low], ranked[low + apart]);
        }
      }
    }
  }
  static __device__ void put_in_order(Entry& first, Entry& second) {
    const Entry low = first, high = second;
    const bool swaps = high.before(low);
    first = swaps ? high : low;
    second = swaps ? low : high;
  }
};

/// The lane of each rank has its expert's number and weight.
template <class T>
struct ChosenExpert {
  int id;
  ComputeType<T> weight;
};
template <class T, int kHeld>
__device__ ChosenExpert<T> choose_expert(const RouteRows<T>& rows, RowPart<T, kHeld>& part,
                                         std::int64_t row) {
  using C = ComputeType<T>;
  int id = 0;
  if (rows.given.data == nullptr) {
    part.rank_by(rows.bias);
    for (int rank = 0; rank < rows.chosen; ++rank) {
      const int first = part.take_first();
      if (part.place == rank) id = first;
    }
  } else if (part.place < rows.chosen) {
    id = static_cast<int>(rows.given.read(row * rows.chosen + part.place));
  }
  C weight = part.score_of(id);
  if (rows.options.weights == RouteWeights::kShares) {
    double sum = 0.0;
    for (int rank = 0; rank < rows.chosen; ++rank) {
      sum += static_cast<double>(__shfl_sync(kAllLanes, weight, rank, part.team));
    }
    const C guarded = rounded_to<T>(convert<C>(sum)) + static_cast<C>(kShareGuard);
    weight = rounded_to<T>(weight / rounded_to<T>(guarded));
  }
  if (rows.options.scale != 1.0) weight *= static_cast<C>(rows.options.scale);
  return {id, weight};
}

/// Lanes of few elements leave room for many warps.
template <class T, int kHeld>
constexpr int kBlocksAtOnce = kHeld == kFewHeld && sizeof(ComputeType<T>) == 4 ? 4 : 1;

template <class T, int kHeld>
__global__ void __launch_bounds__(kGridThreads, kBlocksAtOnce<T, kHeld>)
    route_rows(RouteRows<T> rows) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int rows_each = kLanes >> rows.team_log2;  // a warp's at a time
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const std::int64_t warp =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (std::int64_t first = warp * rows_each; first < rows.count; first += warps * rows_each) {
    // Teams without a row of their own do the last one once more, and keep it to themselves.
    const std::int64_t own = first + (lane >> rows.team_log2);
    const bool is_own = own < rows.count;
    const std::int64_t row = is_own ? own : rows.count - 1;
    RowPart<T, kHeld> part{.experts = rows.experts,
                           .team = rows.team,
                           .place = lane & (rows.team - 1),
                           .held = {},
                           .ranked = {}};
    part.load_from(rows.logits + row * rows.experts, rows.is_packed);
    part.score(rows.options.score);
    if (is_own) part.store_to(rows.scores + row * rows.experts, rows.is_packed);
    const auto mine = choose_expert(rows, part, row);
    if (!is_own || part.place >= rows.chosen) continue;
    const std::int64_t at = row * rows.chosen + part.place;
    rows.ids[at] = mine.id;
    rows.weights[at] = convert<T>(mine.weight);
  }
}

/// Arrays of one dtype as rows that lie one behind the other.
template <class T>
RouteRows<T> rows_of(const RouteOptions& options, const RouteOperands& from,
                     const RouteResults& to) {
  const int last = from.logits.ndim() - 1;
  const std::int64_t experts = from.logits.size(last), chosen = to.ids.size(last);
  const std::int64_t held = experts <= kFewHeld * kLanes ? kFewHeld : kManyHeld;
  const auto lanes = static_cast<std::uint64_t>(std::max((experts + held - 1) / held, chosen));
  bool is_packed = experts * static_cast<std::int64_t>(sizeof(T)) % kPackBytes == 0;
  for (const Array* rows : {&from.logits, &to.scores}) {
    is_packed = is_packed && reinterpret_cast<std::uintptr_t>(rows->bytes()) % kPackBytes == 0;
  }
  return {.logits = device_data<T>(from.logits),
          .bias = from.bias_E.is_null() ? nullptr : device_data<T>(from.bias_E),
          .given = {},
          .scores = device_data<T>(to.scores),
          .weights = device_data<T>(to.weights),
          .ids = device_data<std::int64_t>(to.ids),
          .count = from.logits.num_elements() / experts,
          .experts = static_cast<int>(experts),
          .chosen = static_cast<int>(chosen),
          .team = static_cast<int>(std::bit_ceil(lanes)),
          .team_log2 = std::countr_zero(std::bit_ceil(lanes)),
          .is_packed = is_packed,
          .options = options};
}

template <class T>
cudaError_t launch_route(cudaStream_t stream, const RouteRows<T>& rows) {
  const std::int64_t each = kLanes / rows.team;
  const Grid grid = grid_for((rows.count + each - 1) / each * kLanes);
  if (rows.experts <= kFewHeld * kLanes) {
    return launch<route_rows<T, kFewHeld>>(grid, stream, rows);
  }
  return launch<route_rows<T, kManyHeld>>(grid, stream, rows);
}

}  // namespace

void route_topk(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                const RouteResults& to) {
  check_route(from, to);
  const int last = from.logits.ndim() - 1;
  const std::int64_t experts = from.logits.size(last);
  if (from.logits.num_elements() == 0 || experts > kMostExperts ||
      to.ids.size(last) > kMostChosen) {
    return route_in_steps(ctx, options, from, to);
  }
  const auto dense = [&](const Array& x) { return x.is_null() ? x : contiguous(ctx, x); };
  const auto written = [&](const Array& out) {
    return out.is_contiguous() ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
  };
  const RouteOperands in = {dense(from.logits), dense(from.bias_E), dense(from.ids)};
  const RouteResults out = {written(to.scores), written(to.ids), written(to.weights)};
  visit_floating(in.logits.dtype(), [&]<class T>(TypeTag<T>) {
    RouteRows<T> rows = rows_of<T>(options, in, out);
    if (!in.ids.is_null()) {
      rows.given = checked_positions(ctx, in.ids, {"route_topk", experts}).reader;
    }
    const Current current(*ctx.device);
    check(launch_route(stream_of(ctx), rows), *ctx.device, "route_topk");
  });
  if (!to.scores.is_contiguous()) copy(ctx, out.scores, to.scores);
  if (!to.ids.is_contiguous()) copy(ctx, out.ids, to.ids);
  if (!to.weights.is_contiguous()) copy(ctx, out.weights, to.weights);
}

}  // namespace tessera::kernels::TSR_CUDA
