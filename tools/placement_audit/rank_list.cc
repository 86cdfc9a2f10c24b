#include "tools/placement_audit/rank_list.h"

namespace tessera::audit {

std::string ranks_to_string(const Ranks& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(ranks[i]);
    if (end > i) text += (end > i + 1 ? "-" : ",") + std::to_string(ranks[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace tessera::audit
