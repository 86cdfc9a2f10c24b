#include <utility>

#include "dtensor/ops.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"
#include "moe/layer/dispatcher_kinds.h"
#include "moe/layer/expert_blocks.h"

namespace tessera {
namespace {

/// The tokens of a chunk from all ranks; rows of this rank's experts among them.
struct GatherSteps {
  AxisGroup group;
  Indices tokens_by_rank;
  RowPlaces places;  ///< of gathered tokens
  DTensor counts_e;
};

class GatherRoute final : public Route {
 public:
  explicit GatherRoute(GatherSteps steps) : steps_(std::move(steps)) {}

  void begin(const DTensor& x_TD) override {
    pending_ = begin_move(x_TD, move(RowMove::Kind::kAllGather));
  }
  ExpertRows arrive() override {
    return {take_rows(pending_.finish(), steps_.places), steps_.counts_e};
  }
  /// Each rank's summand of every token, in score precision.
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    dtype_ = y_RD.dtype();
    const DTensor weights = move_rows(weights_TK, move(RowMove::Kind::kAllGather));
    const DTensor sums = sum_rows(y_RD, weights, steps_.places, weights.dtype());
    pending_ = begin_move(sums, move(RowMove::Kind::kReduceScatter));
  }
  DTensor finish_return() override {
    const DTensor out = pending_.finish();
    return out.dtype() == dtype_ ? out : cast(out, dtype_);
  }

 private:
  RowMove move(RowMove::Kind kind) const {
    return {.kind = kind, .group = steps_.group, .send = steps_.tokens_by_rank};
  }

  GatherSteps steps_;
  PendingRows pending_;
  DType dtype_ = DType::kF32;
};

class GatherDispatcher final : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;

  RoutePlan plan(const RoutedTokens& tokens) const override {
    Runtime& runtime = tokens.ids_TK.runtime();
    const NoGrad no_grad(runtime);
    const DTensor ids = kept_tensor(runtime, [&] {
      return all_gather_rows(tokens.ids_TK, tokens.tokens_by_rank, group().all());
    });
    RoutePlan plan;
    std::vector<Chunk> chunks;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      plan.chunks.push_back(chunk_of(tokens.ids_TK.size(0), config().chunks, c));
      chunks.push_back(chosen_of(ids, tokens, c));
    }
    const bool is_exact = config().rows_bound == 0 && !tokens.room;
    if (is_exact) count_rows(runtime, chunks);
    DTensor most;
    for (const Chunk& chunk : chunks) {
      plan.routes.push_back(std::make_unique<GatherRoute>(
          steps_of(chunk, room_in_chunk(tokens, config().chunks, chunk.index))));
      if (!chunk.came.defined()) continue;
      most = most.defined() ? maximum(most, chunk.came) : chunk.came;
    }
    if (most.defined()) plan.rows_needed = mul(most, static_cast<double>(config().chunks));
    return plan;
  }

 private:
  /// One chunk of all ranks' tokens.
  struct Chunk {
    std::int64_t index = 0;
    Indices tokens_by_rank = {};
    std::int64_t top_k = 1;
    SortedSlots sorted = {};  ///< of this rank's experts
    DTensor came = {};        ///< rows, those too that have no room; undefined without a bound
    Indices counts_e = {};    ///< on the host; empty where sizes are fixed
  };

  ExpertRange own_experts(Runtime& runtime) const {
    return experts_of(experts_by_rank(num_experts(), group().ep_size()),
                      position_along(group().mesh, group().ep_axes, runtime.rank()));
  }

  Chunk chosen_of(const DTensor& ids, const RoutedTokens& tokens, std::int64_t index) const {
    Chunk chunk{.index = index, .top_k = tokens.ids_TK.size(1)};
    std::vector<DTensor> parts;
    std::int64_t first = 0;
    for (const std::int64_t held : tokens.tokens_by_rank) {
      const TokenRange range = chunk_of(held, config().chunks, index);
      if (config().chunks > 1) {
        parts.push_back(slice(ids, 0, first + range.begin, first + range.end));
      }
      chunk.tokens_by_rank.push_back(range.size());
      first += held;
    }
    const DTensor chosen = parts.empty() ? ids : cat(parts, 0);
    Runtime& runtime = ids.runtime();
    KernelContext& ctx = runtime.kernels();
    const ExpertRange own = own_experts(runtime);
    const std::int64_t slots = num_elements(chosen.global_shape());
    const DTensor keys = empty_list(runtime, {slots});
    const Array ids_N = kernels::contiguous(ctx, chosen.local()).try_view({slots});
    if (config().rows_bound == 0) {
      kernels::keys_in_range(ctx, ids_N, {own.begin, own.size}, keys.local());
    } else {  // a slot is a token of its own: the first ones have room
      chunk.came = empty_list(runtime, {1});
      const DTensor numbers = empty_list(runtime, {slots});
      const std::int64_t room = config().rows_bound / config().chunks;
      kernels::slots_of_passed(ctx, ids_N.try_view({slots, 1}),
                               {.experts = {own.begin, own.size}, .parts = {{slots, room, 0}}},
                               {keys.local(), numbers.local(), chunk.came.local()});
    }
    chunk.sorted = sort_keys(keys, own.size);
    return chunk;
  }

  void count_rows(Runtime& runtime, std::vector<Chunk>& chunks) const {
    std::vector<DTensor> counts;
    for (const Chunk& chunk : chunks) counts.push_back(chunk.sorted.counts_K);
    const std::vector<Indices> values = read_counts(runtime, counts);
    for (std::size_t c = 0; c < chunks.size(); ++c) chunks[c].counts_e = values[c];
  }

  GatherSteps steps_of(const Chunk& chunk, const std::optional<ExpertRoom>& room) const {
    Runtime& runtime = chunk.sorted.slots.runtime();
    const std::int64_t num_local = chunk.sorted.counts_K.size(0),
                       alignment = config().expert_alignment;
    kernels::KeySize size{.alignment = alignment};
    std::int64_t rows = 0;
    if (room) {
      size.rows = room->of_group;
      rows = num_local * padded_rows(size.rows, alignment);
    }
    if (config().rows_bound > 0) {
      rows = padded_bound(config().rows_bound / config().chunks, num_local, alignment);
    }
    for (const std::int64_t held : chunk.counts_e) rows += padded_rows(held, alignment);
    const DTensor slot_R = empty_list(runtime, {rows}), counts_e = empty_list(runtime, {num_local});
    const Array& counts = chunk.sorted.counts_K.local();
    kernels::order_by_key(
        runtime.kernels(),
        {.counts_PSK = counts.as_strided({1, 1, num_local}, {0, 0, 1}, counts.offset())}, size,
        chunk.sorted.slots.local(), {slot_R.local(), {}, counts_e.local()});
    const std::int64_t slots = sum_of(chunk.tokens_by_rank) * chunk.top_k;
    return {.group = group().all(),
            .tokens_by_rank = chunk.tokens_by_rank,
            .places = places_of(slot_R, slots, chunk.top_k),
            .counts_e = counts_e};
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_gather_dispatcher(const DispatcherSetting& setting) {
  return std::make_unique<GatherDispatcher>(setting);
}

}  // namespace tessera
