#include "placement/plan_tally.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "placement/layout_pattern.h"
#include "placement/plan_counted_dims.h"
#include "placement/plan_counts.h"
#include "placement/plan_even_tally.h"
#include "placement/plan_nested_lists.h"

namespace tessera {
namespace {

using Counts = std::array<std::int64_t, kMaxOverlaps>;

/// Where one list refines the other and both cut evenly, all coords count the same.
bool counts_alike(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b) {
  const bool nested = is_prefix(a, b) || is_prefix(b, a);
  return nested && size > 0 && pattern::equal_chunk(mesh, size, a) > 0 &&
         pattern::equal_chunk(mesh, size, b) > 0;
}

/// One dim's overlaps for every place of the axes that tell: a coord, or several that count alike.
struct DimTable {
  std::vector<int> axes;             ///< ascending
  std::vector<std::int64_t> counts;  ///< row-major over axes, a count for each overlap
  std::vector<std::size_t> kinds;    ///< of each row: number among those that differ
  std::vector<std::size_t> firsts;   ///< the first row of each kind
};

class Classes {
 public:
  explicit Classes(std::size_t num_overlaps) : num_overlaps_(num_overlaps) {}

  /// Counts beyond those of the overlaps are 0.
  void add(const Counts& counts, std::int64_t num_ranks) {
    if (!last_.empty() && equal(last_[0].counts, counts)) {
      last_[0].num_ranks += num_ranks;
      return;
    }
    flush();
    last_.push_back({counts, num_ranks});
  }
  std::vector<RankClass> take() {
    flush();
    return std::move(classes_);
  }

 private:
  bool equal(const Counts& a, const Counts& b) const {
    for (std::size_t k = 0; k < num_overlaps_; ++k) {
      if (a[k] != b[k]) return false;
    }
    return true;
  }
  void flush() {
    if (last_.empty()) return;
    const auto [at, added] = place_.try_emplace(last_[0].counts, classes_.size());
    if (added) {
      classes_.push_back(last_[0]);
    } else {
      classes_[at->second].num_ranks += last_[0].num_ranks;
    }
    last_.clear();
  }
  std::size_t num_overlaps_;
  absl::InlinedVector<RankClass, 1> last_;  ///< a run of equal counts
  absl::flat_hash_map<Counts, std::size_t> place_;
  std::vector<RankClass> classes_;
};

/// How many ranks are of each combination of rows' kinds, of which there may be more than ranks.
class RanksOfKinds {
 public:
  explicit RanksOfKinds(std::size_t num_kinds) : is_dense_(num_kinds <= kMostDense) {
    if (is_dense_) dense_.resize(num_kinds, 0);
  }
  void count(std::size_t kind, std::int64_t ranks) {
    (is_dense_ ? dense_[kind] : sparse_[kind]) += ranks;
  }
  template <class Take>
  void for_each(const Take& take) const {
    for (std::size_t kind = 0; kind < dense_.size(); ++kind) {
      if (dense_[kind] > 0) take(kind, dense_[kind]);
    }
    for (const auto& [kind, count] : sparse_) take(kind, count);
  }

 private:
  static constexpr std::size_t kMostDense = 1 << 14;
  bool is_dense_;
  std::vector<std::int64_t> dense_;
  std::map<std::size_t, std::int64_t> sparse_;
};

class Tally {
 public:
  Tally(const Spec& tensor, std::span<const Overlap> overlaps)
      : mesh_(tensor.mesh()), overlaps_(overlaps), breaks_(mesh_) {
    std::deque<Levels> made;
    const std::vector<CountedDim> dims = counted_dims(tensor, overlaps, made);
    for (const CountedDim& dim : dims) add_breaks(dim);
    for (const CountedDim& dim : dims) tables_.push_back(table_of(dim));
  }

  std::vector<RankClass> run() {
    std::vector<RankClass> classes{RankClass{one(), 1}};
    std::vector<bool> done(tables_.size(), false);
    std::vector<bool> touched(static_cast<std::size_t>(mesh_.ndim()), false);
    for (std::size_t d = 0; d < tables_.size(); ++d) {
      if (done[d]) continue;
      std::vector<std::size_t> linked = dims_linked_to(d);
      for (const std::size_t other : linked) {
        done[other] = true;
        for (const int axis : tables_[other].axes) touched[static_cast<std::size_t>(axis)] = true;
      }
      classes = product(classes, classes_of(linked));
    }
    std::int64_t others = 1;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (!touched[static_cast<std::size_t>(axis)]) others *= mesh_.size(axis);
    }
    for (RankClass& each : classes) each.num_ranks *= others;
    return classes;
  }

 private:
  void add_breaks(const CountedDim& dim) {
    for (std::size_t k = 0; k < overlaps_.size(); ++k) {
      const DimLists& lists = dim.lists[k];
      if (is_alike(k, dim)) continue;
      const bool nested = are_nested(lists);
      for (const Levels* levels : {lists.a, lists.b, lists.also}) {
        if (levels == nullptr) continue;
        nested ? breaks_.add(dim.size, *levels) : breaks_.add_all(*levels);
      }
    }
  }
  bool is_alike(std::size_t k, const CountedDim& dim) const {
    const DimLists& lists = dim.lists[k];
    return !meets(k, lists) && counts_alike(mesh_, dim.size, *lists.a, *lists.b);
  }
  std::size_t num_places(int axis) const { return breaks_.of(axis).size(); }
  /// True if a place of some axis stands for several coords: lists are nested then.
  bool skips_coords(const DimLists& lists) const {
    const auto skips = [&](const Level& level) {
      return level.kind == Level::Kind::kAxis &&
             num_places(level.axis) < static_cast<std::size_t>(mesh_.size(level.axis));
    };
    return std::ranges::any_of(*lists.a, skips) || std::ranges::any_of(*lists.b, skips) ||
           (lists.also != nullptr && std::ranges::any_of(*lists.also, skips));
  }

  Counts one() const {
    Counts counts{};
    std::fill_n(counts.begin(), overlaps_.size(), 1);
    return counts;
  }

  DimTable table_of(const CountedDim& dim) const {
    const std::int64_t size = dim.size;
    DimTable table;
    std::array<bool, kMaxOverlaps> alike{};
    for (std::size_t k = 0; k < overlaps_.size(); ++k) {
      const DimLists& lists = dim.lists[k];
      alike[k] = is_alike(k, dim);
      if (alike[k]) continue;
      for (const Levels* levels : {lists.a, lists.b, lists.also}) add_axes(levels, table.axes);
    }
    std::sort(table.axes.begin(), table.axes.end());
    table.axes.erase(std::unique(table.axes.begin(), table.axes.end()), table.axes.end());
    std::size_t rows = 1;
    for (const int axis : table.axes) rows *= num_places(axis);
    table.counts.resize(rows * overlaps_.size());
    for (std::size_t k = 0; k < overlaps_.size(); ++k) {
      const Levels& a = *dim.lists[k].a;
      const Levels& b = *dim.lists[k].b;
      if (!alike[k] && skips_coords(dim.lists[k])) {
        count_nested_lists(size, k, table, dim.lists[k]);
      } else if (meets(k, dim.lists[k])) {
        count_met(size, k, table, dim.lists[k]);
      } else if (alike[k]) {
        const Coord first(static_cast<std::size_t>(mesh_.ndim()), 0);
        const std::int64_t count = count_of(overlaps_[k], size, a, b, first);
        for (std::size_t row = 0; row < rows; ++row) at(table, row, k) = count;
      } else if (is_one_interval(a) && is_one_interval(b)) {
        count_intervals(overlaps_[k], size, k, table, {a, b});
      } else {
        count_each(overlaps_[k], size, k, table, {a, b});
      }
    }
    tell_rows_apart(rows, table);
    return table;
  }
  /// Compares rows of a table by what they count.
  struct RowsOf {
    const DimTable& table;
    std::size_t width;
    std::span<const std::int64_t> row(std::size_t number) const {
      return std::span(table.counts).subspan(number * width, width);
    }
    std::size_t operator()(std::size_t number) const {
      return absl::HashOf(absl::MakeConstSpan(row(number).data(), width));
    }
    bool operator()(std::size_t x, std::size_t y) const {
      const std::int64_t* of_x = row(x).data();
      const std::int64_t* of_y = row(y).data();
      for (std::size_t k = 0; k < width; ++k) {
        if (of_x[k] != of_y[k]) return false;
      }
      return true;
    }
  };
  void tell_rows_apart(std::size_t rows, DimTable& table) const {
    const RowsOf equal{table, overlaps_.size()};
    absl::flat_hash_map<std::size_t, std::size_t, RowsOf, RowsOf> kinds(0, equal, equal);
    table.kinds.resize(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const bool continues = row > 0 && equal(row, row - 1);
      const std::size_t next = table.firsts.size();
      const std::size_t kind =
          continues ? table.kinds[row - 1] : kinds.try_emplace(row, next).first->second;
      if (kind == next) table.firsts.push_back(row);
      table.kinds[row] = kind;
    }
  }
  static void add_axes(const Levels* levels, std::vector<int>& axes) {
    if (levels == nullptr) return;
    for (const Level& level : *levels) {
      if (level.kind == Level::Kind::kAxis) axes.push_back(level.axis);
    }
  }
  /// True if what is held under more than one list is looked at.
  bool meets(std::size_t k, const DimLists& lists) const {
    return lists.also != nullptr || overlaps_[k].of == Overlap::Of::kInside;
  }

  std::int64_t& at(DimTable& table, std::size_t row, std::size_t k) const {
    return table.counts[row * overlaps_.size() + k];
  }

  struct BothLevels {
    const Levels& a;
    const Levels& b;
  };
  /// Of lists that continue one another: from the first coord of every place.
  void count_nested_lists(std::int64_t size, std::size_t k, DimTable& table,
                          const DimLists& lists) const {
    Coord place(static_cast<std::size_t>(mesh_.ndim()), 0), coord = place;
    for (std::size_t row = 0; row * overlaps_.size() < table.counts.size(); ++row) {
      for (const int axis : table.axes) {
        const auto a = static_cast<std::size_t>(axis);
        coord[a] = breaks_.of(axis)[static_cast<std::size_t>(place[a])];
      }
      at(table, row, k) = count_nested(mesh_, size, overlaps_[k].of, lists, coord);
      step(table.axes, place);
    }
  }
  std::int64_t count_of(const Overlap& overlap, std::int64_t size, const Levels& a, const Levels& b,
                        const Coord& coord) const {
    if (overlap.of == Overlap::Of::kElements) return overlap_size(mesh_, size, a, b, coord);
    return num_owners(mesh_, size, a, b, coord);
  }

  /// Of lists that keep one interval each: from tables of those.
  void count_intervals(const Overlap& overlap, std::int64_t size, std::size_t k, DimTable& table,
                       const BothLevels& levels) const {
    const std::vector<Interval> held = intervals_of(mesh_, size, levels.a);
    const std::vector<Interval> others = intervals_of(mesh_, size, levels.b);
    const bool elements = overlap.of == Overlap::Of::kElements;
    std::vector<std::int64_t> owners;
    if (!elements) {
      owners = owners_of(held, others,
                         is_prefix(levels.b, levels.a) ? Refines::kYes : Refines::kUnknown);
    }
    std::size_t at_a = 0, at_b = 0;
    Coord coord(static_cast<std::size_t>(mesh_.ndim()), 0);
    const std::vector<std::size_t> of_a = strides_of(table.axes, levels.a);
    const std::vector<std::size_t> of_b = strides_of(table.axes, levels.b);
    for (std::size_t row = 0; row * overlaps_.size() < table.counts.size(); ++row) {
      const Interval& x = held[at_a];
      const Interval& y = others[at_b];
      at(table, row, k) = !elements ? owners[at_a]
                                    : std::max<std::int64_t>(
                                          0, std::min(x.stop, y.stop) - std::max(x.start, y.start));
      for (std::size_t i = table.axes.size(); i-- > 0;) {
        const auto axis_size = static_cast<std::int64_t>(num_places(table.axes[i]));
        std::int64_t& c = coord[static_cast<std::size_t>(table.axes[i])];
        at_a += of_a[i];
        at_b += of_b[i];
        if (++c < axis_size) break;
        c = 0;
        at_a -= of_a[i] * static_cast<std::size_t>(axis_size);
        at_b -= of_b[i] * static_cast<std::size_t>(axis_size);
      }
    }
  }
  /// Of each axis, how far its coords lie apart in intervals_of(); 0 for one that is not listed.
  std::vector<std::size_t> strides_of(const std::vector<int>& axes, const Levels& levels) const {
    std::vector<std::size_t> strides(axes.size(), 0);
    std::size_t stride = 1;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      const auto at = std::lower_bound(axes.begin(), axes.end(), level->axis);
      strides[static_cast<std::size_t>(at - axes.begin())] = stride;
      stride *= static_cast<std::size_t>(mesh_.size(level->axis));
    }
    return strides;
  }

  /// Of any lists, coord by coord.
  void count_each(const Overlap& overlap, std::int64_t size, std::size_t k, DimTable& table,
                  const BothLevels& levels) const {
    Coord coord(static_cast<std::size_t>(mesh_.ndim()), 0);
    const bool elements = overlap.of == Overlap::Of::kElements;
    for (std::size_t row = 0; row * overlaps_.size() < table.counts.size(); ++row) {
      // Only axes that it depends on matter; owners are counted over all coords of `b`.
      const std::size_t first =
          place_of(table.axes, coord, levels.a, elements ? levels.b : levels.a);
      at(table, row, k) =
          first < row ? at(table, first, k) : count_of(overlap, size, levels.a, levels.b, coord);
      step(table.axes, coord);
    }
  }

  /// Of what a coord holds under `a` and `also`.
  void count_met(std::int64_t size, std::size_t k, DimTable& table, const DimLists& lists) const {
    MetCounts counts(mesh_, size, overlaps_[k].of, lists);
    Coord coord(static_cast<std::size_t>(mesh_.ndim()), 0);
    for (std::size_t row = 0; row * overlaps_.size() < table.counts.size(); ++row) {
      at(table, row, k) = counts.at(coord);
      step(table.axes, coord);
    }
  }

  /// Row-major place of `coord` over `axes`, axes that are in neither level list at 0.
  std::size_t place_of(const std::vector<int>& axes, const Coord& coord, const Levels& a,
                       const Levels& b) const {
    std::size_t place = 0;
    for (const int axis : axes) {
      const auto cuts = [&](const Level& level) {
        return level.kind == Level::Kind::kAxis && level.axis == axis;
      };
      const bool in =
          std::any_of(a.begin(), a.end(), cuts) || std::any_of(b.begin(), b.end(), cuts);
      place = place * num_places(axis) +
              (in ? static_cast<std::size_t>(coord[static_cast<std::size_t>(axis)]) : 0);
    }
    return place;
  }

  /// The next place, the last axis fastest; false after the last one (all are 0 again).
  bool step(const std::vector<int>& axes, Coord& coord) const {
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto axis = static_cast<std::size_t>(axes[i]);
      if (++coord[axis] < static_cast<std::int64_t>(num_places(axes[i]))) return true;
      coord[axis] = 0;
    }
    return false;
  }

  std::vector<std::size_t> dims_linked_to(std::size_t first) const {
    std::vector<std::size_t> linked{first};
    for (std::size_t i = 0; i < linked.size(); ++i) {
      for (std::size_t d = 0; d < tables_.size(); ++d) {
        const bool known = std::find(linked.begin(), linked.end(), d) != linked.end();
        const auto& axes = tables_[linked[i]].axes;
        const bool shares = std::any_of(tables_[d].axes.begin(), tables_[d].axes.end(), [&](int a) {
          return std::find(axes.begin(), axes.end(), a) != axes.end();
        });
        if (!known && shares) linked.push_back(d);
      }
    }
    return linked;
  }

  std::size_t stride_of(const DimTable& table, int axis) const {
    std::size_t stride = 1;
    for (std::size_t i = table.axes.size(); i-- > 0;) {
      if (table.axes[i] == axis) return stride;
      stride *= num_places(table.axes[i]);
    }
    return 0;
  }

  std::vector<RankClass> classes_of(const std::vector<std::size_t>& dims) const {
    std::vector<int> axes;
    for (const std::size_t d : dims) {
      axes.insert(axes.end(), tables_[d].axes.begin(), tables_[d].axes.end());
    }
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    // Places in the dims' tables move along with the coords, the last axis fastest.
    std::vector<std::vector<std::size_t>> strides(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (const std::size_t d : dims) strides[i].push_back(stride_of(tables_[d], axes[i]));
    }
    std::vector<std::size_t> places(dims.size(), 0);
    std::vector<std::int64_t> coord(axes.size(), 0);
    RanksOfKinds ranks(num_kinds(dims));
    const bool all_coords = std::ranges::all_of(axes, [&](int axis) {
      return num_places(axis) == static_cast<std::size_t>(mesh_.size(axis));
    });
    for (;;) {
      std::size_t kind = 0;
      for (std::size_t j = 0; j < dims.size(); ++j) {
        const DimTable& table = tables_[dims[j]];
        kind = kind * table.firsts.size() + table.kinds[places[j]];
      }
      ranks.count(kind, all_coords ? 1 : num_ranks_at(axes, coord));
      std::size_t i = axes.size();
      while (i-- > 0) {
        const auto size = static_cast<std::int64_t>(num_places(axes[i]));
        const bool carries = ++coord[i] == size;
        for (std::size_t j = 0; j < dims.size(); ++j) {
          places[j] += strides[i][j];
          if (carries) places[j] -= strides[i][j] * static_cast<std::size_t>(size);
        }
        if (!carries) break;
        coord[i] = 0;
      }
      if (i == static_cast<std::size_t>(-1)) break;
    }
    Classes classes(overlaps_.size());
    ranks.for_each(
        [&](std::size_t kind, std::int64_t count) { classes.add(counts_of(dims, kind), count); });
    return classes.take();
  }
  std::int64_t num_ranks_at(const std::vector<int>& axes,
                            const std::vector<std::int64_t>& places) const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      count *= breaks_.coords_from(axes[i], static_cast<std::size_t>(places[i]));
    }
    return count;
  }
  /// Of combinations of rows' kinds.
  std::size_t num_kinds(const std::vector<std::size_t>& dims) const {
    std::size_t count = 1;
    for (const std::size_t d : dims) count *= tables_[d].firsts.size();
    return count;
  }
  Counts counts_of(const std::vector<std::size_t>& dims, std::size_t kind) const {
    Counts counts = one();
    for (std::size_t j = dims.size(); j-- > 0;) {
      const DimTable& table = tables_[dims[j]];
      const std::size_t row = table.firsts[kind % table.firsts.size()];
      kind /= table.firsts.size();
      for (std::size_t k = 0; k < overlaps_.size(); ++k) {
        counts[k] *= table.counts[row * overlaps_.size() + k];
      }
    }
    return counts;
  }

  std::vector<RankClass> product(const std::vector<RankClass>& a,
                                 const std::vector<RankClass>& b) const {
    if (a.size() == 1 && b.size() == 1) {
      RankClass both = a[0];
      for (std::size_t k = 0; k < overlaps_.size(); ++k) both.counts[k] *= b[0].counts[k];
      both.num_ranks *= b[0].num_ranks;
      return {both};
    }
    Classes classes(overlaps_.size());
    for (const RankClass& x : a) {
      for (const RankClass& y : b) {
        Counts counts = x.counts;
        for (std::size_t k = 0; k < overlaps_.size(); ++k) counts[k] *= y.counts[k];
        classes.add(counts, x.num_ranks * y.num_ranks);
      }
    }
    return classes.take();
  }

  const Mesh& mesh_;
  std::span<const Overlap> overlaps_;
  CoordBreaks breaks_;
  std::vector<DimTable> tables_;
};

}  // namespace

std::vector<RankClass> tally(const Spec& tensor, std::span<const Overlap> overlaps) {
  if (auto classes = even_tally(tensor, overlaps)) return *std::move(classes);
  return Tally(tensor, overlaps).run();
}

}  // namespace tessera
