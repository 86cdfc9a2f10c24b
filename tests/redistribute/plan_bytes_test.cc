// What plans receive and send beside the fewest bytes that any plan could move.
#include "tests/redistribute/layouts.h"
#include "tests/redistribute/simulate.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

/// What a plan without a topology moves beside the bounds, by brute force.
struct Account {
  std::string flaw;
  std::int64_t most_received = 0, total_received = 0;
  std::int64_t most_sent = 0;
  std::int64_t most_needed = 0;  ///< most |needs \ has|
  std::int64_t largest_share = 0, smallest_share = 0;
};
Account account_of(const Spec& src, const Spec& dst, judge::HeldCache& cache) {
  Account account;
  const Plan made = value_or_throw(plan(src, dst));
  judge::Simulation simulation(made, cache);
  account.flaw = simulation.run();
  const auto has = cache.of(src);
  const auto needs = cache.of(dst);
  account.smallest_share = num_elements(src.global_shape());
  for (const auto& [rank, moved] : simulation.moved()) {
    account.smallest_share = std::min(account.smallest_share, has->size_on(rank));
    const std::int64_t lacking = judge::lacks(has->on(rank), needs->on(rank));
    if (!src.has_partial() && moved.received != lacking && account.flaw.empty()) {
      account.flaw = "rank " + std::to_string(rank) + " receives " +
                     std::to_string(moved.received) + " and lacks " + std::to_string(lacking);
    }
    const std::int64_t received = bytes_received(made, rank) / size_of(src.dtype());
    account.most_received = std::max(account.most_received, received);
    account.total_received += received;
    account.most_sent = std::max(account.most_sent, moved.sent);
    account.most_needed = std::max(account.most_needed, lacking);
    account.largest_share = std::max(account.largest_share, has->size_on(rank));
  }
  return account;
}

std::int64_t smallest_share_of(const Spec& spec, judge::HeldCache& cache) {
  std::int64_t least = num_elements(spec.global_shape());
  for (const auto& [rank, holding] : cache.of(spec)->by_rank()) {
    least = std::min(least, holding.size());
  }
  return least;
}

/// The least number of element messages from a Partial source, summed over elements: each of p
/// summands but one must travel, and the result must reach every rank of the target.
std::int64_t partial_bound(const Spec& src, const Spec& dst, judge::HeldCache& cache) {
  const auto has = cache.of(src);
  const auto needs = cache.of(dst);
  const auto count = static_cast<std::size_t>(num_elements(src.global_shape()));
  const auto summands = static_cast<std::int64_t>(judge::Summands(src).count);
  std::vector<std::int64_t> readers(count, 0);
  std::vector<char> meets(count, 0);
  for (const auto& [rank, holding] : needs->by_rank()) {
    for (const std::int64_t e : holding.elements) {
      ++readers[static_cast<std::size_t>(e)];
      const auto& held = has->on(rank)->elements;
      if (std::binary_search(held.begin(), held.end(), e)) meets[static_cast<std::size_t>(e)] = 1;
    }
  }
  std::int64_t bound = 0;
  for (std::size_t e = 0; e < count; ++e) {
    bound += summands - 1 + readers[e] - 1 + (meets[e] != 0 ? 0 : 1);
  }
  return bound;
}

double share(std::int64_t elements, const Spec& spec) {
  return static_cast<double>(elements) / static_cast<double>(num_elements(spec.global_shape()));
}

}  // namespace

TEST_CASE("5000 random pairs receive exactly what they lack, and no rank sends much more",
          "[redistribute][bytes]") {
  std::mt19937 random(judge::seed_of("byte bounds"));
  const std::vector<Mesh> meshes = {mesh_of({4, 4}), mesh_of({2, 2, 4}), mesh_of({2, 3})};
  judge::HeldCache cache;
  double worst = 0;
  int above_with_empty = 0;
  for (int round = 0; round < 5000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const int ndim = 1 + static_cast<int>(random() % 3);
    const Shape shape = judge::random_shape(ndim, ndim == 1 ? 40 : ndim == 2 ? 12 : 8, random);
    const Spec src = judge::random_spec(mesh, shape, random, judge::WithPartial::kNo);
    const Spec dst = judge::random_spec(mesh, shape, random, judge::WithPartial::kNo);
    CAPTURE(src.to_string(), dst.to_string());
    const Account account = account_of(src, dst, cache);
    REQUIRE(account.flaw == "");
    const std::int64_t fair = std::max(account.most_needed, account.largest_share);
    if (account.smallest_share == 0 || smallest_share_of(dst, cache) == 0) {
      if (account.most_sent > 2 * fair) ++above_with_empty;
      continue;
    }
    REQUIRE(account.most_sent <= 2 * fair);
    if (fair > 0) {
      worst = std::max(worst, static_cast<double>(account.most_sent) / static_cast<double>(fair));
    }
  }
  std::printf(
      "largest send of a rank over the larger of bound and share: %.3f; pairs above 2 where cuts "
      "leave ranks empty: %d\n",
      worst, above_with_empty);
  // Where a few ranks hold everything and pieces of one element do not split, they send the rest.
  CHECK(above_with_empty <= 75);
}

TEST_CASE("the design's table is reached row by row", "[redistribute][bytes]") {
  const Mesh mesh = mesh_of({4, 4}, {"x", "y"});
  judge::HeldCache cache;
  const auto most = [&](const Mesh& on, const Shape& shape, const char* from, const char* to) {
    const Spec src = spec_of(on, shape, from);
    const Account account = account_of(src, spec_of(on, shape, to), cache);
    CAPTURE(from, to);
    CHECK(account.flaw == "");
    return share(account.most_received, src);
  };
  const Shape shape{16, 16, 16};
  CHECK(most(mesh, shape, "S(0), S(1)", "S(1), S(0)") == .0625);
  CHECK(most(mesh, shape, "S(0), S(0)", "R, S(0)") == .25);
  CHECK(most(mesh, shape, "S(0), S(0)", "S(1), S(0)") == .0625);
  CHECK(most(mesh, shape, "SS(0,4), S(0)", "S(0), S(0)") == .0625);
  CHECK(most(mesh, shape, "P, S(0)", "S(0), S(0)") <= .25);
  CHECK(most(mesh, shape, "P, R", "R, R") == 1.125);
  const Mesh wide = mesh_of({4, 2}, {"x", "y"});
  CHECK(most(wide, {8, 32, 32}, "S(2), S(0)", "S(1), S(1)") == .109375);
}

TEST_CASE("the mean of a reduction into shards is the bound", "[redistribute][bytes]") {
  const Mesh mesh = mesh_of({4, 4}, {"x", "y"});
  judge::HeldCache cache;
  const Spec src = spec_of(mesh, {16, 16}, "P, S(0)");
  const Spec dst = spec_of(mesh, {16, 16}, "S(0), S(0)");
  CHECK(share(account_of(src, dst, cache).total_received, src) / 16 == .234375);
  CHECK(account_of(src, dst, cache).total_received == partial_bound(src, dst, cache));
}

TEST_CASE("random reductions beside their bound in total", "[redistribute][bytes]") {
  std::mt19937 random(judge::seed_of("reductions"));
  const std::vector<Mesh> meshes = {mesh_of({4, 4}), mesh_of({2, 2, 4}), mesh_of({2, 3})};
  judge::HeldCache cache;
  std::int64_t received = 0, bound = 0, pairs = 0;
  double worst = 1;
  std::string worst_pair;
  while (pairs < 3000) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const Shape shape = judge::random_shape(2, 24, random);
    Spec src = judge::random_spec(mesh, shape, random);
    const Spec dst = judge::random_spec(mesh, shape, random, judge::WithPartial::kNo);
    Layout sums = src.layout();
    for (auto& op : sums.partial) {
      if (op) op = ReduceOp::kSum;  // kinds that do not commute are reduced one after another
    }
    src = value_or_throw(Spec::make(mesh, shape, DType::kF64, sums));
    if (!src.has_partial() || num_elements(shape) < 100) continue;
    ++pairs;
    const Account account = account_of(src, dst, cache);
    CAPTURE(src.to_string(), dst.to_string());
    REQUIRE(account.flaw == "");
    const std::int64_t least = partial_bound(src, dst, cache);
    REQUIRE(account.total_received >= least);
    received += account.total_received;
    bound += least;
    const double ratio = static_cast<double>(account.total_received) /
                         static_cast<double>(std::max<std::int64_t>(1, least));
    if (ratio > worst) {
      worst = ratio;
      worst_pair = src.to_string() + " to " + dst.to_string();
    }
  }
  const double ratio = static_cast<double>(received) / static_cast<double>(bound);
  std::printf("reductions: %lld pairs, bytes over the bound %.3f; worst %.3f: %s\n",
              static_cast<long long>(pairs), ratio, worst, worst_pair.c_str());
  CHECK(ratio < 1.25);
}
