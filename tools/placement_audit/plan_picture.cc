#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "tools/placement_audit/plan_drawing.h"
#include "tools/placement_audit/plan_report.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMaxRanks = 4096;
// Up to here the tensor is drawn rank by rank; beyond, the matrix alone is readable.
constexpr std::size_t kMaxRanksWithBlocks = 16;
constexpr std::size_t kMaxBlocks = 256;
constexpr std::size_t kMaxCells = 64;

constexpr double kMargin = 24;
constexpr double kGap = 40;
constexpr double kHeldSide = 200;
constexpr double kWidest = 1090;  // of a step: what a page of 1,200 pixels shows beside its bar

// "0+2" where each holds a summand, "0,1" where each holds the same, "(0,1)+(2,3)" for both.
std::string holders_text(const Spec& spec, const Block& block) {
  std::map<Coord, Ranks> replicas;  // by coords on the axes that are Partial
  for (const std::int64_t rank : block.ranks) {
    Coord coord = *spec.mesh().coord_of(rank);
    for (std::size_t axis = 0; axis < coord.size(); ++axis) {
      if (!spec.layout().partial[axis]) coord[axis] = 0;
    }
    replicas[coord].push_back(rank);
  }
  std::string text;
  for (const auto& [coord, ranks] : replicas) {
    const bool brackets = replicas.size() > 1 && ranks.size() > 1;
    if (!text.empty()) text += '+';
    text += (brackets ? "(" : "") + ranks_to_string(ranks) + (brackets ? ")" : "");
  }
  return text;
}

// Where there is no room for the names.
std::string holders_count_text(const Spec& spec, const Block& block) {
  return (spec.has_partial() ? "summands of " : "") + std::to_string(block.ranks.size()) + " ranks";
}

std::string senders_text(const Block& block) {
  std::string text;
  for (const std::int64_t rank : block.ranks) {
    text += (text.empty() ? "" : "+") + std::to_string(rank);
  }
  return text;
}

std::string range_text(const Interval& range) {
  if (range.stop - range.start == 1) return std::to_string(range.start);
  return absl::StrFormat("%d-%d", range.start, range.stop - 1);
}

// "[0-3, 8-15]" for two dims, "[8-15]" for one.
std::string indices_text(const Spec& spec, const Block& block) {
  if (spec.ndim() == 0) return "[]";
  if (spec.ndim() == 1) return '[' + range_text(block.columns) + ']';
  return '[' + range_text(block.rows) + ", " + range_text(block.columns) + ']';
}

class Picture {
 public:
  explicit Picture(const PlanReport& report)
      : report_(report), ranks_(ranks_of(report.plan)), extents_(extents_of(report.plan.src)) {}

  void heading();
  void draw();
  const Svg& svg() const { return svg_; }
  double width() const { return width_; }
  double height() const { return y_; }

 private:
  void step(std::size_t number);
  void step_heading(std::size_t number);
  /// Draws at (x, y_) and returns what it covers.
  Area held(const PlanStep& step, const std::vector<Block>& blocks);
  Area readers(double x, const PlanStep& step);
  void reader(double x, double y, const PlanStep& step, std::int64_t rank);
  Area traffic(double x, const Traffic& traffic);
  std::int64_t linked_block(const Traffic& traffic) const;
  void legend();
  void line_of_text(std::string_view text, const Svg::Font& font);
  void cover(const Area& area) {
    width_ = std::max(width_, area.x + area.width + kMargin);
    bottom_ = std::max(bottom_, area.y + area.height);
  }
  /// The blocks before the step, where they can be drawn.
  std::vector<Block> blocks_before(const PlanStep& step) const;
  // A matrix keeps room for labels, whatever its proportions; a vector is a strip.
  double thinnest() const { return extents_->rows > 1 && extents_->columns > 1 ? 0.62 : 0.24; }
  Ranks readers_of(const PlanStep& step) const {
    Ranks readers = ranks_;
    std::erase_if(readers, [&](std::int64_t rank) { return !step.dst.mesh().coord_of(rank); });
    return readers;
  }
  double reader_side() const { return ranks_.size() <= 4 ? 130 : ranks_.size() <= 8 ? 104 : 84; }

  const PlanReport& report_;
  const Ranks ranks_;
  const std::optional<Extents> extents_;
  Svg svg_;
  double y_ = kMargin;
  double width_ = 640;
  double bottom_ = 0;
  bool with_blocks_ = false;
  std::vector<double> rules_;  ///< drawn last, as wide as all the rest
};

void Picture::line_of_text(std::string_view text, const Svg::Font& font) {
  y_ += font.size * 1.35;
  svg_.text(kMargin, y_, text, font);
  cover({kMargin, y_, static_cast<double>(text.size()) * font.size * 0.56, 0});
}

void Picture::heading() {
  line_of_text(route_of(report_), {.size = 15, .bold = true});
  y_ += 3;
  line_of_text(verdict_of(report_), {.size = 11.5});
  line_of_text("priced by " + report_.priced_by, {.size = 11.5, .fill = kFaint});
}

void Picture::step_heading(std::size_t number) {
  const StepCost& cost = report_.cost.steps[number];
  y_ += 18;
  rules_.push_back(y_);
  y_ += 6;
  const std::vector<std::string> row = step_table(report_).rows[number];
  std::string title = row[0] + ". " + row[1];
  if (row[2] != "-") title += row[2] == "across" ? " between the meshes" : " on " + row[2];
  line_of_text(title, {.size = 13, .bold = true});
  const std::string moved =
      cost.bytes_received.total == 0
          ? "no bytes move"
          : absl::StrFormat("up to %s and %d message%s to a rank, %s in all",
                            byte_text(cost.bytes_received.max), cost.messages.max,
                            cost.messages.max == 1 ? "" : "s",
                            byte_text(cost.bytes_received.total));
  line_of_text(row.back() + " after it; " + moved, {.size = 11, .fill = kFaint});
  y_ += 24;
}

std::vector<Block> Picture::blocks_before(const PlanStep& step) const {
  if (!extents_ || ranks_.size() > kMaxRanksWithBlocks) return {};
  std::vector<Block> blocks = blocks_held(step.src, kMaxBlocks);
  // What a rank reads is cut where either side is.
  if (blocks.empty() || blocks_held(step.dst, kMaxBlocks).empty()) return {};
  return blocks;
}

Area Picture::held(const PlanStep& step, const std::vector<Block>& blocks) {
  svg_.text(kMargin, y_, "before: who holds what", {.size = 11, .fill = kFaint});
  const TensorDrawing tensor(svg_, *extents_, ranks_);
  Area area = tensor.area_within(kHeldSide, thinnest());
  area.x = kMargin;
  area.y = y_ + 10;
  tensor.ground(area);
  std::vector<LabelledBlock> labelled;
  for (const Block& block : blocks) {
    const std::string holders = holders_text(step.src, block);
    labelled.push_back({block, holders, holders_count_text(step.src, block),
                        indices_text(step.src, block) + ": held by " + holders});
  }
  tensor.draw(area, labelled, {.font_size = 10.5});
  tensor.outline(area);
  return {area.x, y_, std::max(area.width, 130.0), area.height + 10};
}

void Picture::reader(double x, double y, const PlanStep& step, std::int64_t rank) {
  svg_.text(x, y, absl::StrFormat("rank %d", rank), {.size = 10});
  const TensorDrawing tensor(svg_, *extents_, ranks_);
  Area area = tensor.area_within(reader_side(), thinnest());
  area.x = x;
  area.y = y + 5;
  tensor.ground(area);
  tensor.shade(area, blocks_of(step.dst, rank));
  std::vector<LabelledBlock> labelled;
  for (const Block& block : blocks_read(step, rank)) {
    const std::string senders = senders_text(block);
    labelled.push_back({block, senders, "",
                        indices_text(step.dst, block) + " of rank " + std::to_string(rank) +
                            (block.ranks == Ranks{rank} ? ": its own" : ": from " + senders)});
  }
  tensor.draw(area, labelled, {.font_size = ranks_.size() <= 8 ? 10.0 : 9.0, .own_rank = rank});
  tensor.outline(area);
}

Area Picture::readers(double x, const PlanStep& step) {
  svg_.text(x, y_, "what each rank reads, and from whom", {.size = 11, .fill = kFaint});
  const TensorDrawing tensor(svg_, *extents_, ranks_);
  const Area each = tensor.area_within(reader_side(), thinnest());
  const Ranks of_target = readers_of(step);
  const std::size_t columns = of_target.size() <= 4 ? 2 : of_target.size() <= 6 ? 3 : 4;
  for (std::size_t i = 0; i < of_target.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    reader(x + static_cast<double>(column) * (each.width + 16),
           y_ + 20 + static_cast<double>(row) * (each.height + 24), step, of_target[i]);
  }
  const std::size_t rows = (of_target.size() + columns - 1) / columns;
  return {
      x, y_,
      std::max(200.0, static_cast<double>(std::min(columns, of_target.size())) * (each.width + 16)),
      20 + static_cast<double>(rows) * (each.height + 24)};
}

// The innermost block of ranks that a link joins and that shows in a matrix; 0 for none.
std::int64_t Picture::linked_block(const Traffic& traffic) const {
  if (!report_.topology || traffic.ranks.empty()) return 0;
  const std::int64_t span = traffic.ranks.back() - traffic.ranks.front() + 1;
  for (const LinkClass& link : report_.topology->links) {
    const bool shows = link.ranks >= 4 * static_cast<std::int64_t>(traffic.ranks_per_cell);
    if (shows && link.ranks < span) return link.ranks;
  }
  return 0;
}

Area Picture::traffic(double x, const Traffic& traffic) {
  std::string caption = "bytes sent (K = 1024)";
  if (traffic.cells > 16) caption = "bytes sent, darker is more";
  if (traffic.ranks_per_cell > 1) {
    caption += absl::StrFormat("; a cell is %d x %d ranks", traffic.ranks_per_cell,
                               traffic.ranks_per_cell);
  }
  const std::int64_t block = linked_block(traffic);
  if (block > 0) caption += absl::StrFormat("; red lines part blocks of %d ranks", block);
  svg_.text(x, y_, caption, {.size = 11, .fill = kFaint});
  Area area = draw_traffic(svg_, x, y_ + 8, traffic, block);
  area.height += area.y - y_;
  return area;
}

void Picture::step(std::size_t number) {
  const PlanStep& step = report_.plan.steps[number];
  step_heading(number);
  bottom_ = y_;
  const std::vector<Block> blocks = blocks_before(step);
  double x = kMargin;
  if (!blocks.empty()) {
    for (const bool before : {true, false}) {
      const Area area = before ? held(step, blocks) : readers(x, step);
      cover(area);
      x = area.x + area.width + kGap;
    }
  }
  if (report_.cost.steps[number].bytes_received.total > 0) {
    const Traffic sent = traffic_of(step, ranks_, kMaxCells);
    if (x + traffic_width(sent) > kWidest && x > kMargin) {  // no room beside the tensors
      x = kMargin;
      y_ = bottom_ + kGap / 2;
    }
    cover(traffic(x, sent));
  }
  with_blocks_ = with_blocks_ || !blocks.empty();
  y_ = bottom_;
}

void Picture::legend() {
  y_ += 10;
  line_of_text(
      "a colour is the rank that a block comes from; pale: its own, copied in place of received; "
      "grey: there already, or filled; a+b: folded",
      {.size = 10, .fill = kFaint});
}

void Picture::draw() {
  if (report_.plan.steps.empty()) {
    y_ += 12;
    line_of_text("every rank holds its target already: there is nothing to do", {.size = 12});
  }
  for (std::size_t i = 0; i < report_.plan.steps.size(); ++i) step(i);
  if (with_blocks_) legend();
  y_ += kMargin;
  for (const double y : rules_) svg_.line(kMargin, y, width_ - kMargin, y, kGrid, 1);
}

}  // namespace

StatusOr<std::string> plan_svg(const PlanReport& report, Captions captions) {
  const std::size_t ranks = ranks_of(report.plan).size();
  if (ranks > kMaxRanks) {
    return invalid_argument(absl::StrFormat(
        "%d ranks; a picture shows up to %d: use --format json or text", ranks, kMaxRanks));
  }
  Picture picture(report);
  if (captions == Captions::kAll) picture.heading();
  picture.draw();
  const std::string title = route_of(report);
  return captions == Captions::kAll
             ? picture.svg().document(picture.width(), picture.height(), title)
             : picture.svg().element(picture.width(), picture.height(), title);
}

}  // namespace tessera::audit
