// tools/placement_audit/svg.h: an SVG drawing, shape by shape. Coordinates are pixels; all texts
// are escaped here, so names from a file may be given as they are.
#pragma once

#include <string>
#include <string_view>

namespace tessera::audit {

/// `text` with &, <, >, " and ' spelled out and control characters dropped: for XML and HTML.
std::string escaped(std::string_view text);

struct Area {
  double x = 0, y = 0, width = 0, height = 0;
};

class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };
  struct Paint {
    std::string_view fill = "none";  ///< a colour, or url(#…)
    std::string_view stroke = "none";
    double stroke_width = 1;
    double fill_opacity = 1;
  };
  struct Font {
    double size = 11;
    Anchor anchor = Anchor::kStart;
    std::string_view fill = "#1f2933";
    bool bold = false;
  };

  /// `hint` shows where the pointer rests on the shape; none where empty.
  void rect(const Area& area, const Paint& paint, std::string_view hint = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double width);
  /// `y` is the base line.
  void text(double x, double y, std::string_view text, const Font& font);

  /// The document, or the element alone for a page that holds it. `title` is read out in place of
  /// the picture.
  std::string document(double width, double height, std::string_view title) const;
  std::string element(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace tessera::audit
