// runtime/nccl/version_text.h: versions of NCCL as people write them.
#pragma once

#include <string>

namespace tessera {

/// Of NCCL_VERSION_CODE or ncclGetVersion(): 22809 is "2.28.9".
inline std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace tessera
