#include "runtime/threads_world.h"

#include <omp.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>

namespace tessera {
namespace {

void run_rank(const std::shared_ptr<ThreadsHub>& hub, std::int64_t rank, int threads,
              const std::function<void(World&)>& body) {
  try {
    ThreadsWorld world(hub, rank, threads);
    body(world);
    world.finish();
  } catch (...) {
    hub->poison(rank, status_of(std::current_exception()));
  }
  hub->leave(rank);
}

}  // namespace

ThreadsWorld::ThreadsWorld(const std::shared_ptr<ThreadsHub>& hub, std::int64_t rank,
                           int threads_per_rank)
    : hub_(hub), rank_(hub, rank, events()), threads_per_rank_(threads_per_rank) {
  omp_set_num_threads(threads_per_rank);
}

StatusOr<Communicator*> ThreadsWorld::group(std::span<const std::int64_t> ranks) {
  if (const auto known = groups_.find(ranks); known != groups_.end()) return known->second.get();
  TSR_RETURN_IF_ERROR(check_group(ranks));
  std::vector<std::int64_t> key(ranks.begin(), ranks.end());
  const auto group_rank = static_cast<int>(std::find(key.begin(), key.end(), rank()) - key.begin());
  auto made = std::make_unique<ThreadsCommunicator>(rank_, hub_->group(key), group_rank);
  return groups_.emplace(std::move(key), std::move(made)).first->second.get();
}

std::unique_ptr<World> make_single_world(const WorldOptions& options) {
  auto hub = std::make_shared<ThreadsHub>(1, options.timeout);
  return std::make_unique<ThreadsWorld>(hub, 0, library_threads(options.threads_per_rank, 1));
}

Status run_ranks(int num_ranks, const WorldOptions& options,
                 const std::function<void(World&)>& body) {
  if (num_ranks < 1) {
    return invalid_argument("run_ranks: " + std::to_string(num_ranks) +
                            " ranks; allowed: 1 or more");
  }
  auto hub = std::make_shared<ThreadsHub>(num_ranks, options.timeout);
  const int library = library_threads(options.threads_per_rank, num_ranks);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    try {
      threads.emplace_back(run_rank, std::cref(hub), rank, library, std::cref(body));
    } catch (const std::system_error& error) {
      hub->poison(rank, absl::ResourceExhaustedError(
                            to_absl(std::string("cannot start its thread: ") + error.what())));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  return hub->first_failure();
}

}  // namespace tessera
