#include "execute/regions.h"

#include "absl/strings/str_format.h"
#include "dtensor/ops.h"
#include "dtensor/stated_step.h"

namespace tessera {
namespace {

/// The one argument of a region with one result.
const DTensor& only_argument(const RegionWork& work) {
  if (work.args.size() == 1 && work.results.size() == 1) return work.args[0];
  throw Error(invalid_argument(absl::StrFormat(
      "region %s: it has %d arguments and %d results; it takes one and gives one", work.step.name,
      static_cast<int>(work.args.size()), static_cast<int>(work.results.size()))));
}

std::vector<DTensor> alias(const RegionWork& work) {
  return {same_elements(only_argument(work), work.results[0])};
}

std::vector<DTensor> copy(const RegionWork& work) {
  const DTensor* const from = &only_argument(work);
  return call(work.runtime, "clone", {from, 1}, {}, Site());
}

std::vector<DTensor> move_together(const RegionWork& work) {
  if (work.args.size() != work.results.size()) {
    throw Error(invalid_argument(absl::StrFormat(
        "region %s: it has %d arguments and %d results; each becomes one", work.step.name,
        static_cast<int>(work.args.size()), static_cast<int>(work.results.size()))));
  }
  return redistribute_all(work.args, work.results, Site());
}

}  // namespace

const RegionTable& own_regions() {
  static const RegionTable table = {{"alias", alias},
                                    {"copy", copy},
                                    {"fsdp_all_gather", move_together},
                                    {"fsdp_reduce_scatter", move_together},
                                    {"redistribute_all", move_together}};
  return table;
}

}  // namespace tessera
