// Calls on arrays of emulated devices whose messages go from and to the devices' memory: the bits
// of calls that are staged, and what is refused.
#include <mpi.h>

#include <cstdlib>

#include "kernels/cuda_device.h"
#include "runtime/mpi_world.h"
#include "tests/mpi/moves.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::moves_on;
using testing::on_all;
using testing::on_world;
using testing::part_of;
using testing::plan_of;
using Bytes = std::vector<std::byte>;

constexpr const char* kVariable = "TESSERA_MPI_DEVICE_POINTERS";

int num_processes() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int own_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

Bytes bytes_here(const Array& array) {
  if (array.is_null()) return {};
  const Array host = to_host(array);
  return Bytes(host.bytes(), host.bytes() + host.num_bytes());
}

/// What one rank has of a run, and how its calls went.
struct Ran {
  Status status;
  std::vector<Bytes> results;
  std::vector<DevicePath> paths;

  bool went(DevicePath path) const { return std::ranges::count(paths, path) > 0; }
  bool went_only(DevicePath path) const {
    return !paths.empty() && std::ranges::count(paths, path) == std::ssize(paths);
  }
};
using Results = std::vector<Array>;
using Body = std::function<void(World&, Results&)>;

std::shared_ptr<Allocator> on_device_of(std::int64_t rank) {
  return value_or_throw(make_emulated_device(static_cast<int>(rank % 8)))->make_allocator();
}
MpiOptions options_of(DevicePointers pointers) {
  MpiOptions options{.world = {.threads_per_rank = 1}, .device_pointers = pointers};
  options.world.allocator = on_device_of;
  return options;
}

Ran run(const MpiOptions& options, const Body& body) {
  Ran ran;
  ran.status = run_mpi_rank(options, [&](World& world) {
    Results results;
    body(world, results);
    for (const Array& each : results) ran.results.push_back(bytes_here(each));
    for (const Event& event : world.events().events()) {
      if (event.kind == Event::Kind::kCollective) ran.paths.push_back(event.device_path);
    }
  });
  return ran;
}

/// Its own on each rank.
Array values(World& world, const Shape& shape, DType dtype) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    numbers.push_back(1.0 / static_cast<double>(1 + (i * 7 + world.rank() * 131) % 509));
  }
  return on_world(world, Array::from_values(shape, dtype, numbers));
}
Array room(World& world, const Shape& shape, DType dtype) {
  return Array::zeros(shape, dtype, world.allocator());
}

/// Every kind of call, with rows of so many elements.
void all_kinds(World& world, Results& results, std::int64_t width, DType dtype) {
  Communicator& group = everyone(world);
  const std::int64_t size = world.size(), rank = world.rank();
  const auto next = static_cast<int>((rank + 1) % size);
  const auto previous = static_cast<int>((rank + size - 1) % size);
  std::vector<std::int64_t> rows, to, from;  // of rank i: i rows, so the first has none
  for (std::int64_t i = 0; i < size; ++i) {
    rows.push_back(i);
    to.push_back((rank + i) % 3);
    from.push_back((i + rank) % 3);
  }
  const auto sum = [](const std::vector<std::int64_t>& all) {
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  };
  const Array reduced = values(world, {3, width}, dtype);
  group.all_reduce(reduced, reduced, ReduceOp::kSum);
  const Array averaged = room(world, {width}, dtype);
  group.all_reduce(values(world, {width}, dtype), averaged, ReduceOp::kAvg);
  const Array gathered = room(world, {sum(rows), width}, dtype);
  group.all_gather(values(world, {rank, width}, dtype), gathered, rows);
  const Array scattered = room(world, {rank, width}, dtype);
  group.reduce_scatter(values(world, {sum(rows), width}, dtype), scattered, ReduceOp::kSum, rows);
  const Array exchanged = room(world, {sum(from), width}, dtype);
  group.all_to_all(values(world, {sum(to), width}, dtype), exchanged, to, from);
  const Array told = values(world, {width}, dtype);
  group.broadcast(told, static_cast<int>(size - 1));
  const Array received = room(world, {width}, dtype);
  const auto sending = group.send_async(values(world, {width}, dtype), next);
  group.recv(received, previous);
  sending->wait();
  for (const Array& each : {reduced, averaged, gathered, scattered, exchanged, told, received}) {
    results.push_back(each);
  }
}

/// Reductions whose summands take more than the buffers that they may have.
void large_folds(World& world, Results& results, DType dtype) {
  const Array whole = values(world, {10'007}, dtype);
  const CollectiveCall all_reduce{.of =
                                      AllReduceCall{.in = whole, .out = whole, .pack_bytes = 3000}};
  results.push_back(whole);
  std::vector<std::int64_t> rows;  // of rank i: 40 i, so the first has none
  for (std::int64_t i = 0; i < world.size(); ++i) rows.push_back(40 * i);
  const std::int64_t all_rows = 20 * world.size() * (world.size() - 1);
  const CollectiveCall scatter{
      .of = ReduceScatterCall{.in = values(world, {all_rows, 21}, dtype),
                              .out = room(world, {40 * world.rank(), 21}, dtype),
                              .reduce = ReduceOp::kAvg,
                              .rows = rows,
                              .pack_bytes = 1000}};
  results.push_back(scatter.out());
  for (const CollectiveCall& call : {all_reduce, scatter}) everyone(world).start(call, {})->wait();
}

/// Every kind of redistribution alone, and all together.
void all_moves(World& world, Results& results, DType dtype, std::int64_t cap) {
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  for (const testing::Move& move : moves_on(world.size())) {
    for (const Shape& shape : {Shape{5, 3}, Shape{37, 53}, Shape{130, 129}}) {
      const Plan plan = plan_of(move, shape, dtype, cap);
      programs.emplace_back(world, plan);
      locals.push_back(on_world(world, part_of(plan.src, world.rank(), plain_allocator())));
      results.push_back(execute(world, programs.back(), locals.back()));
    }
  }
  for (const Array& each : execute_all(world, programs, locals)) results.push_back(each);
}

void check_same(const Ran& direct, const Ran& staged) {
  CAPTURE(direct.status.ToString(), staged.status.ToString());
  CHECK(on_all(direct.status.ok() && staged.status.ok()));
  CHECK(on_all(!direct.results.empty() && direct.results == staged.results));
}

}  // namespace

TEST_CASE("messages from a device's memory bring the bits of staged ones", "[mpi][direct]") {
  const PeerMemory peers = GENERATE(PeerMemory::kOn, PeerMemory::kOff);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const Body body = [&](World& world, Results& results) {
    for (const std::int64_t width : {1, 37, 4001}) all_kinds(world, results, width, dtype);
    const Array large = values(world, {1'100'000}, dtype);  // of which slices are spread
    everyone(world).broadcast(large, 0);
    results.push_back(large);
    large_folds(world, results, dtype);
    all_moves(world, results, dtype, std::int64_t{64} << 20);
  };
  MpiOptions options = options_of(DevicePointers::kOn);
  options.peer_memory = peers;
  const Ran direct = run(options, body);
  options.device_pointers = DevicePointers::kOff;
  const Ran staged = run(options, body);
  check_same(direct, staged);
  CHECK(on_all(direct.went_only(DevicePath::kDirect)));
  CHECK(on_all(staged.went_only(DevicePath::kStaged)));
}

TEST_CASE("messages from a device's memory go in pieces", "[mpi][direct]") {
  const Body body = [&](World& world, Results& results) {
    all_kinds(world, results, 700, DType::kF32);
    large_folds(world, results, DType::kF32);
    all_moves(world, results, DType::kF32, 2'000'000);
  };
  MpiOptions options = options_of(DevicePointers::kOn);
  options.max_message_elements = 999;
  const Ran direct = run(options, body);
  check_same(direct, run(options_of(DevicePointers::kOff), body));
  CHECK(on_all(direct.went_only(DevicePath::kDirect)));
}

TEST_CASE("an exchange beyond its cap is staged, on those ranks where it is", "[mpi][direct]") {
  const std::int64_t least = least_pack_bytes(num_processes());
  const std::int64_t cap = GENERATE_COPY(as<std::int64_t>{}, least, 20'000);
  const Body body = [&](World& world, Results& results) {
    all_moves(world, results, DType::kF32, cap);
  };
  const Ran direct = run(options_of(DevicePointers::kOn), body);
  check_same(direct, run(options_of(DevicePointers::kOff), body));
  CHECK(on_all(direct.went(DevicePath::kDirect)));
  CHECK(on_all(direct.went(DevicePath::kStaged)));
}

TEST_CASE("a rank whose arrays lie on the host meets messages from devices", "[mpi][direct]") {
  const PeerMemory peers = GENERATE(PeerMemory::kOn, PeerMemory::kOff);
  const Body body = [&](World& world, Results& results) {
    for (const std::int64_t width : {37, 4001}) all_kinds(world, results, width, DType::kF32);
    large_folds(world, results, DType::kF32);
    all_moves(world, results, DType::kF32, std::int64_t{64} << 20);
  };
  MpiOptions options = options_of(DevicePointers::kOn);
  options.peer_memory = peers;
  options.world.allocator = [](std::int64_t rank) {
    return rank == 1 ? nullptr : on_device_of(rank);
  };
  check_same(run(options, body), run(options_of(DevicePointers::kOff), body));
}

TEST_CASE("calls from a device's memory may be in flight together", "[mpi][direct]") {
  std::string wrong;
  const Status status = run_mpi_rank(options_of(DevicePointers::kOn), [&](World& world) {
    const auto size = static_cast<double>(world.size());
    std::vector<Array> arrays;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 20; ++i) {
      const std::vector<double> ones(static_cast<std::size_t>(1 + i * 300), 1);
      arrays.push_back(on_world(world, Array::from_values({std::ssize(ones)}, DType::kF32, ones)));
      works.push_back(everyone(world).all_reduce_async(arrays[i], arrays[i], ReduceOp::kSum));
    }
    for (int i = 20; i-- > 0;) {
      works[i]->wait();
      const std::vector<double> here = testing::values_here(arrays[i]);
      if (here != std::vector<double>(here.size(), size)) wrong += std::to_string(i) + " ";
    }
  });
  CAPTURE(wrong, status.ToString());
  CHECK(on_all(status.ok() && wrong.empty()));
}

TEST_CASE("a variable that says neither auto, on nor off ends the start on every rank",
          "[mpi][direct][errors]") {
  if (own_rank() == 1) setenv(kVariable, "yes\033[31m", 1);
  const Status status = run_mpi_rank({}, [](World&) {});
  unsetenv(kVariable);
  CAPTURE(status.ToString());
  CHECK(on_all(status.code() == absl::StatusCode::kInvalidArgument));
  CHECK(on_all(testing::contains(status,
                                 "rank 1: TESSERA_MPI_DEVICE_POINTERS is \"yes\\x1b[31m\"; "
                                 "allowed: auto, on, off")));
}

TEST_CASE("the variable counts where the program does not say, and all ranks have to agree",
          "[mpi][direct]") {
  const Body body = [](World& world, Results& results) {
    results.push_back(values(world, {5}, DType::kF32));
    everyone(world).all_reduce(results[0], results[0], ReduceOp::kSum);
  };
  setenv(kVariable, "on", 1);
  CHECK(on_all(run(options_of(DevicePointers::kAuto), body).went_only(DevicePath::kDirect)));
  CHECK(on_all(run(options_of(DevicePointers::kOff), body).went_only(DevicePath::kStaged)));
  if (own_rank() == 1) setenv(kVariable, "off", 1);
  CHECK(on_all(run(options_of(DevicePointers::kAuto), body).went_only(DevicePath::kStaged)));
  CHECK(on_all(run(options_of(DevicePointers::kOn), body).went_only(DevicePath::kDirect)));
  unsetenv(kVariable);
}

TEST_CASE("a direct call that differs from another's is an error, with checks and without",
          "[mpi][direct][errors]") {
  const CallChecks checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const std::int64_t width = GENERATE(10, 10'000);
  MpiOptions options = options_of(DevicePointers::kOn);
  options.world.checks = checks;
  const Ran ran = run(options, [&](World& world, Results& results) {
    results.push_back(values(world, {width + (world.rank() == 1 ? 1 : 0)}, DType::kF32));
    everyone(world).all_reduce(results[0], results[0], ReduceOp::kSum);
  });
  CAPTURE(ran.status.ToString());
  CHECK(on_all(testing::contains(ran.status, checks == CallChecks::kOn
                                                 ? "collective mismatch (shape)"
                                                 : "(run with checks on to see both")));
}

}  // namespace tessera
