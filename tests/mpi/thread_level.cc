// A program that starts MPI for one thread only, and one that does not start it at all: a World is
// refused with the remedy, and the program goes on.
#include <mpi.h>

#include <cstdio>
#include <string>

#include "runtime/mpi_world.h"

namespace {

bool refused_with(const tessera::Status& status, const char* remedy) {
  std::printf("%s\n", status.ToString().c_str());
  return status.code() == absl::StatusCode::kFailedPrecondition &&
         std::string(tessera::message_of(status)).find(remedy) != std::string::npos;
}

}  // namespace

int main() {
  bool right = refused_with(tessera::make_mpi_world().status(), "MPI is not initialised");
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SINGLE, &level);
  // Some MPIs always give more than was asked for.
  if (level == MPI_THREAD_SINGLE) {
    right = refused_with(tessera::make_mpi_world().status(), "MPI_THREAD_FUNNELED") && right;
    right = refused_with(tessera::MpiSession::start().status(), "MPI_THREAD_FUNNELED") && right;
  }
  MPI_Finalize();
  right = refused_with(tessera::make_mpi_world().status(), "MPI is finalised already") && right;
  right = refused_with(tessera::MpiSession::start().status(), "MPI is finalised already") && right;
  return right ? 0 : 1;
}
