// A mixture of experts as a layer of somebody else's model, which has an attention and a loss of
// its own: forward and backward on 8 ranks (threads of this process) and again on one. Which rank
// holds which expert, who got how many tokens, what moved, and that both agree.
#include "moe/layer/moe_layer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "dtensor/ops.h"
#include "runtime/world.h"

using namespace tessera;

namespace {

MoeConfig layer_config() {
  MoeConfig config;
  config.dim = 16;
  config.moe_hidden_dim = 24;
  config.num_experts = 8;
  config.num_shared_experts = 1;
  config.router_top_k = 2;
  config.score_func = ScoreFunction::kSigmoid;
  config.route_norm = true;
  config.batch = 4;
  config.seq = 12;
  return config;
}

/// The same tokens whatever the ranks: values depend on the global index only.
Array token_values(const MoeConfig& config) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < config.batch * config.seq * config.dim; ++i) {
    values.push_back(std::sin(0.7 * static_cast<double>(i)));
  }
  return Array::from_values({config.batch, config.seq, config.dim}, DType::kF64, values);
}

/// One head, each token meets those before it. Weights are whole on each rank of tp, as tokens are
/// here; FSDP cuts them in storage.
class Attention {
 public:
  explicit Attention(const LayerContext& context) {
    const std::int64_t dim = context.config.dim;
    for (const char* name : {"q", "k", "v", "out"}) {
      weights_[name] = &context.declare(std::string("attention.") + name, {dim, dim}, Replicate{},
                                        truncated_init(0.2));
    }
  }
  DTensor operator()(const LayerContext& context, const DTensor& x_BLD) const {
    const ModuleScope scope(context.runtime, "attention");
    const DTensor whole_BLD = redistribute(x_BLD, context.whole_tokens());
    const auto head = [&](const char* name) {
      return unsqueeze(project(context, whole_BLD, *weights_.at(name)), 1);
    };
    const double scale = 1.0 / std::sqrt(static_cast<double>(context.config.dim));
    // One after another: the order of a call's arguments is the compiler's.
    const DTensor q_BHLD = head("q"), k_BHLD = head("k"), v_BHLD = head("v");
    const DTensor y_BHLD = attention(q_BHLD, k_BHLD, v_BHLD, scale);
    const DTensor out_BLD = project(context, squeeze(y_BHLD, 1), *weights_.at("out"));
    return redistribute(out_BLD, context.tokens());
  }

 private:
  std::map<std::string, Parameter*> weights_;
};

/// What a run gives, the same on every rank of it.
struct Outcome {
  std::map<std::string, std::vector<double>> tensors;  ///< the result and every gradient, whole
  std::vector<double> tokens_per_expert;
};

/// The ranks that hold rows of expert `expert` under `spec`, whose dim 0 counts experts.
std::string ranks_with(const Spec& spec, std::int64_t expert) {
  std::string ranks;
  for (std::int64_t rank = 0; rank < spec.mesh().num_ranks(); ++rank) {
    for (const Interval& held :
         local_intervals(spec.mesh(), spec.global_shape()[0], spec.layout().dims[0],
                         *spec.mesh().coord_of(rank))) {
      if (held.start <= expert && expert < held.stop) ranks += " " + std::to_string(rank);
    }
  }
  return ranks;
}

void print_places(const MeshViews& views, ParameterSet& parameters) {
  std::printf("%lld ranks: dense mesh %s, sparse mesh %s\n",
              static_cast<long long>(views.dense().num_ranks()), views.dense().to_string().c_str(),
              views.sparse().to_string().c_str());
  const Parameter& w1 = *parameters.find("moe.routed_experts.inner_experts.w1_EFD");
  std::printf("experts' w1 is stored as %s\n", w1.stored().spec().to_string().c_str());
  for (std::int64_t expert = 0; expert < w1.stored().size(0); ++expert) {
    std::printf("  expert %lld: stored on rank%s, used on ranks%s\n",
                static_cast<long long>(expert), ranks_with(w1.stored().spec(), expert).c_str(),
                ranks_with(w1.used_spec(), expert).c_str());
  }
}

void print_moves(const EventLog& events) {
  std::printf("what rank 0 received:\n");
  for (const EventLog::Total& total : events.totals()) {
    if (total.kind != Event::Kind::kCollective || total.bytes_received == 0) continue;
    std::printf("  %-15s %-14s over %-5s %lld times, %lld bytes\n", total.module.c_str(),
                total.name.c_str(), total.axes.c_str(), static_cast<long long>(total.count),
                static_cast<long long>(total.bytes_received));
  }
}

void on_rank(World& world, const ParallelConfig& parallel, Outcome& outcome) {
  Runtime runtime(world);
  const MoeConfig config = layer_config();
  const MeshViews views = value_or_throw(MeshViews::make(parallel, world.size()));
  ParameterSet parameters(runtime, DType::kF64);
  const LayerContext context = {.runtime = runtime,
                                .views = views,
                                .config = config,
                                .parameters = parameters,
                                .compute = DType::kF64};
  const Attention attention(context);
  MoeLayer layer(context, "moe", /*layer=*/0);
  parameters.initialize(/*seed=*/7);

  DTensor x = distribute(runtime, token_values(config), views.dense(), context.tokens());
  x.set_requires_grad(true);
  const DTensor h = add(x, attention(context, x));
  const DTensor y = add(h, layer(context, h));
  // A loss that forgives outliers.
  backward(sum(sub(sqrt(add(square(y), 1.0)), 1.0)));

  const bool speaks = world.rank() == 0 && world.size() > 1;
  if (speaks) {
    print_places(views, parameters);
    print_moves(runtime.events());
  }
  // Whole copies, for the comparison. Collective: every rank takes part.
  Outcome mine;
  mine.tokens_per_expert = full_tensor(layer.balancer().counts_E()).to_vector();
  mine.tensors["y"] = full_tensor(y).to_vector();
  mine.tensors["x.grad"] = full_tensor(x.grad()).to_vector();
  for (Parameter& parameter : parameters.all()) {
    mine.tensors[parameter.name() + ".grad"] = full_tensor(parameter.stored().grad()).to_vector();
  }
  if (world.rank() == 0) outcome = std::move(mine);
}

Outcome run(int num_ranks, const ParallelConfig& parallel) {
  Outcome outcome;
  throw_if_error(run_ranks(num_ranks, {.threads_per_rank = 1},
                           [&](World& world) { on_rank(world, parallel, outcome); }));
  return outcome;
}

double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

int main() {
  try {
    const Outcome many = run(8, {.dp_shard = 4, .tp = 2, .ep = 4});
    const Outcome one = run(1, {});
    std::printf("tokens per expert:");
    for (const double count : many.tokens_per_expert) std::printf(" %g", count);
    std::printf("%s\n", many.tokens_per_expert == one.tokens_per_expert ? " (as on one rank)" : "");
    std::printf("largest difference from one rank:\n");
    bool agree = many.tokens_per_expert == one.tokens_per_expert;
    for (const auto& [name, values] : many.tensors) {
      const double difference = max_difference(values, one.tensors.at(name));
      const bool close = difference <= 1e-12;
      agree = agree && close;
      std::printf("  %-34s %s\n", name.c_str(),
                  close ? "at most 1e-12" : std::to_string(difference).c_str());
    }
    return agree ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "moe_layer: %s\n", error.what());
    return 1;
  }
}
