#include "placement/plan_links.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "placement/layout.h"
#include "placement/plan_meshes.h"

namespace tessera {
namespace {

using Counts = absl::InlinedVector<std::int64_t, 4>;

/// Axes of more than one rank, the longest stride first.
absl::InlinedVector<MeshAxis, 6> by_stride(const Mesh& mesh, std::span<const int> axes) {
  absl::InlinedVector<MeshAxis, 6> sorted;
  for (const int axis : axes) {
    if (mesh.size(axis) > 1) sorted.push_back({"", mesh.size(axis), mesh.axis(axis).stride});
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const MeshAxis& a, const MeshAxis& b) { return a.stride > b.stride; });
  return sorted;
}

std::int64_t product_of(std::span<const MeshAxis> axes) {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

/// Coords of these axes whose ranks lie less than `limit` behind the first one. Strides of a mesh
/// nest: all ranks along the later axes lie within one stride of an axis.
std::int64_t ranks_below(std::span<const MeshAxis> axes, std::int64_t limit) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < axes.size() && limit > 0; ++i) {
    const std::int64_t whole = std::min(axes[i].size, (limit - 1) / axes[i].stride);
    count += whole * product_of(axes.subspan(i + 1));
    if (whole == axes[i].size) return count;
    limit -= whole * axes[i].stride;
  }
  return limit > 0 ? count + 1 : count;
}

bool nest(std::span<const MeshAxis> axes) {
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i + 1].stride * axes[i + 1].size > axes[i].stride) return false;
  }
  return true;
}

/// All ranks of the group behind the first one, as distances.
std::vector<std::int64_t> distances(std::span<const MeshAxis> axes) {
  std::vector<std::int64_t> all{0};
  for (const MeshAxis& axis : axes) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t at : all) {
      for (std::int64_t c = 0; c < axis.size; ++c) longer.push_back(at + c * axis.stride);
    }
    all = std::move(longer);
  }
  return all;
}

Interval both(const Interval& a, const Interval& b) {
  return {std::max(a.start, b.start), std::min(a.stop, b.stop)};
}
std::int64_t length(const Interval& of) { return std::max<std::int64_t>(0, of.stop - of.start); }

/// The ranks of a mesh where they follow one another.
std::optional<Interval> ranks_in_row(const Mesh& mesh) {
  std::int64_t last = mesh.first_rank();
  for (const MeshAxis& axis : mesh.axes()) last += (axis.size - 1) * axis.stride;
  const Interval all{mesh.first_rank(), last + 1};
  return length(all) == mesh.num_ranks() ? std::optional(all) : std::nullopt;
}

}  // namespace

void LinkShares::set(const Counts& ranks_of_block) {
  if (ranks_of_block.back() < 2) return;
  const auto others = static_cast<double>(ranks_of_block.back() - 1);
  std::int64_t inner = 1;  // itself
  for (const std::int64_t ranks : ranks_of_block) {
    shares_.push_back(static_cast<double>(ranks - inner) / others);
    inner = ranks;
  }
}

LinkShares::LinkShares(const Mesh& mesh, std::span<const int> axes, const Topology& topology)
    : topology_(topology) {
  const auto sorted = by_stride(mesh, axes);
  const bool nested = nest(sorted);
  const std::vector<std::int64_t> all = nested ? std::vector<std::int64_t>() : distances(sorted);
  Counts counts;
  for (const LinkClass& link : topology.links) {
    if (link.ranks == 0) {
      counts.push_back(product_of(sorted));
      continue;
    }
    const std::int64_t limit = link.ranks - mesh.first_rank() % link.ranks;
    counts.push_back(nested ? ranks_below(sorted, limit)
                            : std::count_if(all.begin(), all.end(), [&](std::int64_t distance) {
                                return distance < limit;
                              }));
  }
  set(counts);
}

LinkShares::LinkShares(const Mesh& src, const Mesh& dst, const Topology& topology)
    : topology_(topology) {
  const std::optional<Interval> a = ranks_in_row(src), b = ranks_in_row(dst);
  const std::vector<std::int64_t> all =
      a && b ? std::vector<std::int64_t>() : ranks_of_both(src, dst);
  Counts counts;
  for (const LinkClass& link : topology.links) {
    const std::int64_t block = link.ranks == 0 ? 0 : dst.first_rank() / link.ranks * link.ranks;
    const Interval within{block, link.ranks == 0 ? INT64_MAX : block + link.ranks};
    if (a && b) {
      counts.push_back(length(both(*a, within)) + length(both(*b, within)) -
                       length(both(both(*a, *b), within)));
    } else {
      const auto begin = std::lower_bound(all.begin(), all.end(), within.start);
      counts.push_back(std::lower_bound(begin, all.end(), within.stop) - begin);
    }
  }
  set(counts);
}

LinkShares links_of(const PlanStep& step, const Topology& topology) {
  if (step.src.mesh() != step.dst.mesh()) {
    return LinkShares(step.src.mesh(), step.dst.mesh(), topology);
  }
  return LinkShares(step.dst.mesh(), step.axes, topology);
}

double LinkShares::us(std::int64_t messages, std::int64_t bytes) const {
  if (shares_.empty()) return 0;
  double us = topology_.step_us;
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const LinkClass& link = topology_.links[i];
    us += shares_[i] * (link.latency_us * static_cast<double>(messages) +
                        static_cast<double>(bytes) / (link.gb_per_s * 1e3));
  }
  return us;
}

double LinkShares::us_per_byte() const {
  double us = 0;
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    us += shares_[i] / (topology_.links[i].gb_per_s * 1e3);
  }
  return us;
}

}  // namespace tessera
