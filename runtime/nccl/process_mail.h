// runtime/nccl/process_mail.h: the host mail of ranks that are processes: a rank connects to
// another when it first has something for it, and a thread beside it sends and receives, whatever
// the rank itself waits for.
#pragma once

#include <memory>

#include "runtime/control/channel.h"
#include "runtime/control/greeting.h"
#include "runtime/nccl/host_mail.h"

namespace tessera {

/// Collective: yes, two exchanges. Who connects proves that it knows the token. send() and take()
/// throw Unavailable a second after a connection has failed, which a rank's death brings about too:
/// the control channel has named it by then. Errors: Unavailable on all ranks, naming the rank and
/// what it could not listen on.
StatusOr<std::unique_ptr<HostMail>> open_process_mail(const ControlPlace& place,
                                                      const ControlToken& token,
                                                      const ExchangeTexts& exchange);

}  // namespace tessera
