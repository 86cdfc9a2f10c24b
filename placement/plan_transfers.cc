#include <algorithm>

#include "placement/layout_pattern.h"
#include "placement/plan.h"

namespace tessera {
namespace {

constexpr std::int64_t kFree = -1;

/// How the coord of a rank that is read from follows from the reader's, for one axis.
enum class AxisRole : std::uint8_t {
  kSame,   ///< equal: the axis replicates the source, or it stays Partial
  kOwner,  ///< that of the piece: the axis cuts the source
  kFold    ///< every one: the axis is reduced
};

/// The axes of one step, seen from the source.
struct Roles {
  std::vector<AxisRole> of_axis;
  std::vector<bool> fills;  ///< coords other than 0 read nothing
};

Roles roles_of(const PlanStep& step) {
  const Layout& src = step.src.layout();
  const Layout& dst = step.dst.layout();
  Roles roles;
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    const auto& from = src.partial[static_cast<std::size_t>(axis)];
    const auto& to = dst.partial[static_cast<std::size_t>(axis)];
    roles.of_axis.push_back(from && !to                  ? AxisRole::kFold
                            : src.dim_of_axis(axis) >= 0 ? AxisRole::kOwner
                                                         : AxisRole::kSame);
    roles.fills.push_back(!from && to && *to != ReduceOp::kAvg);
  }
  return roles;
}

/// One way in which coords on the axes of a dim hold a part of it.
struct DimPart {
  Coord coord;
  std::vector<Run> runs;
};

/// Coords on the axes of `levels` that may hold something inside a window; `pinned` axes have one
/// coord.
class CoordSearch {
 public:
  CoordSearch(const Mesh& mesh, const Levels& levels, const Coord& pinned)
      : mesh_(mesh), levels_(levels), pinned_(pinned), coord_(pinned.size(), 0) {}

  std::vector<Coord> within(std::int64_t size, Interval window) {
    if (window.start < window.stop) descend(0, size, window);
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  /// `window` counts from the start of the piece.
  void descend(std::size_t level, std::int64_t length, Interval window) {
    if (level == levels_.size()) {
      found_.push_back(coord_);
      return;
    }
    const std::int64_t chunk = pattern::chunk_of(mesh_, levels_[level], length);
    const std::int64_t first = window.start / chunk;
    const std::int64_t last = (window.stop - 1) / chunk;
    if (levels_[level].kind != Level::Kind::kAxis) {
      if (first == last) {
        descend(level + 1, std::min(chunk, length - first * chunk),
                {window.start - first * chunk, window.stop - first * chunk});
      } else {
        // Coords may hold something of the short tail only: [2*, tp] of 7 over 3 ranks cuts 4
        // and 3.
        descend(level + 1, chunk, {0, chunk});
        const std::int64_t tail = length - last * chunk;
        if (tail < chunk) descend(level + 1, tail, {0, window.stop - last * chunk});
      }
      return;
    }
    const auto axis = static_cast<std::size_t>(levels_[level].axis);
    for (std::int64_t c = first; c <= last; ++c) {
      if (pinned_[axis] != kFree && pinned_[axis] != c) continue;
      coord_[axis] = c;
      const std::int64_t part = std::min(chunk, length - c * chunk);
      descend(level + 1, part,
              {std::max<std::int64_t>(0, window.start - c * chunk),
               std::min(part, window.stop - c * chunk)});
    }
    coord_[axis] = 0;
  }

  const Mesh& mesh_;
  const Levels& levels_;
  const Coord& pinned_;
  Coord coord_;
  std::vector<Coord> found_;
};

/// One side of a step: a coord on it is known, those on the other are sought.
struct Side {
  const Layout& known;
  const Layout& sought;
  const Coord& coord;   ///< under `known`
  const Coord& pinned;  ///< under `sought`; kFree where any coord will do
};

std::vector<DimPart> parts_of_dim(const Mesh& mesh, std::int64_t size, std::size_t dim,
                                  const Side& side) {
  const Levels& known = side.known.dims[dim];
  const Levels& sought = side.sought.dims[dim];
  const pattern::Pattern held(mesh, known, side.coord);
  const std::int64_t count = held.held(size);
  if (count == 0) return {};
  const Interval window{held.to_global(size, 0), held.to_global(size, count - 1) + 1};
  std::vector<DimPart> parts;
  for (Coord& coord : CoordSearch(mesh, sought, side.pinned).within(size, window)) {
    std::vector<Run> runs = intersect(mesh, sought, coord, mesh, known, side.coord, size);
    if (!runs.empty()) parts.push_back({std::move(coord), std::move(runs)});
  }
  return parts;
}

/// All products of parts of dims and of coords on axes that no dim has.
class BoxProduct {
 public:
  BoxProduct(const PlanStep& step, const Side& side) : mesh_(step.src.mesh()) {
    for (std::size_t d = 0; d < side.sought.dims.size(); ++d) {
      parts_.push_back(parts_of_dim(mesh_, step.src.global_shape()[d], d, side));
      axes_of_dim_.emplace_back();
      for (const Level& level : side.sought.dims[d]) {
        if (level.kind == Level::Kind::kAxis) axes_of_dim_.back().push_back(level.axis);
      }
    }
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (side.sought.dim_of_axis(axis) >= 0) continue;
      loose_.push_back(axis);
    }
    coord_ = side.pinned;
  }

  /// `emit(coord, runs of each dim)`, coords on loose axes outermost, ascending.
  template <class Emit>
  void for_each(const Emit& emit) {
    const bool empty =
        std::any_of(parts_.begin(), parts_.end(), [](const auto& parts) { return parts.empty(); });
    if (!empty) over_loose(0, emit);
  }

 private:
  template <class Emit>
  void over_loose(std::size_t i, const Emit& emit) {
    if (i == loose_.size()) {
      over_dims(0, emit);
      return;
    }
    const auto axis = static_cast<std::size_t>(loose_[i]);
    if (coord_[axis] != kFree) {
      over_loose(i + 1, emit);
      return;
    }
    for (std::int64_t c = 0; c < mesh_.size(loose_[i]); ++c) {
      coord_[axis] = c;
      over_loose(i + 1, emit);
    }
    coord_[axis] = kFree;
  }

  template <class Emit>
  void over_dims(std::size_t d, const Emit& emit) {
    if (d == parts_.size()) {
      emit(coord_, box_);
      return;
    }
    for (const DimPart& part : parts_[d]) {
      for (const int axis : axes_of_dim_[d]) {
        coord_[static_cast<std::size_t>(axis)] = part.coord[static_cast<std::size_t>(axis)];
      }
      box_.push_back(part.runs);
      over_dims(d + 1, emit);
      box_.pop_back();
    }
  }

  const Mesh& mesh_;
  std::vector<std::vector<DimPart>> parts_;
  std::vector<std::vector<int>> axes_of_dim_;
  std::vector<int> loose_;
  Coord coord_;
  std::vector<std::vector<Run>> box_;
};

/// Place of a source coord among those folded: row-major over the axes that fold.
std::int64_t contributor_of(const Mesh& mesh, const Roles& roles, const Coord& coord) {
  std::int64_t place = 0;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (roles.of_axis[a] == AxisRole::kFold) place = place * mesh.size(axis) + coord[a];
  }
  return place;
}

}  // namespace

std::optional<Fold> fold_of(const PlanStep& step) {
  std::optional<Fold> fold;
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    const auto& from = step.src.layout().partial[static_cast<std::size_t>(axis)];
    if (!from || step.dst.layout().partial[static_cast<std::size_t>(axis)]) continue;
    if (!fold) fold.emplace();
    fold->op = *from == ReduceOp::kAvg ? ReduceOp::kSum : *from;
    if (*from == ReduceOp::kAvg) fold->divisor *= step.src.mesh().size(axis);
  }
  return fold;
}

std::optional<ReduceOp> fill_of(const PlanStep& step, std::int64_t rank) {
  const std::optional<Coord> coord = step.src.mesh().coord_of(rank);
  if (!coord) return std::nullopt;
  const Roles roles = roles_of(step);
  bool fills = false;
  std::optional<ReduceOp>
      last;  // kinds reduce from the last axis on, so that the last one must not notice
  for (std::size_t a = 0; a < coord->size(); ++a) {
    const auto& op = step.dst.layout().partial[a];
    if (!op || *op == ReduceOp::kAvg || (*coord)[a] == 0) continue;
    fills = fills || roles.fills[a];
    last = op;
  }
  return fills ? last : std::nullopt;
}

std::int64_t Transfer::num_elements() const noexcept {
  std::int64_t product = 1;
  for (const std::vector<Run>& runs : dims) {
    std::int64_t count = 0;
    for (const Run& run : runs) count += run.size;
    product *= count;
  }
  return product;
}

std::vector<Transfer> transfers_into(const PlanStep& step, std::int64_t rank) {
  const Mesh& mesh = step.src.mesh();
  const std::optional<Coord> coord = mesh.coord_of(rank);
  if (!coord || fill_of(step, rank)) return {};
  const Roles roles = roles_of(step);
  Coord pinned = *coord;
  for (std::size_t a = 0; a < pinned.size(); ++a) {
    if (roles.of_axis[a] != AxisRole::kSame) pinned[a] = kFree;
  }
  std::vector<Transfer> transfers;
  BoxProduct boxes(step, {step.dst.layout(), step.src.layout(), *coord, pinned});
  boxes.for_each([&](const Coord& peer, const std::vector<std::vector<Run>>& box) {
    transfers.push_back({mesh.rank_of(peer), contributor_of(mesh, roles, peer), box});
  });
  return transfers;
}

std::vector<Transfer> transfers_from(const PlanStep& step, std::int64_t rank) {
  const Mesh& mesh = step.src.mesh();
  const std::optional<Coord> coord = mesh.coord_of(rank);
  if (!coord) return {};
  const Roles roles = roles_of(step);
  const std::int64_t contributor = contributor_of(mesh, roles, *coord);
  Coord pinned = *coord;
  for (std::size_t a = 0; a < pinned.size(); ++a) {
    const bool same = roles.of_axis[a] == AxisRole::kSame;
    if (roles.fills[a] && same && pinned[a] != 0)
      return {};  // its replica at coord 0 serves itself
    if (!same) pinned[a] = roles.fills[a] ? 0 : kFree;
  }
  std::vector<Transfer> transfers;
  BoxProduct boxes(step, {step.src.layout(), step.dst.layout(), *coord, pinned});
  boxes.for_each([&](const Coord& peer, std::vector<std::vector<Run>> box) {
    for (std::vector<Run>& runs : box) {
      for (Run& run : runs) std::swap(run.src, run.dst);  // sought was the target here
    }
    transfers.push_back({mesh.rank_of(peer), contributor, std::move(box)});
  });
  return transfers;
}

std::int64_t bytes_received(const Plan& plan, std::int64_t rank) {
  std::int64_t elements = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::kLocal) continue;
    for (const Transfer& transfer : transfers_into(step, rank)) {
      if (transfer.peer != rank) elements += transfer.num_elements();
    }
  }
  return elements * size_of(plan.dst.dtype());
}

}  // namespace tessera
