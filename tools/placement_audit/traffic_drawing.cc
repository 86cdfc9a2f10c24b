#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "tools/placement_audit/plan_drawing.h"

namespace tessera::audit {
namespace {

constexpr double kBarLength = 56;
constexpr double kLabelWidth = 34;  // left of the matrix
constexpr double kHeadHeight = 30;  // above it
constexpr std::size_t kNumberedCells = 16;

double cell_size(std::size_t cells) {
  return cells <= 4 ? 40 : cells <= 8 ? 32 : cells <= 16 ? 26 : cells <= 32 ? 16 : 11;
}

// From nearly white to a deep blue.
std::string shade(double share) {
  const auto mix = [&](int from, int to) {
    return from + static_cast<int>(std::lround(share * static_cast<double>(to - from)));
  };
  return absl::StrFormat("#%02x%02x%02x", mix(0xdc, 0x14), mix(0xea, 0x4a), mix(0xf7, 0x8c));
}

/// One matrix in the making.
class Matrix {
 public:
  Matrix(Svg& svg, double x, double y, const Traffic& traffic)
      : svg_(svg),
        traffic_(traffic),
        cell_(cell_size(traffic.cells)),
        left_(x + kLabelWidth),
        top_(y + kHeadHeight),
        side_(cell_ * static_cast<double>(traffic.cells)) {}

  void cells() const {
    const std::int64_t most = *std::max_element(traffic_.bytes.begin(), traffic_.bytes.end());
    for (std::size_t sender = 0; sender < traffic_.cells; ++sender) {
      for (std::size_t reader = 0; reader < traffic_.cells; ++reader) cell(sender, reader, most);
    }
  }
  void numbers() const;
  void bars() const;
  void borders(std::int64_t block) const;
  Area covered() const {
    return {left_ - kLabelWidth, top_ - kHeadHeight, traffic_width(traffic_),
            kHeadHeight + side_ + kBarLength + 18};
  }

 private:
  double edge(double origin, std::size_t cell) const {
    return origin + cell_ * static_cast<double>(cell);
  }
  bool is_own(std::size_t sender, std::size_t reader) const {
    return sender == reader && traffic_.ranks_per_cell == 1;
  }
  bool is_labelled() const { return traffic_.cells <= kNumberedCells; }
  void cell(std::size_t sender, std::size_t reader, std::int64_t most) const;

  Svg& svg_;
  const Traffic& traffic_;
  double cell_, left_, top_, side_;
};

void Matrix::cell(std::size_t sender, std::size_t reader, std::int64_t most) const {
  const Area area{edge(left_, reader), edge(top_, sender), cell_, cell_};
  const std::int64_t bytes = traffic_.between(sender, reader);
  if (bytes == 0) {
    svg_.rect(area, {.fill = is_own(sender, reader) ? kNeutral : std::string_view("#ffffff"),
                     .stroke = kGrid,
                     .stroke_width = 0.5});
    return;
  }
  const double share = static_cast<double>(bytes) / static_cast<double>(most);
  svg_.rect(area, {.fill = shade(share), .stroke = "#ffffff", .stroke_width = 0.5},
            absl::StrFormat("%s to %s: %s", traffic_.cell_name(sender), traffic_.cell_name(reader),
                            byte_text(bytes)));
  if (!is_labelled()) return;
  svg_.text(area.x + cell_ / 2, area.y + cell_ / 2 + 3.4, short_byte_text(bytes),
            {.size = cell_ < 30 ? 8.5 : 10,
             .anchor = Svg::Anchor::kMiddle,
             .fill = share > 0.5 ? std::string_view("#ffffff") : kInk});
}

void Matrix::numbers() const {
  const std::size_t every = traffic_.cells <= kNumberedCells ? 1 : traffic_.cells <= 32 ? 4 : 8;
  for (std::size_t at = 0; at < traffic_.cells; at += every) {
    const std::string rank = std::to_string(traffic_.ranks[at * traffic_.ranks_per_cell]);
    svg_.text(left_ - 6, edge(top_, at) + cell_ / 2 + 3.4, rank,
              {.size = 9.5, .anchor = Svg::Anchor::kEnd, .fill = kFaint});
    svg_.text(edge(left_, at) + cell_ / 2, top_ - 5, rank,
              {.size = 9.5, .anchor = Svg::Anchor::kMiddle, .fill = kFaint});
  }
  svg_.text(left_, top_ - 18, "columns read, rows send", {.size = 9.5, .fill = kFaint});
}

void Matrix::bars() const {
  const std::int64_t most =
      std::max(*std::max_element(traffic_.sent.begin(), traffic_.sent.end()),
               *std::max_element(traffic_.received.begin(), traffic_.received.end()));
  if (most == 0) return;
  const auto length = [&](std::int64_t bytes) {
    return kBarLength * static_cast<double>(bytes) / static_cast<double>(most);
  };
  const double thick = cell_ * 0.6, inset = cell_ * 0.2;
  const double right = left_ + side_ + 6, below = top_ + side_ + 6;
  const std::string_view rank_of_cell = traffic_.ranks_per_cell == 1 ? "" : "a rank of ";
  for (std::size_t at = 0; at < traffic_.cells; ++at) {
    const std::int64_t sent = traffic_.sent[at], received = traffic_.received[at];
    const std::string name = std::string(rank_of_cell) + traffic_.cell_name(at);
    svg_.rect({right, edge(top_, at) + inset, length(sent), thick}, {.fill = "#7a8fa6"},
              name + " sends " + byte_text(sent));
    svg_.rect({edge(left_, at) + inset, below, thick, length(received)}, {.fill = "#7a8fa6"},
              name + " receives " + byte_text(received));
    if (!is_labelled()) continue;
    svg_.text(right + length(sent) + 4, edge(top_, at) + cell_ / 2 + 3.2, short_byte_text(sent),
              {.size = 8.5, .fill = kFaint});
    svg_.text(edge(left_, at) + cell_ / 2, below + length(received) + 10, short_byte_text(received),
              {.size = 8.5, .anchor = Svg::Anchor::kMiddle, .fill = kFaint});
  }
  if (is_labelled()) {
    svg_.text(right, top_ - 5, "sent", {.size = 9.5, .fill = kFaint});
    svg_.text(left_ - 6, below + 10, "recv.",
              {.size = 9.5, .anchor = Svg::Anchor::kEnd, .fill = kFaint});
    return;
  }
  const auto most_text = [&](const char* verb, const std::vector<std::int64_t>& bytes) {
    return absl::StrFormat("a rank %s up to %s", verb,
                           byte_text(*std::max_element(bytes.begin(), bytes.end())));
  };
  svg_.text(right + kBarLength, top_ - 18, most_text("sends", traffic_.sent),
            {.size = 9.5, .anchor = Svg::Anchor::kEnd, .fill = kFaint});
  svg_.text(left_, below + kBarLength + 12, most_text("receives", traffic_.received),
            {.size = 9.5, .fill = kFaint});
}

void Matrix::borders(std::int64_t block) const {
  for (std::size_t at = 1; at < traffic_.cells; ++at) {
    const std::size_t first = at * traffic_.ranks_per_cell;
    if (traffic_.ranks[first] / block == traffic_.ranks[first - 1] / block) continue;
    svg_.line(left_, edge(top_, at), left_ + side_, edge(top_, at), "#d1495b", 1);
    svg_.line(edge(left_, at), top_, edge(left_, at), top_ + side_, "#d1495b", 1);
  }
}

}  // namespace

double traffic_width(const Traffic& traffic) {
  constexpr double kNumberWidth = 44;  // right of the longest bar
  return kLabelWidth + cell_size(traffic.cells) * static_cast<double>(traffic.cells) + kBarLength +
         kNumberWidth;
}

Area draw_traffic(Svg& svg, double x, double y, const Traffic& traffic, std::int64_t block) {
  const Matrix matrix(svg, x, y, traffic);
  matrix.cells();
  matrix.numbers();
  matrix.bars();
  if (block > 0) matrix.borders(block);
  return matrix.covered();
}

}  // namespace tessera::audit
