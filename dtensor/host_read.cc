#include "dtensor/host_read.h"

#include <string>

#include "absl/strings/str_format.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"

namespace tessera {

Array read_to_host(Runtime& runtime, const Array& array, const HostRead& read, const Site& site) {
  if (array.device().is_capturing()) {
    throw Error(failed_precondition(absl::StrFormat(
        "host read %s%s%s in %s: %s", std::string(read.why), read.tensor.empty() ? "" : " of ",
        std::string(read.tensor), runtime.events().module(),
        message_of(read_while_capturing(array.device())))));
  }
  const double start_us = runtime.world().now_us();
  const Array here = to_host(array);
  // A backend that aborts what its cards wait for leaves them to go on with what is there.
  if (here.storage() != array.storage()) throw_if_error(runtime.world().failure());
  runtime.events().add({.kind = Event::Kind::kHostRead,
                        .name = std::string(read.why),
                        .tensor = std::string(read.tensor),
                        .module = runtime.events().module(),
                        .bytes_received = array.num_bytes(),
                        .file = site.file_name(),
                        .line = static_cast<int>(site.line()),
                        .start_us = start_us,
                        .end_us = runtime.world().now_us()});
  if (runtime.observer != nullptr) [[unlikely]] {
    runtime.observer->on_host_read(
        {.array = array, .why = read.why, .tensor = read.tensor, .site = site});
  }
  return here;
}

std::vector<std::int64_t> read_lists(Runtime& runtime, std::span<const DTensor> lists,
                                     const HostRead& read, const Site& site) {
  const NoGrad no_grad(runtime);
  const DTensor all = lists.size() == 1 ? lists[0] : cat(lists, 0, site);
  const Array here = read_to_host(runtime, all.local(), read, site);
  const auto* first = here.data<std::int64_t>();
  return {first, first + here.num_elements()};
}

}  // namespace tessera
