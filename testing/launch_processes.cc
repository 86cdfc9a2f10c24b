// Ranks as processes. All processes run the same test cases; ranks 0 … n − 1 of MPI_COMM_WORLD form
// a world of n, the others wait. Waiting here sleeps, so that the ranks at work have the cores.
#include "testing/launch_processes.h"

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "runtime/mpi_world.h"
#include "testing/program.h"

namespace tessera::testing {
namespace {

/// mpirun -n of all launches of this program, ascending: each runs the worlds that fit into it and
/// into none before it. Empty for one by hand, which runs all that fits.
std::vector<std::int64_t> launches() {
  const char* const list = std::getenv("TESSERA_LAUNCHES");
  std::istringstream words(list == nullptr ? "" : list);
  std::vector<std::int64_t> sizes;
  for (std::string word; std::getline(words, word, ',');) sizes.push_back(std::stoll(word));
  return sizes;
}

void wait_for(MPI_Request& request) {
  long nanoseconds = 20'000;
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    const timespec pause{0, nanoseconds};
    nanosleep(&pause, nullptr);
    nanoseconds = std::min(nanoseconds * 2, 2'000'000L);
  }
}

/// The processes of this mpirun.
class Processes {
 public:
  static Processes& all() {
    static Processes processes;  // main thread only
    return processes;
  }
  std::int64_t rank() const noexcept { return rank_; }
  std::int64_t size() const noexcept { return size_; }
  void note_run(std::int64_t num_ranks) { run_.insert(num_ranks); }
  void note_left(std::int64_t num_ranks) { left_.insert(num_ranks); }
  /// "worlds of 1 2 ranks run here; left to others: 3 4".
  std::string worlds() const {
    std::string text = "worlds of";
    for (const std::int64_t size : run_) text += " " + std::to_string(size);
    text += " ranks run here; left to others:";
    for (const std::int64_t size : left_) text += " " + std::to_string(size);
    return text;
  }

  /// The first `num_ranks` processes. Collective over all, the first time.
  MPI_Comm first(int num_ranks) {
    const auto found = worlds_.find(num_ranks);
    if (found != worlds_.end()) return found->second;
    MPI_Comm world = MPI_COMM_NULL;
    MPI_Comm_split(everyone_, rank_ < num_ranks ? 0 : MPI_UNDEFINED, 0, &world);
    return worlds_[num_ranks] = world;
  }

  /// Every process' text, by rank. Collective.
  std::vector<std::string> exchange(const std::string& own) {
    const auto length = static_cast<int>(own.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_)), starts = lengths;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, everyone_, &request);
    wait_for(request);
    int total = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      starts[i] = total;
      total += lengths[i];
    }
    std::string joined(static_cast<std::size_t>(total), '\0');
    MPI_Iallgatherv(own.data(), length, MPI_CHAR, joined.data(), lengths.data(), starts.data(),
                    MPI_CHAR, everyone_, &request);
    wait_for(request);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      texts.push_back(
          joined.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
    }
    return texts;
  }

 private:
  Processes() {
    MPI_Comm_dup(MPI_COMM_WORLD, &everyone_);
    int rank = 0, size = 0;
    MPI_Comm_rank(everyone_, &rank);
    MPI_Comm_size(everyone_, &size);
    rank_ = rank;
    size_ = size;
  }

  MPI_Comm everyone_ = MPI_COMM_NULL;
  std::map<int, MPI_Comm> worlds_;
  std::int64_t rank_ = 0, size_ = 0;
  std::set<std::int64_t> run_, left_;
};

Account run_here(int num_ranks, MPI_Comm comm, const WorldOptions& options, const RankBody& body) {
  MpiOptions mpi;
  mpi.comm = MPI_Comm_c2f(comm);
  mpi.world = options;
  mpi.world.checks = CallChecks::kOn;
  if (num_ranks > 1 && mpi.world.threads_per_rank == 0) mpi.world.threads_per_rank = 1;
  Account account;
  const auto start = std::chrono::steady_clock::now();
  account.first = run_mpi_rank(mpi, [&](World& world) { body(world, account.report); });
  account.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return account;
}

int run_program(int argc, char** argv) {
  const StatusOr<std::unique_ptr<MpiSession>> session = MpiSession::start();
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", std::string(message_of(session.status())).c_str());
    return 1;
  }
  Processes& processes = Processes::all();
  int failed = run_tests(argc, argv);
  for (const std::string& each : processes.exchange(encode(failed))) {
    failed = std::max(failed, decode<int>(each));
  }
  if (processes.rank() == 0) {
    std::printf("%lld processes; %s\n", static_cast<long long>(processes.size()),
                processes.worlds().c_str());
  }
  return failed;
}

}  // namespace

Backend backend() noexcept { return Backend::kProcesses; }

bool runs_here(std::int64_t num_ranks) {
  Processes& processes = Processes::all();
  static const std::vector<std::int64_t> all = launches();
  const auto launch = std::lower_bound(all.begin(), all.end(), num_ranks);
  const bool here =
      num_ranks == 1 || (all.empty() ? num_ranks <= processes.size()
                                     : launch != all.end() && *launch == processes.size());
  if (here) {
    processes.note_run(num_ranks);
  } else {
    processes.note_left(num_ranks);
  }
  return here;
}

Launched launch_processes(int num_ranks, const WorldOptions& options, const RankBody& body) {
  if (!runs_here(num_ranks)) end_case();
  Processes& processes = Processes::all();
  const MPI_Comm comm = processes.first(num_ranks);
  Account own;
  if (comm != MPI_COMM_NULL) own = run_here(num_ranks, comm, options, body);
  const std::vector<std::string> texts = processes.exchange(encode(own));
  Launched launched;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(num_ranks); ++rank) {
    add_account(launched, decode<Account>(texts[rank]));
  }
  return launched;
}

}  // namespace tessera::testing

int main(int argc, char** argv) { return tessera::testing::run_program(argc, argv); }
