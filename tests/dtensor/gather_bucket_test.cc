// Buckets of gathered tensors: one exchange for all, gradients reduced in the leaf's type, and
// bytes that the backward pass gathers again.
#include "dtensor/gather_bucket.h"

#include <optional>

#include "kernels/memory_use.h"
#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

const MeshAxes kFourRanks = {{"dp", 2}, {"tp", 2}};

Spec used_as(const DTensor& stored, const Placements& placements, DType dtype) {
  return value_or_throw(Spec::make(stored.mesh(), stored.global_shape(), dtype, placements));
}

/// Two leaves of one bucket on {dp: 2, tp: 2}: 5 rows cut by tp and then by dp, and one row, which
/// the first ranks hold whole.
struct Pair {
  DTensor cut, small;
  std::optional<GatherBucket> bucket;

  explicit Pair(Rank& rank)
      : cut(rank.parameter(random_values({5, 3}, DType::kF64, 1), {StridedShard{0, 2}, Shard{0}})),
        small(rank.parameter(random_values({1, 3}, DType::kF64, 2), {Shard{0}, Replicate{}})) {
    bucket.emplace("pair", std::vector<GatherItem>{
                               {cut, used_as(cut, {Replicate{}, Shard{0}}, DType::kF64)},
                               {small, used_as(small, {Replicate{}, Replicate{}}, DType::kF64)}});
  }
  /// Σ (x · cutᵀ)² · small, of a batch that dp cuts.
  DTensor loss(Rank& rank, GatheredLife life, std::uint64_t seed) {
    const DTensor x =
        rank.distribute(random_values({6, 3}, DType::kF64, seed), {Shard{0}, Replicate{}});
    const std::vector<DTensor> weights = bucket->gather(life);
    const DTensor y = matmul(x, transpose(weights[0], 0, 1));
    const DTensor z = matmul(mul(x, weights[1]), transpose(weights[0], 0, 1));
    const DTensor out = sum(mul(y, z));
    bucket->end_use();
    return out;
  }
  Outcome outcome() const { return outcome_of({}, {{"cut", cut}, {"small", small}}); }
};

Outcome one_rank_outcome(const std::vector<std::uint64_t>& seeds) {
  DTensor cut, small;
  const auto outcomes = run_ranks({{"one", 1}}, [&](Rank& rank) {
    const DTensor a = rank.parameter(random_values({5, 3}, DType::kF64, 1), {Replicate{}});
    const DTensor b = rank.parameter(random_values({1, 3}, DType::kF64, 2), {Replicate{}});
    for (const std::uint64_t seed : seeds) {
      const DTensor x = rank.distribute(random_values({6, 3}, DType::kF64, seed), {Replicate{}});
      const DTensor y = matmul(x, transpose(a, 0, 1));
      backward(sum(mul(y, matmul(mul(x, b), transpose(a, 0, 1)))));
    }
    return outcome_of({}, {{"cut", a}, {"small", b}});
  });
  return outcomes[0];
}

std::int64_t gathered_bytes(Rank& rank) {
  return tagged_memory_of(*rank.world.allocator()).used_of(MemoryTag::kGathered);
}

}  // namespace

TEST_CASE("gradients of a bucket are those of one rank, whatever is kept", "[dtensor][gather]") {
  const auto life =
      GENERATE(GatheredLife::kForward, GatheredLife::kBackward, GatheredLife::kReleased);
  const Outcome expected = one_rank_outcome({3, 4, 5});
  // Two passes are between forward and backward at once, as in a pipeline.
  const auto outcomes = run_ranks(kFourRanks, [&](Rank& rank) {
    Pair pair(rank);
    const DTensor first = pair.loss(rank, life, 3);
    const DTensor second = pair.loss(rank, life, 4);
    backward(first);
    const DTensor third = pair.loss(rank, life, 5);
    backward(second);
    backward(third);
    pair.bucket->release();
    if (gathered_bytes(rank) != 0) throw Error(internal_error("gathered bytes are left"));
    return pair.outcome();
  });
  CHECK(worst_difference(outcomes, expected) < 1e-13);
}

TEST_CASE("gathered bytes go after the forward pass and come again for the backward pass",
          "[dtensor][gather][host]") {
  // Bytes gathered after the forward pass, in the backward pass' end, and gathers in both.
  const auto seen = run_ranks(kFourRanks, [&](Rank& rank) {
    std::vector<std::int64_t> bytes;
    for (const auto life :
         {GatheredLife::kForward, GatheredLife::kBackward, GatheredLife::kReleased}) {
      Pair pair(rank);
      rank.runtime.events().clear();
      const DTensor loss = pair.loss(rank, life, 3);
      bytes.push_back(gathered_bytes(rank));
      backward(loss);
      bytes.push_back(gathered_bytes(rank));
      for (const Event& event : rank.runtime.events().events()) {
        const bool again = event.why == "gather for backward";
        if (event.kind == Event::Kind::kRedistribute && again) bytes.push_back(-1);
      }
    }
    return bytes;
  });
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::int64_t rows = rank % 2 == 0 ? 3 : 2;  // of tp's shard of the 5
    const std::int64_t whole = (rows + 1) * 3 * 8;
    const std::vector<std::int64_t>& bytes = seen[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    // Ranks 0 and 1 hold the one row anyway, and gather nothing of it.
    const std::int64_t held = bytes[3];
    CHECK((held == whole || held == whole - 24));
    CHECK(bytes == std::vector<std::int64_t>{0, 0, -1, held, 0, held, held});
  }
}

TEST_CASE("gradients are reduced in the leaf's type", "[dtensor][gather]") {
  const auto seen = run_ranks({{"dp", 2}}, [](Rank& rank) {
    const DTensor w = rank.parameter(random_values({4}, DType::kF32), {Shard{0}});
    GatherBucket bucket("w", {{w, used_as(w, {Replicate{}}, DType::kBF16)}});
    const DTensor used = bucket.gather(GatheredLife::kForward)[0];
    const double mine = rank.index() == 0 ? 1.0 : 0x1p-10;  // their sum has no BF16
    const DTensor c = from_local(
        here(rank.runtime, Array::from_values({4}, DType::kBF16, std::vector<double>(4, mine))),
        rank.mesh, std::array<Placement, 1>{Partial{}}, {4});
    const DTensor loss = sum(mul(used, c));
    bucket.end_use();
    backward(loss);
    return full_tensor(w.grad()).to_vector();
  });
  for (const auto& grad : seen) CHECK(grad == std::vector<double>(4, 1.0 + 0x1p-10));
}

TEST_CASE("frozen leaves of a bucket get no gradient and move none", "[dtensor][gather][C64]") {
  const Outcome expected = one_rank_outcome({3});
  const auto outcomes = run_ranks(kFourRanks, [](Rank& rank) {
    Pair pair(rank);
    pair.small.set_requires_grad(false);
    backward(pair.loss(rank, GatheredLife::kForward, 3));
    if (pair.small.grad().defined()) throw Error(internal_error("a frozen leaf has a gradient"));
    Outcome outcome = outcome_of({}, {{"cut", pair.cut}});
    pair.cut.set_requires_grad(false);  // now nothing says when a backward pass is over
    const DTensor x =
        rank.parameter(random_values({6, 3}, DType::kF64, 3), {Shard{0}, Replicate{}});
    const DTensor loss =
        sum(matmul(x, transpose(pair.bucket->gather(GatheredLife::kForward)[0], 0, 1)));
    pair.bucket->end_use();
    backward(loss);
    pair.bucket->end_backward();
    if (gathered_bytes(rank) != 0) throw Error(internal_error("gathered bytes are left"));
    return outcome;
  });
  CHECK(worst_difference(outcomes, {{"grad.cut", expected.at("grad.cut")}}) < 1e-13);
}

TEST_CASE("values that cannot come again are an error that says why", "[dtensor][gather]") {
  const auto texts = run_ranks(kFourRanks, [](Rank& rank) {
    Pair pair(rank);
    const DTensor loss = pair.loss(rank, GatheredLife::kForward, 3);
    {
      const NoGrad no_grad(rank.runtime);
      DTensor shard = pair.cut.detach();
      fill_(shard, 1.0);
    }
    std::vector<std::string> seen = {error_of([&] { backward(loss); })};
    Pair other(rank);
    const std::vector<DTensor> used = other.bucket->gather(GatheredLife::kReleased);
    const DTensor sum_of_squares = sum(mul(used[1], used[1]));
    other.bucket->end_use();
    DTensor written = used[1].detach();
    fill_(written, 0.0);
    seen.push_back(error_of([&] { backward(sum_of_squares); }));
    seen.push_back(error_of([&] { GatherBucket("wrong", {{pair.cut, pair.small.spec()}}); }));
    return seen;
  });
  for (const auto& text : texts) {
    CHECK_THAT(text[0], Catch::Contains("run backward() before the update"));
    CHECK_THAT(text[1], Catch::Contains("written in place since; clone() it"));
    CHECK_THAT(text[2], Catch::Contains("both must be of one mesh and shape"));
  }
}

}  // namespace tessera::testing
