// How placement lists and levels say each other: a strided shard's split factor is the product of
// the block counts before its axis and of the sizes of the axes to its right that come before it.
// Axes of which one coord owns everything stand before all others and count for no factor.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/layout.h"
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using Kind = Level::Kind;

std::string where(const Mesh& mesh, ShapeView global_shape) {
  return absl::StrFormat("[mesh %s, shape %s]", mesh.to_string(), to_string(global_shape));
}

/// Puts `axis` where the factor before it is `split_factor`. False where no position has it.
bool insert_axis(const Mesh& mesh, int axis, std::int64_t split_factor, Levels& levels) {
  std::int64_t rest = split_factor;  // what the levels from here on still have to supply
  for (auto at = levels.begin(); rest > 1; ++at) {
    if (at == levels.end()) {
      levels.push_back(Level::of_block(rest));
      break;
    }
    const std::int64_t factor = at->kind == Kind::kAxis ? mesh.size(at->axis) : at->count;
    if (rest % factor == 0) {
      rest /= factor;
      if (rest == 1) {
        levels.insert(at + 1, Level::of_axis(axis));
        return true;
      }
      continue;
    }
    if (at->kind == Kind::kAxis || factor % rest != 0) return false;
    at->count = factor / rest;  // the axis stands inside the block
    at = levels.insert(at, Level::of_axis(axis));
    levels.insert(at, Level::of_block(rest));
    return true;
  }
  levels.insert(split_factor == 1 ? levels.begin() : levels.end(), Level::of_axis(axis));
  return true;
}

struct Cut {
  int dim = 0;
  std::int64_t split_factor = 1;
  bool states_sizes = false;
};
std::optional<Cut> cut_of(const Placement& placement) {
  if (const auto* ragged = std::get_if<Ragged>(&placement)) return Cut{ragged->dim, 1, true};
  if (std::holds_alternative<Owned>(placement)) return Cut{0, 1, true};
  if (const auto* shard = std::get_if<Shard>(&placement)) return Cut{shard->dim, 1};
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return Cut{strided->dim, strided->split_factor};
  }
  return std::nullopt;
}

Status check_split_factor(const Placement& placement, std::span<const Placement> placements) {
  const auto* strided = std::get_if<StridedShard>(&placement);
  if (strided == nullptr || strided->split_factor >= 1) return absl::OkStatus();
  return invalid_argument(absl::StrFormat("placements %s: %s has a split factor below 1",
                                          to_string(placements), to_string(placement)));
}

/// The level that a ragged or owned placement asks for. Errors: InvalidArgument without the
/// placements.
StatusOr<Level> stated_level(const Mesh& mesh, int axis, std::int64_t size,
                             const Placement& placement) {
  if (const auto* owned = std::get_if<Owned>(&placement)) {
    if (owned->coord >= 0 && owned->coord < mesh.size(axis)) {
      return Level::of_ragged(axis, RaggedSizes::owned(mesh.size(axis), owned->coord, size));
    }
    return invalid_argument(absl::StrFormat("%s names coord %d, but axis %s has %d ranks",
                                            to_string(placement), owned->coord,
                                            mesh.axis_label(axis), mesh.size(axis)));
  }
  const RaggedSizes& sizes = std::get<Ragged>(placement).sizes;
  if (!sizes || sizes.num_coords() != mesh.size(axis)) {
    return invalid_argument(absl::StrFormat(
        "%s states %d sizes, but axis %s has %d ranks; give one a rank", to_string(placement),
        sizes ? sizes.num_coords() : 0, mesh.axis_label(axis), mesh.size(axis)));
  }
  TSR_RETURN_IF_ERROR(sizes.check());
  if (sizes.total() != size) {
    return invalid_argument(
        absl::StrFormat("the sizes of %s add up to %d, but the dim has %d elements",
                        to_string(placement), sizes.total(), size));
  }
  return Level::of_ragged(axis, sizes);
}

/// The split factor of each axis of `levels`, by mesh axis; 0 for the others.
std::vector<std::int64_t> split_factors(const Mesh& mesh, const Levels& levels) {
  std::vector<std::int64_t> factors(static_cast<std::size_t>(mesh.ndim()), 0);
  std::int64_t blocks = 1;
  std::vector<int> seen;
  for (const Level& level : levels) {
    if (level.kind == Kind::kBlock) {
      blocks *= level.count;
      continue;
    }
    if (pattern::owns(level)) {
      factors[static_cast<std::size_t>(level.axis)] = 1;
      continue;
    }
    std::int64_t factor = blocks;
    for (const int axis : seen) factor *= axis > level.axis ? mesh.size(axis) : 1;
    factors[static_cast<std::size_t>(level.axis)] = factor;
    seen.push_back(level.axis);
  }
  return factors;
}

Status check_encodable(const Mesh& mesh, const Levels& levels, int dim) {
  const auto refuse = [&](std::string_view why) {
    return invalid_argument(absl::StrFormat("layout %s of dim %d has no placement list: %s",
                                            to_string(mesh, levels), dim, std::string(why)));
  };
  std::int64_t product = 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Level& level = levels[i];
    if (level.kind == Kind::kRun) return refuse("it has a run");
    if (level.grain != 1) return refuse("it has a grain");
    if (level.kind == Kind::kBlock && i > 0 && levels[i - 1].kind == Kind::kBlock) {
      return refuse("it has two adjacent blocks that do not merge");
    }
    const std::int64_t factor = level.kind == Kind::kAxis ? mesh.size(level.axis) : level.count;
    if (__builtin_mul_overflow(product, factor, &product)) {
      return refuse("its split factor exceeds 2^63 - 1");
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Layout> decode(const Mesh& mesh, ShapeView global_shape,
                        std::span<const Placement> placements) {
  if (placements.size() != static_cast<std::size_t>(mesh.ndim())) {
    return invalid_argument(
        absl::StrFormat("placements %s: %d given, but the mesh has %d axes; give one per axis %s",
                        to_string(placements), static_cast<int>(placements.size()), mesh.ndim(),
                        where(mesh, global_shape)));
  }
  Layout layout{std::vector<Levels>(global_shape.size()),
                std::vector<std::optional<ReduceOp>>(placements.size())};
  std::vector<Levels> owned(global_shape.size());
  bool states_sizes = false;
  // From the right: an axis' split factor counts axes to its right only, and these stand already.
  for (int axis = mesh.ndim(); axis-- > 0;) {
    const Placement& placement = placements[static_cast<std::size_t>(axis)];
    if (const auto* partial = std::get_if<Partial>(&placement)) {
      layout.partial[static_cast<std::size_t>(axis)] = partial->op;
    }
    const std::optional<Cut> cut = cut_of(placement);
    if (!cut) continue;
    TSR_RETURN_IF_ERROR(check_split_factor(placement, placements));
    if (std::holds_alternative<Owned>(placement) && global_shape.empty()) {
      return invalid_argument(absl::StrFormat(
          "placements %s: %s of a tensor without dims: it has no part that is empty; let every "
          "rank hold it (R) %s",
          to_string(placements), to_string(placement), where(mesh, global_shape)));
    }
    const StatusOr<int> dim = normalize_dim(cut->dim, static_cast<int>(global_shape.size()));
    if (!dim.ok()) {
      return invalid_argument(absl::StrFormat("placements %s: %s %s", to_string(placements),
                                              std::string(message_of(dim.status())),
                                              where(mesh, global_shape)));
    }
    Levels& levels = layout.dims[static_cast<std::size_t>(*dim)];
    if (cut->states_sizes) {
      const std::int64_t size = global_shape[static_cast<std::size_t>(*dim)];
      StatusOr<Level> level = stated_level(mesh, axis, size, placement);
      if (!level.ok()) {
        return invalid_argument(absl::StrFormat("placements %s: %s %s", to_string(placements),
                                                std::string(message_of(level.status())),
                                                where(mesh, global_shape)));
      }
      states_sizes = true;
      if (mesh.size(axis) == 1) continue;
      Levels& to = pattern::owns(*level) ? owned[static_cast<std::size_t>(*dim)] : levels;
      to.insert(to.begin(), *std::move(level));
      continue;
    }
    if (mesh.size(axis) == 1) continue;
    if (!insert_axis(mesh, axis, cut->split_factor, levels)) {
      return invalid_argument(
          absl::StrFormat("placements %s: %s on axis %s does not decode: the axes to its right cut "
                          "dim %d as %s, and "
                          "no position in that list has the split factor %d %s",
                          to_string(placements), to_string(placement), mesh.axis_label(axis), *dim,
                          to_string(mesh, levels), cut->split_factor, where(mesh, global_shape)));
    }
  }
  if (states_sizes) {
    for (std::size_t d = 0; d < owned.size(); ++d) {
      layout.dims[d].insert(layout.dims[d].begin(), owned[d].begin(), owned[d].end());
    }
    const Status sums = validate(mesh, global_shape, layout);
    if (!sums.ok()) {
      return invalid_argument(absl::StrFormat("placements %s: %s %s", to_string(placements),
                                              std::string(message_of(sums)),
                                              where(mesh, global_shape)));
    }
  }
  return canonical(mesh, global_shape, std::move(layout));
}

StatusOr<Placements> encode(const Mesh& mesh, ShapeView global_shape, const Layout& layout) {
  const Layout plain = canonical(mesh, global_shape, layout);
  Placements placements(static_cast<std::size_t>(mesh.ndim()), Replicate{});
  for (std::size_t a = 0; a < placements.size(); ++a) {
    if (plain.partial[a]) placements[a] = Partial{*plain.partial[a]};
  }
  for (int d = 0; d < static_cast<int>(plain.dims.size()); ++d) {
    const Levels& levels = plain.dims[static_cast<std::size_t>(d)];
    TSR_RETURN_IF_ERROR(check_encodable(mesh, levels, d));
    const std::vector<std::int64_t> factors = split_factors(mesh, levels);
    for (std::size_t a = 0; a < factors.size(); ++a) {
      if (factors[a] == 1) placements[a] = Shard{d};
      if (factors[a] > 1) placements[a] = StridedShard{d, factors[a]};
    }
    for (const Level& level : levels) {
      if (!level.sizes) continue;
      Placement& placement = placements[static_cast<std::size_t>(level.axis)];
      if (d == 0 && pattern::owns(level)) {
        placement = Owned{*level.sizes.owner()};
      } else {
        placement = Ragged{d, level.sizes};
      }
    }
  }
  return placements;
}

}  // namespace tessera
