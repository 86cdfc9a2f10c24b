#include "runtime/mpi/movement.h"

#include "absl/strings/str_format.h"
#include "runtime/mpi/collective_movement.h"
#include "runtime/mpi/exchange_movement.h"
#include "runtime/mpi/peer_movement.h"

namespace tessera {

std::unique_ptr<Movement> make_movement(const MovementPlace& place, const CollectiveCall& call,
                                        const Signature& signature) {
  if (call.kind() == CollectiveCall::Kind::kExchange) {
    return std::make_unique<ExchangeMovement>(place, call);
  }
  if (call.kind() == CollectiveCall::Kind::kPeerRows) {
    return std::make_unique<PeerMovement>(place, call);
  }
  return std::make_unique<CollectiveMovement>(place, call, signature);
}

void throw_different(const MovementPlace& place, int peer, std::int64_t sent_bytes,
                     std::int64_t expected_bytes) {
  throw Error(failed_precondition(absl::StrFormat(
      "rank %d sends %d bytes where this rank expects %d: the two calls differ (run with checks "
      "on to see both)",
      place.rank_of(peer), sent_bytes, expected_bytes)));
}

const std::byte* bytes_in_place(const MovementPlace& place, int peer, const Notice& notice,
                                std::int64_t expected_bytes) {
  const std::byte* data = place.host->at(place.rank_of(peer), notice.offset, expected_bytes);
  if (data == nullptr || notice.bytes != expected_bytes) {
    throw_different(place, peer, notice.bytes, expected_bytes);
  }
  return data;
}

}  // namespace tessera
