// Dispatch and combine: orders, conservation, extremes, host reads.
#include <algorithm>
#include <numeric>

#include "dtensor/ops.h"
#include "moe/layer/experts.h"
#include "moe/layer/router.h"
#include "testing/ranks.h"
#include "tests/moe/plain_here.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

using Ints = std::vector<std::int64_t>;

DTensor plain_ints(Runtime& runtime, const Shape& shape, const Ints& values) {
  return plain_here(runtime, Array::from_values(shape, DType::kI64,
                                                std::vector<double>(values.begin(), values.end())));
}

/// What one rank's tokens became.
struct Journey {
  std::vector<double> out, grad_x, grad_weights;
  Ints received_rows;
  std::int64_t host_reads = 0;
};

/// 3 tokens a rank, top 2 of `num_experts`; expert e multiplies its rows by e + 1. Tokens' values
/// are unique.
Journey travel(World& world, std::int64_t num_experts,
               const std::function<std::int64_t(std::int64_t)>& choose) {
  Runtime runtime(world);
  const std::int64_t ranks = world.size();
  const Shape mesh_shape = {ranks};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"ep"}));
  constexpr std::int64_t kT = 3, kK = 2, kD = 2;
  std::vector<double> values;
  Ints ids;
  Ints counts(static_cast<std::size_t>(num_experts), 0);
  for (std::int64_t slot = 0; slot < kT * kK; ++slot) {
    ids.push_back(choose(world.rank() * kT * kK + slot));
    ++counts[static_cast<std::size_t>(ids.back())];
  }
  for (std::int64_t i = 0; i < kT * kD; ++i) {
    values.push_back(static_cast<double>(100 * world.rank() + i + 1));
  }
  DTensor x = plain_here(runtime, Array::from_values({kT, kD}, DType::kF64, values));
  x.set_requires_grad(true);
  DTensor weights = plain_here(
      runtime, Array::from_values({kT, kK}, DType::kF64, std::vector<double>(kT * kK, 0.5)));
  weights.set_requires_grad(true);
  const ExpertGroup ep = {mesh, {0}};
  const auto dispatcher = value_or_throw(Dispatcher::make({"experts", ep, num_experts, {}}));
  const Dispatched there = dispatch(*dispatcher, x, {.ids_TK = plain_ints(runtime, {kT, kK}, ids)});
  const Ints experts = experts_by_rank(num_experts, ranks);
  const std::int64_t first =
      std::accumulate(experts.begin(), experts.begin() + world.rank(), std::int64_t{0});
  std::vector<double> factors;
  const std::vector<double> counts_e = there.rows.counts_e.local().to_vector();
  for (std::size_t e = 0; e < counts_e.size(); ++e) {
    factors.insert(factors.end(), static_cast<std::size_t>(counts_e[e]),
                   static_cast<double>(first + static_cast<std::int64_t>(e) + 1));
  }
  const DTensor factor_R = plain_here(
      runtime,
      Array::from_values({static_cast<std::int64_t>(factors.size()), 1}, DType::kF64, factors));
  const DTensor out = combine(mul(there.rows.rows_RD, factor_R), weights, there);
  backward(sum(out));
  Journey journey{.out = out.local().to_vector(),
                  .grad_x = x.grad().local().to_vector(),
                  .grad_weights = weights.grad().local().to_vector(),
                  .received_rows = {there.rows.rows_RD.size(0)}};
  for (const Event& event : runtime.events().events()) {
    journey.host_reads += event.kind == Event::Kind::kHostRead;
  }
  return journey;
}

/// What a token becomes: Σ over its experts of 0.5 · (e + 1) · value.
void check_journey(const Journey& journey, std::int64_t rank,
                   const std::function<std::int64_t(std::int64_t)>& choose) {
  for (std::int64_t token = 0; token < 3; ++token) {
    const std::int64_t slot = (rank * 3 + token) * 2;
    const double e0 = static_cast<double>(choose(slot) + 1);
    const double e1 = static_cast<double>(choose(slot + 1) + 1);
    for (std::int64_t d = 0; d < 2; ++d) {
      const auto at = static_cast<std::size_t>(token * 2 + d);
      const double value = static_cast<double>(100 * rank + token * 2 + d + 1);
      CHECK(journey.out[at] == Approx(0.5 * (e0 + e1) * value));
      CHECK(journey.grad_x[at] == Approx(0.5 * (e0 + e1)));
    }
    const double row_sum = static_cast<double>(2 * (100 * rank + token * 2 + 1) + 1);
    CHECK(journey.grad_weights[static_cast<std::size_t>(token * 2)] == Approx(e0 * row_sum));
    CHECK(journey.grad_weights[static_cast<std::size_t>(token * 2 + 1)] == Approx(e1 * row_sum));
  }
}

}  // namespace

TEST_CASE("experts are cut over ep as Shard cuts a dim", "[moe][dispatch]") {
  CHECK(experts_by_rank(8, 2) == Ints{4, 4});
  CHECK(experts_by_rank(7, 4) == Ints{2, 2, 2, 1});
  CHECK(experts_by_rank(5, 4) == Ints{2, 2, 1, 0});
}

TEST_CASE("every kept token returns exactly once, weighted, with its gradient",
          "[moe][dispatch][C29][C32]") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const std::int64_t experts = GENERATE(std::int64_t{4}, std::int64_t{5});
  const int pattern = GENERATE(0, 1, 2);
  CAPTURE(ranks, experts, pattern);
  const auto choose = [&](std::int64_t slot) -> std::int64_t {
    if (pattern == 0) return (slot * 7 + slot / 2) % experts;  // mixed
    if (pattern == 1) return slot % 2;                         // the first ranks get everything
    return experts - 1 - slot % 2;                             // the last ones do
  };
  const std::vector<Journey> journeys =
      results_of(ranks, {}, [&](World& world) { return travel(world, experts, choose); }).value();
  std::int64_t rows = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Journey& journey = journeys[static_cast<std::size_t>(rank)];
    check_journey(journey, rank, choose);
    rows += std::accumulate(journey.received_rows.begin(), journey.received_rows.end(),
                            std::int64_t{0});
  }
  CHECK(rows == ranks * 6);
}

TEST_CASE("one dispatch reads the host once, and a device scalar counts as a read",
          "[moe][dispatch][C24][C25]") {
  const auto reads =
      results_of(2, {}, [&](World& world) {
        const Journey journey = travel(world, 4, [](std::int64_t slot) { return slot % 4; });
        Runtime runtime(world);
        const std::size_t before = runtime.events().events().size();
        item(sum(plain_ints(runtime, {3}, {1, 2, 3})));
        const auto& events = runtime.events().events();
        const std::int64_t of_item =
            std::count_if(events.begin() + static_cast<std::ptrdiff_t>(before), events.end(),
                          [](const Event& e) { return e.kind == Event::Kind::kHostRead; });
        return std::pair{journey.host_reads, of_item};
      }).value();
  for (const auto& [of_dispatch, of_item] : reads) {
    CHECK(of_dispatch == 1);
    CHECK(of_item == 1);
  }
}

namespace {

/// One MoE pass over tokens (B, L), seen by one rank.
struct BatchPass {
  Ints numbers;                  ///< of the tokens that it routes: sequence · L + position
  std::vector<double> ids, out;  ///< of those
  std::vector<double> whole_out, x_grad;
};
struct BatchCase {
  ParallelConfig parallel;
  int num_ranks = 1;
  std::int64_t batch = 2, seq = 4;
};

constexpr std::int64_t kPassDim = 4, kPassExperts = 4, kPassTopK = 2;

/// A token's experts follow from its number.
ModelConfig pass_config(std::int64_t seq) {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  config.dim = kPassDim;
  config.moe_hidden_dim = 6;
  config.num_experts = kPassExperts;
  config.router_top_k = kPassTopK;
  config.seq = seq;
  config.routing.force_balance = true;
  return config;
}

BatchPass pass_batch(World& world, const BatchCase& which) {
  Runtime runtime(world);
  const MeshViews views = value_or_throw(MeshViews::make(which.parallel, world.size()));
  const ModelConfig config = pass_config(which.seq);
  ParameterSet parameters(runtime, DType::kF64);
  const LayerContext context{runtime, views, config, parameters, DType::kF64};
  const Router router(context, "router", 0);
  RoutedExperts experts(context, "experts", 0);
  parameters.initialize(5);
  for (Parameter& parameter : parameters.all()) {
    DTensor weight = parameter.stored().detach();
    copy_(weight, mul(weight, 20.0));  // far from 0, so that experts differ
  }
  const Array tokens = random_values({which.batch, which.seq, kPassDim}, DType::kF64);
  DTensor x = distribute(runtime, tokens, views.dense(), context.routed_tokens());
  x.set_requires_grad(true);
  const Routing routing = router(context, x, {});
  const DTensor out = experts(context, x, routing);
  backward(sum(mul(out, out)));
  BatchPass pass{.ids = routing.ids_BLK.local().to_vector(),
                 .out = out.local().to_vector(),
                 .whole_out = full_tensor(out.detach()).to_vector(),
                 .x_grad = full_tensor(x.grad()).to_vector()};
  for (const double number : token_numbers(context, which.batch).local().to_vector()) {
    pass.numbers.push_back(static_cast<std::int64_t>(number));
  }
  return pass;
}

}  // namespace

TEST_CASE("tokens of a batch keep their global places under sequence parallelism",
          "[moe][dispatch][C10]") {
  const BatchCase which =
      GENERATE(BatchCase{{.tp = 2, .ep = 2}, 2}, BatchCase{{.tp = 2, .ep = 2}, 2, 3, 5},
               BatchCase{{.dp_shard = 2, .tp = 2, .ep = 4}, 4, 4, 6},
               BatchCase{{.cp = 2, .tp = 2, .ep = 4}, 4, 2, 8});
  CAPTURE(which.num_ranks, which.batch, which.seq);
  const BatchPass one = results_of(1, {}, [&](World& world) {
                          return pass_batch(world, {{}, 1, which.batch, which.seq});
                        }).value()[0];
  const auto ranks = results_of(which.num_ranks, {}, [&](World& world) {
                       return pass_batch(world, which);
                     }).value();
  if (which.num_ranks == 2 && which.seq == 4) CHECK(ranks[1].numbers == Ints{2, 3, 6, 7});
  Ints seen;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const BatchPass& pass = ranks[rank];
    seen.insert(seen.end(), pass.numbers.begin(), pass.numbers.end());
    std::vector<double> ids, out;
    for (const std::int64_t number : pass.numbers) {
      for (std::int64_t k = 0; k < kPassTopK; ++k) {
        ids.push_back(static_cast<double>((number * kPassTopK + k) % kPassExperts));
      }
      const auto row = one.out.begin() + number * kPassDim;
      out.insert(out.end(), row, row + kPassDim);
    }
    CHECK(pass.ids == ids);
    REQUIRE(pass.out.size() == out.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(pass.out[i] == Approx(out[i]).epsilon(1e-12));
    REQUIRE(pass.whole_out.size() == one.out.size());
    for (std::size_t i = 0; i < one.out.size(); ++i) {
      CHECK(pass.whole_out[i] == Approx(one.out[i]).epsilon(1e-12));
      CHECK(pass.x_grad[i] == Approx(one.x_grad[i]).epsilon(1e-12));
    }
  }
  std::sort(seen.begin(), seen.end());
  Ints all(static_cast<std::size_t>(which.batch * which.seq));
  std::iota(all.begin(), all.end(), 0);
  CHECK(seen == all);
}

TEST_CASE("a combine takes its shape from what it is given, not from what was dispatched",
          "[moe][dispatch][C12]") {
  // Experts whose results are three times as wide as their tokens, on ranks of 0, 2 and 4 tokens.
  const std::string dispatcher_name =
      GENERATE(as<std::string>{}, "all_to_all", "all_gather", "hierarchical");
  constexpr std::int64_t kD = 2, kWide = 3, kK = 2, kExperts = 4;
  const auto tokens_of = [](std::int64_t rank) { return rank == 1 ? 0 : 2 + rank; };
  const auto value = [](std::int64_t rank, std::int64_t i) {
    return static_cast<double>(100 * rank + i + 1);
  };
  struct Seen {
    Shape shape;
    std::vector<double> out;
  };
  const auto ranks =
      results_of(4, {}, [&](World& world) {
        Runtime runtime(world);
        const std::int64_t rank = world.rank(), T = tokens_of(rank);
        const Shape mesh_shape = {4};
        const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"ep"}));
        std::vector<double> values;
        Ints ids;
        for (std::int64_t i = 0; i < T * kD; ++i) values.push_back(value(rank, i));
        for (std::int64_t t = 0; t < T; ++t) {
          ids.push_back((rank + t) % kExperts);
          ids.push_back((rank + t + 1) % kExperts);
        }
        RoutedTokens tokens{.ids_TK = plain_ints(runtime, {T, kK}, ids)};
        for (std::int64_t r = 0; r < 4; ++r) tokens.tokens_by_rank.push_back(tokens_of(r));
        const DispatchConfig config{.dispatcher = dispatcher_name, .ranks_per_node = 2};
        const auto dispatcher =
            value_or_throw(Dispatcher::make({"experts", {mesh, {0}}, kExperts, config}));
        const Dispatched there =
            dispatch(*dispatcher,
                     plain_here(runtime, Array::from_values({T, kD}, DType::kF64, values)), tokens);
        const DTensor& rows = there.rows.rows_RD;
        const DTensor wide_RD = cat(std::vector<DTensor>{rows, mul(rows, 2.0), mul(rows, 3.0)}, 1);
        const DTensor weights = plain_here(
            runtime,
            Array::from_values({T, kK}, DType::kF64,
                               std::vector<double>(static_cast<std::size_t>(T * kK), 0.5)));
        const DTensor out = combine(wide_RD, weights, there);
        return Seen{out.global_shape(), out.local().to_vector()};
      }).value();
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Seen& seen = ranks[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    CHECK(seen.shape == Shape{tokens_of(rank), kD * kWide});
    std::vector<double> out;  // two weights of a half: the token itself
    for (std::int64_t t = 0; t < tokens_of(rank); ++t) {
      for (std::int64_t c = 0; c < kD * kWide; ++c) {
        out.push_back(static_cast<double>(c / kD + 1) * value(rank, t * kD + c % kD));
      }
    }
    CHECK(seen.out == out);
  }
}

TEST_CASE("counts that are not those of the dispatched slots are refused",
          "[moe][dispatch][host][C32]") {
  if (!runs_here(2)) return;
  const auto error = [](std::int64_t expert, std::int64_t more) {
    return results_of(2, {},
                      [&](World& world) {
                        Runtime runtime(world);
                        const MeshViews views =
                            value_or_throw(MeshViews::make({.tp = 2, .ep = 2}, world.size()));
                        const ModelConfig config = pass_config(4);
                        ParameterSet parameters(runtime, DType::kF64);
                        const LayerContext context{runtime, views, config, parameters, DType::kF64};
                        const Router router(context, "router", 0);
                        RoutedExperts experts(context, "layers.1.moe", 0);
                        parameters.initialize(5);
                        const DTensor x =
                            distribute(runtime, random_values({2, 4, kPassDim}, DType::kF64),
                                       views.dense(), context.routed_tokens());
                        Routing routing = router(context, x, {});
                        std::vector<double> counts = routing.counts_E.local().to_vector();
                        counts[static_cast<std::size_t>(expert)] += static_cast<double>(more);
                        const Array other = Array::from_values({kPassExperts}, DType::kI64, counts);
                        routing.counts_E = from_local(plain_here(runtime, other), views.dense(),
                                                      context.summed(Partial{}), {kPassExperts});
                        return error_of([&] { experts(context, x, routing); });
                      })
        .value()[0];
  };
  CHECK(error(1, 0) == "");
  CHECK(error(3, 1) ==
        "layers.1.moe: counts_E says 3 assignments of expert 3, ids_BLK have 2 on this rank; both "
        "must be of one Routing");
}

}  // namespace tessera::testing
