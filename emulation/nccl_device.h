// emulation/nccl_device.h: stands where NCCL's header for kernels would: where a window's memory
// lies, and which ranks can reach it.
#pragma once

#include "emulation/nccl.h"

namespace tessera::emulation {

struct ncclTeam_t {
  int nRanks, rank, stride;
};

/// Ranks whose windows this one reads and writes: all, or as many neighbours as
/// TESSERA_EMULATED_NCCL_LSA in the environment says.
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
/// In a kernel: byte `offset` of the window of that team's rank `peer`.
void* ncclGetLsaPointer(ncclWindow_t window, std::size_t offset, int peer);

}  // namespace tessera::emulation
