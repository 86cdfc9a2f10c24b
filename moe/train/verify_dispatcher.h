// moe/train/verify_dispatcher.h: proves a dispatcher, in process: small models train with it on
// ranks as threads. Parity: what they report is one rank's. Simulation: what a step moves is what a
// simulated one says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// A mesh and options of dispatch.
struct DispatcherCheck {
  enum class Verdict : std::uint8_t {
    kRight,
    kDeclined,  ///< the dispatcher does not have this option (Unimplemented)
    kWrong
  };
  std::string setting;  ///< "dp_shard 4, ep 4: dispatch_chunks 2"
  Verdict verdict = Verdict::kRight;
  std::string why;  ///< what is declined, or the first thing that is wrong
};

struct DispatcherReport {
  std::string dispatcher;
  std::vector<DispatcherCheck> checks;

  std::int64_t count(DispatcherCheck::Verdict verdict) const;
  /// Nothing is wrong.
  bool proven() const { return count(DispatcherCheck::Verdict::kWrong) == 0; }
};

/// On meshes with ep 2, ep 4, tp and etp, one of which leaves a rank without experts, with exact
/// sizes, in chunks with aligned experts, with bounded rows and padded to a capacity: three steps
/// in F64 (losses and gradient norms within 1e-9, tokens per expert equal), then one under forced
/// balance on each rank (transfers and host reads equal in order, bytes, peers and source). Exact
/// sizes must not be declined. Takes seconds. Errors: InvalidArgument for an unknown name; a
/// defect of the dispatcher is in the report.
StatusOr<DispatcherReport> verify_dispatcher(std::string_view name);

/// A line for each check, and one with the counts. Ends in a newline.
std::string to_text(const DispatcherReport& report);

}  // namespace tessera
