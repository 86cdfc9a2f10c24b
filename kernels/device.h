// kernels/device.h: where arrays lie and their kernels run. A device has streams, each of which
// does one thing after another, and marks, moments of a stream that others wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

class Allocator;
namespace kernels {
struct KernelTable;
}

struct DeviceId {
  enum class Kind : std::uint8_t { kCpu, kCuda, kEmulated };
  Kind kind = Kind::kCpu;
  int ordinal = 0;
  bool operator==(const DeviceId&) const = default;
};
/// "cpu:0", "cuda:3", "emulated:0".
std::string to_string(DeviceId id);

/// A queue of a device's work. The processor's do at once what they are given.
class Stream {
 public:
  virtual ~Stream() = default;
};

/// A moment of a stream's work. Null: one that has come. A value handle: copies are the same
/// moment.
class Mark {
 public:
  class State {
   public:
    virtual ~State() = default;
  };
  Mark() = default;
  explicit Mark(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Work of a device that was captured, with the memory that it uses, to be done again any number of
/// times. Where several devices were captured together, the first one's does the work of all.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  /// Gives the work to the compute stream once more, without the host's part in it; nothing on a
  /// device that joined another's capture.
  virtual void launch() = 0;
};

/// Thread-safety: a device may be used by many threads; a stream by one at a time.
/// Errors: Internal with the device's name, the call and what it said, where a device fails.
class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceId id() const noexcept { return id_; }
  /// What the functions of kernels:: call for arrays of this device.
  const kernels::KernelTable& kernels() const noexcept { return *kernels_; }

  /// Memory of this device, which it keeps alive. What is released serves the compute stream again,
  /// in its order. Errors of allocate(): ResourceExhausted with the bytes asked for and those free.
  virtual std::shared_ptr<Allocator> make_allocator() = 0;
  /// Memory of the host that this device copies to and from while the host goes on with something
  /// else, kept alive with the device. What is released may be handed out at once: no copy may be
  /// under way any more. A device that pins none has a plain pool, with which copies work too but
  /// make the host wait.
  virtual std::shared_ptr<Allocator> make_pinned_allocator();

  /// Where mathematics goes, and where collectives go beside it.
  virtual Stream& compute() = 0;
  virtual Stream& comm() = 0;
  /// Copies between memory of this device, of its peers and of the host, at the stream's turn.
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;
  /// The same from memory of the host that may be written again, or gone, when this returns.
  virtual void upload(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;
  /// Bytes of 0.
  virtual void clear(void* to, std::size_t bytes, Stream& stream) = 0;
  /// What the stream holds so far.
  virtual Mark record(Stream& stream) = 0;
  /// What is given to `stream` from now on waits for the mark, of whatever device.
  virtual void wait(Stream& stream, const Mark& mark) = 0;
  virtual bool done(const Mark& mark) = 0;
  /// Makes sure that kernels of this device read and write memory of `peer`, of the same kind.
  /// Errors: throws Unimplemented naming both where the machine does not connect them.
  virtual void reach(Device& peer) = 0;
  /// Blocks this thread until the mark has come.
  virtual void synchronize(const Mark& mark) = 0;
  /// Blocks until the compute stream is done, and throws what its kernels found wrong in values
  /// since the last call, such as an index out of range: the first such, as the processor's kernel
  /// has it; until then the device keeps their arrays. The processor's kernels throw at once.
  virtual void raise_faults() = 0;

  /// From now on work given to the streams is kept, not done, and what is allocated stays with it.
  /// Until then nothing may wait for the device: reads of its values throw FailedPrecondition.
  /// `first`: where not null, a mark of another device's capture, which this one joins. Errors:
  /// Unimplemented where a device keeps no work, as the processor.
  virtual void begin_capture(const Mark& first);
  /// After all that both streams were given since; the last mark of the capture.
  virtual Mark close_capture() { return {}; }
  /// Takes in what other devices closed, and ends the capture. One that joined ends after the first
  /// one has. Errors: Internal where work of theirs was left out.
  virtual std::shared_ptr<CapturedWork> end_capture(std::span<const Mark> closed_by_others);
  /// Ends it without a result, after a failure.
  virtual void abandon_capture() noexcept {}
  virtual bool is_capturing() const noexcept { return false; }

 protected:
  Device(DeviceId id, const kernels::KernelTable& kernels) : id_(id), kernels_(&kernels) {}

 private:
  DeviceId id_;
  const kernels::KernelTable* kernels_;
};

/// Whether kernels of `runs` may be given arrays of `holds` as they are: it is that device, or both
/// are the processor, whose work is done at once (shapes_device()). Two devices of one card have
/// streams of their own, so that neither waits for the other.
inline bool takes_arrays_of(const Device& runs, const Device& holds) noexcept {
  constexpr auto kCpu = DeviceId::Kind::kCpu;
  return &runs == &holds || (runs.id().kind == kCpu && holds.id().kind == kCpu);
}

/// FailedPrecondition: the host waits for a device, or reads values of it, whose work is captured.
Status read_while_capturing(const Device& device);

/// The machine's own processor and memory.
Device& cpu_device() noexcept;

}  // namespace tessera
