#include "runtime/call/peer_rows.h"

#include "runtime/call/prepared_call.h"

namespace tessera {

void move_peer_rows(KernelContext& ctx, const CollectiveCall& call,
                    std::span<const kernels::PeerBuffer> buffers, Stream& stream,
                    const std::int64_t* broken_off) {
  const PeerRows& rows = *call.as<PeerRowsCall>().rows;
  const kernels::PeerBuffers all{buffers, peer_buffer(call).dtype(), rows.copies, broken_off};
  switch (rows.way) {
    case PeerRows::Way::kPut:
      return kernels::put_peer_rows(ctx, call.in(), rows.weights_TK, rows.place_TK, all, stream);
    case PeerRows::Way::kSum:
      return kernels::sum_peer_rows(ctx, all, rows.weights_TK, rows.place_TK, call.out(), stream);
    case PeerRows::Way::kDot:
      return kernels::dot_peer_rows(ctx, all, rows.tokens_TD, rows.place_TK, call.out(), stream);
  }
}

}  // namespace tessera
