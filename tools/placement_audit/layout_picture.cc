#include "tools/placement_audit/layout_picture.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "tools/placement_audit/rank_list.h"

namespace tessera::audit {
namespace {

constexpr std::int64_t kMaxRanks = 4096;
constexpr std::size_t kMaxBands = 64;
// Up to here every index is a cell of its own; beyond, one cell stands for a whole band.
constexpr std::int64_t kMaxSingleIndices = 16;
constexpr std::size_t kWidestLabel = 13;
constexpr std::size_t kListedRanks = 64;

struct Band {
  Interval indices;
  Coord owner;  // on the axes that cut the dim; 0 elsewhere
};

// The bands of a dim, ascending. A dim of size 0 has none.
StatusOr<std::vector<Band>> bands_of(const Spec& spec, int dim) {
  const Mesh& mesh = spec.mesh();
  const Levels& levels = spec.layout().dims[dim];
  const std::int64_t size = spec.global_shape()[dim];
  std::vector<Band> bands;
  for (std::int64_t at = 0; at < size; at = bands.back().indices.stop) {
    if (bands.size() == kMaxBands) {
      return invalid_argument(
          absl::StrFormat("dim %d of %s changes hands more than %d times; a picture shows no more: "
                          "use --format json",
                          dim, spec.to_string(), kMaxBands));
    }
    Band band{.indices = {at, at + 1}, .owner = owner_of(mesh, size, levels, at)};
    // The stretch ends where the owner's interval does.
    std::int64_t local = global_to_local(mesh, size, levels, band.owner, at);
    const std::int64_t held = local_size(mesh, size, levels, band.owner);
    std::int64_t low = local, high = held - 1;
    while (low < high) {  // local indices are ascending: search the last one that is contiguous
      const std::int64_t middle = low + (high - low + 1) / 2;
      const bool contiguous =
          local_to_global(mesh, size, levels, band.owner, middle) - at == middle - local;
      (contiguous ? low : high) = contiguous ? middle : middle - 1;
    }
    band.indices.stop = at + (low - local) + 1;
    bands.push_back(std::move(band));
  }
  return bands;
}

std::vector<Band> split_into_indices(const std::vector<Band>& bands) {
  std::vector<Band> single;
  for (const Band& band : bands) {
    for (std::int64_t at = band.indices.start; at < band.indices.stop; ++at) {
      single.push_back({{at, at + 1}, band.owner});
    }
  }
  return single;
}

std::string range_to_string(const Interval& indices) {
  if (indices.stop - indices.start == 1) return std::to_string(indices.start);
  return absl::StrFormat("%d-%d", indices.start, indices.stop - 1);
}

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  if (out.size() < width) out.insert(0, (width - out.size()) / 2, ' ');
  out.resize(std::max(width, out.size()), ' ');
  return out;
}

// " at dp=0 tp=1", or " at (0, 1)" where the axes have no names.
std::string place_of(const Mesh& mesh, const Coord& coord) {
  if (coord.empty()) return "";
  const bool named = !mesh.axis(0).name.empty();
  std::string place = named ? " at" : " at (";
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    place += named ? ' ' + mesh.axis(axis).name + '=' : axis > 0 ? ", " : "";
    place += std::to_string(coord[axis]);
  }
  return named ? place : place + ')';
}

class Picture {
 public:
  Picture(const Spec& spec, Colour colour, std::vector<Band> rows, std::vector<Band> columns)
      : spec_(spec), colour_(colour), rows_(std::move(rows)), columns_(std::move(columns)) {
    name_cells();
  }
  std::string draw() const;

 private:
  Ranks holders(const Band& row, const Band& column) const;
  void name_cells();
  // Lines are drawn only where the holders change, so that a shard shows as one box.
  bool cut_above(std::size_t row, std::size_t column) const;
  bool cut_before(std::size_t row, std::size_t column) const;
  std::string rule_above(std::size_t row, std::size_t margin) const;
  std::string heading(std::size_t margin) const;
  std::string row_line(std::size_t row, std::size_t margin) const;
  std::string legend() const;

  const Spec& spec_;
  Colour colour_;
  std::vector<Band> rows_;
  std::vector<Band> columns_;
  std::vector<std::size_t> cells_;   // row-major: index into owners_
  std::vector<Ranks> owners_;        // distinct, in the order of first appearance
  std::vector<std::string> labels_;  // of owners_
  std::vector<std::size_t> widths_;  // per column
};

// Ranks whose coord agrees with the owner of each dim on the axes that cut it; any coord elsewhere.
Ranks Picture::holders(const Band& row, const Band& column) const {
  Ranks ranks;
  for (std::int64_t i = 0; i < spec_.mesh().num_ranks(); ++i) {
    const std::int64_t rank = spec_.mesh().first_rank() + i;
    const Coord coord = *spec_.mesh().coord_of(rank);
    bool holds = true;
    for (int axis = 0; axis < spec_.mesh().ndim(); ++axis) {
      const int dim = spec_.layout().dim_of_axis(axis);
      if (dim < 0) continue;
      const Band& band = spec_.ndim() == 2 && dim == 0 ? row : column;
      holds = holds && coord[axis] == band.owner[axis];
    }
    if (holds) ranks.push_back(rank);
  }
  return ranks;
}

void Picture::name_cells() {
  std::map<std::pair<Coord, Coord>, std::size_t> seen;
  std::map<Ranks, std::size_t> index;
  for (const Band& row : rows_) {
    for (const Band& column : columns_) {
      const auto [at, fresh] = seen.try_emplace({row.owner, column.owner}, 0);
      if (fresh) {
        Ranks ranks = holders(row, column);
        const auto [owner, unseen] = index.try_emplace(ranks, owners_.size());
        if (unseen) owners_.push_back(std::move(ranks));
        at->second = owner->second;
      }
      cells_.push_back(at->second);
    }
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    std::string label = ranks_to_string(owners_[i]);
    labels_.push_back(label.size() <= kWidestLabel ? label : absl::StrFormat("#%d", i + 1));
  }
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = range_to_string(columns_[c].indices).size();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      width = std::max(width, labels_[cells_[r * columns_.size() + c]].size());
    }
    widths_.push_back(width + 2);
  }
}

bool Picture::cut_above(std::size_t row, std::size_t column) const {
  const std::size_t at = row * columns_.size() + column;
  return row == 0 || row == rows_.size() || cells_[at] != cells_[at - columns_.size()];
}

bool Picture::cut_before(std::size_t row, std::size_t column) const {
  const std::size_t at = row * columns_.size() + column;
  return column == 0 || column == columns_.size() || cells_[at] != cells_[at - 1];
}

// Empty where nothing changes hands between the rows.
std::string Picture::rule_above(std::size_t row, std::size_t margin) const {
  const std::size_t columns = columns_.size();
  std::string line(margin, ' ');
  bool any = false;
  for (std::size_t c = 0; c <= columns; ++c) {
    const bool left = c > 0 && cut_above(row, c - 1);
    const bool right = c < columns && cut_above(row, c);
    const bool up = row > 0 && cut_before(row - 1, c);
    const bool down = row < rows_.size() && cut_before(row, c);
    line += left || right ? '+' : up || down ? '|' : ' ';
    if (c < columns) line += std::string(widths_[c], right ? '-' : ' ');
    any = any || right;
  }
  return any ? line + '\n' : "";
}

std::string Picture::heading(std::size_t margin) const {
  std::string line(margin + 1, ' ');
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    line += padded(range_to_string(columns_[c].indices), widths_[c]) + ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string Picture::row_line(std::size_t row, std::size_t margin) const {
  // Backgrounds that black text reads well on, from the 256-colour cube.
  constexpr int kBackgrounds[] = {117, 215, 151, 218, 186, 147, 223, 159, 180, 182, 115, 210};
  std::string line = spec_.ndim() == 2 ? range_to_string(rows_[row].indices) : "";
  line.resize(margin, ' ');
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t owner = cells_[row * columns_.size() + c];
    const std::string label = padded(labels_[owner], widths_[c]);
    line += cut_before(row, c) ? '|' : ' ';
    line += colour_ == Colour::kPlain
                ? label
                : absl::StrFormat("\x1b[30;48;5;%dm%s\x1b[0m",
                                  kBackgrounds[owner % std::size(kBackgrounds)], label);
  }
  return line + "|\n";
}

std::string Picture::legend() const {
  const Mesh& mesh = spec_.mesh();
  std::string text = "a cell names the ranks that hold it";
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (const auto& op = spec_.layout().partial[axis]) {
      text += absl::StrFormat("; along %s each holds a summand: P(%s)", mesh.axis_label(axis),
                              name_of(*op));
    }
  }
  text += '\n';
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (labels_[i].front() == '#') {
      text += absl::StrFormat("%s = ranks %s\n", labels_[i], ranks_to_string(owners_[i]));
    }
  }
  const std::int64_t count = mesh.num_ranks();
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == static_cast<std::int64_t>(kListedRanks)) {
      text += absl::StrFormat("… and %d ranks more\n", count - i);
      break;
    }
    const std::int64_t rank = mesh.first_rank() + i;
    const Coord coord = *mesh.coord_of(rank);
    text += absl::StrFormat("rank %d%s: local shape %s\n", rank, place_of(mesh, coord),
                            to_string(spec_.local_shape(coord)));
  }
  return text;
}

std::string Picture::draw() const {
  std::string text = spec_.to_string() + '\n';
  for (int dim = 0; dim < spec_.ndim(); ++dim) {
    text += absl::StrFormat("dim %d: %s\n", dim, to_string(spec_.mesh(), spec_.layout().dims[dim]));
  }
  text += '\n';
  if (cells_.empty()) {
    text += "(no elements)\n";
  } else {
    std::size_t margin = 0;
    if (spec_.ndim() == 2) {
      for (const Band& row : rows_)
        margin = std::max(margin, range_to_string(row.indices).size() + 1);
    }
    if (spec_.ndim() > 0) text += heading(margin);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      text += rule_above(row, margin) + row_line(row, margin);
    }
    text += rule_above(rows_.size(), margin);
  }
  return text + '\n' + legend();
}

}  // namespace

StatusOr<std::string> layout_picture(const Spec& spec, Colour colour) {
  if (spec.ndim() > 2) {
    return invalid_argument(absl::StrFormat(
        "a tensor of %d dims; --format text draws 1 and 2: use --format json", spec.ndim()));
  }
  if (spec.mesh().num_ranks() > kMaxRanks) {
    return invalid_argument(absl::StrFormat("mesh %s has %d ranks; --format text draws up to %d",
                                            spec.mesh().to_string(), spec.mesh().num_ranks(),
                                            kMaxRanks));
  }
  const Coord anyone(static_cast<std::size_t>(spec.mesh().ndim()), 0);
  std::vector<std::vector<Band>> dims;
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    TSR_ASSIGN_OR_RETURN(std::vector<Band> bands, bands_of(spec, dim));
    const bool small = spec.global_shape()[dim] <= kMaxSingleIndices;
    dims.push_back(small ? split_into_indices(bands) : std::move(bands));
  }
  // Fewer dims than two: one row, one column of everything.
  while (dims.size() < 2) dims.insert(dims.begin(), {Band{{0, 1}, anyone}});
  return Picture(spec, colour, std::move(dims[0]), std::move(dims[1])).draw();
}

}  // namespace tessera::audit
