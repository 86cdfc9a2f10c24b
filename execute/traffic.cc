#include "execute/traffic.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_join.h"
#include "capture/event_moves.h"
#include "execute/prepared_steps.h"

namespace tessera {
namespace {

std::vector<MovedBytes> moved_bytes(const std::vector<ProgramMove>& moves) {
  std::vector<MovedBytes> moved;
  for (const ProgramMove& move : moves) {
    moved.push_back({move.collective, absl::StrJoin(move.axes, ","), move.bytes});
  }
  return moved;
}

/// What is known of values where a step reads them.
class Predictions {
 public:
  explicit Predictions(const Program& program) : program_(program) {}

  Status begin() {
    for (const ProgramValue& value : program_.values) {
      TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, scope_.declare(value));
      for (const std::string& name : names) values_[name] = &value;
    }
    return absl::OkStatus();
  }
  RoundScope& scope() noexcept { return scope_; }

  StatusOr<StepTraffic> of(const AnyStep& step) {
    if (const auto* move = std::get_if<MoveStep>(&step.what)) return of_move(*move);
    StepTraffic traffic;
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      traffic = {.what = call->op, .predicted = moved_bytes(call->moves)};
      for (const ProgramValue& value : call->out) TSR_RETURN_IF_ERROR(know(value));
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      traffic = {.what = region->name, .predicted = moved_bytes(region->moves)};
      for (const ProgramValue& value : region->out) TSR_RETURN_IF_ERROR(know(value));
    }
    return traffic;
  }

 private:
  StatusOr<StepTraffic> of_move(const MoveStep& move) {
    TSR_ASSIGN_OR_RETURN(const std::string name, scope_.use(move.value));
    const auto from = values_.find(name);
    if (from == values_.end()) return invalid_argument(in_quotes(name) + ": no such value here");
    std::vector<ProgramMove> moves;
    if (move.moves) {
      moves = *move.moves;
    } else {
      TSR_ASSIGN_OR_RETURN(moves, moves_of(program_, *from->second, move.out));
    }
    TSR_RETURN_IF_ERROR(know(move.out));
    return StepTraffic{.what = move.value + " -> " + move.out.name,
                       .predicted = moved_bytes(moves)};
  }
  Status know(const ProgramValue& value) {
    TSR_ASSIGN_OR_RETURN(const std::string name, scope_.make(value.name));
    values_[name] = &value;
    return absl::OkStatus();
  }

  const Program& program_;
  RoundScope scope_;
  absl::flat_hash_map<std::string, const ProgramValue*> values_;  ///< by their own names
};

/// A rank's moves, step by step.
struct RankReader {
  const std::vector<RankMove>* moves = nullptr;
  std::size_t next = 0;
};

/// The n-th collective of a step on one rank is that of all who take part.
std::vector<MovedBytes> executed_in(std::int64_t step, std::vector<RankReader>& ranks) {
  std::vector<MovedBytes> executed;
  for (RankReader& rank : ranks) {
    std::size_t n = 0;
    for (; rank.next < rank.moves->size() && (*rank.moves)[rank.next].step == step; ++rank.next) {
      const RankMove& move = (*rank.moves)[rank.next];
      if (n == executed.size()) executed.push_back({move.collective, move.axes, {}});
      Volume& bytes = executed[n++].bytes;
      bytes.max = std::max(bytes.max, move.bytes);
      bytes.total += move.bytes;
    }
  }
  return executed;
}

void add_places(const std::vector<AnyStep>& steps, const std::string& place,
                std::map<const AnyStep*, std::string>& places) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string own = place + "/steps/" + std::to_string(i);
    places[&steps[i]] = own;
    if (const auto* repeat = std::get_if<RepeatStep>(&steps[i].what)) {
      add_places(repeat->steps, own, places);
    }
  }
}

}  // namespace

TrafficLog::TrafficLog(Runtime& runtime)
    : runtime_(runtime), next_event_(runtime.events().events().size()) {}

AfterStep TrafficLog::listener() {
  return [this](const AnyStep&) { take_events(); };
}

void TrafficLog::take_events() {
  const std::vector<Event>& log = runtime_.events().events();
  for (; next_event_ < log.size(); ++next_event_) {
    const Event& event = log[next_event_];
    if (event.kind != Event::Kind::kCollective) continue;
    moves_.push_back({step_, collective_of(event.name), event.axes, event.bytes_received});
  }
  ++step_;
}

StatusOr<std::vector<StepTraffic>> traffic_of(const Program& program,
                                              const std::vector<std::vector<RankMove>>& by_rank) {
  std::map<const AnyStep*, std::string> places;
  add_places(program.steps, "", places);
  std::vector<RankReader> ranks;
  for (const std::vector<RankMove>& moves : by_rank) ranks.push_back({&moves});
  Predictions predictions(program);
  TSR_RETURN_IF_ERROR(predictions.begin());
  std::vector<StepTraffic> all;
  std::int64_t number = 0;
  TSR_RETURN_IF_ERROR(walk(program.steps, predictions.scope(), [&](const AnyStep& step) -> Status {
    if (std::holds_alternative<FreeStep>(step.what)) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(StepTraffic traffic, predictions.of(step));
    traffic.executed = executed_in(number++, ranks);
    if (traffic.predicted.empty() && traffic.executed.empty()) return absl::OkStatus();
    traffic.place = places[&step];
    all.push_back(std::move(traffic));
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace tessera
