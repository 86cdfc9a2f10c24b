#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/ops.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "moe/exchange_dispatcher.h"

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
  GatherDispatcher(const ExpertGroup& group, std::int64_t num_experts, const DispatchConfig& config)
      : Dispatcher(group, num_experts, config) {}

  RoutePlan plan(const RoutedTokens& tokens) const override {
    const NoGrad no_grad(tokens.ids_TK.runtime());
    Runtime& runtime = tokens.ids_TK.runtime();
    const Indices ids = kept_values(runtime, [&]() -> Indices {
      const DTensor all = all_gather_rows(tokens.ids_TK, tokens.tokens_by_rank, group().all());
      if (config().rows_bound == 0 && !tokens.room) log_host_read(runtime, "moe.dispatch.counts");
      return values_of(all);
    });
    RoutePlan plan;
    std::int64_t most = 0;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      plan.chunks.push_back(chunk_of(tokens.ids_TK.size(0), config().chunks, c));
      auto [steps, rows] = steps_of(runtime, ids, tokens, c);
      plan.routes.push_back(std::make_unique<GatherRoute>(std::move(steps)));
      most = std::max(most, rows);
    }
    if (config().rows_bound > 0) {
      const std::int64_t needed[] = {most * config().chunks};
      plan.rows_needed = index_tensor(runtime, needed);
    }
    return plan;
  }

 private:
  /// Steps of a chunk, and how many rows it has for this rank.
  std::pair<GatherSteps, std::int64_t> steps_of(Runtime& runtime, const Indices& ids,
                                                const RoutedTokens& tokens,
                                                std::int64_t chunk) const {
    GatherSteps steps{.group = group().all()};
    const std::int64_t top_k = tokens.ids_TK.size(1);
    Indices chosen;  // expert of each slot of the gathered chunk
    std::int64_t first = 0;
    for (const std::int64_t held : tokens.tokens_by_rank) {
      const TokenRange range = chunk_of(held, config().chunks, chunk);
      const auto slots =
          std::span(ids).subspan(static_cast<std::size_t>((first + range.begin) * top_k),
                                 static_cast<std::size_t>(range.size() * top_k));
      chosen.insert(chosen.end(), slots.begin(), slots.end());
      steps.tokens_by_rank.push_back(range.size());
      first += held;
    }
    const auto room = room_in_chunk(tokens, config().chunks, chunk);
    const std::int64_t rows = pick_rows(runtime, chosen, room, top_k, steps);
    return {std::move(steps), rows};
  }

  /// Sorts the slots of this rank's experts.
  std::int64_t pick_rows(Runtime& runtime, const Indices& chosen,
                         const std::optional<ExpertRoom>& room, std::int64_t top_k,
                         GatherSteps& steps) const {
    const Indices experts = experts_by_rank(num_experts(), group().ep_size());
    const std::int64_t self = position_along(group().mesh, group().ep_axes, runtime.rank());
    const std::int64_t begin = sum_of({experts.begin(), experts.begin() + self});
    const std::int64_t num_local = experts[static_cast<std::size_t>(self)];
    std::vector<Indices> by_expert(static_cast<std::size_t>(num_local));
    std::int64_t rows = 0;
    std::optional<std::int64_t> bound;
    if (config().rows_bound > 0) bound = config().rows_bound / config().chunks;
    for (std::size_t slot = 0; slot < chosen.size(); ++slot) {
      const std::int64_t local = chosen[slot] - begin;
      if (local < 0 || local >= num_local) continue;
      if (!bound || rows < *bound) {
        by_expert[static_cast<std::size_t>(local)].push_back(static_cast<std::int64_t>(slot));
      }
      ++rows;
    }
    Indices slot_R;
    Indices counts;
    const std::int64_t alignment = config().expert_alignment;
    for (const Indices& slots : by_expert) {
      const auto held = static_cast<std::int64_t>(slots.size());
      const std::int64_t wanted = room ? room->of_group : held;
      TSR_CHECK(held <= wanted,
                absl::StrFormat("an expert has %d rows, but room for %d", held, wanted));
      counts.push_back((wanted + alignment - 1) / alignment * alignment);
      slot_R.insert(slot_R.end(), slots.begin(), slots.end());
      slot_R.resize(slot_R.size() + static_cast<std::size_t>(counts.back() - held), -1);
    }
    if (bound) {
      slot_R.resize(static_cast<std::size_t>(padded_bound(*bound, num_local, alignment)), -1);
    }
    steps.places = places_of(runtime, slot_R, static_cast<std::int64_t>(chosen.size()), top_k);
    steps.counts_e = index_tensor(runtime, counts);
    return rows;
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_gather_dispatcher(const ExpertGroup& group,
                                                   std::int64_t num_experts,
                                                   const DispatchConfig& config) {
  return std::make_unique<GatherDispatcher>(group, num_experts, config);
}

}  // namespace tessera
