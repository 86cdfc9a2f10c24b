#include "devices/nccl/ranks.h"

#include <memory>
#include <string>

#include "devices/devices.h"

namespace tessera {
namespace {

struct Entries {
  decltype(run_nccl_ranks)* ranks;
  decltype(run_nccl_process)* process;
};

StatusOr<Entries> entries_of(DeviceId::Kind kind) {
#ifdef TSR_HAS_EMULATION
  if (kind == DeviceId::Kind::kEmulated) {
    return Entries{run_emulated_nccl_ranks, run_emulated_nccl_process};
  }
#endif
  if (kind == DeviceId::Kind::kCpu) {
    return invalid_argument("NCCL moves arrays of cards: device cpu is not one");
  }
#ifdef TSR_HAS_NCCL
  return Entries{run_nccl_ranks, run_nccl_process};
#else
  TSR_RETURN_IF_ERROR(make_device_of_rank(kind, 0).status());
  return unavailable(
      "NCCL on device cuda: these programs were built without it; docs/backends.md says what runs "
      "where");
#endif
}

/// `number`: what a launcher or a caller calls the card's.
void give_cards(DeviceId::Kind kind, const char* number, NcclOptions& options) {
  if (options.world.allocator) return;
  const int num_cards = num_devices(kind);
  options.world.allocator = [kind, num_cards, number](std::int64_t card) {
    if (num_cards > 0 && card >= num_cards) {  // without any the device itself says why
      throw Error(unavailable(std::string(number) + " " + std::to_string(card) +
                              ": NCCL takes one rank a card, and this host has " +
                              std::to_string(num_cards) +
                              (kind == DeviceId::Kind::kEmulated ? " emulated ones" : "")));
    }
    return value_or_throw(make_device_of_rank(kind, card))->make_allocator();
  };
}

}  // namespace

Status run_nccl_ranks_on(DeviceId::Kind kind, int num_ranks, NcclOptions options,
                         const std::function<void(World&)>& body) {
  TSR_ASSIGN_OR_RETURN(const Entries entries, entries_of(kind));
  give_cards(kind, "rank", options);
  return entries.ranks(num_ranks, options, body);
}

Status run_nccl_process_on(DeviceId::Kind kind, const Launch& launch, NcclOptions options,
                           const std::function<void(World&)>& body) {
  TSR_ASSIGN_OR_RETURN(const Entries entries, entries_of(kind));
  give_cards(kind, "LOCAL_RANK", options);
  return entries.process(launch, options, body);
}

}  // namespace tessera
