// emulation/nccl_cliques.h: cliques whose ranks are in several processes: where ranks come together
// and what they tell one another.
#pragma once

#include "emulation/nccl_comm.h"
#include "emulation/nccl_office.h"

namespace tessera::emulation {

/// A rank of this process is there: says so where the id was made.
NcclRefusal take_seat(NcclClique& clique, int rank, int device);
/// A slip about a call.
NcclSlip slip_of(const NcclClique& clique, NcclSlip::Kind kind, const NcclCall& call);

}  // namespace tessera::emulation
