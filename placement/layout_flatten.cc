// Views on levels: two dims become one, or one becomes two, without an element changing its rank.
#include "absl/strings/str_format.h"
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using pattern::Lengths;
using Kind = Level::Kind;

StatusOr<std::int64_t> scaled(std::int64_t value, std::int64_t factor) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(value, factor, &product)) {
    return failed_precondition(
        absl::StrFormat("flatten: a level of %d times %d exceeds 2^63 - 1", value, factor));
  }
  return product;
}

/// Tells the levels of the major dim from those of the minor one, from left to right.
class Splitter {
 public:
  Splitter(const Mesh& mesh, Levels levels, std::int64_t n_major, std::int64_t n_minor)
      : mesh_(mesh),
        levels_(std::move(levels)),
        n_major_(n_major),
        n_minor_(n_minor),
        lengths_(pattern::lengths_of(n_major * n_minor)) {}

  StatusOr<std::pair<Levels, Levels>> run() {
    const std::size_t end = end_of_live_levels();
    for (std::size_t i = 0; i < end; ++i) {
      if (!place(levels_[i])) return refuse(levels_[i]);
      lengths_ = pattern::lengths_after(mesh_, levels_[i], lengths_);
    }
    major_ = canonical_levels(mesh_, n_major_, std::move(major_));
    minor_ = canonical_levels(mesh_, n_minor_, std::move(minor_));
    for (std::size_t i = end; i < levels_.size(); ++i) {
      if (levels_[i].kind == Kind::kAxis) place_idle(levels_[i].axis);
    }
    return std::pair(canonical_levels(mesh_, n_major_, std::move(major_)),
                     canonical_levels(mesh_, n_minor_, std::move(minor_)));
  }

 private:
  /// Just past the last axis that cuts anything; axes after it leave all to coord 0.
  std::size_t end_of_live_levels() const {
    Lengths lengths = lengths_;
    std::size_t end = 0;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      if (levels_[i].kind == Kind::kAxis && !pattern::keeps_whole(mesh_, levels_[i], lengths)) {
        end = i + 1;
      }
      lengths = pattern::lengths_after(mesh_, levels_[i], lengths);
    }
    return end;
  }

  bool place(const Level& level) {
    if (!in_minor_ && on_row_borders(level)) {
      major_.push_back(in_rows(level));
      return true;
    }
    const std::int64_t longest = lengths_.back();
    const std::int64_t chunk = pattern::longest_chunk_of(mesh_, level, longest);
    const bool one_row = lengths_.size() == 1 && longest == n_minor_;
    if (in_minor_ || one_row) {
      in_minor_ = true;
      minor_.push_back(level);
      return true;
    }
    // A run or block that cuts several rows into equal parts of a row is a cut of each dim.
    const bool parts_of_rows = level.kind != Kind::kAxis && n_minor_ % chunk == 0 &&
                               pattern::same_chunks(mesh_, level, Level::of_run(chunk), lengths_);
    if (!parts_of_rows) return false;
    major_.push_back(Level::of_run(1));
    minor_.push_back(Level::of_run(chunk));
    in_minor_ = true;
    return true;
  }

  bool on_row_borders(const Level& level) const {
    if (level.sizes) return level.sizes.divides(n_minor_);
    for (const std::int64_t length : lengths_) {
      if (pattern::chunk_of(mesh_, level, length) % n_minor_ != 0) return false;
    }
    return true;
  }

  /// A level whose cuts fall on row borders, counted in rows.
  Level in_rows(Level level) const {
    if (level.sizes) return Level::of_ragged(level.axis, level.sizes.divided(n_minor_));
    if (level.kind == Kind::kRun) {
      level.count = pattern::ceil_div(level.count, n_minor_);
      return level;
    }
    Lengths rows = lengths_;
    for (std::int64_t& length : rows) length /= n_minor_;
    const auto fits = [&](const Level& tried) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (pattern::chunk_of(mesh_, tried, rows[i]) * n_minor_ !=
            pattern::chunk_of(mesh_, level, lengths_[i])) {
          return false;
        }
      }
      return true;
    };
    Level plain = level;
    plain.grain = 1;
    if (fits(plain)) return plain;
    // The chunk itself is a grain that makes it, wherever one grain does for all pieces.
    plain.grain = level.grain % n_minor_ == 0
                      ? level.grain / n_minor_
                      : pattern::chunk_of(mesh_, level, lengths_.back()) / n_minor_;
    TSR_CHECK(fits(plain), to_string(mesh_, levels_));
    return plain;
  }

  void place_idle(int axis) {
    if (longest_piece(major_, n_major_) > 1 && longest_piece(minor_, n_minor_) <= 1) {
      minor_.push_back(Level::of_axis(axis));
      return;
    }
    major_.push_back(Level::of_block(std::max<std::int64_t>(n_major_, 1)));
    major_.push_back(Level::of_axis(axis));
  }
  std::int64_t longest_piece(const Levels& levels, std::int64_t size) const {
    for (const Level& level : levels) size = pattern::longest_chunk_of(mesh_, level, size);
    return size;
  }

  Status refuse(const Level& level) const {
    const std::string text = level_to_string(mesh_, level);
    return failed_precondition(
        absl::StrFormat("unflatten: level %s of %s cuts [%d, %d] inside rows of %d; redistribute "
                        "so that no axis cuts "
                        "this dim, or that its pieces are whole rows",
                        text, to_string(mesh_, levels_), n_major_, n_minor_, n_minor_));
  }

  const Mesh& mesh_;
  Levels levels_;
  std::int64_t n_major_;
  std::int64_t n_minor_;
  Lengths lengths_;  ///< of the pieces before the level at hand
  Levels major_;
  Levels minor_;
  bool in_minor_ = false;
};

}  // namespace

StatusOr<Levels> flatten_levels(const Mesh& mesh, const Levels& major, std::int64_t n_major,
                                const Levels& minor, std::int64_t n_minor) {
  const std::int64_t sizes[] = {n_major, n_minor};
  TSR_ASSIGN_OR_RETURN(const std::int64_t size, checked_num_elements(sizes));
  const std::int64_t row = std::max<std::int64_t>(n_minor, 1);
  const bool cuts_rows = n_major > 1 && std::any_of(minor.begin(), minor.end(), [](const Level& l) {
                           return l.sizes && !pattern::owns(l);
                         });
  if (cuts_rows) {
    return failed_precondition(
        absl::StrFormat("flatten: %s states the sizes that each of %d rows is cut into, which no "
                        "cut of all of them "
                        "says; redistribute so that this dim is whole, or cut plainly",
                        to_string(mesh, minor), n_major));
  }
  Levels levels;
  for (Level level : major) {
    if (level.sizes) {
      TSR_ASSIGN_OR_RETURN(level.sizes, level.sizes.scaled(row));
      levels.push_back(std::move(level));
      continue;
    }
    std::int64_t& unit = level.kind == Kind::kRun ? level.count : level.grain;
    TSR_ASSIGN_OR_RETURN(unit, scaled(unit, row));
    levels.push_back(level);
  }
  if (!minor.empty()) {
    levels.push_back(Level::of_run(row));
    levels.insert(levels.end(), minor.begin(), minor.end());
  }
  return canonical_levels(mesh, size, std::move(levels));
}

StatusOr<std::pair<Levels, Levels>> unflatten_levels(const Mesh& mesh, const Levels& levels,
                                                     std::int64_t n_major, std::int64_t n_minor) {
  const std::int64_t sizes[] = {n_major, n_minor};
  TSR_ASSIGN_OR_RETURN(const std::int64_t size, checked_num_elements(sizes));
  return Splitter(mesh, canonical_levels(mesh, size, levels), n_major, n_minor).run();
}

}  // namespace tessera
