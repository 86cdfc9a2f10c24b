#include <cctype>
#include <charconv>

#include "absl/strings/str_format.h"
#include "placement/layout.h"

namespace tessera {
namespace {

Status level_error(std::string_view text, std::size_t column, std::string_view what) {
  return invalid_argument(
      absl::StrFormat("level '%s', column %d: %s; allowed are an axis (tp), an axis with a grain "
                      "(tp%%3), an axis with stated sizes (tp(3,0,5)), a run (/4), "
                      "a block (3*), a block with a grain (3*%%4)",
                      std::string(text), static_cast<int>(column) + 1, std::string(what)));
}

/// A whole number of at least 1 in text[first, last).
StatusOr<std::int64_t> positive(std::string_view text, std::size_t first, std::size_t last) {
  std::int64_t value = 0;
  const char* end = text.data() + last;
  const auto [stop, error] = std::from_chars(text.data() + first, end, value);
  if (error != std::errc() || stop != end || value < 1) {
    return level_error(text, first, "a whole number of at least 1 expected");
  }
  return value;
}

/// "3,0,5" in text[first, last).
StatusOr<RaggedSizes> sizes_in(std::string_view text, std::size_t first, std::size_t last) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const std::size_t comma = std::min(last, text.find(',', first));
    std::int64_t size = 0;
    const char* end = text.data() + comma;
    const auto [stop, error] = std::from_chars(text.data() + first, end, size);
    if (error != std::errc() || stop != end || size < 0) {
      return level_error(text, first, "a size of at least 0 expected");
    }
    sizes.push_back(size);
    if (comma == last) return RaggedSizes(std::span<const std::int64_t>(sizes));
    first = comma + 1;
  }
}

StatusOr<Level> parse_ragged(const Mesh& mesh, std::string_view text, std::size_t open) {
  const StatusOr<int> axis = mesh.find_axis(text.substr(0, open));
  if (!axis.ok()) return level_error(text, 0, message_of(axis.status()));
  TSR_ASSIGN_OR_RETURN(RaggedSizes sizes, sizes_in(text, open + 1, text.size() - 1));
  return Level::of_ragged(*axis, std::move(sizes));
}

}  // namespace

std::string level_to_string(const Mesh& mesh, const Level& level) {
  if (level.kind == Level::Kind::kRun) return absl::StrFormat("/%d", level.count);
  std::string text = level.kind == Level::Kind::kAxis ? mesh.axis_label(level.axis)
                                                      : absl::StrFormat("%d*", level.count);
  if (level.sizes) text += "(" + level.sizes.to_string() + ")";
  if (level.grain != 1) text += absl::StrFormat("%%%d", level.grain);
  return text;
}

std::string to_string(const Mesh& mesh, const Levels& levels) {
  std::string text = "[";
  for (const Level& level : levels) {
    if (text.size() > 1) text += ", ";
    text += level_to_string(mesh, level);
  }
  return text + "]";
}

StatusOr<Level> parse_level(const Mesh& mesh, std::string_view text) {
  if (text.empty()) return level_error(text, 0, "the text is empty");
  if (text[0] == '/') {
    TSR_ASSIGN_OR_RETURN(const std::int64_t count, positive(text, 1, text.size()));
    return Level::of_run(count);
  }
  if (const std::size_t open = text.find('('); open != text.npos && text.back() == ')') {
    return parse_ragged(mesh, text, open);
  }
  const std::size_t percent = text.find('%');
  std::size_t end = text.size();
  std::int64_t grain = 1;
  if (percent != std::string_view::npos) {
    TSR_ASSIGN_OR_RETURN(grain, positive(text, percent + 1, text.size()));
    end = percent;
  }
  if (end > 0 && text[end - 1] == '*') {
    TSR_ASSIGN_OR_RETURN(const std::int64_t count, positive(text, 0, end - 1));
    return Level::of_block(count, grain);
  }
  const StatusOr<int> axis = mesh.find_axis(text.substr(0, end));
  if (!axis.ok()) return level_error(text, 0, message_of(axis.status()));
  return Level::of_axis(*axis, grain);
}

}  // namespace tessera
