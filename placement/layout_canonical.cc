// How levels become canonical. Many lists of levels mean the same index sets; equality, caches and
// the planner need one of them. From major to minor: axes of one rank go, and so do cuts after the
// last axis, which keep everything. Axes that leave every piece whole commute with the cuts around
// them and move behind the last axis that does cut. Of each remaining cut the simplest form is
// taken that divides all pieces alike: runs that divide every piece into equally many become a
// block, grains become as small as they can, two cuts in a row become one where one can say it. All
// of this asks only for the set of lengths that pieces have at each level (layout_pattern.h), never
// for indices, so its cost does not grow with the dim. Cuts of stated sizes stay as they are, but
// for those that are plain ones; an axis of which one coord owns everything commutes with all
// others, and comes first. Most lists are of axes that cut evenly, and canonical as they are.
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using pattern::Lengths;
using Kind = Level::Kind;

/// Builds the canonical list of one dim.
class Canonizer {
 public:
  Canonizer(const Mesh& mesh, std::int64_t size, Levels levels)
      : mesh_(mesh), size_(size), levels_(std::move(levels)) {}

  Levels run() {
    if (std::any_of(levels_.begin(), levels_.end(),
                    [](const Level& level) { return static_cast<bool>(level.sizes); })) {
      name_plain_cuts();
      take_owned_axes();
    }
    drop_levels_without_effect();
    const std::size_t live_end = end_of_live_axes();
    std::vector<int> idle_axes;
    for (std::size_t i = live_end; i < levels_.size(); ++i) {
      if (levels_[i].kind == Kind::kAxis) idle_axes.push_back(levels_[i].axis);
    }
    levels_.resize(live_end);
    move_cuts_before_idle_axes();
    before_.push_back(pattern::lengths_of(size_));
    for (at_ = 0; at_ < levels_.size(); ++at_) {
      if (levels_[at_].kind == Kind::kAxis) {
        push(pattern::with_smallest_grain(mesh_, levels_[at_], before_.back()));
      } else {
        push_cut(levels_[at_]);
      }
    }
    append_idle_axes(idle_axes);
    out_.insert(out_.begin(), owned_.begin(), owned_.end());
    return std::move(out_);
  }

 private:
  /// Stated sizes that are those of a plain cut are not stated.
  void name_plain_cuts() {
    for (Level& level : levels_) {
      if (level.sizes && (size_ == 0 || level.sizes.is_plain())) {
        level = Level::of_axis(level.axis);
      }
    }
  }

  /// Axes of which one coord owns everything, in mesh order.
  void take_owned_axes() {
    for (const Level& level : levels_) {
      if (!pattern::owns(level) || mesh_.size(level.axis) == 1) continue;
      const std::int64_t coords = level.sizes.num_coords();
      owned_.push_back(
          Level::of_ragged(level.axis, RaggedSizes::owned(coords, *level.sizes.owner(), size_)));
    }
    std::erase_if(levels_, pattern::owns);
    std::sort(owned_.begin(), owned_.end(),
              [](const Level& a, const Level& b) { return a.axis < b.axis; });
  }

  void drop_levels_without_effect() {
    std::erase_if(levels_, [&](const Level& level) {
      return level.kind == Kind::kAxis && mesh_.size(level.axis) == 1;
    });
    while (!levels_.empty() && levels_.back().kind != Kind::kAxis) levels_.pop_back();
  }

  /// Just past the last axis that cuts any piece.
  std::size_t end_of_live_axes() const {
    Lengths lengths = pattern::lengths_of(size_);
    std::size_t end = 0;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      if (levels_[i].kind == Kind::kAxis && !pattern::keeps_whole(mesh_, levels_[i], lengths)) {
        end = i + 1;
      }
      lengths = pattern::lengths_after(mesh_, levels_[i], lengths);
    }
    return end;
  }

  /// An axis that cuts nothing commutes with the runs and blocks after it; they go first.
  void move_cuts_before_idle_axes() {
    for (bool moved = true; moved;) {
      moved = false;
      Lengths lengths = pattern::lengths_of(size_);
      for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
        const bool idle =
            levels_[i].kind == Kind::kAxis && pattern::keeps_whole(mesh_, levels_[i], lengths);
        if (idle && levels_[i + 1].kind != Kind::kAxis) {
          std::swap(levels_[i], levels_[i + 1]);
          moved = true;
        }
        lengths = pattern::lengths_after(mesh_, levels_[i], lengths);
      }
    }
  }

  /// Axes that leave all to coord 0 follow single elements, so that they need no grain.
  void append_idle_axes(const std::vector<int>& idle_axes) {
    if (idle_axes.empty()) return;
    if (!before_.back().empty() && before_.back().back() > 1) {
      push_cut(Level::of_block(before_.back().back()));
    }
    for (const int axis : idle_axes) push(Level::of_axis(axis));
  }

  void push(const Level& level) {
    out_.push_back(level);
    before_.push_back(pattern::lengths_after(mesh_, level, before_.back()));
  }

  void push_cut(Level level) {
    while (true) {
      if (pattern::keeps_whole(mesh_, level, before_.back())) return;
      level = simplest_cut(level);
      if (out_.empty() || out_.back().kind == Kind::kAxis) break;
      const std::optional<Level> merged = merge(out_.back(), level, before_[before_.size() - 2]);
      if (!merged) break;
      out_.pop_back();
      before_.pop_back();
      level = *merged;
    }
    push(level);
  }

  /// How pieces are cut that no later axis cuts shows nowhere, as long as that stays so.
  Level simplest_cut(const Level& level) const {
    Lengths live;
    Lengths idle;
    for (const std::int64_t length : before_.back()) {
      const bool is_live =
          pattern::cuts_piece(mesh_, levels_, at_ + 1, pattern::chunk_of(mesh_, level, length));
      (is_live ? live : idle).push_back(length);
    }
    if (!live.empty()) {
      const Level simple = simplest(level, live);
      const bool stays_idle = std::none_of(idle.begin(), idle.end(), [&](std::int64_t length) {
        return pattern::cuts_piece(mesh_, levels_, at_ + 1,
                                   pattern::chunk_of(mesh_, simple, length));
      });
      if (stays_idle) return simple;
    }
    return simplest(level, before_.back());
  }

  /// Runs that divide all pieces into equally many become a block; a block has no more chunks than
  /// hold anything.
  Level simplest(const Level& level, const Lengths& lengths) const {
    std::int64_t most = 0;
    bool divides = true;
    for (const std::int64_t length : lengths) {
      const std::int64_t chunk = pattern::chunk_of(mesh_, level, length);
      most = std::max(most, pattern::ceil_div(length, chunk));
      divides = divides && length % chunk == 0;
    }
    const Level block = Level::of_block(most, level.grain);
    if (level.kind == Kind::kBlock) return pattern::with_smallest_grain(mesh_, block, lengths);
    return divides && pattern::same_chunks(mesh_, level, block, lengths) ? block : level;
  }

  /// One cut that makes the pieces of `major` and then `minor`, where there is one.
  std::optional<Level> merge(const Level& major, const Level& minor, const Lengths& lengths) const {
    std::int64_t most = 0;
    Lengths chunks;
    for (const std::int64_t length : lengths) {
      const std::int64_t outer = pattern::chunk_of(mesh_, major, length);
      const std::int64_t chunk = pattern::chunk_of(mesh_, minor, outer);
      const std::int64_t tail = length % outer;
      const bool even = outer == length || outer % chunk == 0;
      if (!even || pattern::chunk_of(mesh_, minor, tail) != std::min(chunk, tail)) {
        return std::nullopt;
      }
      chunks.push_back(chunk);
      most = std::max(most, pattern::ceil_div(length, chunk));
    }
    const auto makes_chunks = [&](const Level& level) {
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (pattern::chunk_of(mesh_, level, lengths[i]) != chunks[i]) return false;
      }
      return true;
    };
    const Level block = Level::of_block(most);
    if (makes_chunks(block)) return block;
    const Level run = Level::of_run(chunks.back());
    const bool from_run = major.kind == Kind::kRun || minor.kind == Kind::kRun;
    if (from_run && makes_chunks(run)) return run;
    const Level coarse = Level::of_block(most, chunks.back());
    if (!makes_chunks(coarse)) return std::nullopt;
    return pattern::with_smallest_grain(mesh_, coarse, lengths);
  }

  const Mesh& mesh_;
  std::int64_t size_;
  Levels levels_;
  std::size_t at_ = 0;  ///< the level of levels_ at hand
  Levels owned_;
  Levels out_;
  std::vector<Lengths> before_;  ///< lengths before out_[i]; the last entry is after all of out_
};

/// Runs as blocks with a grain, which say the same: equal cuts then have equal text.
Levels without_runs(const Mesh& mesh, std::int64_t size, Levels levels) {
  Lengths lengths = pattern::lengths_of(size);
  for (Level& level : levels) {
    if (level.kind == Kind::kRun && !lengths.empty()) {
      level = Level::of_block(pattern::ceil_div(lengths.back(), level.count), level.count);
    }
    lengths = pattern::lengths_after(mesh, level, lengths);
  }
  return canonical_levels(mesh, size, std::move(levels));
}

/// True if axes of several coords cut every piece into equal chunks: such a list is canonical.
bool cuts_evenly(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  const auto cuts = [&](const Level& level) {
    return level.kind == Kind::kAxis && mesh.size(level.axis) > 1;
  };
  return std::all_of(levels.begin(), levels.end(), cuts) &&
         pattern::equal_chunk(mesh, size, levels) > 0;
}

bool same_axes(const Mesh& mesh, const Levels& a, const Levels& b) {
  std::vector<int> uses(static_cast<std::size_t>(mesh.ndim()), 0);
  for (const Level& level : a) {
    if (level.kind == Kind::kAxis) uses[static_cast<std::size_t>(level.axis)] += 1;
  }
  for (const Level& level : b) {
    if (level.kind == Kind::kAxis) uses[static_cast<std::size_t>(level.axis)] -= 1;
  }
  return std::all_of(uses.begin(), uses.end(), [](int use) { return use == 0; });
}

}  // namespace

Levels canonical_levels(const Mesh& mesh, std::int64_t size, Levels levels) {
  if (cuts_evenly(mesh, size, levels)) return levels;
  return Canonizer(mesh, size, std::move(levels)).run();
}

Layout canonical(const Mesh& mesh, ShapeView global_shape, Layout layout) {
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    layout.dims[d] = canonical_levels(mesh, global_shape[d], std::move(layout.dims[d]));
  }
  for (std::size_t a = 0; a < layout.partial.size(); ++a) {
    if (mesh.size(static_cast<int>(a)) == 1) layout.partial[a].reset();
  }
  return layout;
}

bool same_index_sets(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b) {
  if (size == 0 || a == b) return true;
  const Levels plain_a = without_runs(mesh, size, a);
  const Levels plain_b = without_runs(mesh, size, b);
  if (plain_a == plain_b) return true;
  if (!same_axes(mesh, plain_a, plain_b)) return false;
  // Texts differ: compare owners stretch by stretch; sets that differ do so after a few.
  for (std::int64_t index = 0; index < size;) {
    const pattern::Stretch of_a = pattern::stretch_at(mesh, size, plain_a, index);
    const pattern::Stretch of_b = pattern::stretch_at(mesh, size, plain_b, index);
    if (of_a.coord != of_b.coord) return false;
    index = std::min(of_a.stop, of_b.stop);
  }
  return true;
}

}  // namespace tessera
