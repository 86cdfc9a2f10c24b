#include "tools/placement_audit/plan_blocks.h"

#include <algorithm>
#include <map>

namespace tessera::audit {
namespace {

using Intervals = std::vector<Interval>;

std::vector<Intervals> intervals_of(const Spec& spec, const Coord& coord) {
  std::vector<Intervals> dims;
  for (std::size_t d = 0; d < spec.global_shape().size(); ++d) {
    dims.push_back(
        local_intervals(spec.mesh(), spec.global_shape()[d], spec.layout().dims[d], coord));
  }
  // Fewer dims than two: one row, one column of everything.
  while (dims.size() < 2) dims.insert(dims.begin(), Intervals{{0, 1}});
  return dims;
}

// Local indices [start, stop) of what `held` lists, as global ones.
Intervals global_of(const Intervals& held, std::int64_t start, std::int64_t stop) {
  Intervals global;
  std::int64_t local = 0;
  for (const Interval& each : held) {
    const std::int64_t from = std::max(start, local);
    const std::int64_t to = std::min(stop, local + each.stop - each.start);
    if (from < to) global.push_back({each.start + from - local, each.start + to - local});
    local += each.stop - each.start;
  }
  return global;
}

struct RectLess {
  using Rect = std::pair<Interval, Interval>;
  static auto key(const Rect& rect) {
    return std::tuple(rect.first.start, rect.second.start, rect.first.stop, rect.second.stop);
  }
  bool operator()(const Rect& a, const Rect& b) const { return key(a) < key(b); }
};

/// Collects ranks by rectangle.
class Sheet {
 public:
  void add(const Intervals& rows, const Intervals& columns, std::int64_t rank) {
    for (const Interval& row : rows) {
      for (const Interval& column : columns) ranks_[{row, column}].push_back(rank);
    }
  }
  std::size_t size() const { return ranks_.size(); }
  std::vector<Block> blocks() && {
    std::vector<Block> blocks;
    for (auto& [rect, ranks] : ranks_) {
      blocks.push_back({rect.first, rect.second, std::move(ranks)});
    }
    return blocks;
  }

 private:
  std::map<RectLess::Rect, Ranks, RectLess> ranks_;
};

}  // namespace

std::optional<Extents> extents_of(const Spec& spec) {
  const Shape& shape = spec.global_shape();
  if (shape.size() > 2 || num_elements(shape) == 0) return std::nullopt;
  return Extents{.rows = shape.size() == 2 ? shape[0] : 1,
                 .columns = shape.empty() ? 1 : shape.back()};
}

std::vector<Block> blocks_held(const Spec& spec, std::size_t max_blocks) {
  Sheet sheet;
  for (std::int64_t i = 0; i < spec.mesh().num_ranks(); ++i) {
    const std::int64_t rank = spec.mesh().first_rank() + i;
    const std::vector<Intervals> dims = intervals_of(spec, *spec.mesh().coord_of(rank));
    if (dims[0].size() > max_blocks || dims[0].size() * dims[1].size() > max_blocks) return {};
    sheet.add(dims[0], dims[1], rank);
    if (sheet.size() > max_blocks) return {};
  }
  return std::move(sheet).blocks();
}

std::vector<Block> blocks_of(const Spec& spec, std::int64_t rank) {
  Sheet sheet;
  if (const std::optional<Coord> coord = spec.mesh().coord_of(rank)) {
    const std::vector<Intervals> dims = intervals_of(spec, *coord);
    sheet.add(dims[0], dims[1], rank);
  }
  return std::move(sheet).blocks();
}

std::vector<Block> blocks_read(const PlanStep& step, std::int64_t rank) {
  const Spec& written = step.array_written();
  const std::optional<Coord> coord = written.mesh().coord_of(rank);
  if (!coord) return {};
  const std::vector<Intervals> held = intervals_of(written, *coord);
  Sheet sheet;
  for (const Transfer& box : transfers_into(step, rank)) {
    std::vector<Intervals> dims;
    for (std::size_t d = 0; d < box.dims.size(); ++d) {
      Intervals& global = dims.emplace_back();
      for (const Run& run : box.dims[d]) {
        for (const Interval& part :
             global_of(held[d + 2 - box.dims.size()], run.dst, run.dst + run.size)) {
          global.push_back(part);
        }
      }
    }
    while (dims.size() < 2) dims.insert(dims.begin(), Intervals{{0, 1}});
    sheet.add(dims[0], dims[1], box.peer);
  }
  return std::move(sheet).blocks();
}

}  // namespace tessera::audit
