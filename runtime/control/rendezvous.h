// runtime/control/rendezvous.h: how processes that know no more of one another than a Launch come
// together: rank 0 listens, the others look for it at its ports, and each proves that it is of this
// job and restart. Vocabulary: a guest is a rank other than 0; the verdict is what rank 0 tells all
// where they cannot go on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/greeting.h"
#include "runtime/control/launch.h"

namespace tessera {

/// What every process must have alike, beside the number of ranks: {"NCCL version", "2.28.9"}.
struct AlikeFact {
  std::string name;
  std::string value;
};

struct RendezvousOptions {
  /// Until all have come; below zero: for ever.
  std::chrono::milliseconds timeout{60'000};
  std::vector<AlikeFact> alike = {};
  /// Called with what meet() is about to return, before this process is heard to end: a launcher
  /// ends the others with the first that does.
  std::function<void(const Status&)> on_failure = nullptr;
};

/// One rank's end, for exchanges of texts until a control channel is open. Thread-safety: its
/// rank's thread only.
class Rendezvous {
 public:
  /// Collective: yes, over all ranks. Errors: Unavailable, within the timeout and a few seconds, on
  /// every rank that can be reached: a name or address that nobody answers at, ranks that have not
  /// come and those that have, a rank that came twice, numbers of ranks or facts that differ, a
  /// process that has ended meanwhile.
  static StatusOr<std::unique_ptr<Rendezvous>> meet(const Launch& launch,
                                                    const RendezvousOptions& options);
  virtual ~Rendezvous() = default;
  /// Every rank's text, by rank. Collective: yes. Throws Unavailable, as above.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;
  /// For this job's further connections: known to its ranks, and never sent.
  virtual ControlToken token() const = 0;
};

}  // namespace tessera
