#include "placement/plan_meshes.h"

#include <algorithm>
#include <span>
#include <vector>

#include "placement/plan_counts.h"
#include "placement/plan_cuts.h"
#include "placement/plan_tally.h"

namespace tessera {
namespace {

using Places = std::vector<std::int32_t>;

bool is_plain(const Spec& spec) { return !spec.has_partial() && has_only_axes(spec.layout()); }

/// Of each rank of a mesh, row-major: which entry of intervals_of() is its.
Places places_on(const Mesh& mesh, const Levels& levels) {
  std::vector<std::int32_t> strides(static_cast<std::size_t>(mesh.ndim()), 0);
  std::int32_t stride = 1;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    strides[static_cast<std::size_t>(level->axis)] = stride;
    stride *= static_cast<std::int32_t>(mesh.size(level->axis));
  }
  Places places{0};
  places.reserve(static_cast<std::size_t>(mesh.num_ranks()));
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    Places finer;
    finer.reserve(static_cast<std::size_t>(mesh.num_ranks()));
    for (const std::int32_t place : places) {
      for (std::int32_t c = 0; c < mesh.size(axis); ++c) {
        finer.push_back(place + c * strides[static_cast<std::size_t>(axis)]);
      }
    }
    places = std::move(finer);
  }
  return places;
}

/// Place of a rank in row-major order; −1 outside the mesh.
std::int64_t position_of(const Mesh& mesh, std::int64_t rank) {
  const std::optional<Coord> coord = mesh.coord_of(rank);
  if (!coord) return -1;
  std::int64_t position = 0;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    position = position * mesh.size(axis) + (*coord)[static_cast<std::size_t>(axis)];
  }
  return position;
}

/// Ranks first, first + 1, … in row-major order.
bool is_contiguous(const Mesh& mesh) {
  std::int64_t stride = 1;
  for (int axis = mesh.ndim(); axis-- > 0;) {
    if (mesh.size(axis) > 1 && mesh.axis(axis).stride != stride) return false;
    stride *= mesh.size(axis);
  }
  return true;
}

/// Of each of `ranks`, its place in row-major order on `mesh`; −1 outside.
std::vector<std::int64_t> positions_of(const Mesh& mesh, std::span<const std::int64_t> ranks) {
  const bool contiguous = is_contiguous(mesh);
  const std::int64_t count = mesh.num_ranks();
  std::vector<std::int64_t> positions;
  positions.reserve(ranks.size());
  for (const std::int64_t rank : ranks) {
    const std::int64_t from_first = rank - mesh.first_rank();
    positions.push_back(!contiguous                             ? position_of(mesh, rank)
                        : from_first >= 0 && from_first < count ? from_first
                                                                : -1);
  }
  return positions;
}

/// What ranks hold of one dim.
struct DimHeld {
  std::vector<Interval> intervals;
  Places places;
  const Interval& at(std::int64_t position) const {
    return intervals[static_cast<std::size_t>(places[static_cast<std::size_t>(position)])];
  }
};
DimHeld held_of(const Spec& spec, std::size_t dim) {
  const Levels& levels = spec.layout().dims[dim];
  return {intervals_of(spec.mesh(), spec.global_shape()[dim], levels),
          places_on(spec.mesh(), levels)};
}

std::int64_t in_both(const Interval& a, const Interval& b) {
  return std::max<std::int64_t>(0, std::min(a.stop, b.stop) - std::max(a.start, b.start));
}
std::int64_t length_of(const Interval& held) { return held.stop - held.start; }

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/// What one rank has to do with an exchange.
struct Share {
  std::int64_t needs = 1, has = 1, owners = 1;
};

/// Multiplies in one dim, for all ranks of the target.
void add_dim(const Spec& src, const Spec& dst, std::size_t d,
             std::span<const std::int64_t> positions, std::vector<Share>& shares) {
  const std::int64_t size = dst.global_shape()[d];
  if (src.layout().dims[d].empty() && dst.layout().dims[d].empty()) {
    for (Share& share : shares) {
      share.needs *= size;
      share.has *= size;
    }
    return;
  }
  const DimHeld from = held_of(src, d);
  const DimHeld to = held_of(dst, d);
  const std::vector<std::int64_t> owners =
      owners_of(to.intervals, from.intervals, Refines::kUnknown);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Interval& needs = to.at(static_cast<std::int64_t>(i));
    shares[i].needs *= length_of(needs);
    shares[i].owners *= owners[static_cast<std::size_t>(to.places[i])];
    if (positions[i] >= 0) shares[i].has *= in_both(needs, from.at(positions[i]));
  }
}

}  // namespace

std::optional<ReceivedBetween> exchanged(const Spec& src, const Spec& dst) {
  if (!is_plain(src) || !is_plain(dst)) return std::nullopt;
  const std::vector<std::int64_t> ranks = dst.mesh().ranks();
  const std::vector<std::int64_t> positions = positions_of(src.mesh(), ranks);
  std::vector<Share> shares(ranks.size());
  for (std::size_t d = 0; d < dst.global_shape().size(); ++d) {
    add_dim(src, dst, d, positions, shares);
  }
  ReceivedBetween sum;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::int64_t has = positions[i] >= 0 ? shares[i].has : 0;
    const std::int64_t lacks = shares[i].needs - has;
    const std::int64_t messages = shares[i].needs == 0 ? 0 : shares[i].owners - (has > 0 ? 1 : 0);
    sum.elements.max = std::max(sum.elements.max, lacks);
    sum.messages.max = std::max(sum.messages.max, messages);
    if (__builtin_add_overflow(sum.elements.total, lacks, &sum.elements.total)) {
      sum.elements.total = INT64_MAX;
    }
    sum.messages.total += messages;
  }
  return sum;
}

std::vector<std::int64_t> ranks_of_both(const Mesh& a, const Mesh& b) {
  std::vector<std::int64_t> ranks = a.ranks();
  const std::vector<std::int64_t> others = b.ranks();
  ranks.insert(ranks.end(), others.begin(), others.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::optional<std::int64_t> most_lacking(const Spec& kept, const Spec& part, const Spec& dst) {
  if (!is_plain(kept) || !is_plain(part) || !is_plain(dst)) return std::nullopt;
  const std::vector<std::int64_t> ranks = dst.mesh().ranks();
  const std::vector<std::int64_t> positions = positions_of(kept.mesh(), ranks);
  std::vector<std::int64_t> needs(ranks.size(), 1), has = needs, kept_of_dst = needs,
                                                    kept_of_part = needs;
  for (std::size_t d = 0; d < dst.global_shape().size(); ++d) {
    const DimHeld of_kept = held_of(kept, d), of_part = held_of(part, d), of_dst = held_of(dst, d);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      needs[i] = times(needs[i], length_of(of_dst.at(at)));
      has[i] *= length_of(of_part.at(at));
      if (positions[i] < 0) continue;
      kept_of_dst[i] *= in_both(of_dst.at(at), of_kept.at(positions[i]));
      kept_of_part[i] *= in_both(of_part.at(at), of_kept.at(positions[i]));
    }
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int64_t own = positions[i] < 0 ? 0 : kept_of_dst[i] - kept_of_part[i];
    most = std::max(most, needs[i] - has[i] - own);
  }
  return most;
}

}  // namespace tessera
