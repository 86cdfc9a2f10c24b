// Arrays that other processes of the host read in place, and the same moves where they cannot.
#include <mpi.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/memory_use.h"
#include "runtime/mpi/shared_segment.h"
#include "runtime/mpi_world.h"
#include "runtime/plan/execute.h"
#include "tests/mpi/moves.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::Move;
using testing::moves_on;
using testing::on_all;
using testing::part_of;
using testing::plan_of;

using Bytes = std::vector<std::byte>;

int num_processes() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

Bytes bytes_of(const Array& array) {
  if (array.is_null()) return {};
  return Bytes(array.bytes(), array.bytes() + array.num_bytes());
}

/// What rank threads make of the same plans, by rank and plan.
std::vector<std::vector<Bytes>> on_threads(const std::vector<Plan>& plans) {
  std::vector<std::vector<Bytes>> results(static_cast<std::size_t>(num_processes()));
  throw_if_error(run_ranks(num_processes(), {.threads_per_rank = 1}, [&](World& world) {
    for (const Plan& each : plans) {
      results[static_cast<std::size_t>(world.rank())].push_back(
          bytes_of(execute(world, each, part_of(each.src, world.rank(), world.allocator()))));
    }
  }));
  return results;
}

enum class Memory : std::uint8_t { kWorlds, kUsers, kUsersOnOddRanks };

std::string wrong_plans(World& world, const std::vector<Plan>& plans, Memory memory) {
  const auto expected = on_threads(plans)[static_cast<std::size_t>(world.rank())];
  const bool own =
      memory == Memory::kUsers || (memory == Memory::kUsersOnOddRanks && world.rank() % 2 == 1);
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  std::string wrong;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    programs.emplace_back(world, plans[i]);
    locals.push_back(
        part_of(plans[i].src, world.rank(), own ? plain_allocator() : world.allocator()));
    if (bytes_of(execute(world, programs[i], locals[i])) != expected[i]) {
      wrong += plans[i].src.to_string() + " to " + plans[i].dst.to_string() + "; ";
    }
  }
  const std::vector<Array> together = execute_all(world, programs, locals);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (bytes_of(together[i]) != expected[i]) wrong += "bucket " + std::to_string(i) + "; ";
  }
  return wrong;
}

struct Buffers {
  std::int64_t most_bytes = 0;
};
/// Memory that one move took beside its arrays.
Buffers buffers_of(World& world, const Plan& plan) {
  const Array local = part_of(plan.src, world.rank(), world.allocator());
  everyone(world).barrier();
  const Array result = execute(world, plan, local);
  const MemoryUse use = memory_use_of(*world.allocator());
  return {use.peak_bytes - use.used_bytes};
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += !entry.path().empty();
  return count;
}
std::size_t mapped_segments() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:tessera") != std::string::npos;
  }
  return count;
}

}  // namespace

TEST_CASE("moves have the bits of rank threads wherever the arrays lie", "[mpi][in_place]") {
  const PeerMemory peers = GENERATE(PeerMemory::kOn, PeerMemory::kOff);
  const Memory memory = GENERATE(Memory::kWorlds, Memory::kUsers, Memory::kUsersOnOddRanks);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  for (const std::int64_t cap : {least_pack_bytes(num_processes()), std::int64_t{64} << 20}) {
    std::vector<Plan> plans;
    for (const Move& move : moves_on(num_processes())) {
      for (const Shape& shape : {Shape{5, 3}, Shape{37, 53}, Shape{260, 257}}) {
        plans.push_back(plan_of(move, shape, dtype, cap));
      }
    }
    std::string wrong;
    const Status status =
        run_mpi_rank({.world = {.threads_per_rank = 1}, .peer_memory = peers},
                     [&](World& world) { wrong = wrong_plans(world, plans, memory); });
    CAPTURE(cap, wrong, status.ToString());
    CHECK(on_all(status.ok() && wrong.empty()));
  }
}

TEST_CASE("packed messages stay below the cap of the plan", "[mpi][in_place]") {
  const std::int64_t least = least_pack_bytes(num_processes());
  const std::int64_t cap = GENERATE_COPY(as<std::int64_t>{}, least, 5 * least + 100, 1 << 18);
  for (const Move& move : moves_on(num_processes())) {
    Buffers buffers;
    const Plan plan = plan_of(move, {512, 768}, DType::kF32, cap);
    const Status status =
        run_mpi_rank({.world = {.threads_per_rank = 1}, .peer_memory = PeerMemory::kOff},
                     [&](World& world) { buffers = buffers_of(world, plan); });
    CAPTURE(cap, plan.src.to_string(), plan.dst.to_string(), buffers.most_bytes, status.ToString());
    CHECK(on_all(status.ok() && buffers.most_bytes <= cap));
  }
}

TEST_CASE("what is read in place needs no buffers", "[mpi][in_place]") {
  for (const Move& move : moves_on(num_processes())) {
    Buffers buffers;
    const Plan plan = plan_of(move, {512, 768}, DType::kF32, std::int64_t{64} << 20);
    if (plan.steps.size() > 1) continue;  // arrays between its steps
    const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}},
                                       [&](World& world) { buffers = buffers_of(world, plan); });
    CAPTURE(plan.src.to_string(), plan.dst.to_string(), buffers.most_bytes, status.ToString());
    CHECK(on_all(status.ok() && buffers.most_bytes == 0));
  }
}

TEST_CASE("shared memory goes with its world and arrays", "[mpi][in_place]") {
  const std::size_t files = entries_of("/proc/self/fd"), segments = mapped_segments();
  for (int round = 0; round < 20; ++round) {
    Array kept;
    std::size_t mapped = 0;
    const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
      kept = Array::zeros({1 << 16}, DType::kF32, world.allocator());
      everyone(world).all_reduce(kept, kept, ReduceOp::kSum);
      mapped = mapped_segments();
    });
    CHECK(on_all(status.ok()));
    CHECK(on_all(mapped >= segments + static_cast<std::size_t>(num_processes())));
    kept.data<float>()[0] = 1;  // outlives the world
    CHECK(kept.data<float>()[1] == 0);
  }
  CHECK(on_all(mapped_segments() == segments && entries_of("/proc/self/fd") <= files));
}

TEST_CASE("only the segment of an address is opened", "[mpi][in_place]") {
  const std::shared_ptr<SharedSegment> segment = SharedSegment::make(1);
  REQUIRE(segment != nullptr);
  segment->data()[4096] = std::byte{7};
  const std::string address = segment->address();
  const std::unique_ptr<Mapping> mapping = open_segment(address);
  REQUIRE(mapping != nullptr);
  CHECK(mapping->bytes() == segment->bytes());
  CHECK(mapping->data()[4096] == std::byte{7});
  for (const std::string& other :
       {std::string(), std::string("boot 1 2 3 token"), address.substr(1), address + "0",
        address.substr(0, address.size() - 1), address.substr(0, 36) + " 1 0 4096 00"}) {
    CAPTURE(other);
    CHECK(open_segment(other) == nullptr);
  }
  segment->close_file();
  CHECK(open_segment(address) == nullptr);
  CHECK(mapping->data()[4096] == std::byte{7});
}

TEST_CASE("blocks of a segment come back and do not overlap", "[mpi][in_place]") {
  const std::shared_ptr<SharedSegment> segment = SharedSegment::make(1);
  REQUIRE(segment != nullptr);
  const std::shared_ptr<Allocator> allocator = make_segment_allocator(segment);
  CHECK_FALSE(segment->holds(Array::empty({100}, DType::kF32, allocator).bytes()));
  const auto run = [&] {
    std::vector<Array> arrays;
    for (int i = 0; i < 40; ++i) {
      arrays.push_back(Array::empty({1024 + 70'000 * (i % 13)}, DType::kF32, allocator));
      std::memset(arrays.back().bytes(), i, static_cast<std::size_t>(arrays.back().num_bytes()));
      if (i % 3 == 2) arrays.erase(arrays.begin() + i / 3);
    }
    std::int64_t highest = 0;
    for (const Array& array : arrays) {
      CHECK(segment->holds(array.bytes()));
      CHECK(std::all_of(array.bytes(), array.bytes() + array.num_bytes(),
                        [&](std::byte byte) { return byte == array.bytes()[0]; }));
      highest = std::max<std::int64_t>(highest, array.bytes() - segment->data());
    }
    return highest;
  };
  const std::int64_t first = run();
  CHECK(run() == first);  // the addresses are free again
}

}  // namespace tessera
