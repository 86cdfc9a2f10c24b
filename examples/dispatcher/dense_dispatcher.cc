#include "dense_dispatcher.h"

#include <memory>
#include <utility>
#include <vector>

#include "dtensor/ops.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "moe/layer/dispatcher_table.h"

using namespace tessera;

namespace {

/// Of one pass. Suffixes: N tokens of all ranks, K choices of each, e experts of this rank.
struct DenseSteps {
  AxisGroup group;
  std::vector<std::int64_t> tokens_by_rank;
  DTensor chosen_NKe;  ///< 1 where a choice is that expert
  DTensor counts_e;    ///< N each
};

class DenseRoute final : public Route {
 public:
  explicit DenseRoute(DenseSteps steps) : steps_(std::move(steps)) {}

  void begin(const DTensor& x_TD) override {
    pending_ = begin_move(x_TD, move(RowMove::Kind::kAllGather));
  }

  /// Expert after expert, all tokens each.
  ExpertRows arrive() override {
    const DTensor x_ND = pending_.finish();
    const std::int64_t experts = steps_.counts_e.size(0);
    const DTensor x_eND = expand(unsqueeze(x_ND, 0), {experts, x_ND.size(0), x_ND.size(1)});
    return {reshape(x_eND, {experts * x_ND.size(0), x_ND.size(1)}), steps_.counts_e};
  }

  /// What this rank's experts add to every token, in score precision, goes to the token's rank.
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    dtype_ = y_RD.dtype();
    const DTensor weights_NK = move_rows(weights_TK, move(RowMove::Kind::kAllGather));
    const DTensor chosen_NKe = cast(steps_.chosen_NKe, weights_NK.dtype());
    const DTensor weights_Ne = sum(mul(chosen_NKe, unsqueeze(weights_NK, 2)), {1});
    const DTensor y_eND = reshape(cast(y_RD, weights_NK.dtype()),
                                  {weights_Ne.size(1), weights_Ne.size(0), y_RD.size(1)});
    const DTensor sums_ND = sum(mul(y_eND, unsqueeze(transpose(weights_Ne, 0, 1), 2)), {0});
    pending_ = begin_move(sums_ND, move(RowMove::Kind::kReduceScatter));
  }
  DTensor finish_return() override { return cast(pending_.finish(), dtype_); }

 private:
  RowMove move(RowMove::Kind kind) const {
    return {.kind = kind, .group = steps_.group, .send = steps_.tokens_by_rank};
  }

  DenseSteps steps_;
  PendingRows pending_;
  DType dtype_ = DType::kF32;
};

class DenseDispatcher final : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;

  RoutePlan plan(const RoutedTokens& tokens) const override {
    if (tokens.room) {
      throw Error(unimplemented(layer() + ": the dense dispatcher cannot pad to a capacity"));
    }
    Runtime& runtime = tokens.ids_TK.runtime();
    const NoGrad no_grad(runtime);
    // A recomputed pass takes the ids that the first one saw.
    const DTensor ids_NK = kept_tensor(runtime, [&] {
      return all_gather_rows(tokens.ids_TK, tokens.tokens_by_rank, group().all());
    });
    // One class more than experts: of choices that go nowhere.
    const DTensor chosen_NKE = one_hot(ids_NK, num_experts() + 1);
    const auto [first, held] = own_experts(runtime.rank());
    const std::vector<double> counts(static_cast<std::size_t>(held),
                                     static_cast<double>(ids_NK.size(0)));
    const Array counts_e = Array::from_values({held}, DType::kI64, counts);

    RoutePlan plan{.chunks = {{0, tokens.ids_TK.size(0)}}, .routes = {}, .rows_needed = {}};
    plan.routes.push_back(std::make_unique<DenseRoute>(
        DenseSteps{.group = group().all(),
                   .tokens_by_rank = tokens.tokens_by_rank,
                   .chosen_NKe = slice(chosen_NKE, 2, first, first + held),
                   .counts_e = plain(runtime, to_device(runtime.kernels(), counts_e))}));
    return plan;
  }

 private:
  struct Experts {
    std::int64_t first, held;
  };
  Experts own_experts(std::int64_t rank) const {
    const auto axis = static_cast<std::size_t>(group().ep_axes[0]);
    const std::int64_t at = (*group().mesh.coord_of(rank))[axis];
    const std::vector<std::int64_t> by_rank = experts_by_rank(num_experts(), group().ep_size());
    std::int64_t first = 0;
    for (std::int64_t before = 0; before < at; ++before) {
      first += by_rank[static_cast<std::size_t>(before)];
    }
    return {first, by_rank[static_cast<std::size_t>(at)]};
  }
};

StatusOr<std::unique_ptr<Dispatcher>> make_dense(const DispatcherSetting& setting) {
  const DispatchConfig& config = setting.config;
  if (config.chunks > 1 || config.expert_alignment > 1 || config.rows_bound > 0) {
    return unimplemented(setting.layer +
                         ": the dense dispatcher has neither dispatch_chunks, expert_alignment nor "
                         "rows_bound: every expert gets every token");
  }
  return std::make_unique<DenseDispatcher>(setting);
}

}  // namespace

Status add_dense_dispatcher() { return add_dispatcher({.name = "dense", .make = make_dense}); }
