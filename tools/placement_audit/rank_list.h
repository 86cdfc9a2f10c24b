// tools/placement_audit/rank_list.h: a set of ranks as short text, for pictures and tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::audit {

/// Ascending.
using Ranks = std::vector<std::int64_t>;

/// "0-3,8": runs of neighbours shortened.
std::string ranks_to_string(const Ranks& ranks);

}  // namespace tessera::audit
