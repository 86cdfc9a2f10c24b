// One zero of time for all processes: exact where they read one clock, by round trips elsewhere.
#include "runtime/mpi/clock.h"

#include <cstdlib>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr std::size_t kLongest = 256;

std::vector<std::string> exchange(const std::string& own) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  REQUIRE(own.size() < kLongest);
  std::vector<char> mine(kLongest), all(kLongest * static_cast<std::size_t>(size));
  own.copy(mine.data(), own.size());
  MPI_Allgather(mine.data(), kLongest, MPI_CHAR, all.data(), kLongest, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += kLongest) texts.emplace_back(&all[at]);
  return texts;
}

/// As if each process ran on a host of its own.
std::vector<std::string> exchange_from_hosts(const std::string& own) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return exchange(own + " host " + std::to_string(rank));
}

struct StartError {
  std::int64_t ns;    ///< what this process takes for rank 0's start, less rank 0's start
  std::int64_t most;  ///< what it may be at most, by its own word
};
/// All processes of this test read one clock.
StartError error_of(const ExchangeTexts& exchange_texts) {
  const auto start = agree_on_start(MPI_COMM_WORLD, exchange_texts);
  REQUIRE(start.ok());
  const std::int64_t own = start->zero.time_since_epoch().count();
  std::int64_t of_rank_0 = own;
  MPI_Bcast(&of_rank_0, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return {own - of_rank_0, start->most_error.count()};
}

}  // namespace

TEST_CASE("processes that read one clock have one zero of time", "[mpi][clock]") {
  const StartError error = error_of(exchange);
  CHECK(error.ns == 0);
  CHECK(error.most == 0);
}

TEST_CASE("round trips find another host's zero of time", "[mpi][clock]") {
  const StartError error = error_of(exchange_from_hosts);
  CAPTURE(error.ns);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CHECK((error.most == 0) == (rank == 0));
  CHECK(std::abs(error.ns) <= error.most + 1);  // ns are cut off
  // A second, where all wait for their turn on few cores.
  CHECK(error.most < 1'000'000'000);
}

}  // namespace tessera
