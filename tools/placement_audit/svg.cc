#include "tools/placement_audit/svg.h"

#include "absl/strings/str_format.h"
#include "placement/printable.h"

namespace tessera::audit {
namespace {

// Two decimals at most, without zeros at the end.
std::string number(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string attribute(std::string_view name, std::string_view value) {
  return absl::StrFormat(" %s=\"%s\"", name, escaped(value));
}
std::string attribute(std::string_view name, double value) {
  return attribute(name, number(value));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable_lines(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void Svg::rect(const Area& area, const Paint& paint, std::string_view hint) {
  body_ += "<rect" + attribute("x", area.x) + attribute("y", area.y) +
           attribute("width", area.width) + attribute("height", area.height) +
           attribute("fill", paint.fill);
  if (paint.fill_opacity < 1) body_ += attribute("fill-opacity", paint.fill_opacity);
  if (paint.stroke != "none") {
    body_ += attribute("stroke", paint.stroke) + attribute("stroke-width", paint.stroke_width);
  }
  body_ += hint.empty() ? "/>\n" : "><title>" + escaped(hint) + "</title></rect>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke, double width) {
  body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
           attribute("y2", y2) + attribute("stroke", stroke) + attribute("stroke-width", width) +
           "/>\n";
}

void Svg::text(double x, double y, std::string_view text, const Font& font) {
  body_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", font.size) +
           attribute("fill", font.fill);
  if (font.anchor == Anchor::kMiddle) body_ += attribute("text-anchor", "middle");
  if (font.anchor == Anchor::kEnd) body_ += attribute("text-anchor", "end");
  if (font.bold) body_ += attribute("font-weight", "bold");
  body_ += '>' + escaped(text) + "</text>\n";
}

std::string Svg::element(double width, double height, std::string_view title) const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) +
         attribute("height", height) +
         attribute("viewBox", "0 0 " + number(width) + ' ' + number(height)) +
         attribute("font-family", "system-ui, 'DejaVu Sans', sans-serif") +
         attribute("role", "img") + ">\n<title>" + escaped(title) +
         "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + body_ + "</svg>\n";
}

std::string Svg::document(double width, double height, std::string_view title) const {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + element(width, height, title);
}

}  // namespace tessera::audit
