#include <algorithm>
#include <cmath>

#include "tools/placement_audit/plan_drawing.h"

namespace tessera::audit {
namespace {

// Blocks of more ranks than this are drawn in one plain colour.
constexpr std::size_t kMaxStripes = 8;
constexpr double kCharacterWidth = 0.58;  // of the font size, on average

bool fits(std::string_view label, double font_size, const Area& area) {
  return static_cast<double>(label.size()) * font_size * kCharacterWidth + 2 <= area.width &&
         font_size <= area.height;
}

}  // namespace

std::string_view colour_of_rank(std::size_t place) {
  constexpr std::string_view kColours[] = {
      "#8ecae6", "#ffc857", "#a3d9a5", "#f4a6a0", "#c9b6e4", "#e0c3a3", "#7fd8d4", "#f2b5d4",
      "#c5d86d", "#9fb8ff", "#ffb37b", "#b8c4ce", "#6fbf8f", "#e58fb1", "#d9c24a", "#8aa6c1"};
  return kColours[place % std::size(kColours)];
}

Area TensorDrawing::area_within(double side, double thinnest) const {
  const double rows = static_cast<double>(extents_.rows);
  const double columns = static_cast<double>(extents_.columns);
  const double longest = std::max(rows, columns);
  return {.width = side * std::max(thinnest, columns / longest),
          .height = side * std::max(thinnest, rows / longest)};
}

Area TensorDrawing::place(const Area& area, const Block& block) const {
  const double per_row = area.height / static_cast<double>(extents_.rows);
  const double per_column = area.width / static_cast<double>(extents_.columns);
  return {.x = area.x + per_column * static_cast<double>(block.columns.start),
          .y = area.y + per_row * static_cast<double>(block.rows.start),
          .width = per_column * static_cast<double>(block.columns.stop - block.columns.start),
          .height = per_row * static_cast<double>(block.rows.stop - block.rows.start)};
}

void TensorDrawing::ground(const Area& area) const { svg_.rect(area, {.fill = kEmpty}); }

void TensorDrawing::outline(const Area& area) const { svg_.rect(area, {.stroke = "#9aa5b1"}); }

void TensorDrawing::shade(const Area& area, const std::vector<Block>& blocks) const {
  for (const Block& block : blocks) svg_.rect(place(area, block), {.fill = kNeutral});
}

void TensorDrawing::draw(const Area& area, const std::vector<LabelledBlock>& blocks,
                         const Style& style) const {
  for (const auto& [block, label, short_label, hint] : blocks) {
    const Area whole = place(area, block);
    const std::size_t stripes = block.ranks.size() <= kMaxStripes ? block.ranks.size() : 0;
    for (std::size_t i = 0; i < stripes; ++i) {
      const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), block.ranks[i]);
      const double width = whole.width / static_cast<double>(stripes);
      svg_.rect({whole.x + width * static_cast<double>(i), whole.y, width, whole.height},
                {.fill = colour_of_rank(static_cast<std::size_t>(at - ranks_.begin())),
                 .fill_opacity = block.ranks[i] == style.own_rank ? 0.35 : 1});
    }
    // What holds the hint lies on top: of no colour where there are stripes.
    svg_.rect(whole,
              {.fill = kNeutral,
               .stroke = "#ffffff",
               .stroke_width = std::min(1.0, std::min(whole.width, whole.height) / 6),
               .fill_opacity = stripes == 0 ? 1.0 : 0.0},
              hint);
  }
  for (const auto& [block, label, short_label, hint] : blocks) {
    const Area whole = place(area, block);
    const std::string& text = fits(label, style.font_size, whole) ? label : short_label;
    if (text.empty() || !fits(text, style.font_size, whole)) continue;
    svg_.text(whole.x + whole.width / 2, whole.y + whole.height / 2 + style.font_size * 0.36, text,
              {.size = style.font_size,
               .anchor = Svg::Anchor::kMiddle,
               .fill = block.ranks == Ranks{style.own_rank} ? kFaint : kInk});
  }
}

}  // namespace tessera::audit
