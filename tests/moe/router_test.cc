// Routing: groups, bias, normalisation, and placements that stay where the tokens are.
#include "moe/layer/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "dtensor/recompute.h"
#include "kernels/random.h"
#include "testing/results.h"
#include "tests/moe/plain_here.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kB = 2, kL = 6, kE = 8, kK = 3;

ModelConfig router_config() {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("grouped").find("config")->to_string(), "grouped"));
  config.dim = 4;
  config.num_experts = kE;
  config.router_top_k = kK;
  config.groups = 4;
  config.limited = 2;
  return config;
}

Array random_values(const Shape& shape, std::string_view name) {
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

/// What each rank saw of one router call.
struct RouterOutcome {
  std::string ids_spec, counts_spec;
  std::vector<double> weights, ids, counts;
  std::int64_t bytes = 0;
};

RouterOutcome route(World& world, const ParallelConfig& parallel, const ModelConfig& config,
                    const Array& bias) {
  Runtime runtime(world);
  const MeshViews views = value_or_throw(MeshViews::make(parallel, world.size()));
  ParameterSet parameters(runtime, DType::kF64);
  const LayerContext context{runtime, views, config, parameters, DType::kF64};
  const Router router(context, "router", 0);
  parameters.initialize(5);
  const DTensor x = distribute(runtime, random_values({kB, kL, config.dim}, "x"), views.dense(),
                               context.routed_tokens());
  const Placements whole = {Replicate{}, Replicate{}};
  const DTensor bias_E =
      bias.is_null() ? DTensor() : distribute(runtime, bias, views.dense(), whole);
  // The gate is gathered along fsdp; everything after it must move nothing.
  const DTensor gathered = parameters.all()[0].use(DType::kF64);
  const std::int64_t gate_bytes = runtime.events().bytes_received();
  const Routing routing = router(context, x, {.expert_bias_E = bias_E});
  RouterOutcome out;
  out.bytes = runtime.events().bytes_received() - 2 * gate_bytes;
  out.ids_spec = to_string(value_or_throw(routing.ids_BLK.spec().placements()));
  out.counts_spec = to_string(value_or_throw(routing.counts_E.spec().placements()));
  out.weights = full_tensor(routing.weights_BLK.detach()).to_vector();
  out.ids = full_tensor(routing.ids_BLK).to_vector();
  out.counts = full_tensor(routing.counts_E).to_vector();
  return out;
}

RouterOutcome route_on(int num_ranks, const ParallelConfig& parallel, const ModelConfig& config,
                       const Array& bias = {}) {
  return results_of(num_ranks, {},
                    [&](World& world) { return route(world, parallel, config, bias); })
      .value()[0];
}

}  // namespace

TEST_CASE("the token-sharded routing map moves nothing and counts are summands",
          "[moe][router][C1][C2][C3]") {
  const RouterOutcome one = route_on(1, {}, router_config());
  const RouterOutcome four = route_on(4, {.dp_shard = 2, .tp = 2, .ep = 2}, router_config());
  CHECK(four.bytes == 0);
  CHECK(four.ids_spec == "(S(0), S(1))");
  CHECK(four.counts_spec == "(P(sum), P(sum))");
  CHECK(four.ids == one.ids);
  CHECK(four.counts == one.counts);
  for (std::size_t i = 0; i < one.weights.size(); ++i) {
    CHECK(four.weights[i] == Approx(one.weights[i]).epsilon(1e-14));
  }
}

TEST_CASE("routing works without data sharding and without expert parallelism",
          "[moe][router][C4]") {
  const RouterOutcome one = route_on(1, {}, router_config());
  const RouterOutcome two = route_on(2, {.dp_shard = 1, .tp = 2}, router_config());
  CHECK(two.bytes == 0);
  CHECK(two.ids == one.ids);
  CHECK(two.counts == one.counts);
}

TEST_CASE("a BF16 run scores tokens in F32 with the F32 gate, and gives it an F32 gradient",
          "[moe][router][C8]") {
  struct Mesh {
    ParallelConfig parallel;
    int num_ranks;
  };
  const Mesh mesh = GENERATE(Mesh{{}, 1}, Mesh{{.dp_shard = 2}, 2}, Mesh{{.tp = 2, .ep = 2}, 2});
  ModelConfig config = router_config();
  config.dim = 64;
  struct Seen {
    std::vector<double> x, gate, logits, gate_grad;
    std::vector<DType> dtypes;
  };
  const auto ranks =
      results_of(mesh.num_ranks, {}, [&](World& world) {
        Runtime runtime(world);
        const MeshViews views = value_or_throw(MeshViews::make(mesh.parallel, world.size()));
        ParameterSet parameters(runtime, DType::kF32, {}, DType::kBF16);
        const LayerContext context{runtime, views, config, parameters, DType::kBF16};
        const Router router(context, "router", 0);
        parameters.initialize(5);
        const Array x = Array::from_values({kB, kL, config.dim}, DType::kBF16,
                                           random_values({kB, kL, config.dim}, "x").to_vector());
        const Routing routing =
            router(context, distribute(runtime, x, views.dense(), context.routed_tokens()), {});
        backward(sum(mul(routing.logits_BLE, routing.logits_BLE)));
        parameters.finish_gradients();
        const DTensor& gate = parameters.all()[0].stored();
        return Seen{.x = x.to_vector(),
                    .gate = full_tensor(gate.detach()).to_vector(),
                    .logits = full_tensor(routing.logits_BLE.detach()).to_vector(),
                    .gate_grad = full_tensor(gate.grad()).to_vector(),
                    .dtypes = {routing.logits_BLE.dtype(), routing.scores_BLE.dtype(),
                               routing.weights_BLK.dtype(), gate.grad().dtype()}};
      }).value();
  const auto dim = static_cast<std::size_t>(config.dim);
  for (const Seen& seen : ranks) {
    CHECK(seen.dtypes == std::vector<DType>(4, DType::kF32));
    // F32 is 2^-24, BF16 2^-9 beside the sum of absolute terms.
    double worst = 0, worst_grad = 0;
    std::vector<double> grad(seen.gate.size(), 0.0), grad_terms = grad;
    for (std::size_t t = 0; t < kB * kL; ++t) {
      for (std::size_t e = 0; e < kE; ++e) {
        double logit = 0, terms = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          logit += seen.x[t * dim + d] * seen.gate[e * dim + d];
          terms += std::abs(seen.x[t * dim + d] * seen.gate[e * dim + d]);
        }
        worst = std::max(worst, std::abs(seen.logits[t * kE + e] - logit) / terms);
        for (std::size_t d = 0; d < dim; ++d) {
          grad[e * dim + d] += 2 * logit * seen.x[t * dim + d];
          grad_terms[e * dim + d] += std::abs(2 * logit * seen.x[t * dim + d]);
        }
      }
    }
    for (std::size_t i = 0; i < grad.size(); ++i) {
      worst_grad = std::max(worst_grad, std::abs(seen.gate_grad[i] - grad[i]) / grad_terms[i]);
    }
    CHECK(worst < 1e-6);
    CHECK(worst_grad < 1e-6);
  }
}

TEST_CASE("in a BF16 model the gate alone is gathered and used in F32", "[moe][router][C8]") {
  const auto used_types = [](Model& model, Trainer&) {
    std::vector<double> types;
    for (const char* name : {"layers.1.moe.router.gate.weight", "lm_head.weight",
                             "layers.1.moe.routed_experts.inner_experts.w1_EFD"}) {
      types.push_back(static_cast<double>(model.parameters().find(name)->used_spec().dtype()));
    }
    return types;
  };
  const RunResult run = train({.parallel = {.dp_shard = 2},
                               .num_ranks = 2,
                               .dtype = DType::kBF16,
                               .num_steps = 1,
                               .change_config = shrink,
                               .inspect = used_types});
  const auto f32 = static_cast<double>(DType::kF32), bf16 = static_cast<double>(DType::kBF16);
  CHECK(run.inspected == std::vector<double>{f32, bf16, bf16});
}

TEST_CASE("counts are the routing map's sum", "[moe][router][C32]") {
  const RouterOutcome one = route_on(1, {}, router_config());
  std::vector<double> counts(kE, 0.0);
  for (const double id : one.ids) counts[static_cast<std::size_t>(id)] += 1.0;
  CHECK(one.counts == counts);
  CHECK(std::accumulate(counts.begin(), counts.end(), 0.0) == kB * kL * kK);
}

TEST_CASE("the bias moves the choice and leaves the weights alone", "[moe][router][C6]") {
  ModelConfig config = router_config();
  config.groups.reset();
  config.limited.reset();
  config.route_norm = false;
  config.route_scale = 1.0;
  std::vector<double> push(kE, 0.0);
  push[5] = 100.0;
  const RouterOutcome plain_run = route_on(1, {}, config);
  const RouterOutcome pushed = route_on(1, {}, config, Array::from_values({kE}, DType::kF64, push));
  for (std::size_t token = 0; token < kB * kL; ++token) {
    const auto ids = std::span(pushed.ids).subspan(token * kK, kK);
    const auto at = std::find(ids.begin(), ids.end(), 5.0);
    REQUIRE(at != ids.end());
    const double weight = pushed.weights[token * kK + static_cast<std::size_t>(at - ids.begin())];
    CHECK(weight > 0.0);
    CHECK(weight < 1.0);  // a sigmoid score: the 100 is nowhere in it
  }
  CHECK(plain_run.ids != pushed.ids);
}

TEST_CASE("kept groups are those of a brute-force reference", "[moe][router][C7]") {
  const std::int64_t groups = GENERATE(2, 4);
  const std::int64_t limited = GENERATE(1, 2);
  const Array scores = random_values({kB, kL, kE}, "scores");
  const std::vector<double> values = scores.to_vector();
  const auto limited_values =
      results_of(1, {}, [&](World& world) {
        Runtime runtime(world);
        return limit_groups(plain_here(runtime, scores), groups, limited).local().to_vector();
      }).value()[0];
  const auto size = static_cast<std::size_t>(kE / groups);
  for (std::size_t token = 0; token < kB * kL; ++token) {
    std::vector<std::pair<double, std::size_t>> best;
    for (std::size_t group = 0; group < static_cast<std::size_t>(groups); ++group) {
      std::vector<double> members(
          values.begin() + static_cast<std::ptrdiff_t>(token * kE + group * size),
          values.begin() + static_cast<std::ptrdiff_t>(token * kE + (group + 1) * size));
      std::sort(members.rbegin(), members.rend());
      best.emplace_back(-(members[0] + members[1]), group);
    }
    std::sort(best.begin(), best.end());
    std::set<std::size_t> kept;
    for (std::size_t i = 0; i < static_cast<std::size_t>(limited); ++i) kept.insert(best[i].second);
    for (std::size_t expert = 0; expert < kE; ++expert) {
      const double seen = limited_values[token * kE + expert];
      if (kept.count(expert / size) != 0) {
        CHECK(seen == values[token * kE + expert]);
      } else {
        CHECK(seen == -std::numeric_limits<double>::infinity());
      }
    }
  }
}

TEST_CASE("normalised weights of all-zero scores are no NaN", "[moe][router][C8]") {
  ModelConfig config = router_config();
  config.groups.reset();
  config.limited.reset();
  config.route_norm = true;
  const auto weights =
      results_of(1, {}, [&](World& world) {
        Runtime runtime(world);
        const MeshViews views = value_or_throw(MeshViews::make({}, 1));
        ParameterSet parameters(runtime, DType::kF64);
        const LayerContext context{runtime, views, config, parameters, DType::kF64};
        const Router router(context, "router", 0);
        fill_(parameters.all()[0].stored().set_requires_grad(false), -1e6);  // sigmoid(−huge) is 0
        const Array ones = Array::from_values({1, 1, 4}, DType::kF64, std::vector<double>(4, 1.0));
        const DTensor x = distribute(runtime, ones, views.dense(), context.routed_tokens());
        const Routing routing = router(context, x, {});
        return routing.weights_BLK.local().to_vector();
      }).value()[0];
  for (const double weight : weights) CHECK(weight == 0.0);
}

TEST_CASE("a recomputed router takes the experts that were kept, whatever became of its bias",
          "[moe][router][recompute][C9]") {
  ModelConfig config = router_config();
  config.groups.reset();
  config.limited.reset();
  enum class Bias { kStays, kMoves };
  const auto gate_gradient = [&](Recompute mode, Bias bias) {
    return results_of(
               1, {},
               [&](World& world) {
                 Runtime runtime(world);
                 const MeshViews views = value_or_throw(MeshViews::make({}, 1));
                 ParameterSet parameters(runtime, DType::kF64);
                 const LayerContext context{runtime, views, config, parameters, DType::kF64};
                 const Router router(context, "router", 0);
                 parameters.initialize(5);
                 const auto placed = [&](const Array& values) {
                   return distribute(runtime, values, views.dense(), context.routed_tokens());
                 };
                 DTensor bias_E;
                 const auto piece = [&](std::span<const DTensor> inputs) -> std::vector<DTensor> {
                   return {router(context, inputs[0], {.expert_bias_E = bias_E}).weights_BLK};
                 };
                 const DTensor x = placed(random_values({kB, kL, config.dim}, "x"));
                 const DTensor weights = recompute(runtime, mode, {{x}}, piece)[0];
                 if (bias == Bias::kMoves) {
                   std::vector<double> push(kE, 0.0);
                   push[5] = 100.0;
                   bias_E = distribute(runtime, Array::from_values({kE}, DType::kF64, push),
                                       views.dense(), Placements{Replicate{}, Replicate{}});
                 }
                 backward(sum(mul(weights, placed(random_values({kB, kL, kK}, "cotangents")))));
                 parameters.finish_gradients();
                 return full_tensor(parameters.all()[0].stored().grad()).to_vector();
               })
        .value()[0];
  };
  const std::vector<double> recorded = gate_gradient(Recompute::kNone, Bias::kStays);
  CHECK(gate_gradient(Recompute::kSelective, Bias::kMoves) == recorded);
  CHECK(gate_gradient(Recompute::kFull, Bias::kStays) == recorded);
  CHECK(gate_gradient(Recompute::kFull, Bias::kMoves) != recorded);  // it chooses anew
}

}  // namespace tessera::testing
