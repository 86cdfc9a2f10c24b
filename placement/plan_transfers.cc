#include <algorithm>

#include "placement/layout_pattern.h"
#include "placement/plan_hosted.h"
#include "placement/plan_roles.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

constexpr std::int64_t kFree = -1;

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
    if (levels_[level].sizes) return descend_ragged(level, window);
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

  void descend_ragged(std::size_t level, Interval window) {
    const auto axis = static_cast<std::size_t>(levels_[level].axis);
    const std::span<const RaggedPart> parts = levels_[level].sizes.parts();
    auto part = std::upper_bound(
        parts.begin(), parts.end(), window.start,
        [](std::int64_t index, const RaggedPart& each) { return index < each.stop; });
    for (; part != parts.end() && part->start < window.stop; ++part) {
      if (pinned_[axis] != kFree && pinned_[axis] != part->coord) continue;
      coord_[axis] = part->coord;
      descend(level + 1, part->stop - part->start,
              {std::max<std::int64_t>(0, window.start - part->start),
               std::min(part->stop, window.stop) - part->start});
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
  const Spec& known;
  const Spec& sought;
  const Coord& coord;   ///< under `known`
  const Coord& pinned;  ///< under `sought`; kFree where any coord will do
};

std::vector<DimPart> parts_of_dim(std::size_t dim, const Side& side) {
  const Mesh& mesh = side.known.mesh();
  const Levels& known = side.known.layout().dims[dim];
  const Levels& sought = side.sought.layout().dims[dim];
  const std::int64_t size = side.known.global_shape()[dim];
  const pattern::Pattern held(mesh, known, side.coord);
  const std::int64_t count = held.held(size);
  if (count == 0) return {};
  const Interval window{held.to_global(size, 0), held.to_global(size, count - 1) + 1};
  std::vector<DimPart> parts;
  CoordSearch search(side.sought.mesh(), sought, side.pinned);
  for (Coord& coord : search.within(size, window)) {
    std::vector<Run> runs =
        intersect(side.sought.mesh(), sought, coord, mesh, known, side.coord, size);
    if (!runs.empty()) parts.push_back({std::move(coord), std::move(runs)});
  }
  return parts;
}

/// All products of parts of dims and of coords on axes that no dim has.
class BoxProduct {
 public:
  explicit BoxProduct(const Side& side) : mesh_(side.sought.mesh()), coord_(side.pinned) {
    const Layout& sought = side.sought.layout();
    for (std::size_t d = 0; d < sought.dims.size(); ++d) {
      parts_.push_back(parts_of_dim(d, side));
      axes_of_dim_.emplace_back();
      for (const Level& level : sought.dims[d]) {
        if (level.kind == Level::Kind::kAxis) axes_of_dim_.back().push_back(level.axis);
      }
    }
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (sought.dim_of_axis(axis) < 0) loose_.push_back(axis);
    }
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
  BoxRuns box_;
};

/// Who reads from whom in one step. Both sides ask choose(), so that they agree.
class Router {
 public:
  explicit Router(const PlanStep& step)
      : src_(step.src), dst_(step.dst), roles_(roles_of(step)), replica_(step.replica) {
    if (src_.mesh() != dst_.mesh()) replica_ = ReplicaChoice::kSpread;
    for (int axis = 0; axis < dst_.mesh().ndim(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const bool replicated = dst_.layout().dim_of_axis(axis) < 0 && !dst_.layout().partial[a];
      (replicated ? copies_ : others_).push_back(axis);
    }
  }

  bool is_spread() const noexcept { return replica_ == ReplicaChoice::kSpread; }
  bool reads(const Coord& reader) const {
    for (std::size_t a = 0; a < reader.size(); ++a) {
      if (roles_.fills[a] && reader[a] != 0) return false;
    }
    return true;
  }

  /// Coords of senders: kFree where any will do. Axes of kReplica are left to choose().
  Coord senders_of(const Coord& reader) const {
    Coord coord(roles_.of_axis.size(), 0);
    for (std::size_t a = 0; a < coord.size(); ++a) {
      const AxisRole role = roles_.of_axis[a];
      if (role == AxisRole::kOwner || role == AxisRole::kFold) coord[a] = kFree;
      if (role == AxisRole::kSame) coord[a] = reader[a];
    }
    return coord;
  }
  /// Coords of readers; those that choose() another sender are among them.
  Coord readers_of(const Coord& sender) const {
    const bool one_mesh = src_.mesh() == dst_.mesh();
    Coord coord(static_cast<std::size_t>(dst_.mesh().ndim()), kFree);
    for (std::size_t a = 0; a < coord.size(); ++a) {
      if (roles_.fills[a]) coord[a] = 0;
      if (!one_mesh) continue;
      const AxisRole role = roles_.of_axis[a];
      const bool aligned = role == AxisRole::kReplica && !is_spread();
      if (role != AxisRole::kSame && !aligned) continue;
      if (roles_.fills[a] && sender[a] != 0) return {};  // its replica at coord 0 serves itself
      coord[a] = sender[a];
    }
    return coord;
  }

  /// Sets the coords of the replica that `reader` reads a piece from; `sender` names the piece.
  void choose(const Coord& reader, Coord& sender) const {
    const std::optional<Coord> own = src_.mesh().coord_of(dst_.mesh().rank_of(reader));
    const bool holds =
        own && of_role(AxisRole::kOwner, [&](std::size_t a) { return (*own)[a] == sender[a]; });
    if (holds || !is_spread()) {
      of_role(AxisRole::kReplica, [&](std::size_t a) {
        sender[a] = holds ? (*own)[a] : reader[a];
        return true;
      });
      return;
    }
    // Copies of one part of the target count fastest, so that they take the replicas in turn.
    std::int64_t turn = 0;
    for (const auto* axes : {&others_, &copies_}) {
      for (const int axis : *axes) {
        turn = turn * dst_.mesh().size(axis) + reader[static_cast<std::size_t>(axis)];
      }
    }
    for (std::size_t a = sender.size(); a-- > 0;) {
      if (roles_.of_axis[a] != AxisRole::kReplica) continue;
      const std::int64_t size = src_.mesh().size(static_cast<int>(a));
      sender[a] = turn % size;
      turn /= size;
    }
  }

  /// Place of a sender among those folded: row-major over the axes that fold.
  std::int64_t contributor_of(const Coord& sender) const {
    std::int64_t place = 0;
    of_role(AxisRole::kFold, [&](std::size_t a) {
      place = place * src_.mesh().size(static_cast<int>(a)) + sender[a];
      return true;
    });
    return place;
  }

 private:
  /// True if `test` holds for all source axes of a role.
  template <class Test>
  bool of_role(AxisRole role, const Test& test) const {
    for (std::size_t a = 0; a < roles_.of_axis.size(); ++a) {
      if (roles_.of_axis[a] == role && !test(a)) return false;
    }
    return true;
  }

  const Spec& src_;
  const Spec& dst_;
  Roles roles_;
  ReplicaChoice replica_;
  std::vector<int> copies_, others_;  ///< axes of the target that replicate it, and the rest
};

/// Appends what goes between two ranks; `peer` is the one of them that is not asking.
class Collector {
 public:
  explicit Collector(const PlanStep& step) : step_(step) {}

  /// `box`: of the two specs, where no larger array is in play.
  void add(std::int64_t peer, std::int64_t contributor, const PlanPair& pair, BoxRuns box) {
    if (!step_.host) {
      transfers_.push_back({peer, contributor, std::move(box)});
      return;
    }
    for (BoxRuns& runs : hosted_boxes(step_, pair)) {
      transfers_.push_back({peer, contributor, std::move(runs)});
    }
  }
  std::vector<Transfer> take() { return std::move(transfers_); }

 private:
  const PlanStep& step_;
  std::vector<Transfer> transfers_;
};

/// Its own elements that a rank needs in a larger array, where none of them is in its part.
void add_kept_apart(const PlanStep& step, const Coord& reader, std::vector<Transfer>& transfers) {
  if (!step.kept || step.in_place) return;
  const std::int64_t rank = step.dst.mesh().rank_of(reader);
  const std::optional<Coord> own = step.src.mesh().coord_of(rank);
  const bool there = std::any_of(transfers.begin(), transfers.end(),
                                 [&](const Transfer& transfer) { return transfer.peer == rank; });
  if (!own || there) return;
  for (BoxRuns& runs : hosted_boxes(step, {reader, *own})) {
    transfers.push_back({rank, 0, std::move(runs)});
  }
}

}  // namespace

std::optional<Fold> fold_of(const PlanStep& step) {
  std::optional<Fold> fold;
  const Roles roles = roles_of(step);
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (roles.of_axis[a] != AxisRole::kFold) continue;
    const ReduceOp op = *step.src.layout().partial[a];
    if (!fold) fold.emplace();
    fold->op = folded_by(op);
    if (divides(op)) fold->divisor *= step.src.mesh().size(axis);
  }
  return fold;
}

std::optional<ReduceOp> fill_of(const PlanStep& step, std::int64_t rank) {
  const std::optional<Coord> coord = step.dst.mesh().coord_of(rank);
  if (!coord) return std::nullopt;
  const Roles roles = roles_of(step);
  const Layout& src = step.src.layout();
  const Layout& dst = step.dst.layout();
  const bool one_mesh = step.src.mesh() == step.dst.mesh();
  bool fills = false;
  std::optional<ReduceOp>
      last;  // kinds reduce from the last axis on, so that the last one must not notice
  for (std::size_t a = 0; a < coord->size(); ++a) {
    const auto& op = dst.partial[a];
    if (!op || divides(*op)) continue;
    const bool keeps = one_mesh && keeps_shards(src, dst, static_cast<int>(a));
    if (!keeps && (*coord)[a] == 0) continue;
    fills = fills || keeps || roles.fills[a];
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
  const std::optional<Coord> reader = step.dst.mesh().coord_of(rank);
  const Router router(step);
  if (!reader || !router.reads(*reader)) return {};
  const Coord pinned = router.senders_of(*reader);
  Collector collector(step);
  BoxProduct boxes({step.dst, step.src, *reader, pinned});
  boxes.for_each([&](const Coord& found, const BoxRuns& box) {
    Coord sender = found;
    router.choose(*reader, sender);
    collector.add(step.src.mesh().rank_of(sender), router.contributor_of(sender), {*reader, sender},
                  box);
  });
  std::vector<Transfer> transfers = collector.take();
  add_kept_apart(step, *reader, transfers);
  return transfers;
}

std::vector<Transfer> transfers_from(const PlanStep& step, std::int64_t rank) {
  const std::optional<Coord> sender = step.src.mesh().coord_of(rank);
  if (!sender) return {};
  const Router router(step);
  const Coord pinned = router.readers_of(*sender);
  if (pinned.empty() && step.dst.mesh().ndim() > 0) return {};
  const std::int64_t contributor = router.contributor_of(*sender);
  Collector collector(step);
  BoxProduct boxes({step.src, step.dst, *sender, pinned});
  boxes.for_each([&](const Coord& reader, BoxRuns box) {
    Coord chosen = *sender;
    router.choose(reader, chosen);
    if (chosen != *sender) return;
    for (std::vector<Run>& runs : box) {
      for (Run& run : runs) std::swap(run.src, run.dst);  // sought was the target here
    }
    collector.add(step.dst.mesh().rank_of(reader), contributor, {reader, *sender}, std::move(box));
  });
  std::vector<Transfer> transfers = collector.take();
  const std::optional<Coord> own = step.dst.mesh().coord_of(rank);
  if (own) add_kept_apart(step, *own, transfers);
  return transfers;
}

}  // namespace tessera
