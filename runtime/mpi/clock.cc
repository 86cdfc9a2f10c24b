#include "runtime/mpi/clock.h"

#include <unistd.h>

#include <array>
#include <cmath>
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

/// Waiting ranks leave the cores to those who ask and answer, see finish().
Status receive(double* value, int count, int rank, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(value, count, MPI_DOUBLE, rank, 0, comm, &request);
  return finish(code, request, "MPI_Irecv");
}
Status send(const double* value, int count, int rank, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Isend(value, count, MPI_DOUBLE, rank, 0, comm, &request);
  return finish(code, request, "MPI_Isend");
}

Status answer_questions(MPI_Comm comm, int rank, Clock::time_point start) {
  for (int i = 0; i < kRoundTrips; ++i) {
    TSR_RETURN_IF_ERROR(receive(nullptr, 0, rank, comm));
    const double since_start = ns_since(start);
    TSR_RETURN_IF_ERROR(send(&since_start, 1, rank, comm));
  }
  return absl::OkStatus();
}

StatusOr<AgreedStart> ask_rank_0(MPI_Comm comm) {
  std::array<ClockSample, kRoundTrips> samples;
  const Clock::time_point base = Clock::now();
  for (ClockSample& sample : samples) {
    sample.asked = ns_since(base);
    TSR_RETURN_IF_ERROR(send(nullptr, 0, 0, comm));
    TSR_RETURN_IF_ERROR(receive(&sample.answer, 1, 0, comm));
    sample.answered = ns_since(base);
  }
  const ClockZero zero = zero_of_other_clock(samples);
  const auto whole = [](double ns) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
  };
  return AgreedStart{base + whole(zero.at), whole(std::ceil(zero.most_error))};
}

}  // namespace

StatusOr<AgreedStart> agree_on_start(MPI_Comm comm, const ExchangeTexts& exchange) {
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
    return AgreedStart{start};
  }
  if (!shares(texts[static_cast<std::size_t>(rank)])) return ask_rank_0(comm);
  return AgreedStart{Clock::time_point(Clock::duration(std::stoll(texts[0])))};
}

}  // namespace tessera
