#include "placement/layout_pattern.h"

namespace tessera::pattern {
namespace {

/// Trial division for a smaller grain ends here, so that it stays instant for any size.
constexpr std::int64_t kMaxTrialDivisor = std::int64_t{1} << 20;

void append(Interval interval, std::vector<Interval>& out) {
  if (!out.empty() && out.back().stop == interval.start) {
    out.back().stop = interval.stop;
  } else {
    out.push_back(interval);
  }
}

}  // namespace

std::int64_t equal_chunk(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  std::int64_t parts = 1;
  for (const Level& level : levels) {
    if (!is_plain_axis(level)) return 0;
    parts *= mesh.size(level.axis);
  }
  return size % parts == 0 ? size / parts : 0;
}

Interval Pattern::kept(const Level& level, std::int64_t length) const {
  if (level.sizes) {
    if (length <= 0) return {0, 0};
    const RaggedPart part = level.sizes.part_of(coord_[static_cast<std::size_t>(level.axis)]);
    return {std::min(part.start, length), std::min(part.stop, length)};
  }
  const std::int64_t chunk = chunk_of(mesh_, level, length);
  const std::int64_t coord = coord_[static_cast<std::size_t>(level.axis)];
  if (length <= 0 || coord >= ceil_div(length, chunk)) return {length, length};
  const std::int64_t start = coord * chunk;
  return {start, start + std::min(chunk, length - start)};
}

std::int64_t Pattern::held(std::int64_t length, std::size_t level) const {
  for (; level < levels_.size() && length > 0; ++level) {
    if (levels_[level].kind == Level::Kind::kAxis) {
      const Interval part = kept(levels_[level], length);
      length = part.stop - part.start;
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh_, levels_[level], length);
    if (chunk == length) continue;
    const std::int64_t tail = length % chunk;
    const std::int64_t in_tail = tail > 0 ? held(tail, level + 1) : 0;
    return length / chunk * held(chunk, level + 1) + in_tail;
  }
  return length;
}

std::int64_t Pattern::held_below(std::int64_t size, std::int64_t index) const {
  std::int64_t before = 0;
  std::int64_t length = size;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (index >= length) return before + held(length, i);
    if (levels_[i].kind == Level::Kind::kAxis) {
      const Interval part = kept(levels_[i], length);
      if (index <= part.start) return before;
      index -= part.start;
      length = part.stop - part.start;
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh_, levels_[i], length);
    const std::int64_t piece = index / chunk;
    if (piece > 0) before += piece * held(chunk, i + 1);
    index -= piece * chunk;
    length = std::min(chunk, length - piece * chunk);
  }
  return before + std::min(index, length);
}

std::int64_t Pattern::to_global(std::int64_t size, std::int64_t local_index) const {
  std::int64_t start = 0;
  std::int64_t length = size;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].kind == Level::Kind::kAxis) {
      const Interval part = kept(levels_[i], length);
      start += part.start;
      length = part.stop - part.start;
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh_, levels_[i], length);
    if (chunk == length) continue;
    const std::int64_t per_chunk = held(chunk, i + 1);
    const std::int64_t full = length / chunk;
    const std::int64_t piece = per_chunk > 0 ? std::min(local_index / per_chunk, full) : full;
    local_index -= piece * per_chunk;
    start += piece * chunk;
    length = std::min(chunk, length - piece * chunk);
  }
  return start + local_index;
}

std::int64_t Pattern::to_local(std::int64_t size, std::int64_t global_index) const {
  std::int64_t before = 0;
  std::int64_t length = size;
  std::int64_t index = global_index;
  if (index < 0 || index >= size) return -1;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].kind == Level::Kind::kAxis) {
      const Interval part = kept(levels_[i], length);
      if (index < part.start || index >= part.stop) return -1;
      index -= part.start;
      length = part.stop - part.start;
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh_, levels_[i], length);
    const std::int64_t piece = index / chunk;
    if (piece > 0) before += piece * held(chunk, i + 1);
    index -= piece * chunk;
    length = std::min(chunk, length - piece * chunk);
  }
  return before + index;
}

void Pattern::intervals(std::int64_t size, Interval window, std::vector<Interval>& out) const {
  intervals_of_piece({0, size}, 0, window, out);
}

void Pattern::intervals_of_piece(Interval piece, std::size_t level, Interval window,
                                 std::vector<Interval>& out) const {
  for (; level < levels_.size(); ++level) {
    if (piece.start >= piece.stop) return;
    const std::int64_t length = piece.stop - piece.start;
    if (levels_[level].kind == Level::Kind::kAxis) {
      const Interval part = kept(levels_[level], length);
      piece = {piece.start + part.start, piece.start + part.stop};
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh_, levels_[level], length);
    const std::int64_t total = held(length, level);
    if (total == 0) return;
    if (total == length) break;  // a piece held whole needs no look at its chunks
    if (chunk == length) continue;
    const std::int64_t pieces = ceil_div(length, chunk);
    const std::int64_t below = std::max<std::int64_t>(0, window.start - piece.start);
    std::int64_t i = below / chunk;
    if (held(chunk, level + 1) == 0) i = std::max(i, length / chunk);  // only the tail has some
    for (; i < pieces && piece.start + i * chunk < window.stop; ++i) {
      const std::int64_t start = piece.start + i * chunk;
      intervals_of_piece({start, std::min(piece.stop, start + chunk)}, level + 1, window, out);
    }
    return;
  }
  const Interval clipped{std::max(piece.start, window.start), std::min(piece.stop, window.stop)};
  if (clipped.start < clipped.stop) append(clipped, out);
}

bool cuts_piece(const Mesh& mesh, const Levels& levels, std::size_t level, std::int64_t length) {
  for (; level < levels.size() && length > 0; ++level) {
    if (levels[level].sizes) return true;
    const std::int64_t chunk = chunk_of(mesh, levels[level], length);
    if (levels[level].kind == Level::Kind::kAxis && chunk < length) return true;
    length = chunk;
  }
  return false;
}

Stretch stretch_at(const Mesh& mesh, std::int64_t size, const Levels& levels, std::int64_t index) {
  Stretch stretch{Coord(static_cast<std::size_t>(mesh.ndim()), 0), 0};
  std::int64_t start = 0;
  std::int64_t length = size;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!cuts_piece(mesh, levels, i, length)) break;
    if (levels[i].sizes) {
      const RaggedPart& part = levels[i].sizes.part_at(index - start);
      stretch.coord[static_cast<std::size_t>(levels[i].axis)] = part.coord;
      start += part.start;
      length = part.stop - part.start;
      continue;
    }
    const std::int64_t chunk = chunk_of(mesh, levels[i], length);
    const std::int64_t piece = (index - start) / chunk;
    if (levels[i].kind == Level::Kind::kAxis) {
      stretch.coord[static_cast<std::size_t>(levels[i].axis)] = piece;
    }
    start += piece * chunk;
    length = std::min(chunk, length - piece * chunk);
  }
  stretch.stop = start + length;
  return stretch;
}

Lengths lengths_after(const Mesh& mesh, const Level& level, const Lengths& lengths) {
  Lengths next;
  if (level.sizes) {
    if (lengths.empty()) return next;
    for (const RaggedPart& part : level.sizes.parts()) next.push_back(part.stop - part.start);
  }
  for (const std::int64_t length : level.sizes ? Lengths() : lengths) {
    const std::int64_t chunk = chunk_of(mesh, level, length);
    next.push_back(chunk);
    if (length % chunk != 0) next.push_back(length % chunk);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

bool keeps_whole(const Mesh& mesh, const Level& level, const Lengths& lengths) {
  if (level.sizes) return lengths.empty();
  return std::all_of(lengths.begin(), lengths.end(),
                     [&](std::int64_t length) { return chunk_of(mesh, level, length) == length; });
}

bool same_chunks(const Mesh& mesh, const Level& a, const Level& b, const Lengths& lengths) {
  if (a.sizes || b.sizes) return a.sizes == b.sizes;
  return std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t length) {
    return chunk_of(mesh, a, length) == chunk_of(mesh, b, length);
  });
}

Level with_smallest_grain(const Mesh& mesh, Level level, const Lengths& lengths) {
  if (level.sizes) return level;
  Level plain = level;
  plain.grain = 1;
  if (level.grain == 1 || same_chunks(mesh, level, plain, lengths)) return plain;
  // The grain of a cut divides its chunk, so that the divisors of the longest chunk are all there
  // is to try.
  const std::int64_t chunk = chunk_of(mesh, level, lengths.back());
  Level best = level;
  const auto try_grain = [&](std::int64_t grain) {
    Level tried = level;
    tried.grain = grain;
    if (grain < best.grain && same_chunks(mesh, level, tried, lengths)) best = tried;
  };
  for (std::int64_t d = 1; d <= kMaxTrialDivisor && d <= chunk / d; ++d) {
    if (chunk % d != 0) continue;
    try_grain(d);
    try_grain(chunk / d);
  }
  return best;
}

}  // namespace tessera::pattern
