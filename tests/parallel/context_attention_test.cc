// Attention with queries cut over cp against attention on one rank, and what it moves.
#include "parallel/context_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/call/trace.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 3, kKey = 4, kValue = 5;

struct Run {
  std::int64_t seq = 8;
  int cp = 2;
  ContextMethod method = ContextMethod::kRing;
  bool balanced = false;
  DType dtype = DType::kF64;
  bool causal = true;

  TokenOrder order() const {
    return balanced ? TokenOrder::balanced(seq, cp) : TokenOrder::plain(seq, cp);
  }
};

/// Result and gradients of query, key and value, by position, and one rank's events by start.
struct Outcome {
  std::array<std::vector<double>, 4> values;
  std::vector<Event> events;
};

/// Values that repeat nowhere, of a tensor whose places hold these positions.
Array values_at(const Shape& shape, const std::vector<std::int64_t>& positions, double phase) {
  std::vector<double> values;
  for (std::int64_t bh = 0; bh < shape[0] * shape[1]; ++bh) {
    for (const std::int64_t position : positions) {
      for (std::int64_t e = 0; e < shape[3]; ++e) {
        const auto index = static_cast<double>((bh * shape[2] + position) * shape[3] + e);
        values.push_back(std::sin(phase + 0.7 * index));
      }
    }
  }
  return Array::from_values(shape, DType::kF64, values);
}

/// The inverse: values by position.
std::vector<double> by_position(const Array& x, const std::vector<std::int64_t>& positions) {
  const std::vector<double> placed = x.to_vector();
  std::vector<double> values(placed.size());
  const std::int64_t length = x.size(2), size = x.size(3);
  for (std::int64_t bh = 0; bh < x.size(0) * x.size(1); ++bh) {
    for (std::int64_t place = 0; place < length; ++place) {
      const std::int64_t position = positions[static_cast<std::size_t>(place)];
      for (std::int64_t e = 0; e < size; ++e) {
        values[static_cast<std::size_t>((bh * length + position) * size + e)] =
            placed[static_cast<std::size_t>((bh * length + place) * size + e)];
      }
    }
  }
  return values;
}

Outcome outcome_of(World& world, const Run& run) {
  Runtime runtime(world);
  const std::vector<std::int64_t> positions = run.order().positions();
  const std::vector<std::string> axes = {"cp"};
  const Shape mesh_shape = {run.cp};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), axes));
  const Placements placed = {Shard{2}};
  const auto tensor = [&](std::int64_t size, double phase) {
    const Shape shape = {kBatch, kHeads, run.seq, size};
    const DTensor exact = distribute(runtime, values_at(shape, positions, phase), mesh, placed);
    return exact.dtype() == run.dtype ? exact : cast(exact, run.dtype);
  };
  DTensor q = tensor(kKey, 0.1), k = tensor(kKey, 0.2), v = tensor(kValue, 0.3);
  for (DTensor* x : {&q, &k, &v}) x->set_requires_grad(true);
  const AttentionArgs args = {.scale = 0.5, .causal = run.causal};
  start_trace(world);
  const DTensor out =
      run.cp == 1
          ? attention(q, k, v, args.scale, args.causal)
          : context_attention(
                q, k, v, {.cp_axis = 0, .method = run.method, .order = run.order(), .args = args});
  backward(out, tensor(kValue, 0.4));
  Outcome outcome;
  outcome.events = world.events().events();
  std::stable_sort(outcome.events.begin(), outcome.events.end(),
                   [](const Event& a, const Event& b) { return a.start_us < b.start_us; });
  const std::array<DTensor, 4> results = {out, q.grad(), k.grad(), v.grad()};
  for (std::size_t i = 0; i < results.size(); ++i) {
    outcome.values[i] = by_position(full_tensor(results[i]), positions);
  }
  return outcome;
}

Outcome rank_0(const Run& run) {
  Outcome first;
  throw_if_error(run_ranks(run.cp, {}, [&](World& world) {
    Outcome own = outcome_of(world, run);
    if (world.rank() == 0) first = std::move(own);
  }));
  return first;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0.0 : 1e300;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

std::vector<Event> moves(const Outcome& outcome) {
  std::vector<Event> kept;
  for (const Event& event : outcome.events) {
    if (event.kind == Event::Kind::kCollective) kept.push_back(event);
  }
  return kept;
}

}  // namespace

TEST_CASE("attention over cp and its gradients are those of one rank", "[parallel][cp][C18]") {
  Run run;
  run.method = GENERATE(ContextMethod::kAllGather, ContextMethod::kRing);
  run.balanced = GENERATE(false, true);
  run.causal = GENERATE(true, false);
  run.seq = GENERATE(3, 8, 13);
  run.cp = GENERATE(2, 3, 4);
  CAPTURE(run.method == ContextMethod::kRing, run.balanced, run.causal, run.seq, run.cp);
  const Outcome many = rank_0(run);
  const Outcome one = rank_0({.seq = run.seq, .cp = 1, .causal = run.causal});
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    CAPTURE(i);
    CHECK(distance(many.values[i], one.values[i]) < 1e-12);
  }
}

TEST_CASE("the ring joins BF16 blocks in F32", "[parallel][cp]") {
  const Outcome one = rank_0({.seq = 12, .cp = 1, .dtype = DType::kBF16});
  const Outcome many = rank_0({.seq = 12, .cp = 4, .balanced = true, .dtype = DType::kBF16});
  // Weights are rounded in each block and the sums once, at the end: no further from one rank than
  // a unit in the last place of values from 1 to 2.
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    CAPTURE(i);
    CHECK(distance(many.values[i], one.values[i]) <= 1.0 / 128);
  }
}

TEST_CASE("the ring begins a transfer before the work on the block at hand and ends it after",
          "[parallel][cp]") {
  const Run run = {.seq = 16, .cp = 4, .balanced = true};
  const Outcome outcome = rank_0(run);
  std::vector<Event> work;
  for (const Event& event : outcome.events) {
    if (event.kind == Event::Kind::kSpan) work.push_back(event);
  }
  CHECK(work.size() == 8);  // a stretch for each of 4 blocks, forward and backward
  std::int64_t keys = 0, gradients = 0, around_work = 0;
  for (const Event& event : moves(outcome)) {
    if (event.name != "recv") continue;
    if (event.tensor == "gradient of keys and values") {
      ++gradients;
      continue;
    }
    ++keys;
    around_work += std::count_if(work.begin(), work.end(), [&](const Event& span) {
      return event.start_us <= span.start_us && event.end_us >= span.end_us;
    });
  }
  CHECK(keys == 2 * 3);  // cp − 1 in each pass
  CHECK(around_work == keys);
  CHECK(gradients == 4);  // the last one brings a rank its own
}

TEST_CASE("the cotangents of gathered keys and values are reduced over cp once",
          "[parallel][cp][C18]") {
  const bool balanced = GENERATE(false, true);
  const Outcome outcome =
      rank_0({.seq = 8, .cp = 2, .method = ContextMethod::kAllGather, .balanced = balanced});
  std::vector<std::string> names;
  std::int64_t gathered = 0, reduced = 0;
  for (const Event& event : moves(outcome)) {
    names.push_back(event.name);
    (event.name == "all_gather" ? gathered : reduced) += event.bytes_received;
  }
  // Half of the positions come; of the summand, the half of the other rank's positions goes.
  constexpr std::int64_t kHalf = kBatch * kHeads * 4 * (kKey + kValue) * 8;
  CHECK(names == std::vector<std::string>{"all_gather", "reduce_scatter", "reduce_scatter"});
  CHECK(gathered == kHalf);
  CHECK(reduced == kHalf);
}

TEST_CASE("operands that are not cut over cp alike are refused", "[parallel][cp]") {
  throw_if_error(run_ranks(1, {}, [&](World& world) {
    Runtime runtime(world);
    const Shape mesh_shape = {1};
    const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape)));
    const Placements placed = {Replicate{}};
    const DTensor x = distribute(runtime, Array::zeros({1, 1, 2, 2}, DType::kF32), mesh, placed);
    try {
      context_attention(x, x, x, {.cp_axis = 0, .order = TokenOrder(2)});
    } catch (const Error& error) {
      if (std::string(error.what()).find("must be placed alike, with S(2) on axis 0") !=
          std::string::npos) {
        return;
      }
    }
    throw Error(internal_error("the call passed"));
  }));
}

}  // namespace tessera::testing
