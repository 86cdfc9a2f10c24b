// The event that a call logs when it is over.
#include "runtime/call/signature.h"

namespace tessera {

std::string_view event_name(const CollectiveCall& call) noexcept {
  switch (call.kind()) {
    case CollectiveCall::Kind::kAllGather:
      return call.ragged ? "all_gather_v" : "all_gather";
    case CollectiveCall::Kind::kReduceScatter:
      return call.ragged ? "reduce_scatter_v" : "reduce_scatter";
    case CollectiveCall::Kind::kAllToAll:
      return "all_to_all_v";
    case CollectiveCall::Kind::kPeerRows:
      return name_of(call.as<PeerRowsCall>().rows->way);
    default:
      return name_of(call.kind());
  }
}

std::optional<Event> make_event(const CollectiveCall& call, const CallInfo& info,
                                const Traffic& traffic) {
  if (info.log == CallLog::kNo || traffic.sent + traffic.received == 0) return std::nullopt;
  return Event{.name = std::string(info.event.empty() ? event_name(call) : info.event),
               .tensor = std::string(info.tensor),
               .axes = std::string(info.axes),
               .bytes_sent = traffic.sent,
               .bytes_received = traffic.received,
               .origin = info.origin,
               .why = std::string(info.why),
               .file = info.site.file_name(),
               .line = static_cast<int>(info.site.line())};
}

}  // namespace tessera
