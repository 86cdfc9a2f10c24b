#include "placement/price_table.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "placement/move_class.h"
#include "placement/plan_priced.h"

namespace tessera {

/// Two generations: where the younger is full it becomes the older, and what was that goes.
struct PriceTable::Part {
  using Prices = absl::flat_hash_map<MoveClass, MovePrice>;
  mutable std::mutex mutex;
  Prices younger, older;

  const MovePrice* find(const MoveClass& move) const {
    for (const Prices* prices : {&younger, &older}) {
      const auto found = prices->find(move);
      if (found != prices->end()) return &found->second;
    }
    return nullptr;
  }
  void keep(const MoveClass& move, const MovePrice& price, std::size_t most) {
    if (younger.size() + 1 > most / 2) older = std::exchange(younger, {});
    younger.insert_or_assign(move, price);
  }
};

PriceTable::PriceTable(std::optional<Topology> topology, std::size_t most_kept)
    : topology_(std::move(topology)), most_in_part_(std::max<std::size_t>(2, most_kept / kParts)) {
  for (std::unique_ptr<Part>& part : parts_) part = std::make_unique<Part>();
}
PriceTable::~PriceTable() = default;

StatusOr<MovePrice> PriceTable::price(const Spec& src, const Spec& dst) {
  const bool fit = src.global_shape() == dst.global_shape() && src.dtype() == dst.dtype();
  if (!fit) return price_of_move(src, dst, {.topology = topology()});  // an error
  const MoveClass move(src, dst);
  const std::size_t hash = absl::HashOf(move);
  Part& part = *parts_[(hash >> 7) % kParts];
  {
    const std::lock_guard lock(part.mutex);
    if (const MovePrice* known = part.find(move)) return *known;
  }
  TSR_ASSIGN_OR_RETURN(const MovePrice made, price_of_move(src, dst, {.topology = topology()}));
  const std::lock_guard lock(part.mutex);
  part.keep(move, made, most_in_part_);
  return made;
}

std::size_t PriceTable::size() const {
  std::size_t size = 0;
  for (const std::unique_ptr<Part>& part : parts_) {
    const std::lock_guard lock(part->mutex);
    size += part->younger.size() + part->older.size();
  }
  return size;
}

StatusOr<MovePrice> price_of_move(const Spec& src, const Spec& dst, const PlanOptions& options) {
  TSR_ASSIGN_OR_RETURN(const PricedPlan made, plan_priced(src, dst, options));
  if (made.price) return *made.price;
  MovePrice price{.steps = std::ssize(made.plan.steps)};
  for (const PlanStep& step : made.plan.steps) {
    const StepCost cost = cost_of(step, options.topology);
    price.us += cost.estimated_us;
    price.bytes_received.max += cost.bytes_received.max;
    price.bytes_received.total += cost.bytes_received.total;
    price.messages += cost.messages.max;
  }
  return price;
}

}  // namespace tessera
