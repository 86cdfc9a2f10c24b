#include "runtime/nccl/place.h"

#include <utility>
#include <vector>

#include "runtime/control/host_identity.h"
#include "runtime/control/process_job.h"
#include "runtime/nccl/process_mail.h"

namespace tessera {
namespace {

StatusOr<std::shared_ptr<FlightRecorder>> open_record(const NcclMeeting& meeting,
                                                      const WorldOptions& options) {
  if (meeting.mail == nullptr) {
    return open_job_records(meeting.place, {.dir = options.recorder_dir, .backend = "nccl"},
                            meeting.exchange);
  }
  StatusOr<std::unique_ptr<FlightRecorder>> recorder =
      FlightRecorder::open({.dir = options.recorder_dir,
                            .file = RecorderFile::kIfPossible,
                            .rank = meeting.place.rank,
                            .world_size = meeting.place.size,
                            .backend = "nccl"});
  TSR_RETURN_IF_ERROR(first_error_as(invalid_argument, meeting.exchange, recorder.status()));
  return std::shared_ptr<FlightRecorder>(*std::move(recorder));
}

/// Rank 0's time, and who is where. The clock of one kernel is the same to all its ranks; on
/// another host it is as far off as an exchange takes.
void agree_on_zero(const ExchangeTexts& exchange, NcclPlace& place) {
  const RankClock::time_point before = RankClock::now();
  const std::string own = boot_id();
  const std::vector<std::string> texts =
      exchange(std::to_string(before.time_since_epoch().count()) + " " + own + "\n" + network_id());
  const RankClock::time_point after = RankClock::now();
  for (const std::string& text : texts) place.hosts.push_back(text.substr(text.find('\n') + 1));
  place.start = texts[0].substr(0, texts[0].find('\n')).ends_with(" " + own)
                    ? RankClock::time_point(RankClock::duration(std::stoll(texts[0])))
                    : before + (after - before) / 2;
}

}  // namespace

StatusOr<NcclPlace> open_nccl_place(const NcclMeeting& meeting, const WorldOptions& options) {
  ControlOptions control;
  if (meeting.token) control.token = meeting.token->bytes;
  NcclPlace made;
  TSR_ASSIGN_OR_RETURN(made.control,
                       ControlChannel::open(meeting.place, control, meeting.exchange));
  TSR_ASSIGN_OR_RETURN(made.recorder, open_record(meeting, options));
  auto sharers = static_cast<int>(meeting.place.size);
  if (meeting.mail != nullptr) {
    made.mail = meeting.mail->end_of(meeting.place.rank);
  } else {
    describe_dead_by(*made.recorder, *made.control);
    TSR_ASSIGN_OR_RETURN(made.mail,
                         open_process_mail(meeting.place, meeting.token.value(), meeting.exchange));
    sharers = ranks_on_these_processors(meeting.exchange);
  }
  made.threads_per_rank = library_threads(options.threads_per_rank, sharers);
  agree_on_zero(meeting.exchange, made);
  return made;
}

}  // namespace tessera
