// The order of positions over cp ranks: every position once, and equal causal work.
#include "parallel/token_order.h"

#include <algorithm>
#include <numeric>

#include "placement/mesh.h"

namespace tessera::testing {
namespace {

/// Pairs (query, key that it sees) of a rank.
std::int64_t causal_work(const TokenOrder& order, std::int64_t rank) {
  std::int64_t pairs = 0;
  for (const Interval& run : order.runs(rank)) {
    for (std::int64_t at = run.start; at < run.stop; ++at) pairs += at + 1;
  }
  return pairs;
}

}  // namespace

TEST_CASE("a balanced order holds each position once, in the shards that Shard cuts",
          "[parallel][cp]") {
  const std::int64_t seq = GENERATE(1, 3, 5, 8, 61, 64);
  const std::int64_t cp = GENERATE(1, 2, 3, 4, 8);
  CAPTURE(seq, cp);
  const TokenOrder order = TokenOrder::balanced(seq, cp);
  std::vector<std::int64_t> positions = order.positions();
  std::vector<std::int64_t> all(static_cast<std::size_t>(seq));
  std::iota(all.begin(), all.end(), 0);
  const std::int64_t chunk = (seq + cp - 1) / cp;
  for (std::int64_t rank = 0; rank < cp; ++rank) {
    CHECK(order.num_places(rank) == std::clamp(seq - rank * chunk, std::int64_t{0}, chunk));
  }
  CHECK(TokenOrder::plain(seq, cp).positions() == all);
  std::sort(positions.begin(), positions.end());
  CHECK(positions == all);
}

TEST_CASE("rank i of a balanced order holds chunks i and 2 cp - 1 - i: equal causal work",
          "[parallel][cp]") {
  const TokenOrder order = TokenOrder::balanced(16, 4);
  CHECK(order.runs(1) == std::vector<Interval>{{2, 4}, {12, 14}});
  CHECK(order.positions() ==
        std::vector<std::int64_t>{0, 1, 14, 15, 2, 3, 12, 13, 4, 5, 10, 11, 6, 7, 8, 9});
  for (std::int64_t rank = 0; rank < 4; ++rank) CHECK(causal_work(order, rank) == 16 * 17 / 2 / 4);
  const TokenOrder plain = TokenOrder::plain(16, 4);
  CHECK(causal_work(plain, 0) == 10);
  CHECK(causal_work(plain, 3) == 58);
}

}  // namespace tessera::testing
