// parallel/token_order.h: which positions of a sequence each cp rank holds: consecutive ones, or,
// for equal causal work, one run from the front and its mirror image from the back.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/api.h"
#include "placement/layout.h"

namespace tessera TSR_API {

/// An order of the positions 0 … seq − 1 that Shard then cuts over `cp` ranks as it cuts any dim:
/// the first ceil(seq / cp) places to rank 0, and so on. Place p holds position positions()[p].
class TokenOrder {
 public:
  /// One rank with every position in order.
  explicit TokenOrder(std::int64_t seq) : TokenOrder(plain(seq, 1)) {}
  /// Place p holds position p.
  static TokenOrder plain(std::int64_t seq, std::int64_t cp);
  /// Each rank's places hold two runs: with seq = 2·cp·n, rank i has the chunks i and 2cp − 1 − i
  /// of n positions, so that the pairs (query, visible key) are as many on every rank. Uneven sizes
  /// halve each rank's own share. Source: Megatron-LM and torchtitan's context parallelism.
  static TokenOrder balanced(std::int64_t seq, std::int64_t cp);

  std::int64_t seq() const noexcept { return seq_; }
  std::int64_t num_ranks() const noexcept { return static_cast<std::int64_t>(runs_.size()); }
  bool is_plain() const noexcept { return is_plain_; }
  /// A rank's positions in the order of its places; no empty run.
  const std::vector<Interval>& runs(std::int64_t rank) const {
    return runs_[static_cast<std::size_t>(rank)];
  }
  /// How many places a rank has.
  std::int64_t num_places(std::int64_t rank) const;
  std::vector<std::int64_t> positions() const;

 private:
  TokenOrder(std::int64_t seq, std::vector<std::vector<Interval>> runs, bool is_plain)
      : seq_(seq), runs_(std::move(runs)), is_plain_(is_plain) {}

  std::int64_t seq_;
  std::vector<std::vector<Interval>> runs_;
  bool is_plain_;
};

}  // namespace tessera
