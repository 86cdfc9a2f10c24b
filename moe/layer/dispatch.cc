#include "moe/layer/dispatch.h"

#include <algorithm>

namespace tessera {

std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, std::int64_t ep) {
  const std::int64_t chunk = (num_experts + ep - 1) / ep;
  std::vector<std::int64_t> held;
  for (std::int64_t rank = 0; rank < ep; ++rank) {
    held.push_back(std::clamp(num_experts - rank * chunk, std::int64_t{0}, chunk));
  }
  return held;
}

TokenRange chunk_of(std::int64_t num_tokens, std::int64_t chunks, std::int64_t chunk) {
  return {num_tokens * chunk / chunks, num_tokens * (chunk + 1) / chunks};
}

std::int64_t padded_rows(std::int64_t rows, std::int64_t alignment) {
  return (rows + alignment - 1) / alignment * alignment;
}

std::int64_t padded_bound(std::int64_t rows, std::int64_t num_experts, std::int64_t alignment) {
  return padded_rows(rows + num_experts * (alignment - 1), alignment);
}

}  // namespace tessera
