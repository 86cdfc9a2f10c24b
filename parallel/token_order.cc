#include "parallel/token_order.h"

#include <algorithm>

namespace tessera {
namespace {

/// Shard's cut of [0, seq) over cp ranks.
std::vector<Interval> shards(std::int64_t seq, std::int64_t cp) {
  const std::int64_t chunk = (seq + cp - 1) / cp;
  std::vector<Interval> cut;
  for (std::int64_t rank = 0; rank < cp; ++rank) {
    cut.push_back({std::min(seq, rank * chunk), std::min(seq, (rank + 1) * chunk)});
  }
  return cut;
}

std::vector<Interval> without_empty(std::initializer_list<Interval> runs) {
  std::vector<Interval> kept;
  for (const Interval& run : runs) {
    if (run.stop > run.start) kept.push_back(run);
  }
  return kept;
}

}  // namespace

TokenOrder TokenOrder::plain(std::int64_t seq, std::int64_t cp) {
  std::vector<std::vector<Interval>> runs;
  for (const Interval& shard : shards(seq, cp)) runs.push_back(without_empty({shard}));
  return {seq, std::move(runs), /*is_plain=*/true};
}

TokenOrder TokenOrder::balanced(std::int64_t seq, std::int64_t cp) {
  if (cp == 1) return plain(seq, cp);
  std::vector<std::vector<Interval>> runs;
  std::int64_t front = 0;
  std::int64_t back = seq;
  for (const Interval& shard : shards(seq, cp)) {
    const std::int64_t places = shard.stop - shard.start;
    const std::int64_t first = (places + 1) / 2;
    const std::int64_t second = places - first;
    runs.push_back(without_empty({{front, front + first}, {back - second, back}}));
    front += first;
    back -= second;
  }
  return {seq, std::move(runs), /*is_plain=*/false};
}

std::int64_t TokenOrder::num_places(std::int64_t rank) const {
  std::int64_t places = 0;
  for (const Interval& run : runs(rank)) places += run.stop - run.start;
  return places;
}

std::vector<std::int64_t> TokenOrder::positions() const {
  std::vector<std::int64_t> positions;
  for (const std::vector<Interval>& of_rank : runs_) {
    for (const Interval& run : of_rank) {
      for (std::int64_t at = run.start; at < run.stop; ++at) positions.push_back(at);
    }
  }
  return positions;
}

}  // namespace tessera
