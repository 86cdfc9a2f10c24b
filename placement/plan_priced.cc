// What is checked before a plan is made and after, and the plan as a value.
#include "placement/plan_priced.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/plan_cost.h"
#include "placement/plan_meshes.h"
#include "placement/plan_refine.h"

namespace tessera {
namespace {

/// Packed messages are cut into chunks of this size at least.
constexpr std::int64_t kLeastChunkBytes = 1024;

/// At most the largest integer.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

Status check(const Spec& src, const Spec& dst, const PlanOptions& options) {
  std::string_view differing;
  if (src.global_shape() != dst.global_shape()) differing = "shapes";
  if (src.dtype() != dst.dtype()) differing = "dtypes";
  if (!differing.empty()) {
    return invalid_argument(absl::StrFormat(
        "redistribute: %s differ; a redistribution changes placements only [from %s, "
        "to %s]",
        std::string(differing), src.to_string(), dst.to_string()));
  }
  if (options.topology != nullptr) TSR_RETURN_IF_ERROR(validate(*options.topology));
  const std::int64_t ranks =
      src.mesh() == dst.mesh()
          ? dst.mesh().num_ranks()
          : std::min(src.mesh().num_ranks() + dst.mesh().num_ranks(),
                     std::max(src.mesh().first_rank() + src.mesh().num_ranks(),
                              dst.mesh().first_rank() + dst.mesh().num_ranks()));
  if (options.pack_bytes < least_pack_bytes(ranks)) {
    return invalid_argument(absl::StrFormat(
        "redistribute: the cap of %d bytes for packed messages is too small; among %d ranks %d "
        "bytes are the least that would do [from %s, to %s]",
        options.pack_bytes, ranks, least_pack_bytes(ranks), src.to_string(), dst.to_string()));
  }
  return absl::OkStatus();
}

/// Bytes of all ranks together must be countable.
Status check_volume(const Plan& made) {
  // Nobody receives more than every summand of all that it holds.
  auto most = static_cast<double>(made.dst.global_bytes());
  for (int axis = 0; axis < made.src.mesh().ndim(); ++axis) {
    if (made.src.layout().partial[static_cast<std::size_t>(axis)]) {
      most *= static_cast<double>(made.src.mesh().size(axis));
    }
  }
  for (int axis = 0; axis < made.dst.mesh().ndim(); ++axis) {
    if (made.dst.layout().dim_of_axis(axis) < 0) {
      most *= static_cast<double>(made.dst.mesh().size(axis));
    }
  }
  if (most < static_cast<double>(INT64_MAX) / 4) return absl::OkStatus();
  std::int64_t total = 0;
  for (const PlanStep& step : made.steps) total = plus(total, bytes_of(step).total);
  if (total < INT64_MAX) return absl::OkStatus();
  return out_of_range(
      absl::StrFormat("redistribute: %d ranks together would receive more than 2^63 - 1 bytes "
                      "[from %s, to %s]",
                      made.dst.mesh().num_ranks(), made.src.to_string(), made.dst.to_string()));
}

}  // namespace

std::string_view name_of(PlanStep::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"local",      "all_gather", "reduce_scatter",
                                         "all_reduce", "all_to_all", "exchange"};
  return kNames[static_cast<int>(kind)];
}

std::int64_t least_pack_bytes(std::int64_t num_ranks) noexcept {
  return 2 * kLeastChunkBytes * std::max<std::int64_t>(1, num_ranks - 1);
}

std::vector<std::int64_t> group_of(const PlanStep& step, std::int64_t rank) {
  const Mesh& mesh = step.dst.mesh();
  if (step.src.mesh() != mesh) {
    std::vector<std::int64_t> ranks = ranks_of_both(mesh, step.src.mesh());
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) ranks.clear();
    return ranks;
  }
  const std::optional<Coord> coord = mesh.coord_of(rank);
  if (!coord) return {};
  std::int64_t first = rank;
  for (const int axis : step.axes) {
    first -= (*coord)[static_cast<std::size_t>(axis)] * mesh.axis(axis).stride;
  }
  std::vector<std::int64_t> ranks{first};
  for (const int axis : step.axes) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t at : ranks) {
      for (std::int64_t c = 0; c < mesh.size(axis); ++c) {
        longer.push_back(at + c * mesh.axis(axis).stride);
      }
    }
    ranks = std::move(longer);
  }
  return ranks;
}

StatusOr<PricedPlan> plan_priced(const Spec& src, const Spec& dst, const PlanOptions& options) {
  TSR_RETURN_IF_ERROR(check(src, dst, options));
  PricedPlan made;
  made.plan = {.src = src, .dst = dst, .steps = {}, .pack_bytes = options.pack_bytes};
  const auto take = [&](const Spec& from, const Spec& to) {
    if (from.mesh() == to.mesh() && from.layout() == to.layout()) return;
    PricedSteps best = best_steps(from, to, options.topology);
    made.plan.steps = std::move(best.steps);
    made.price = best.price;
  };
  const auto both = src.mesh() == dst.mesh() ? std::nullopt : on_common_mesh(src, dst);
  both ? take(both->first, both->second) : take(src, dst);
  TSR_RETURN_IF_ERROR(check_volume(made.plan));
  return made;
}

StatusOr<Plan> plan(const Spec& src, const Spec& dst, const PlanOptions& options) {
  TSR_ASSIGN_OR_RETURN(PricedPlan made, plan_priced(src, dst, options));
  return std::move(made.plan);
}

}  // namespace tessera
