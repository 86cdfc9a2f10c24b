// runtime/mpi/communicator.h: the MPI backend: one rank's end of a group, and its calls in flight.
// Progress happens in a rank's waits: whichever call it waits for, it drives all that can go on.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/control.h"
#include "runtime/environment.h"
#include "runtime/event.h"
#include "runtime/mpi/device_side.h"
#include "runtime/mpi/link.h"
#include "runtime/mpi/movement.h"
#include "runtime/mpi/signature_exchange.h"
#include "runtime/mpi/staged_call.h"
#include "runtime/recorder.h"
#include "runtime/shared_core.h"
#include "runtime/world.h"

namespace tessera {

class MpiRank;

/// What the calls of one group share.
struct MpiGroup {
  std::vector<std::int64_t> ranks;  ///< world ranks
  int rank = 0;
  std::uint32_t id = 0;      ///< the job's number for these ranks
  std::uint32_t record = 0;  ///< in this rank's flight record
};

/// An ordered sequence of calls: a group's collectives, or one way of a pair.
struct MpiLane {
  LaneKey key;
  std::atomic<std::uint64_t>* started = nullptr;  ///< null for messages to oneself
  std::uint64_t next = 0;
};

/// One call of one rank. The rank's list of pending calls holds it until it is over, so dropping a
/// handle is safe.
class MpiWork final : public Work {
 public:
  struct Start {
    CollectiveCall call;
    Signature signature;
    LaneKey lane;
    std::chrono::milliseconds timeout{0};
    std::int64_t bytes_received = 0;
    std::optional<Event> event;
  };
  MpiWork(MpiRank& rank, const MpiGroup& group);
  /// To be filled in before begin().
  Start& start() noexcept { return start_; }

  void wait() override;
  std::int64_t bytes_received() const override { return start_.bytes_received; }
  std::chrono::milliseconds timeout() const noexcept { return start_.timeout; }
  bool is_over() const noexcept { return phase_ == Phase::kFinished || phase_ == Phase::kFailed; }

  bool has_failed() const noexcept { return phase_ == Phase::kFailed; }
  /// Grows with each thing that another may soon follow.
  std::int64_t progress() const noexcept { return movement_ ? movement_->progress() + 1 : 0; }
  bool is_comparing() const noexcept { return phase_ == Phase::kComparing; }

  /// Posts the first messages. A failure poisons the job.
  void begin();
  /// Goes on as far as it can without waiting. A failure poisons the job.
  void advance();
  void fail(Status status);
  /// What this call waits for, for the control channel.
  ControlWait waits_for() const;
  std::string describe() const { return to_string(start_.signature); }

 private:
  /// kWaiting: for the device to have what goes into the first messages.
  enum class Phase : std::uint8_t { kComparing, kWaiting, kMoving, kFinished, kFailed };
  template <class F>
  void guarded(F&& part);
  void post();
  void meet_device();
  MovementPlace place();
  void step();
  void agreed();
  bool is_ready() { return staged_ ? staged_->is_down() : !device_ || device_->lets_messages(); }
  void begin_moving();
  void finish();

  MpiRank* rank_;
  const MpiGroup& group_;
  Start start_;
  Phase phase_ = Phase::kComparing;
  std::uint64_t ticket_ = 0;  ///< in the flight record
  Status status_;
  std::optional<SignatureExchange> exchange_;
  // Of arrays on a device one of these; the second with the movement.
  std::unique_ptr<StagedCall> staged_;
  std::unique_ptr<DeviceSide> device_;
  std::unique_ptr<Movement> movement_;
};

/// What all groups of one rank share. Thread-safety: its own rank's thread only.
class MpiRank {
 public:
  struct Parts {
    MpiLink& link;
    const HostMemory& host;
    ControlChannel& control;
    FlightRecorder& recorder;
    EventLog& log;
    std::chrono::steady_clock::time_point start;   ///< zero of now_us()
    DevicePath device_path = DevicePath::kStaged;  ///< of calls that can go so
  };
  /// `host_memory`: of buffers to receive into.
  MpiRank(const Parts& parts, const WorldOptions& options, std::shared_ptr<Allocator> host_memory);
  ~MpiRank();
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  MpiLink& link() noexcept { return parts_.link; }
  const HostMemory& host() const noexcept { return parts_.host; }
  ControlChannel& control() noexcept { return parts_.control; }
  FlightRecorder& recorder() noexcept { return parts_.recorder; }
  EventLog& log() noexcept { return parts_.log; }
  const WorldOptions& options() const noexcept { return options_; }
  DevicePath device_path() const noexcept { return parts_.device_path; }
  const std::shared_ptr<Allocator>& host_memory() const noexcept { return host_memory_; }
  Staging& staging() noexcept { return staging_; }
  std::set<std::string>& files() noexcept { return files_; }
  double now_us() const;
  /// Some call was started: there is something on record.
  bool has_started() const noexcept { return has_started_; }

  /// Begins the call; a lane with very many calls in flight first waits for the oldest.
  void add(const std::shared_ptr<MpiWork>& work);
  /// Until the work is over; throws what it failed with.
  void wait(MpiWork& work);
  /// Waits for all calls still pending, in order.
  void finish_all();
  /// The first failure as other ranks see it.
  Status as_unavailable() const;

 private:
  void advance_all();
  class Telling;
  Status hopeless(const MpiWork& work, const Telling& telling);
  Status timed_out(const MpiWork& work);
  bool is_over_soon(MpiWork& work);
  void wait_until_over(MpiWork& work);

  Parts parts_;
  SharedCore core_;
  WorldOptions options_;
  std::shared_ptr<Allocator> host_memory_;
  Staging staging_;
  std::vector<std::shared_ptr<MpiWork>> pending_;
  std::vector<std::shared_ptr<MpiWork>> given_up_;  ///< failed with messages under way
  bool has_started_ = false;
  std::set<std::string> files_;  ///< names of source files in signatures of peers
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MpiRank& rank, MpiGroup group);

  int rank() const noexcept override { return group_.rank; }
  int size() const noexcept override { return static_cast<int>(group_.ranks.size()); }
  std::int64_t world_rank(int group_rank) const override {
    return group_.ranks[static_cast<std::size_t>(group_rank)];
  }
  std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) override;

 private:
  MpiLane& lane_of(const CollectiveCall& call);

  MpiRank& rank_;
  MpiGroup group_;
  MpiLane collectives_;
  std::map<std::pair<int, int>, MpiLane> pairs_;  ///< by (from, to); oneself: (self, -self - 1)
};

}  // namespace tessera
