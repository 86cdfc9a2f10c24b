#include "placement/plan_counted_dims.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "placement/plan_counts.h"

namespace tessera {
namespace {

class DimSplitter {
 public:
  DimSplitter(const Mesh& mesh, std::deque<Levels>& made, std::vector<CountedDim>& dims)
      : mesh_(mesh), made_(made), dims_(dims) {}

  void add(CountedDim dim) {
    for (const DimLists& lists : dim.lists) {
      for (const Levels* levels : {lists.a, lists.b, lists.also}) {
        if (levels == nullptr || is_one_interval(*levels)) continue;
        for (const std::int64_t major : borders_in(dim.size, *levels)) {
          if (split(dim, major)) return;
        }
      }
    }
    dims_.push_back(std::move(dim));
  }

 private:
  /// Sizes of a major dim that a block or a run speaks of.
  std::vector<std::int64_t> borders_in(std::int64_t size, const Levels& levels) const {
    std::vector<std::int64_t> borders;
    std::int64_t parts = 1;
    for (const Level& level : levels) {
      parts *= level.kind == Level::Kind::kAxis    ? mesh_.size(level.axis)
               : level.kind == Level::Kind::kBlock ? level.count
                                                   : 1;
      if (parts <= 0 || parts >= size) break;
      const std::int64_t border = level.kind == Level::Kind::kRun ? size / level.count : parts;
      const bool divides = level.kind == Level::Kind::kRun ? size % level.count == 0 : true;
      if (level.kind == Level::Kind::kAxis || !divides) continue;
      if (border > 1 && border < size && size % border == 0) borders.push_back(border);
    }
    return borders;
  }

  bool split(const CountedDim& dim, std::int64_t major) {
    const std::int64_t minor = dim.size / major;
    CountedDim outer{.size = major, .lists = {}}, inner{.size = minor, .lists = {}};
    absl::flat_hash_map<const Levels*, std::pair<const Levels*, const Levels*>> halves;
    const auto halves_of = [&](const Levels* levels) {
      const auto [at, is_new] = halves.try_emplace(levels);
      if (levels == nullptr || !is_new) return at->second;
      auto found = unflatten_levels(mesh_, *levels, major, minor);
      if (!found.ok()) return at->second;
      at->second.first = &made_.emplace_back(std::move(found->first));
      at->second.second = &made_.emplace_back(std::move(found->second));
      return at->second;
    };
    for (const DimLists& lists : dim.lists) {
      const auto a = halves_of(lists.a), b = halves_of(lists.b), also = halves_of(lists.also);
      const bool splits = a.first != nullptr && b.first != nullptr &&
                          (lists.also == nullptr || also.first != nullptr);
      if (!splits) return false;
      outer.lists.push_back({a.first, b.first, also.first});
      inner.lists.push_back({a.second, b.second, also.second});
    }
    add(std::move(outer));
    add(std::move(inner));
    return true;
  }

  const Mesh& mesh_;
  std::deque<Levels>& made_;
  std::vector<CountedDim>& dims_;
};

}  // namespace

std::vector<CountedDim> counted_dims(const Spec& tensor, std::span<const Overlap> overlaps,
                                     std::deque<Levels>& made) {
  std::vector<CountedDim> dims;
  DimSplitter splitter(tensor.mesh(), made, dims);
  for (std::size_t d = 0; d < tensor.global_shape().size(); ++d) {
    CountedDim dim{.size = tensor.global_shape()[d], .lists = {}};
    for (const Overlap& overlap : overlaps) {
      const Levels* a = &overlap.a->dims[d];
      dim.lists.push_back({a, overlap.b == nullptr ? a : &overlap.b->dims[d],
                           overlap.also == nullptr ? nullptr : &overlap.also->dims[d]});
    }
    splitter.add(std::move(dim));
  }
  return dims;
}

}  // namespace tessera
