#include "tests/moe/dispatcher_trip.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtensor/ops.h"
#include "tests/moe/plain_here.h"

namespace tessera::testing {

double x_value(std::int64_t rank, std::int64_t i) {
  return static_cast<double>(1 + rank * 64 + i);  // above zero: a pad row shows
}
double weight_value(std::int64_t slot) { return slot % 3 == 0 ? 0.5 : 0.25; }

namespace {

DTensor compute(const Trip& trip, const ExpertRows& in, std::int64_t first_expert, Seen& seen) {
  seen.computed_us.push_back(in.rows_RD.runtime().world().now_us());
  const std::vector<double> counts = in.counts_e.local().to_vector();
  const std::vector<double> values = in.rows_RD.local().to_vector();
  std::vector<double> factors;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    seen.counts_e.push_back(static_cast<std::int64_t>(counts[e]));
    factors.insert(factors.end(), static_cast<std::size_t>(counts[e]),
                   static_cast<double>(first_expert + static_cast<std::int64_t>(e) + 1) /
                       static_cast<double>(trip.etp));
  }
  const auto rows = static_cast<std::size_t>(in.rows_RD.size(0));
  seen.rows += static_cast<std::int64_t>(rows);
  factors.resize(rows, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    if (values[row * kD] > 0) continue;
    ++seen.pad_rows;
    for (std::int64_t d = 0; d < kD; ++d) {
      seen.largest_pad =
          std::max(seen.largest_pad, std::abs(values[row * kD + static_cast<std::size_t>(d)]));
    }
  }
  const Array factor =
      Array::from_values({static_cast<std::int64_t>(rows), 1}, trip.dtype, factors);
  return mul(in.rows_RD, plain_here(in.rows_RD.runtime(), factor));
}

Seen travel(World& world, const Trip& trip) {
  Runtime runtime(world);
  const Shape shape = {trip.ep, trip.etp};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(shape), {"ep", "etp"}));
  ExpertGroup group = {mesh, {0}, {1}};
  if (trip.etp == 1) group.etp_axes = {};
  const auto dispatcher =
      value_or_throw(Dispatcher::make({"experts", group, trip.experts, trip.config}));

  const std::int64_t rank = world.rank(), T = trip.tokens(rank);
  std::vector<double> values, weights, ids;
  for (std::int64_t i = 0; i < T * kD; ++i) values.push_back(x_value(rank, i));
  for (std::int64_t slot = 0; slot < T * kK; ++slot) {
    ids.push_back(static_cast<double>(trip.choose(rank, slot)));
    weights.push_back(weight_value(slot));
  }
  const DType scores = trip.dtype == DType::kBF16 ? DType::kF32 : trip.dtype;
  DTensor x = plain_here(runtime, Array::from_values({T, kD}, trip.dtype, values));
  DTensor w = plain_here(runtime, Array::from_values({T, kK}, scores, weights));
  x.set_requires_grad(true);
  w.set_requires_grad(true);
  RoutedTokens tokens{plain_here(runtime, Array::from_values({T, kK}, DType::kI64, ids))};
  for (int r = 0; r < trip.num_ranks(); ++r) tokens.tokens_by_rank.push_back(trip.tokens(r));
  tokens.room = trip.room;

  Seen seen;
  const Ints experts = experts_by_rank(trip.experts, trip.ep);
  const std::int64_t first =
      std::accumulate(experts.begin(), experts.begin() + rank / trip.etp, std::int64_t{0});
  const RoutePlan plan = dispatcher->plan(tokens);
  if (plan.rows_needed.defined()) {
    seen.needed = static_cast<std::int64_t>(plan.rows_needed.local().to_vector()[0]);
  }
  const auto part = [](const DTensor& all, TokenRange at) {
    return slice(all, 0, at.begin, at.end);
  };
  std::vector<DTensor> outs;
  plan.routes[0]->begin(part(x, plan.chunks[0]));
  for (std::size_t c = 0; c < plan.routes.size(); ++c) {
    if (c + 1 < plan.routes.size()) plan.routes[c + 1]->begin(part(x, plan.chunks[c + 1]));
    const DTensor y = compute(trip, plan.routes[c]->arrive(), first, seen);
    plan.routes[c]->begin_return(y, part(w, plan.chunks[c]));
  }
  for (const auto& route : plan.routes) outs.push_back(route->finish_return());
  const DTensor out = cat(outs, 0);
  seen.forward_events = static_cast<std::int64_t>(runtime.events().events().size());
  backward(sum(out));
  seen.out = out.local().to_vector();
  seen.grad_x = x.grad().local().to_vector();
  seen.grad_weights = w.grad().local().to_vector();
  seen.events = runtime.events().events();
  return seen;
}

}  // namespace

std::vector<Seen> travel_all(const Trip& trip) {
  return results_of(trip.num_ranks(), {}, [&](World& world) { return travel(world, trip); })
      .value();
}

void check_values(const Trip& trip, const std::vector<Seen>& ranks) {
  for (std::int64_t rank = 0; rank < trip.num_ranks(); ++rank) {
    CAPTURE(rank);
    std::vector<double> out, grad_x, grad_weights;
    for (std::int64_t t = 0; t < trip.tokens(rank); ++t) {
      double factor = 0, sum = 0;
      for (std::int64_t d = 0; d < kD; ++d) sum += x_value(rank, t * kD + d);
      for (std::int64_t slot = t * kK; slot < (t + 1) * kK; ++slot) {
        const std::int64_t expert = trip.choose(rank, slot);
        const double times = expert == trip.experts ? 0 : static_cast<double>(expert + 1);
        factor += weight_value(slot) * times;
        grad_weights.push_back(times * sum);
      }
      for (std::int64_t d = 0; d < kD; ++d) {
        out.push_back(factor * x_value(rank, t * kD + d));
        grad_x.push_back(factor);
      }
    }
    const Seen& seen = ranks[static_cast<std::size_t>(rank)];
    CHECK(seen.out == out);
    CHECK(seen.grad_x == grad_x);
    CHECK(seen.grad_weights == grad_weights);
    CHECK(seen.largest_pad == 0);
  }
}

}  // namespace tessera::testing
