#include "program/step_shapes.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "program/round_name.h"
#include "program/step_names.h"

namespace tessera {
namespace {

constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15ULL, kMix = 0xd6e8feb86659fd93ULL;  // odd

/// The step without names.
AnyStep shape_of(AnyStep step) {
  visit_names(
      step, [](std::string& name) { name.clear(); },
      [](ProgramValue& value) { value.name.clear(); });
  step.origin.module = numbered(step.origin.module).text;
  return step;
}

std::size_t hash_of(const ProgramValue& value) {
  return absl::HashOf(
      std::vector<std::int64_t>(value.global_shape.begin(), value.global_shape.end()),
      static_cast<int>(value.dtype), value.mesh, static_cast<int>(value.role));
}

/// Of what tells most steps apart; equality decides.
std::size_t hash_of(const AnyStep& step) {
  const StepOrigin& origin = step.origin;
  std::size_t hash =
      absl::HashOf(step.what.index(), origin.module, origin.site, origin.micro_batch, origin.stage);
  if (origin.phase) hash = absl::HashOf(hash, static_cast<int>(*origin.phase));
  if (const auto* call = std::get_if<CallStep>(&step.what)) {
    hash = absl::HashOf(hash, call->op, call->row, call->args.size(), call->attrs.size());
    for (const ProgramValue& value : call->out) hash = absl::HashOf(hash, hash_of(value));
  } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
    hash = absl::HashOf(hash, region->name, region->args.size());
    for (const ProgramValue& value : region->out) hash = absl::HashOf(hash, hash_of(value));
  } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
    hash = absl::HashOf(hash, move->needed_by, hash_of(move->out));
  } else if (const auto* free = std::get_if<FreeStep>(&step.what)) {
    hash = absl::HashOf(hash, free->values.size());
  }
  return hash;
}

}  // namespace

NumberedPath numbered(std::string_view path) {
  NumberedPath found;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    std::int64_t number = 0;
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, is_decimal_digit) &&
        (part.size() == 1 || part[0] != '0') &&
        std::from_chars(part.data(), part.data() + part.size(), number).ec == std::errc();
    if (is_number) {
      found.numbers.push_back(number);
      found.text += '*';
    } else {
      found.text += part;
    }
    if (end < path.size()) found.text += '.';
    at = end + 1;
  }
  return found;
}

std::string path_text(const NumberedPath& path, int starred, std::int64_t offset) {
  std::string text;
  int next = 0;
  for (const char c : path.text) {
    if (c != '*') {
      text += c;
      continue;
    }
    const int at = next++;
    if (at >= static_cast<int>(path.numbers.size())) {
      text += c;
    } else if (at != starred) {
      text += std::to_string(path.numbers[static_cast<std::size_t>(at)]);
    } else {
      text += '*';
      if (offset != 0) text += (offset > 0 ? "+" : "") + std::to_string(offset);
    }
  }
  return text;
}

StepShapes::StepShapes(const std::vector<AnyStep>& steps) {
  std::vector<AnyStep> known;
  absl::flat_hash_map<std::size_t, std::vector<int>> by_hash;
  for (const AnyStep& step : steps) {
    const bool is_repeat = std::holds_alternative<RepeatStep>(step.what);
    AnyStep shape = is_repeat ? AnyStep{FreeStep{}} : shape_of(step);
    std::vector<int>& same = by_hash[hash_of(shape)];
    int found = -1;
    for (const int each : same) {
      // A repeat is like nothing else.
      if (!is_repeat && known[static_cast<std::size_t>(each)] == shape) found = each;
    }
    if (found < 0) {
      found = static_cast<int>(known.size());
      same.push_back(found);
      known.push_back(std::move(shape));
    }
    shapes_.push_back(found);
  }
  sums_.push_back(0);
  powers_.push_back(1);
  for (const int shape : shapes_) {
    sums_.push_back(sums_.back() * kBase + (static_cast<std::uint64_t>(shape) + 1) * kMix);
    powers_.push_back(powers_.back() * kBase);
  }
}

std::uint64_t StepShapes::hash(std::int64_t begin, std::int64_t length) const {
  return sums_[static_cast<std::size_t>(begin + length)] -
         sums_[static_cast<std::size_t>(begin)] * powers_[static_cast<std::size_t>(length)];
}

std::int64_t StepShapes::alike(std::int64_t i, std::int64_t j) const {
  if (j >= size() || at(i) != at(j)) return 0;
  std::int64_t least = 1, most = size() - j;
  while (least < most) {
    const std::int64_t middle = least + (most - least + 1) / 2;
    if (hash(i, middle) == hash(j, middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

std::vector<std::int64_t> StepShapes::periods(std::size_t most) const {
  absl::flat_hash_map<int, std::int64_t> last;
  absl::flat_hash_map<std::int64_t, std::int64_t> steps_of;
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto [before, is_first] = last.try_emplace(at(i), i);
    if (!is_first) ++steps_of[i - std::exchange(before->second, i)];
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> counted;  // −steps, period
  for (const auto& [period, steps] : steps_of) counted.emplace_back(-steps, period);
  std::sort(counted.begin(), counted.end());
  std::vector<std::int64_t> periods;
  for (const auto& [steps, period] : counted) {
    if (periods.size() == most) break;
    periods.push_back(period);
  }
  return periods;
}

}  // namespace tessera
