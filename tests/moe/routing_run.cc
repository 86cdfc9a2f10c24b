#include "tests/moe/routing_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtensor/factories.h"
#include "kernels/random.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

constexpr double kZeroGuard = 1e-20;

std::string numbered(const char* name, std::int64_t micro) { return name + std::to_string(micro); }

Array padding_mask(const RoutingRun& run) {
  const Array mask = Array::empty({run.batch, run.seq}, DType::kBool);
  for (std::int64_t b = 0; b < run.batch; ++b) {
    for (std::int64_t l = 0; l < run.seq; ++l) {
      mask.data<bool>()[b * run.seq + l] = is_padding(run, b, l);
    }
  }
  return mask;
}

std::int64_t num_valid(const RoutingRun& run) {
  std::int64_t valid = 0;
  for (std::int64_t b = 0; b < run.batch; ++b) {
    for (std::int64_t l = 0; l < run.seq; ++l) valid += !is_padding(run, b, l);
  }
  return valid;
}

void append(std::vector<double>& to, const DTensor& x) {
  const std::vector<double> values = full_tensor(x.detach()).to_vector();
  to.insert(to.end(), values.begin(), values.end());
}

RoutingOutcome route_rank(World& world, const RoutingRun& run) {
  Runtime runtime(world);
  const MeshViews views = value_or_throw(MeshViews::make(run.parallel, world.size()));
  ParameterSet parameters(runtime, DType::kF64);
  const LayerContext context{runtime, views, run.config, parameters, DType::kF64};
  const ModelConfig& c = run.config;
  const Router router(context, "router", 0);
  DTensor& gate = parameters.all()[0].stored();
  {
    const NoGrad no_grad(runtime);
    const Array values = random_array({c.num_experts, c.dim}, "gate");
    DTensor target = gate.detach();
    copy_(target, distribute(runtime, values, gate.spec()));
  }
  LoadBalancer balancer(context, "moe");
  AuxLosses losses;
  RoutingOutcome out;
  for (std::int64_t micro = 0; micro < c.accum; ++micro) {
    runtime.pass = static_cast<std::uint64_t>(micro);
    const auto tokens = [&](const Array& values) {
      return distribute(runtime, values, views.dense(), context.routed_tokens());
    };
    DTensor x = tokens(random_array({run.batch, run.seq, c.dim}, numbered("x", micro)));
    x.set_requires_grad(true);
    RouterState state;
    if (run.padded) {
      const double share = 1.0 / static_cast<double>(c.accum * num_valid(run));
      state.padding = {tokens(padding_mask(run)),
                       scalar_tensor(runtime, share, {.dtype = DType::kF64})};
    }
    Routing routing = router(context, x, state);
    balancer.count(routing);
    routing.weights_BLK = losses.attach(context, routing, balancer);
    const DTensor cotangents =
        tokens(random_array({run.batch, run.seq, c.router_top_k}, numbered("cotangent", micro)));
    backward(sum(mul(routing.weights_BLK, cotangents)));
    append(out.ids, routing.ids_BLK);
    append(out.weights, routing.weights_BLK);
    append(out.x_grad, x.grad());
  }
  append(out.gate_grad, gate.grad());
  append(out.chosen, balancer.counts_E());
  append(out.dispatched, balancer.dispatched_E());
  for (std::size_t kind = 0; kind < out.losses.size(); ++kind) {
    const DTensor loss = losses.take(static_cast<AuxLosses::Kind>(kind));
    if (loss.defined()) out.losses[kind] = item(loss);
  }
  return out;
}

double plain_score(ScoreFunction function, const std::vector<double>& logits, std::size_t expert) {
  if (function == ScoreFunction::kSigmoid) return 1.0 / (1.0 + std::exp(-logits[expert]));
  if (function == ScoreFunction::kSqrtSoftplus)
    return std::sqrt(std::log1p(std::exp(logits[expert])));
  double all = 0.0;
  for (const double each : logits) all += std::exp(each);
  return std::exp(logits[expert]) / all;
}

/// Counts and sums of shares over some tokens.
struct LoadOf {
  std::vector<double> counts, shares;
  double num_tokens = 0.0;
  explicit LoadOf(std::int64_t num_experts)
      : counts(static_cast<std::size_t>(num_experts)), shares(counts.size()) {}
  /// E · Σ (share of `counts`) · (mean score).
  double loss(const std::vector<double>& load) const {
    const double all = std::accumulate(load.begin(), load.end(), 0.0);
    double sum = 0.0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      if (num_tokens > 0) sum += load[e] / all * (shares[e] / num_tokens);
    }
    return sum * static_cast<double>(counts.size());
  }
};

}  // namespace

RoutingRun routing_run() {
  RoutingRun run;
  run.config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  run.config.dim = 4;
  run.config.num_experts = 6;
  run.config.router_top_k = 2;
  run.config.accum = 2;
  run.config.batch = run.batch;
  return run;
}

Array random_array(const Shape& shape, std::string_view name) {
  Array out = Array::empty(shape, DType::kF64);
  std::vector<std::vector<std::int64_t>> index;
  for (const std::int64_t size : shape) {
    index.emplace_back(static_cast<std::size_t>(size));
    std::iota(index.back().begin(), index.back().end(), 0);
  }
  KernelContext context;
  kernels::random(context, {.a = -1.0, .b = 1.0, .seed = 3, .stream = kernels::stream_of(name)},
                  shape, index, out);
  return out;
}

bool is_padding(const RoutingRun& run, std::int64_t b, std::int64_t l) {
  return run.padded && l >= run.seq - b;
}

std::vector<double> routing_gate(const RoutingRun& run) {
  return random_array({run.config.num_experts, run.config.dim}, "gate").to_vector();
}

RoutingOutcome route(const RoutingRun& given) {
  RoutingRun run = given;
  run.config.seq = run.seq;
  run.config.batch = run.batch;
  return results_of(run.num_ranks, {}, [&](World& world) { return route_rank(world, run); })
      .value()[0];
}

PlainRouting route_plainly(const RoutingRun& run, const std::vector<double>& ids,
                           const std::vector<double>& gate, const std::vector<char>& kept) {
  const ModelConfig& c = run.config;
  const RoutingConfig& r = c.routing;
  const auto num_experts = static_cast<std::size_t>(c.num_experts);
  const auto top_k = static_cast<std::size_t>(c.router_top_k);
  const auto dim = static_cast<std::size_t>(c.dim);
  PlainRouting out;
  std::vector<double> counts_so_far(num_experts);
  std::size_t slot = 0;
  for (std::int64_t micro = 0; micro < c.accum; ++micro) {
    const std::vector<double> x =
        random_array({run.batch, run.seq, c.dim}, numbered("x", micro)).to_vector();
    const std::vector<double> cotangents =
        random_array({run.batch, run.seq, c.router_top_k}, numbered("cotangent", micro))
            .to_vector();
    LoadOf all(c.num_experts);
    double sequence_loss = 0.0, squares = 0.0;
    std::size_t first_slot = slot;
    for (std::int64_t b = 0; b < run.batch; ++b) {
      LoadOf own(c.num_experts);
      for (std::int64_t l = 0; l < run.seq; ++l, slot += top_k) {
        const auto token = static_cast<std::size_t>(b * run.seq + l);
        std::vector<double> logits(num_experts), scores(num_experts);
        for (std::size_t e = 0; e < num_experts; ++e) {
          for (std::size_t d = 0; d < dim; ++d) logits[e] += x[token * dim + d] * gate[e * dim + d];
        }
        double score_sum = kZeroGuard, exp_sum = 0.0, chosen_sum = kZeroGuard;
        for (std::size_t e = 0; e < num_experts; ++e) {
          scores[e] = plain_score(c.score_func, logits, e);
          score_sum += scores[e];
          exp_sum += std::exp(logits[e]);
        }
        const bool padding = is_padding(run, b, l);
        const auto expert = [&](std::size_t k) { return static_cast<std::size_t>(ids[slot + k]); };
        for (std::size_t k = 0; k < top_k && !padding; ++k) chosen_sum += scores[expert(k)];
        for (std::size_t k = 0; k < top_k; ++k) {
          double weight = 0.0;
          if (expert(k) < num_experts) {
            weight = scores[expert(k)] / (c.route_norm ? chosen_sum : 1.0) * c.route_scale;
            own.counts[expert(k)] += 1.0;
          }
          if (!kept.empty() && kept[slot + k] == 0) weight = 0.0;
          out.weights.push_back(weight);
          out.total += weight * cotangents[slot - first_slot + k];
        }
        if (padding) continue;
        own.num_tokens += 1.0;
        squares += std::log(exp_sum) * std::log(exp_sum);
        for (std::size_t e = 0; e < num_experts; ++e) own.shares[e] += scores[e] / score_sum;
      }
      sequence_loss += own.loss(own.counts);
      all.num_tokens += own.num_tokens;
      for (std::size_t e = 0; e < num_experts; ++e) {
        all.counts[e] += own.counts[e];
        all.shares[e] += own.shares[e];
        counts_so_far[e] += own.counts[e];
      }
    }
    const auto accum = static_cast<double>(c.accum);
    const std::array<double, AuxLosses::kNumKinds> losses = {
        r.seq_aux_coeff * sequence_loss / static_cast<double>(run.batch) / accum,
        r.batch_aux_coeff * all.loss(all.counts) / accum,
        r.global_aux_coeff * all.loss(counts_so_far) / accum,
        r.z_loss_coeff * squares / all.num_tokens / accum};
    for (std::size_t kind = 0; kind < losses.size(); ++kind) {
      out.losses[kind] += losses[kind];
      out.total += losses[kind];
    }
  }
  return out;
}

std::vector<char> keep_plainly(const RoutingRun& run, const std::vector<double>& ids,
                               const std::vector<double>& weights) {
  const ModelConfig& c = run.config;
  const RoutingConfig& r = c.routing;
  const bool by_sequence = r.capacity_scope == CapacityScope::kSequence;
  const auto per_sequence = static_cast<std::size_t>(run.seq * c.router_top_k);
  const std::size_t per_scope =
      by_sequence ? per_sequence : per_sequence * static_cast<std::size_t>(run.batch);
  const auto room = static_cast<std::size_t>(std::ceil(
      static_cast<double>(per_scope) / static_cast<double>(c.num_experts) * *r.capacity_factor));
  std::vector<char> kept(ids.size(), 0);
  for (std::size_t begin = 0; begin < ids.size(); begin += per_scope) {
    for (std::int64_t expert = 0; expert < c.num_experts; ++expert) {
      std::vector<std::size_t> takers;
      for (std::size_t slot = begin; slot < begin + per_scope; ++slot) {
        if (ids[slot] == static_cast<double>(expert)) takers.push_back(slot);
      }
      if (r.drop_policy == DropPolicy::kProbability) {
        std::stable_sort(takers.begin(), takers.end(),
                         [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
      }
      for (std::size_t i = 0; i < std::min(room, takers.size()); ++i) kept[takers[i]] = 1;
    }
  }
  return kept;
}

}  // namespace tessera::testing
