#include "program/program_names.h"

#include <charconv>

#include "absl/strings/str_format.h"
#include "program/program_json.h"

namespace tessera {
namespace {

/// Of the numbers in a name, at most so many of the last are tried as a round's.
constexpr int kMaxNumbersInName = 8;

}  // namespace

Status ProgramNames::define(const ProgramValue& value) {
  if (std::ssize(known_) == kMaxProgramValues) {
    return invalid_argument(absl::StrFormat("more than %d values", kMaxProgramValues));
  }
  const auto [at, added] =
      known_.try_emplace(value.name, Known{.global_shape = value.global_shape,
                                           .dtype = value.dtype,
                                           .mesh = value.mesh,
                                           .layout = value.layout,
                                           .varies = value.varies,
                                           .serial = static_cast<std::int64_t>(known_.size())});
  if (added) {
    const std::optional<RoundName> of_round = RoundName::parse(value.name);
    if (bodies_.size() == 1 && of_round && of_round->offset == 0) {
      bodies_.back().made.push_back(value.name);
    }
    return absl::OkStatus();
  }
  return invalid_argument(in_quotes(value.name) +
                          ": a value has this name already; each is made once");
}

const ProgramNames::Known* ProgramNames::find_of_round(const std::string& name) const {
  if (of_rounds_.empty()) return nullptr;
  // The number may be any of the last ones in the name.
  std::size_t end = name.size();
  for (int tries = 0; tries < kMaxNumbersInName && end > 0; ++tries) {
    while (end > 0 && !is_decimal_digit(name[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && is_decimal_digit(name[begin - 1])) --begin;
    if (begin == end) return nullptr;
    std::int64_t number = 0;
    const bool is_number =
        std::from_chars(name.data() + begin, name.data() + end, number).ec == std::errc();
    const bool is_plain = end - begin == 1 || name[begin] != '0';
    if (is_number && is_plain) {
      const bool is_negative = begin > 0 && name[begin - 1] == '-';
      for (const bool with_sign : {false, true}) {
        if (with_sign && !is_negative) continue;
        const std::size_t from = with_sign ? begin - 1 : begin;
        const std::string base = name.substr(0, from) + '*' + name.substr(end);
        const auto found = of_rounds_.find(base);
        const std::int64_t value = with_sign ? -number : number;
        if (found != of_rounds_.end() && value >= found->second.least() &&
            value <= found->second.most()) {
          return &known_.find(base)->second;
        }
      }
    }
    end = begin;
  }
  return nullptr;
}

const ProgramNames::Known* ProgramNames::find(const std::string& name) const {
  const auto found = known_.find(name);
  return found != known_.end() ? &found->second : find_of_round(name);
}

StatusOr<const ProgramNames::Known*> ProgramNames::use(const std::string& name) {
  const Known* found = find(name);
  if (found == nullptr && bodies_.size() == 1) {
    if (const std::optional<RoundName> parsed = RoundName::parse(name)) {
      Body& body = bodies_.back();
      found = find(parsed->with(body.numbers.first));
      if (found != nullptr) {
        const auto pending = body.pending.try_emplace(name, Pending{*parsed, *found}).first;
        found = &pending->second.first;
      }
    }
  }
  if (found == nullptr) {
    return invalid_argument(in_quotes(name) +
                            ": no such value here; values are declared, or made by a step before");
  }
  if (found->freed) {
    return invalid_argument(in_quotes(name) + ": the value was freed by a step before");
  }
  return found;
}

/// The value that a round reads; null: none.
const ProgramNames::Known* ProgramNames::find_for(const Body& body, const RoundName& name,
                                                  std::int64_t round) const {
  const auto numbers = of_rounds_.find(name.base());
  if (numbers == of_rounds_.end() || !numbers->second.holds(body.numbers.of(round) + name.offset)) {
    const Known* found = find(name.with(body.numbers.of(round)));
    return found == nullptr || found->freed ? nullptr : found;
  }
  const Known& family = known_.find(name.base())->second;
  // What this body makes is there one round later.
  const bool is_there = family.serial < body.first_serial || name.offset == -body.numbers.by;
  return is_there ? &family : nullptr;
}

/// Each round's value is there, and like the first one's.
Status ProgramNames::check_rounds(const Body& body, const Pending& pending) {
  const Known& first = pending.first;
  const auto numbers = of_rounds_.find(pending.name.base());
  const auto is_of_family = [&](std::int64_t round) {
    return numbers != of_rounds_.end() &&
           numbers->second.holds(body.numbers.of(round) + pending.name.offset);
  };
  for (std::int64_t round = 1; round < body.numbers.count; ++round) {
    if (++num_lookups_ > kMaxProgramValues) {
      return invalid_argument(
          absl::StrFormat("more than %d values of rounds by their own names", kMaxProgramValues));
    }
    const Known* found = find_for(body, pending.name, round);
    const bool fits = found != nullptr && found->global_shape == first.global_shape &&
                      found->dtype == first.dtype && found->mesh == first.mesh &&
                      found->layout == first.layout;
    if (!fits) {
      return invalid_argument(absl::StrFormat(
          "%s: round %d has no value %s like the first round's", in_quotes(pending.name.written()),
          round, in_quotes(pending.name.with(body.numbers.of(round)))));
    }
    // The rounds of one repeat made values alike.
    if (is_of_family(round) && is_of_family(body.numbers.count - 1)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

Status ProgramNames::end(const std::string& name) {
  TSR_RETURN_IF_ERROR(use(name).status());
  const auto found = known_.find(name);
  // Of many rounds' values no one is kept account of.
  if (found == known_.end() || of_rounds_.contains(name)) return absl::OkStatus();
  Known& known = found->second;
  known.freed = true;
  if (!bodies_.empty() && known.serial < bodies_.back().first_serial) {
    bodies_.back().freed_outside.push_back(name);
  }
  return absl::OkStatus();
}

void ProgramNames::begin_body(const RoundNumbers& numbers) {
  bodies_.push_back({.numbers = numbers, .first_serial = static_cast<std::int64_t>(known_.size())});
}

Status ProgramNames::carry(const std::string& begin, const std::string& end) {
  const auto before = known_.find(begin);
  if (before == known_.end() || before->second.serial >= bodies_.back().first_serial) {
    return invalid_argument(in_quotes(begin) +
                            ": carries into a value that is not there before the repeat");
  }
  TSR_ASSIGN_OR_RETURN(const Known* after, use(end));
  Known& known = before->second;
  if (known.global_shape != after->global_shape || known.dtype != after->dtype ||
      known.mesh != after->mesh || known.layout != after->layout) {
    return invalid_argument(in_quotes(end) + ": is to be the next round's " + in_quotes(begin) +
                            ", but differs from it in shape, dtype, mesh or placements");
  }
  known.freed = false;
  return absl::OkStatus();
}

Status ProgramNames::end_body() {
  const Body body = std::move(bodies_.back());
  bodies_.pop_back();
  if (bodies_.empty()) {
    for (const std::string& name : body.made) of_rounds_[name] = body.numbers;
  }
  for (const auto& [name, pending] : body.pending) {
    TSR_RETURN_IF_ERROR(check_rounds(body, pending));
  }
  for (const std::string& name : body.freed_outside) {
    if (known_.find(name)->second.freed) {
      return invalid_argument(in_quotes(name) +
                              ": each round frees this value, which was made before the repeat; "
                              "carry another into it");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
