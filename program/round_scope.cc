#include "program/round_scope.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "program/round_name.h"

namespace tessera {
namespace {

enum class LeftOver : std::uint8_t { kAppended, kLeftOut };

std::string filled(std::string_view name, std::span<const std::int64_t> rounds, LeftOver left) {
  std::string text;
  std::size_t used = 0;
  for (const char c : name) {
    if (c == '*' && used < rounds.size()) {
      text += std::to_string(rounds[used++]);
    } else {
      text += c;
    }
  }
  if (left == LeftOver::kLeftOut) return text;
  for (; used < rounds.size(); ++used) text += '#' + std::to_string(rounds[used]);
  return text;
}

}  // namespace

Status RoundScope::take(const std::string& name) {
  if (taken_.insert(name).second) return absl::OkStatus();
  return invalid_argument("unfold: two values would be called " + in_quotes(name) +
                          "; give one of them another name");
}

StatusOr<std::vector<std::string>> RoundScope::declare(const ProgramValue& value) {
  std::vector<std::string> names;
  if (value.count > 1) counts_.emplace(value.name, value.count);
  for (std::int64_t round = 0; round < value.count; ++round) {
    names.push_back(value.count == 1
                        ? value.name
                        : filled(value.name, std::span(&round, 1), LeftOver::kAppended));
    TSR_RETURN_IF_ERROR(take(names.back()));
  }
  return names;
}

/// The value with the present round's number in place of the "*", where this repeat has not made it
/// in the present round.
std::optional<std::string> RoundScope::own_name(const std::string& name) const {
  if (rounds_.empty()) return std::nullopt;
  if (const auto made = made_in_.find(name);
      made != made_in_.end() && std::ranges::find(open_, made->second) != open_.end()) {
    return std::nullopt;
  }
  const std::optional<RoundName> parsed = RoundName::parse(name);
  if (!parsed) return std::nullopt;
  std::string own = parsed->with(rounds_[0]);
  if (!taken_.contains(own)) return std::nullopt;
  return own;
}

StatusOr<std::string> RoundScope::use(const std::string& name) const {
  if (const auto counted = counts_.find(name); counted != counts_.end()) {
    for (std::size_t at = totals_.size(); at-- > 0;) {
      if (totals_[at] != counted->second) continue;
      return filled(name, std::span(&indices_[at], 1), LeftOver::kAppended);
    }
    return invalid_argument(absl::StrFormat(
        "unfold: %s has a count of %d, but is used outside of a repeat of that count",
        in_quotes(name), counted->second));
  }
  if (std::optional<std::string> own = own_name(name)) return *std::move(own);
  const auto found = now_.find(name);
  return found == now_.end() ? name : found->second;
}

StatusOr<std::string> RoundScope::make(const std::string& name) {
  std::string own = filled(name, rounds_, LeftOver::kAppended);
  TSR_RETURN_IF_ERROR(take(own));
  now_[name] = own;
  if (!open_.empty()) made_in_[name] = open_.back();
  return own;
}

std::string RoundScope::module(const std::string& written) const {
  const std::optional<RoundName> parsed =
      rounds_.size() == 1 ? RoundName::parse(written) : std::nullopt;
  return parsed ? parsed->with(rounds_[0]) : filled(written, rounds_, LeftOver::kLeftOut);
}

void RoundScope::begin(const RepeatStep& repeat) {
  totals_.push_back(repeat.count);
  rounds_.push_back(0);
  indices_.push_back(0);
  open_.push_back(num_repeats_++);
}

void RoundScope::begin_round(const RepeatStep& repeat, std::int64_t round) {
  rounds_.back() = repeat.first + repeat.by * round;
  indices_.back() = round;
}

Status RoundScope::end_round(const RepeatStep& repeat) {
  std::vector<std::string> ends;
  for (const auto& [begin, end] : repeat.carry) {
    if (counts_.contains(begin)) {
      return invalid_argument("unfold: " + in_quotes(begin) +
                              " has a count and is carried into; each round has its own");
    }
    TSR_ASSIGN_OR_RETURN(ends.emplace_back(), use(end));
  }
  for (std::size_t i = 0; i < ends.size(); ++i) now_[repeat.carry[i].first] = ends[i];
  return absl::OkStatus();
}

void RoundScope::end() {
  rounds_.pop_back();
  indices_.pop_back();
  totals_.pop_back();
  open_.pop_back();
}

}  // namespace tessera
