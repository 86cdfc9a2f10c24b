#include "runtime/world_capture.h"

#include <exception>
#include <span>
#include <vector>

namespace tessera {
namespace {

// The first rank's compute stream begins the capture; the others join it by waiting for its mark,
// and leave it when that stream has waited for theirs.
std::shared_ptr<CapturedWork> captured_together(World& world, Device& device,
                                                const std::function<void()>& body) {
  const bool is_first = world.rank() == 0;
  Mark first;
  if (is_first) {
    device.begin_capture({});
    first = device.record(device.compute());
  }
  first = value_or_throw(world.share_marks(first))[0];
  if (!is_first) device.begin_capture(first);
  body();
  const std::vector<Mark> closed = value_or_throw(world.share_marks(device.close_capture()));
  std::shared_ptr<CapturedWork> work;
  if (is_first) work = device.end_capture(std::span(closed).subspan(1));
  value_or_throw(world.share_marks({}));  // until then the others' streams belong to the capture
  return is_first ? work : device.end_capture({});
}

// Devices meet in the calls alone.
std::shared_ptr<CapturedWork> captured_alone(World& world, RankCapture& calls,
                                             const std::function<void()>& body) {
  Device& device = world.allocator()->device();
  device.begin_capture({});
  body();
  world.finish_calls();  // one that nobody waits for may not have been given yet
  calls.close();
  device.close_capture();
  return device.end_capture({});
}

}  // namespace

WorldCapture::WorldCapture(World& world, const std::function<void()>& body) : world_(world) {
  Device& device = world.allocator()->device();
  if (&device == &cpu_device()) device.begin_capture({});  // says why not, before any rank waits
  device_ = device.shared_from_this();
  try {
    world.finish_calls();
    calls_ = world.capture_calls();
    work_ = calls_ == nullptr ? captured_together(world, *device_, body)
                              : captured_alone(world, *calls_, body);
  } catch (...) {
    // The others' streams leave the capture with it: that this rank failed has to be known first.
    if (world.size() > 1) world.poison(status_of(std::current_exception()));
    device_->abandon_capture();
    throw;
  }
}

void WorldCapture::launch() {
  if (calls_ != nullptr) {
    launch_alone();
  } else {
    launch_together();
  }
}

void WorldCapture::launch_alone() {
  throw_if_error(world_.failure());
  if (calls_->compares()) everyone(world_).barrier({.log = CallLog::kNo});
  work_->launch();
  calls_->note_launch();
}

void WorldCapture::launch_together() {
  Device& device = *device_;
  const std::vector<Mark> ready =
      value_or_throw(world_.share_marks(device.record(device.compute())));
  Mark done;
  if (world_.rank() == 0) {
    for (const Mark& mark : ready) device.wait(device.compute(), mark);
    work_->launch();
    done = device.record(device.compute());
  }
  done = value_or_throw(world_.share_marks(done))[0];
  device.wait(device.compute(), done);
}

}  // namespace tessera
