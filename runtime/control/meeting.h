// runtime/control/meeting.h: how the ends of a control channel find one another: each listens, all
// learn all addresses by an exchange of texts, and every rank but 0 joins the hub. Each step takes
// part in its exchanges whatever happened before, so that no rank waits for another's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/greeting.h"
#include "runtime/control/server.h"
#include "runtime/control/socket.h"

namespace tessera {

/// Where everyone listens.
struct ControlMeeting {
  Descriptor listener;
  std::vector<Endpoint> endpoints;  ///< by rank
  ControlToken token;               ///< rank 0's choice
};

/// Where a rank listens, given each rank's network_id(): the loopback where all have one.
std::string host_to_listen_on(std::span<const std::string> networks);

/// What a rank tells the others of its listener, and what that was.
std::string published(const StatusOr<Listener>& listener);
struct Published {
  Endpoint at;
  std::string more;  ///< a word behind it
};
/// Errors: Unavailable, naming the rank and why it does not listen, or `what` it gave no address
/// for.
StatusOr<Published> read_published(std::size_t rank, const std::string& text,
                                   std::string_view what);

/// Collective: yes, two exchanges. Errors: Unavailable, the same on all ranks, naming the rank and
/// what it could not listen on.
StatusOr<ControlMeeting> meet(const ControlPlace& place, const ControlOptions& options,
                              const ExchangeTexts& exchange);

/// Connects a rank other than 0 to the hub and waits for its welcome. Errors: Unavailable naming
/// both and what the system said.
StatusOr<ControlLink> join_hub(const ControlPlace& place, const ControlMeeting& meeting,
                               std::chrono::milliseconds limit);

/// Collective: yes, one exchange. The first rank's error that is one, on all ranks alike.
Status agree(const ControlPlace& place, const Status& own, const ExchangeTexts& exchange);

}  // namespace tessera
