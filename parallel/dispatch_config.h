// parallel/dispatch_config.h: how tokens reach the ranks of their experts, as a user writes it.
#pragma once

#include <cstdint>
#include <string>

#include "placement/api.h"

namespace tessera TSR_API {

struct DispatchConfig {
  /// One of dispatcher_names() (moe/layer/dispatcher_table.h).
  std::string dispatcher = "all_to_all";
  /// hierarchical, peer: consecutive ranks of one node; of peer they reach each other's memory, and
  /// 0 says that all do.
  std::int64_t ranks_per_node = 0;
  /// Rows that a rank can receive in one forward pass: buffers have this size whatever the routing,
  /// and no count is read on the host. 0: exact sizes.
  std::int64_t rows_bound = 0;
  std::int64_t expert_alignment = 1;  ///< each expert's rows are padded to a multiple
  std::int64_t chunks = 1;            ///< of tokens; one is on its way while another is computed
  bool operator==(const DispatchConfig&) const = default;
};

}  // namespace tessera
