#include "runtime/control/process_job.h"

#include <sys/random.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/control/host_identity.h"

namespace tessera {
StatusOr<std::unique_ptr<FlightRecorder>> open_job_records(const ControlPlace& place,
                                                           const JobRecordsOptions& options,
                                                           const ExchangeTexts& exchange) {
  const bool asked = !options.dir.empty();
  std::uint64_t job = 0;
  std::string chosen;
  Status problem;
  if (place.rank == 0) {
    if (::getrandom(&job, sizeof job, 0) != sizeof job) job = 1;
    const StatusOr<std::string> dir = make_recorder_dir(options.dir);
    if (dir.ok()) chosen = absl::StrFormat("%016x%s", job, *dir);
    if (!dir.ok() && asked) problem = dir.status();
  }
  const std::string first = exchange(chosen)[0];
  TSR_RETURN_IF_ERROR(first_error_as(io_error, exchange, problem));
  RecorderOptions recorder{.file = asked ? RecorderFile::kRequired : RecorderFile::kIfPossible,
                           .rank = place.rank,
                           .world_size = place.size,
                           .backend = options.backend};
  if (!first.empty()) {
    recorder.job = std::stoull(first.substr(0, 16), nullptr, 16);
    recorder.dir = first.substr(16);
  }
  StatusOr<std::unique_ptr<FlightRecorder>> opened = FlightRecorder::open(recorder);
  TSR_RETURN_IF_ERROR(first_error_as(io_error, exchange, opened.status()));
  return opened;
}

int ranks_on_these_processors(const ExchangeTexts& exchange) {
  const std::string own = processors_id();
  const std::vector<std::string> all = exchange(own);
  return static_cast<int>(std::count(all.begin(), all.end(), own));
}

void describe_dead_by(const FlightRecorder& own, ControlChannel& control) {
  if (own.path().empty()) return;
  control.describe_dead([dir = own.dir()](std::int64_t rank) { return last_call_in(dir, rank); });
}

}  // namespace tessera
