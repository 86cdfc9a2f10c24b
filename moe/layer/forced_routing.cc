#include "moe/layer/forced_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

/// About kForcedParts / the golden ratio, and odd: multiples of it are even over any run of tokens,
/// and each part is met once in kForcedParts of them.
constexpr std::int64_t kTokenStep = 40'503;
/// What sums of decimal fractions may be off by.
constexpr double kRounding = 1e-9;

double total_load(std::span<const double> loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0);
}

/// How long each expert is on a line of top_k · kForcedParts: the whole parts of its share first,
/// then one more where most is missing. None is longer than a slot, so that no token meets one
/// twice.
std::vector<std::int64_t> lengths_of(std::span<const double> loads, std::int64_t top_k) {
  const double scale = static_cast<double>(top_k * kForcedParts), sum = total_load(loads);
  std::vector<std::int64_t> lengths;
  std::vector<double> missing;
  std::vector<std::size_t> order;
  std::int64_t left = top_k * kForcedParts;
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    const double exact = loads[expert] / sum * scale;
    lengths.push_back(std::min(static_cast<std::int64_t>(exact), kForcedParts));
    missing.push_back(exact - static_cast<double>(lengths.back()));
    left -= lengths.back();
    if (loads[expert] > 0.0) order.push_back(expert);
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t expert) { return missing[expert]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    std::int64_t& length = lengths[order[i]];
    if (length == kForcedParts) continue;
    ++length;
    --left;
  }
  return lengths;
}

}  // namespace

Status check_loads(std::span<const double> loads, std::int64_t num_experts, std::int64_t top_k) {
  if (std::ssize(loads) != num_experts) {
    return invalid_argument(absl::StrFormat("%d loads; one for each of num_experts %d is needed",
                                            loads.size(), num_experts));
  }
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    if (loads[expert] >= 0.0 && std::isfinite(loads[expert])) continue;
    return invalid_argument(
        absl::StrFormat("expert %d has the load %g; 0 or more is allowed", expert, loads[expert]));
  }
  const double sum = total_load(loads);
  if (sum == 0.0) return invalid_argument("all loads are 0; tokens need experts");
  if (!std::isfinite(sum)) return invalid_argument("the sum of the loads is no finite number");
  const auto most = std::ranges::max_element(loads);
  const double share = *most / sum;
  if (share * static_cast<double>(top_k) <= 1.0 + kRounding) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "expert %d has %.4g of all loads; at most 1 / router_top_k = %.4g is allowed, for a token "
      "takes an expert once",
      most - loads.begin(), share, 1.0 / static_cast<double>(top_k)));
}

ForcedRouting::ForcedRouting(const MoeConfig& config)
    : num_experts_(config.num_experts), top_k_(config.router_top_k) {
  const std::vector<double>& loads = config.routing.forced_loads;
  if (std::ranges::adjacent_find(loads, std::ranges::not_equal_to()) == loads.end()) return;
  const std::vector<std::int64_t> lengths = lengths_of(loads, top_k_);
  std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(ends_));
}

void ForcedRouting::append_experts(std::int64_t token, std::vector<std::int64_t>& ids) const {
  if (ends_.empty()) {
    for (std::int64_t k = 0; k < top_k_; ++k) ids.push_back((token * top_k_ + k) % num_experts_);
    return;
  }
  const std::int64_t within = token * kTokenStep % kForcedParts;
  auto from = ends_.begin();
  for (std::int64_t k = 0; k < top_k_; ++k) {
    from = std::upper_bound(from, ends_.end(), k * kForcedParts + within);
    ids.push_back(from - ends_.begin());
  }
}

}  // namespace tessera
