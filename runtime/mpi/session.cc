#include "runtime/mpi/session.h"

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/mpi/link.h"
#include "runtime/mpi_world.h"

namespace tessera {
namespace {

bool is_initialized() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}
bool is_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

/// OpenMPI's ranks of a host share memory by files in /dev/shm, and where mpirun is killed nobody
/// removes them. Once every rank has mapped them nobody needs their names. Collective: yes.
void unlink_mapped_segments() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find("/dev/shm/vader_segment.");
    if (at != std::string::npos) ::unlink(line.c_str() + at);
  }
}

enum class Owner : std::uint8_t { kCaller, kSession };

class Session final : public MpiSession {
 public:
  explicit Session(Owner owner) : owner_(owner) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // MPICH asks MPI_COMM_WORLD's handler about a request that is over, whatever its communicator.
    if (owner == Owner::kSession) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~Session() override {
    if (owner_ == Owner::kSession && !is_finalized()) MPI_Finalize();
  }
  std::int64_t rank() const noexcept override { return rank_; }
  std::int64_t size() const noexcept override { return size_; }
  void wait_for_all(std::chrono::milliseconds limit) override {
    const auto until = std::chrono::steady_clock::now() + limit;
    MPI_Request request = MPI_REQUEST_NULL;
    int done = MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS;
    while (done == 0 && std::chrono::steady_clock::now() < until) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  Owner owner_;
  int rank_ = 0, size_ = 1;
};

/// UCX, under MPICH, reads a long message out of the sender's memory, and where the sender was
/// killed it ends the reader too: a survivor that could not tell of anything. A job of one host has
/// its messages copied instead; what lies in the allocator of a World never is a message there.
/// Between hosts this stays, for a network card reads the long messages. (Without the transport,
/// UCX_TLS=^cma, MPI_Finalize waits for ever.)
void keep_ucx_from_senders_memory() {
  const char* here = std::getenv("MPI_LOCALNRANKS");
  const char* all = std::getenv("PMI_SIZE");
  if (here == nullptr || all == nullptr || std::string_view(here) != all) return;
  constexpr int kKeepTheirs = 0;
  setenv("UCX_RNDV_THRESH", "inf", kKeepTheirs);
}

}  // namespace

Status check_mpi_is_usable() {
  if (is_finalized()) return failed_precondition("MPI is finalised already");
  if (!is_initialized()) {
    return failed_precondition(
        "MPI is not initialised: call MPI_Init_thread, or start an MpiSession, first");
  }
  int level = MPI_THREAD_SINGLE, is_main = 0;
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&is_main);
  if (level == MPI_THREAD_SINGLE) {
    return failed_precondition(
        "MPI was initialised with MPI_THREAD_SINGLE, but a thread of ours serves the control "
        "channel (it never calls MPI): call MPI_Init_thread with MPI_THREAD_FUNNELED or above");
  }
  if (level == MPI_THREAD_FUNNELED && is_main == 0) {
    return failed_precondition(
        "MPI was initialised with MPI_THREAD_FUNNELED by another thread: make the World there, or "
        "call MPI_Init_thread with MPI_THREAD_SERIALIZED or above");
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<MpiSession>> MpiSession::start() {
  if (is_finalized()) return failed_precondition("MPI is finalised already");
  Owner owner = Owner::kCaller;
  if (!is_initialized()) {
    keep_ucx_from_senders_memory();
    int level = MPI_THREAD_SINGLE;
    TSR_RETURN_IF_ERROR(check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level),
                                  "MPI_Init_thread"));
    owner = Owner::kSession;
    unlink_mapped_segments();
  }
  TSR_RETURN_IF_ERROR(check_mpi_is_usable());
  return std::unique_ptr<MpiSession>(std::make_unique<Session>(owner));
}

}  // namespace tessera
