#include "runtime/mpi/clock.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/clock_offset.h"
#include "runtime/environment.h"
#include "runtime/mpi/link.h"

namespace tessera {
namespace {

using Clock = RankClock;
constexpr int kRoundTrips = 32;

/// Equal for processes that read one clock; empty where that cannot be told.
std::string identity_of_clock() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64];
  const ssize_t length = ::readlink("/proc/self/ns/time", space, sizeof space);
  // A kernel without time namespaces has one clock.
  if (!boot.empty() && length > 0) boot.append("/").append(space, static_cast<std::size_t>(length));
  return boot;
}

double ns_since(Clock::time_point base) {
  return std::chrono::duration<double, std::nano>(Clock::now() - base).count();
}

Status answer_questions(MPI_Comm comm, int rank, Clock::time_point start) {
  for (int i = 0; i < kRoundTrips; ++i) {
    TSR_RETURN_IF_ERROR(
        check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv"));
    const double since_start = ns_since(start);
    TSR_RETURN_IF_ERROR(
        check_mpi(MPI_Send(&since_start, 1, MPI_DOUBLE, rank, 0, comm), "MPI_Send"));
  }
  return absl::OkStatus();
}

StatusOr<Clock::time_point> ask_rank_0(MPI_Comm comm) {
  std::array<ClockSample, kRoundTrips> samples;
  const Clock::time_point base = Clock::now();
  for (ClockSample& sample : samples) {
    sample.asked = ns_since(base);
    TSR_RETURN_IF_ERROR(check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, comm), "MPI_Send"));
    TSR_RETURN_IF_ERROR(check_mpi(
        MPI_Recv(&sample.answer, 1, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv"));
    sample.answered = ns_since(base);
  }
  return base + std::chrono::nanoseconds(static_cast<std::int64_t>(zero_of_other_clock(samples)));
}

}  // namespace

StatusOr<Clock::time_point> agree_on_start(MPI_Comm comm, const ExchangeTexts& exchange) {
  const Clock::time_point start = Clock::now();
  const std::string clock = identity_of_clock();
  const std::vector<std::string> texts =
      exchange(std::to_string(start.time_since_epoch().count()) + " " + clock);
  const auto clock_of = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  const auto shares = [&](const std::string& text) {
    return clock_of(text) == clock_of(texts[0]) && !clock_of(text).empty();
  };
  int rank = 0;
  TSR_RETURN_IF_ERROR(check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  if (rank == 0) {
    for (int other = 1; other < std::ssize(texts); ++other) {
      if (shares(texts[static_cast<std::size_t>(other)])) continue;
      TSR_RETURN_IF_ERROR(answer_questions(comm, other, start));
    }
    return start;
  }
  if (!shares(texts[static_cast<std::size_t>(rank)])) return ask_rank_0(comm);
  return Clock::time_point(Clock::duration(std::stoll(texts[0])));
}

}  // namespace tessera
