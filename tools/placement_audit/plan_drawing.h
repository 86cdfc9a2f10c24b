// tools/placement_audit/plan_drawing.h: the parts of a plan's picture: a tensor as coloured blocks,
// and a matrix of who sends how much to whom. A rank has one colour throughout.
#pragma once

#include <string>
#include <vector>

#include "tools/placement_audit/plan_blocks.h"
#include "tools/placement_audit/plan_traffic.h"
#include "tools/placement_audit/svg.h"

namespace tessera::audit {

inline constexpr std::string_view kInk = "#1f2933";
inline constexpr std::string_view kFaint = "#6b7785";
inline constexpr std::string_view kGrid = "#c9d1d9";
inline constexpr std::string_view kEmpty = "#f3f5f7";
inline constexpr std::string_view kNeutral = "#dfe4ea";

/// Fills of blocks that text reads well on.
std::string_view colour_of_rank(std::size_t place);

struct LabelledBlock {
  Block block;
  std::string label;        ///< where there is room
  std::string short_label;  ///< where there is room for this one only
  std::string hint;
};

/// Draws blocks of one tensor into an area.
class TensorDrawing {
 public:
  TensorDrawing(Svg& svg, const Extents& extents, const Ranks& ranks)
      : svg_(svg), extents_(extents), ranks_(ranks) {}

  /// The size in which the tensor is drawn within a square of `side`: its own proportions, but no
  /// thinner than `thinnest` of the side.
  Area area_within(double side, double thinnest) const;
  void ground(const Area& area) const;
  void outline(const Area& area) const;
  /// One plain colour, for what a rank holds and does not read.
  void shade(const Area& area, const std::vector<Block>& blocks) const;

  struct Style {
    double font_size = 11;
    std::int64_t own_rank = -1;  ///< whose blocks are pale: they stay on it
  };
  /// Each block in its ranks' colours, stripe by stripe.
  void draw(const Area& area, const std::vector<LabelledBlock>& blocks, const Style& style) const;

 private:
  Area place(const Area& area, const Block& block) const;

  Svg& svg_;
  const Extents& extents_;
  const Ranks& ranks_;
};

/// How wide draw_traffic() draws.
double traffic_width(const Traffic& traffic);
/// Draws who sends to whom as a matrix with bars for each sender's and reader's bytes, at (x, y).
/// Lines part blocks of so many ranks, counted from rank 0; 0: none. Returns what it covers.
Area draw_traffic(Svg& svg, double x, double y, const Traffic& traffic, std::int64_t block);

}  // namespace tessera::audit
