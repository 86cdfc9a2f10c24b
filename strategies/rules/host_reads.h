// strategies/rules/host_reads.h: the built-in ops that read values of a tensor to know what to do
// next, which they do on the host only. Kernels of all others run on every device.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "placement/api.h"

namespace tessera TSR_API {

/// On a device the calls that read are refused under the op's name.
struct HostReadingOp {
  std::string_view op;
  std::string_view operands;    ///< that are read
  std::string_view where = {};  ///< "rows are cut": of the calls that read; empty: all
};

/// By name of the op.
std::span<const HostReadingOp> host_reads();
/// Null where there is none.
const HostReadingOp* host_read_of(std::string_view op);
/// "cpu, cuda, emulated", "cpu only: reads offsets".
std::string devices_text(std::string_view op);

}  // namespace tessera
