// placement/price_table.h: what moves cost without the plans that cost it, kept: for searches that
// ask for many prices, most of them more than once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "placement/api.h"
#include "placement/plan.h"
#include "placement/plan_cost.h"
#include "placement/topology.h"

namespace tessera TSR_API {

/// Of plan(src, dst), over its steps; maxima are sums of each step's busiest rank.
struct MovePrice {
  double us = 0;  ///< as cost_of() estimates it; 0 without a topology
  Volume bytes_received;
  std::int64_t messages = 0;  ///< of the busiest rank
  std::int64_t steps = 0;     ///< local ones included
  bool operator==(const MovePrice&) const = default;
};

/// What plan(src, dst, options) costs. Errors: its. Cost: that of planning.
StatusOr<MovePrice> price_of_move(const Spec& src, const Spec& dst,
                                  const PlanOptions& options = {});

/// Prices of moves by one topology. Thread-safe. Equal moves have equal prices, whatever is kept,
/// and moves that cost the same for their layouts' sake are priced once (move_class.h).
class PriceTable {
 public:
  /// None: by bytes received, then messages. Errors of a topology are told by price().
  /// `most_kept` prices are kept at most; beyond, older ones go.
  explicit PriceTable(std::optional<Topology> topology,
                      std::size_t most_kept = std::size_t{1} << 16);
  ~PriceTable();
  PriceTable(const PriceTable&) = delete;
  PriceTable& operator=(const PriceTable&) = delete;

  /// Errors: those of plan(). Cost: one that is kept: below a microsecond; else that of planning.
  StatusOr<MovePrice> price(const Spec& src, const Spec& dst);
  /// Null without one.
  const Topology* topology() const noexcept { return topology_ ? &*topology_ : nullptr; }
  /// Prices kept now.
  std::size_t size() const;

 private:
  static constexpr std::size_t kParts = 16;
  struct Part;
  std::optional<Topology> topology_;
  std::size_t most_in_part_;
  std::array<std::unique_ptr<Part>, kParts> parts_;
};

}  // namespace tessera
