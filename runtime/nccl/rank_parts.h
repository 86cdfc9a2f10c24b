// runtime/nccl/rank_parts.h: what a rank brings along to the NCCL backend: NCCL itself, memory of a
// card, and what its user has of NCCL already.
#pragma once

#include <memory>
#include <string>

#include "kernels/array.h"
#include "runtime/control/channel.h"
#include "runtime/nccl/link.h"
#include "runtime/nccl_world.h"

namespace tessera::nccl::TSR_CUDA {

struct RankParts {
  std::shared_ptr<Allocator> memory;
  OwnHandles handles;
};

/// "2.28.9", or why there is no NCCL that can be used.
StatusOr<std::string> nccl_version();

/// `card`: what the allocator is asked with. Collective: yes. Errors, the same on all ranks: of
/// `memory_error`'s kind where a rank's memory is not a card's; Unavailable where it has no NCCL;
/// InvalidArgument where its communicator is not one of all ranks, or others have one and it has
/// none.
StatusOr<RankParts> open_rank_parts(const NcclOptions& options, const ControlPlace& place,
                                    std::int64_t card, const ExchangeTexts& exchange,
                                    Status (*memory_error)(std::string_view text));

}  // namespace tessera::nccl::TSR_CUDA
