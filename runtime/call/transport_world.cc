#include "runtime/call/transport_world.h"

#include <algorithm>
#include <utility>

namespace tessera {

TransportWorld::TransportWorld(Parts parts) : parts_(std::move(parts)) {
  if (parts_.allocator != nullptr) allocator_ = parts_.allocator;
  device_ = parts_.device;
  if (parts_.recorder != nullptr) recorder_dir_ = parts_.recorder->dir();
  calls_ = std::make_unique<RankCalls>(
      RankCalls::Parts{*parts_.transport, events(), parts_.recorder.get(), parts_.timeout});
}

// A device keeps arrays until it has told what is wrong with them, and arrays keep their device.
TransportWorld::~TransportWorld() {
  try {
    allocator_->device().raise_faults();
  } catch (const Error&) {  // finish() throws it; else the rank has failed before
  }
}

void TransportWorld::finish() {
  calls_->finish_all();
  allocator_->device().raise_faults();
}

StatusOr<Communicator*> TransportWorld::group(std::span<const std::int64_t> ranks) {
  if (const auto known = groups_.find(ranks); known != groups_.end()) return known->second.get();
  TSR_RETURN_IF_ERROR(check_group(ranks));
  std::vector<std::int64_t> key(ranks.begin(), ranks.end());
  const auto position = std::find(key.begin(), key.end(), rank()) - key.begin();
  TSR_ASSIGN_OR_RETURN(
      std::unique_ptr<GroupCommunicator> made,
      GroupCommunicator::make(*calls_, {.ranks = key, .rank = static_cast<int>(position)}));
  return groups_.emplace(std::move(key), std::move(made)).first->second.get();
}

Status run_body(TransportWorld& world, const std::function<void()>& body,
                const std::function<Status()>& leave) {
  Status own;
  try {
    body();
    world.finish();
  } catch (...) {
    own = status_of(std::current_exception());
    world.poison(own);
  }
  const Status first = leave();
  return first.ok() ? own : first;
}

}  // namespace tessera
