// runtime/nccl/place.h: what a rank of the NCCL backend has before its World, whether ranks are
// threads or processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/greeting.h"
#include "runtime/environment.h"
#include "runtime/nccl/host_mail.h"
#include "runtime/recorder/recorder.h"
#include "runtime/world.h"

namespace tessera {

/// How a rank has come to the others.
struct NcclMeeting {
  ControlPlace place;
  ExchangeTexts exchange;
  ThreadsMail* mail = nullptr;             ///< null: ranks are processes
  std::optional<ControlToken> token = {};  ///< of processes
};

struct NcclPlace {
  std::unique_ptr<ControlChannel> control;
  std::unique_ptr<HostMail> mail;
  std::shared_ptr<FlightRecorder> recorder;
  RankClock::time_point start;          ///< zero of the job's time
  std::vector<std::string> hosts = {};  ///< by rank, each one's network_id()
  int threads_per_rank = 1;
};

/// Collective: yes. Errors: the same on all ranks, what ControlChannel::open(), open_job_records()
/// and open_process_mail() refuse.
StatusOr<NcclPlace> open_nccl_place(const NcclMeeting& meeting, const WorldOptions& options);

}  // namespace tessera
