#include "moe/layer/experts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/local_map.h"
#include "kernels/elementwise.h"
#include "kernels/row_lists.h"
#include "moe/layer/capacity.h"
#include "moe/layer/open_experts.h"
#include "moe/layer/routed_slots.h"

namespace tessera {
namespace {

/// (b, l, …) → (b·l, …) of a local tensor.
DTensor merge_tokens(const DTensor& x_BLX) {
  return reshape(x_BLX, {x_BLX.size(0) * x_BLX.size(1), x_BLX.size(2)});
}

/// Placements of expert weights as used, and of their gradients.
struct WeightPlacement {
  Mesh mesh;
  Placements used;
  GradPlacements grad;
  std::vector<int> fsdp_axes;
  std::int64_t fsdp_ranks = 1;  ///< that cut it in storage
};

/// On the sparse mesh: experts over ep, their hidden dim over etp. Without expert parallelism on
/// the dense one, the hidden dim over tp. Cotangents are summands wherever ranks saw other tokens.
WeightPlacement weight_placement(const LayerContext& context, int hidden_dim) {
  const MeshViews& views = context.views;
  const Placement hidden = Shard{hidden_dim};
  const auto all = [](const Placements& placements) {
    return GradPlacements(placements.begin(), placements.end());
  };
  if (!views.uses_expert_parallel()) {
    return {.mesh = views.dense(),
            .used = views.on_dense({.tp = hidden}),
            .grad = all(context.summed(hidden)),
            .fsdp_axes = views.fsdp_axes(),
            .fsdp_ranks = views.fsdp()};
  }
  return {.mesh = views.sparse(),
          .used = views.on_sparse({.ep = Shard{0}, .etp = hidden}),
          .grad = all(views.on_sparse(
              {.dp_replicate = Partial{}, .efsdp = Partial{}, .ep = Shard{0}, .etp = hidden})),
          .fsdp_axes = views.sparse_axes({"efsdp"}),
          .fsdp_ranks = views.efsdp()};
}

constexpr int kHiddenDimOfW1 = 1;
constexpr int kHiddenDimOfW2 = 2;

ExpertGroup expert_group(const MeshViews& views) {
  return {.mesh = views.sparse(),
          .ep_axes = views.sparse_axes({"ep"}),
          .etp_axes = views.sparse_axes({"etp"})};
}

/// Tokens that each rank of the expert group holds of x_BLD; known to all from the placements.
std::vector<std::int64_t> tokens_by_rank(const DTensor& x_BLD, const ExpertGroup& group) {
  const AxisGroup all = group.all();
  const Mesh ranks = value_or_throw(all.mesh.sub_mesh(all.axes, x_BLD.runtime().rank()));
  std::vector<std::int64_t> tokens;
  for (const std::int64_t rank : ranks.ranks()) {
    const Shape local = x_BLD.spec().local_shape(*x_BLD.mesh().coord_of(rank));
    tokens.push_back(local[0] * local[1]);
  }
  return tokens;
}

DTensor rows_of(const DTensor& x_TX, TokenRange range) {
  return range.size() == x_TX.size(0) ? x_TX : slice(x_TX, 0, range.begin, range.end);
}

DTensor feed_forward(const ExpertRows& in, const LocalInputs& local) {
  const DTensor gate = grouped_mm(in.rows_RD, local["w1_EFD"], in.counts_e);
  const DTensor up = grouped_mm(in.rows_RD, local["w3_EFD"], in.counts_e);
  return grouped_mm(swiglu(gate, up), local["w2_EDF"], in.counts_e);
}

}  // namespace

RoutedExperts::RoutedExperts(const LayerContext& context, const std::string& name,
                             std::int64_t layer)
    : name_(name) {
  const MoeConfig& c = context.config;
  throw_if_error(context.views.check_experts(name, c.num_experts));
  throw_if_error(check_padding_to_capacity(c.routing, context.views.config().dispatch));
  dispatcher_ = value_or_throw(Dispatcher::make(
      {name, expert_group(context.views), c.num_experts, context.views.config().dispatch}));
  const auto declare = [&](const char* part, Shape shape, int hidden_dim, Init init) {
    const WeightPlacement placement = weight_placement(context, hidden_dim);
    return &context.parameters.add(
        {.name = name + ".inner_experts." + part,
         .shape = std::move(shape),
         .mesh = placement.mesh,
         .used = placement.used,
         .fsdp_axes = placement.fsdp_axes,
         .fsdp_dim = expert_fsdp_dim(placement.fsdp_ranks, context.views.ep(), c.num_experts),
         .init = init});
  };
  const Init back = truncated_init(depth_std(layer));
  w1_ = declare("w1_EFD", {c.num_experts, c.moe_hidden_dim, c.dim}, kHiddenDimOfW1,
                truncated_init(kLinearStd));
  w2_ = declare("w2_EDF", {c.num_experts, c.dim, c.moe_hidden_dim}, kHiddenDimOfW2, back);
  w3_ = declare("w3_EFD", {c.num_experts, c.moe_hidden_dim, c.dim}, kHiddenDimOfW1, back);
}

/// One chunk's rows are on their way while another's are computed.
std::vector<DTensor> RoutedExperts::compute(RoutedTokens tokens, const LocalInputs& local,
                                            const std::function<void()>& meanwhile) {
  const DTensor x_TD = merge_tokens(local["x_BLD"]);
  const DTensor weights_TK = merge_tokens(local["weights_BLK"]);
  tokens.ids_TK = merge_tokens(local["ids_BLK"]);
  // What balances experts is what they get.
  KernelContext& ctx = tokens.ids_TK.runtime().kernels();
  kernels::check_counts(ctx, kernels::contiguous(ctx, tokens.ids_TK.local()),
                        local["counts_E"].local(), name_);
  const RoutePlan plan = dispatcher_->plan(tokens);
  if (plan.rows_needed.defined()) {
    rows_needed_ =
        rows_needed_.defined() ? maximum(rows_needed_, plan.rows_needed) : plan.rows_needed;
  }
  plan.routes[0]->begin(rows_of(x_TD, plan.chunks[0]));
  if (meanwhile) meanwhile();
  for (std::size_t c = 0; c < plan.routes.size(); ++c) {
    if (c + 1 < plan.routes.size()) {
      plan.routes[c + 1]->begin(rows_of(x_TD, plan.chunks[c + 1]));
    }
    const DTensor y_RD = feed_forward(plan.routes[c]->arrive(), local);
    plan.routes[c]->begin_return(y_RD, rows_of(weights_TK, plan.chunks[c]));
  }
  std::vector<DTensor> outs;
  for (const auto& route : plan.routes) outs.push_back(route->finish_return());
  const DTensor out_TD = outs.size() == 1 ? outs[0] : cat(outs, 0);
  return {reshape(out_TD, local["x_BLD"].global_shape())};
}

DTensor RoutedExperts::operator()(const LayerContext& context, const DTensor& x_BLD,
                                  const Routing& routing, const std::function<void()>& meanwhile) {
  if (context.form == LayerForm::kOps) {
    if (meanwhile) meanwhile();
    const DType dtype = context.compute;
    return open_experts(x_BLD, routing, {w1_->use(dtype), w2_->use(dtype), w3_->use(dtype)});
  }
  const bool expert_parallel = context.views.uses_expert_parallel();
  const Placements tokens = context.routed_tokens();
  // Without expert parallelism each tp rank sees every token but only its slice of F: cotangents
  // are summands.
  const Placement tp_grad = expert_parallel ? Placement(Shard{1}) : Placement(Partial{});
  const Placements out_placements = context.with_tp(tp_grad);
  const GradPlacements token_grad(out_placements.begin(), out_placements.end());
  const Placement counts_on_tp = expert_parallel ? Placement(Partial{}) : Placement(Replicate{});
  const WeightPlacement in = weight_placement(context, kHiddenDimOfW1);
  const WeightPlacement out = weight_placement(context, kHiddenDimOfW2);
  const std::array<LocalArg, 7> args = {
      LocalArg{"x_BLD", x_BLD, tokens, token_grad},
      LocalArg{"weights_BLK", routing.weights_BLK, tokens, token_grad},
      LocalArg{"ids_BLK", routing.ids_BLK, tokens},
      LocalArg{"counts_E", routing.counts_E, context.summed(counts_on_tp)},
      LocalArg{"w1_EFD", w1_->use(context.compute), in.used, in.grad},
      LocalArg{"w2_EDF", w2_->use(context.compute), out.used, out.grad},
      LocalArg{"w3_EFD", w3_->use(context.compute), in.used, in.grad}};
  const std::array<LocalResult, 1> results = {
      LocalResult{"out_BLD", context.views.dense(), out_placements, x_BLD.global_shape()}};
  RoutedTokens routed;
  if (context.config.routing.pad_to_capacity) {
    routed.room = expert_room(context.config, x_BLD, dispatcher_->group());
  }
  if (routed.room || dispatcher_->needs_tokens_by_rank()) {
    routed.tokens_by_rank = tokens_by_rank(x_BLD, dispatcher_->group());
  }
  const auto region = [&](const LocalInputs& local) { return compute(routed, local, meanwhile); };
  return local_map(context.runtime, name_, args, results, region)[0];
}

}  // namespace tessera
