// dtensor/host_read.h: values on the host, where they decide what the program does next.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// What is read, and for what.
struct HostRead {
  std::string_view why;          ///< the event's name
  std::string_view tensor = {};  ///< the event's tensor
};

/// The one way from an array to values that steer a program: waits until its device has made it,
/// and returns it on the host (itself, where it lies there). Adds an event of kind host_read, with
/// its bytes and the time of the wait.
Array read_to_host(Runtime& runtime, const Array& array, const HostRead& read,
                   const Site& site = Site::current());

/// Values of I64 lists of this rank, one behind another, by one read.
std::vector<std::int64_t> read_lists(Runtime& runtime, std::span<const DTensor> lists,
                                     const HostRead& read, const Site& site = Site::current());

}  // namespace tessera
