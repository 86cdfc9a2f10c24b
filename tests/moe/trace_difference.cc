#include "tests/moe/trace_difference.h"

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"

namespace tessera::testing {
namespace {

/// Transfers and host reads as a program has them, in order.
struct Moved {
  std::string what;
  Volume bytes;
};
std::vector<Moved> moved_in(const Program& program) {
  std::vector<Moved> all;
  const auto add = [&](const std::vector<ProgramMove>& moves) {
    for (const ProgramMove& move : moves) all.push_back({move.collective, move.bytes});
  };
  for (const AnyStep& step : program.steps) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) add(call->moves);
    if (const auto* region = std::get_if<RegionStep>(&step.what)) add(region->moves);
    if (const auto* move = std::get_if<MoveStep>(&step.what)) add(move->moves.value());
    if (const auto* read = std::get_if<HostReadStep>(&step.what)) {
      all.push_back({"host_read", {read->bytes, read->bytes}});
    }
  }
  return all;
}

}  // namespace

std::string trace_difference(const Program& program, std::span<const Event> events) {
  const std::map<std::string, std::string> names = {
      {"all_to_all_v", "all_to_all"},         {"all_gather_v", "all_gather"},
      {"reduce_scatter_v", "reduce_scatter"}, {"recv", "receive"},
      {"put_peer_rows", "exchange"},          {"sum_peer_rows", "exchange"},
      {"dot_peer_rows", "exchange"}};
  const std::vector<Moved> moved = moved_in(program);
  std::size_t next = 0;
  for (const Event& event : events) {
    const bool is_read = event.kind == Event::Kind::kHostRead;
    if (!is_read && event.kind != Event::Kind::kCollective) continue;
    const auto named = names.find(event.name);
    const std::string name = is_read                ? "host_read"
                             : named == names.end() ? event.name
                                                    : named->second;
    if (next == moved.size()) return "the program lacks " + event.name;
    const Moved& told = moved[next++];
    const std::int64_t alike = told.bytes.max == 0 ? 0 : told.bytes.total % told.bytes.max;
    const bool fits = event.bytes_received == told.bytes.max ||
                      (alike != 0 && event.bytes_received < told.bytes.max);
    if (told.what == name && fits) continue;
    return absl::StrFormat("move %d: %s %d in %s:%d, told %s %d of %d", next, event.name,
                           event.bytes_received, event.file, event.line, told.what, told.bytes.max,
                           told.bytes.total);
  }
  return next == moved.size() ? "" : "the program has more than was moved: " + moved[next].what;
}

}  // namespace tessera::testing
