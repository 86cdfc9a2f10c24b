// A small job of two ranks that ends otherwise than by returning from its body, or whose process
// divides itself. Prints "sum S" where it goes on to the end.
//   ending_run BACKEND ENDING
// BACKEND: threads|mpi.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "dtensor/dtensor.h"
#include "dtensor/ops.h"
#include "runtime/mpi_world.h"

namespace tessera {
namespace {

constexpr int kOwnCode = 7;

/// Σ over the ranks of (rank + 1) by one call, as a DTensor.
DTensor summed(Runtime& runtime) {
  const Shape shape = {runtime.world().size()};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(shape), {"dp"}));
  const std::vector<double> own = {static_cast<double>(runtime.rank() + 1)};
  const DTensor local = plain(runtime, Array::from_values({1}, DType::kF64, own));
  return redistribute(from_local(local, mesh, Placements{Partial{}}, {1}), Placements{Replicate{}});
}

double sum_of_ranks(World& world) {
  Runtime runtime(world);
  return item(summed(runtime));
}

/// A child of this process that computes a little and ends by `end`; its exit code.
template <class End>
int child_code(End end) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Array values = Array::from_values({3}, DType::kF64, std::vector<double>{1, 2, 3});
    if (values.to_vector()[2] != 3) ::_exit(1);
    end();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void expect_code(int code) {
  if (code == kOwnCode) return;
  throw Error(internal_error("the child's exit code is " + std::to_string(code)));
}

/// What a rank does between two sums.
void divide(std::string_view ending) {
  if (ending == "fork") expect_code(child_code([] { ::_exit(kOwnCode); }));
  if (ending == "fork_exit") expect_code(child_code([] { std::exit(kOwnCode); }));
  if (ending == "exec") {
    expect_code(child_code([] { ::execl("/bin/sh", "sh", "-c", "exit 7", nullptr); }));
  }
}

void run_rank(World& world, std::string_view ending) {
  double sum = sum_of_ranks(world);
  divide(ending);
  if (ending == "exit_pending" && world.rank() == 1) {
    // The other rank waits in its call by then, or comes to it while this one ends.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::exit(kOwnCode);
  }
  if (ending == "drop_pending") {
    // A call in flight that nobody waits for.
    Runtime runtime(world);
    const Array array = Array::zeros({1 << 16}, DType::kF32, world.allocator());
    everyone(world).all_reduce_async(array, array, ReduceOp::kSum);
    return;
  }
  sum += sum_of_ranks(world);
  if (world.rank() == 0) std::printf("sum %g\n", sum);
}

Status run_body(std::string_view backend, const std::function<void(World&)>& body) {
  const WorldOptions options{.timeout = std::chrono::milliseconds(30'000), .threads_per_rank = 1};
  if (backend == "threads") return run_ranks(2, options, body);
  return run_mpi_rank({.world = options}, body);
}

/// Destroyed from the last to the first.
struct Statics {
  std::unique_ptr<MpiSession> session;
  std::unique_ptr<World> world;
  std::optional<Runtime> runtime;
  DTensor tensor;
};

std::unique_ptr<World> make_world(std::string_view backend) {
  if (backend == "threads") return make_single_world();
  return value_or_throw(make_mpi_world());
}

/// Uses the statics of the library after main() has returned.
struct LateUser {
  ~LateUser() {
    const Array late = Array::from_values({2}, DType::kF64, std::vector<double>{4, 5});
    std::printf("late %g\n", late.to_vector()[1]);
    std::fflush(stdout);
  }
};

/// Two orders of static objects; sessions and Worlds go as they may.
int end_by_statics(std::string_view backend, std::string_view ending) {
  static LateUser late;
  if (ending == "static") {
    static Statics all;
    if (backend == "mpi") all.session = value_or_throw(MpiSession::start());
    all.world = make_world(backend);
    all.runtime.emplace(*all.world);
    all.tensor = summed(*all.runtime);
    std::printf("sum %g\n", item(all.tensor));
    return 0;
  }
  // The World goes after the session that it was made in, an array of its after both.
  static Array array;
  static std::unique_ptr<World> world;
  static std::unique_ptr<MpiSession> session;
  if (backend == "mpi") session = value_or_throw(MpiSession::start());
  world = make_world(backend);
  Runtime runtime(*world);
  const DTensor tensor = summed(runtime);
  array = tensor.local();
  std::printf("sum %g\n", item(tensor));
  return 0;
}

int run(std::string_view backend, std::string_view ending) {
  if (ending.starts_with("static")) return end_by_statics(backend, ending);
  std::unique_ptr<MpiSession> session, again;
  if (backend == "mpi") session = value_or_throw(MpiSession::start());
  if (ending == "twice" && backend == "mpi") again = value_or_throw(MpiSession::start());
  const auto body = [&](World& world) { run_rank(world, ending); };
  Status status = run_body(backend, body);
  if (ending == "twice" && status.ok()) status = run_body(backend, body);
  if (ending == "exit") std::exit(status.ok() ? kOwnCode : 1);  // the session is not ended
  if (ending == "quick_exit") std::quick_exit(status.ok() ? kOwnCode : 1);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(message_of(status)).c_str());
  if (session) session->abort(1);
  return 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return tessera::run(argv[1], argv[2]);
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
