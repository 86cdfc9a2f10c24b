#include "runtime/mpi/device_pointers.h"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "placement/printable.h"

namespace tessera {
namespace {

constexpr const char* kVariable = "TESSERA_MPI_DEVICE_POINTERS";
constexpr std::string_view kOn = "on", kOff = "off", kAuto = "auto";

/// What the MPI library says of itself. One that cannot be asked takes none.
bool library_takes_device_pointers() {
#if defined(MPIX_GPU_SUPPORT_CUDA)
  int takes = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &takes) == MPI_SUCCESS && takes != 0;
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() != 0;
#else
  return false;
#endif
}

StatusOr<DevicePointers> asked_by_environment() {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || value == kAuto) return DevicePointers::kAuto;
  if (value == kOn) return DevicePointers::kOn;
  if (value == kOff) return DevicePointers::kOff;
  return invalid_argument(std::string(kVariable) + " is \"" + printable(value, 100) +
                          "\"; allowed: auto, on, off");
}

StatusOr<DevicePath> own_path(DevicePointers asked) {
  TSR_ASSIGN_OR_RETURN(const DevicePointers environment, asked_by_environment());
  if (asked == DevicePointers::kAuto) asked = environment;
  const bool direct = asked == DevicePointers::kOn ||
                      (asked == DevicePointers::kAuto && library_takes_device_pointers());
  return direct ? DevicePath::kDirect : DevicePath::kStaged;
}

}  // namespace

StatusOr<DevicePath> agree_on_device_path(DevicePointers asked, const ExchangeTexts& exchange) {
  const StatusOr<DevicePath> own = own_path(asked);
  const std::string_view text = !own.ok()                     ? message_of(own.status())
                                : *own == DevicePath::kDirect ? kOn
                                                              : kOff;
  const std::vector<std::string> all = exchange(std::string(text));
  DevicePath path = DevicePath::kDirect;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == kOff) path = DevicePath::kStaged;
    if (all[rank] == kOn || all[rank] == kOff) continue;
    return invalid_argument("rank " + std::to_string(rank) + ": " + all[rank]);
  }
  return path;
}

}  // namespace tessera
