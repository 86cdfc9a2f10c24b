// runtime/mpi_world.h: a rank's World on the MPI backend: ranks are processes started by mpirun (or
// by anything else that gives an MPI communicator). No MPI header is needed to use it:
// communicators come as Fortran handles, MPI_Comm_c2f(comm).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "placement/api.h"
#include "runtime/control/channel.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Whether the arrays of this rank's World lie where other ranks of its host can read them, and
/// long ones are read there; else all data go in messages. Off too where the environment says
/// TESSERA_MPI_PEER_MEMORY=off. Ranks may differ: those that are off send and get messages.
enum class PeerMemory : std::uint8_t { kOff, kOn };

/// Whether messages go from and to the memory of devices where a call's arrays lie there; else they
/// go through pinned memory of the host. kAuto: what TESSERA_MPI_DEVICE_POINTERS in the environment
/// says (auto, on or off), and where that is auto or unset, whether the MPI library says that it
/// takes pointers of CUDA. On where every rank says on.
enum class DevicePointers : std::uint8_t { kAuto, kOff, kOn };

struct MpiOptions {
  /// MPI_Comm_c2f of your communicator; none: MPI_COMM_WORLD. It is duplicated, and never freed.
  std::optional<int> comm = std::nullopt;
  WorldOptions world = {};
  ControlOptions control = {};
  /// Longer messages go in pieces of at most so many elements (MPI counts are 32 bits).
  std::int64_t max_message_elements = std::int64_t{1} << 30;
  PeerMemory peer_memory = PeerMemory::kOn;
  DevicePointers device_pointers = DevicePointers::kAuto;
  /// Called once on each rank that is still there, with the job's first failure. No rank's run ends
  /// before all have returned from it (those that do not answer excepted, and 10 s at most), so
  /// that what is said here is not cut off by the first that calls MpiSession::abort(). Must not
  /// throw.
  std::function<void(const Status&)> on_failure = nullptr;
};

/// MPI for a program that does not initialise it itself. Where the caller has, it is left alone.
class MpiSession {
 public:
  /// Errors: Unimplemented in a build without MPI (the text says how to build it);
  /// FailedPrecondition where MPI lets only one thread exist or is finalised already.
  static StatusOr<std::unique_ptr<MpiSession>> start();
  virtual ~MpiSession() = default;  ///< finalises MPI where it has initialised it
  virtual std::int64_t rank() const noexcept = 0;
  virtual std::int64_t size() const noexcept = 0;
  /// Waits until all processes of the job have called this, at most `limit`; for a program that
  /// ends by abort() where no World was made. Collective: yes.
  virtual void wait_for_all(std::chrono::milliseconds limit) = 0;
  /// Ends the whole job: after a failure MPI cannot be finalised, because ranks may be dead.
  /// Does not return.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

/// Collective: yes, over the communicator. MPI is initialised, by the caller or by an MpiSession.
/// Errors: Unimplemented, FailedPrecondition as above, or where FUNNELED threads are asked from
/// another thread than the one that initialised MPI; InvalidArgument on all ranks where one has
/// another TESSERA_MPI_DEVICE_POINTERS than is allowed; Unavailable where the control channel
/// cannot be opened.
StatusOr<std::unique_ptr<World>> make_mpi_world(const MpiOptions& options = {});

/// Runs `body` as this process's rank, like run_ranks of the threads backend: a rank that throws
/// poisons the others. Returns the first error of any rank ("rank 3: …"), or OK.
Status run_mpi_rank(const MpiOptions& options, const std::function<void(World&)>& body);

}  // namespace tessera
