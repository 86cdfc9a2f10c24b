// runtime/control/process_job.h: what the processes of a job settle before their first call: where
// their flight records lie, and how many of them share a processor.
#pragma once

#include <memory>
#include <string>

#include "runtime/backend_api.h"
#include "runtime/control/channel.h"
#include "runtime/recorder/recorder.h"

namespace tessera TSR_BACKEND_API {

struct JobRecordsOptions {
  std::string dir = {};  ///< of every rank's record; empty: as make_recorder_dir() has it
  std::string_view backend = "mpi";
};
/// Opens every rank's record in a folder that rank 0 chooses; without a folder, and none asked for,
/// records are in memory. Collective: yes. Errors: io_error, the same on all ranks.
StatusOr<std::unique_ptr<FlightRecorder>> open_job_records(const ControlPlace& place,
                                                           const JobRecordsOptions& options,
                                                           const ExchangeTexts& exchange);
/// How many ranks may run on just this one's processors, itself included. Collective: yes.
int ranks_on_these_processors(const ExchangeTexts& exchange);
/// The channel says of a dead rank what its record had last.
void describe_dead_by(const FlightRecorder& own, ControlChannel& control);

}  // namespace tessera
