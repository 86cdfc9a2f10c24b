// tests/nccl/ranks_of_nccl.h: ranks as threads over NCCL emulated, what each of them ended with,
// and faults for them to meet.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <vector>

#include "devices/devices.h"
#include "emulation/nccl.h"
#include "runtime/nccl_world.h"
#include "testing/arrays.h"
#include "tests/support/on_world.h"
#include "tests/support/variable.h"

namespace tessera::testing {

/// What the run returned, and what each rank's body threw.
struct Ended {
  Status first;
  std::vector<Status> ranks;
  double seconds = 0;
};

inline std::function<std::shared_ptr<Allocator>(std::int64_t)> card_of(
    const std::function<std::int64_t(std::int64_t)>& card) {
  return [card](std::int64_t rank) {
    return value_or_throw(make_device_of_rank(DeviceId::Kind::kEmulated, card(rank)))
        ->make_allocator();
  };
}

inline Ended run_by(ExchangeBy exchange, int num_ranks, WorldOptions options,
                    const std::function<void(World&)>& body) {
  if (!options.allocator) options.allocator = card_of([](std::int64_t rank) { return rank; });
  Ended ended;
  ended.ranks.resize(static_cast<std::size_t>(num_ranks));
  const auto start = std::chrono::steady_clock::now();
  const NcclOptions all{.world = std::move(options), .exchange = exchange};
  ended.first = run_emulated_nccl_ranks(num_ranks, all, [&](World& world) {
    try {
      body(world);
    } catch (const Error& error) {
      ended.ranks[static_cast<std::size_t>(world.rank())] = error.status();
      throw;
    }
  });
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ended;
}

inline Ended run(int num_ranks, WorldOptions options, const std::function<void(World&)>& body) {
  return run_by(ExchangeBy::kMessages, num_ranks, std::move(options), body);
}

/// Sums, each of which the host reads.
inline void sum_and_read(World& world, int times) {
  for (int i = 0; i < times; ++i) {
    const Array value =
        on_world(world, Array::from_values({2}, DType::kF32, std::vector<double>{1, 2}));
    everyone(world).all_reduce(value, value, ReduceOp::kSum, {.tensor = "w"});
    static_cast<void>(values_here(value));
  }
}

inline bool says(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string_view::npos;
}

/// Until the end of a test.
class PlantedFault {
 public:
  PlantedFault(int device, emulation::NcclFault fault, int number) {
    emulation::plant_nccl_fault(device, fault, number);
  }
  PlantedFault(const PlantedFault&) = delete;
  PlantedFault& operator=(const PlantedFault&) = delete;
  ~PlantedFault() { emulation::nccl_heals(); }
};

}  // namespace tessera::testing
