// kernels/host/row_order.h: a list of row numbers in the order of the rows that it names. Who
// copies rows in that order reads each one from memory once, however often and wherever it is
// named.
#pragma once

#include "kernels/array.h"

namespace tessera::kernels {

/// Entries of the list by the row that they name, those that name none (−1) first; entries of one
/// row keep their order. Shapes: positions_N contiguous I64, within [−1, num_rows); result I32 [N].
/// Cost: N + num_rows steps. Requires N < 2^31.
Array by_row(KernelContext& ctx, const Array& positions_N, std::int64_t num_rows);
/// Whether by_row() takes so many entries, and they are not few beside the rows.
constexpr bool orders_by_row(std::int64_t entries, std::int64_t num_rows) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return entries < kMost && num_rows <= 2 * entries;
}

/// Rows that are brought near before they are read.
enum class Ahead : std::uint8_t { kNone, kNextRows };
/// Which of them suits rows picked from a table of so many bytes: a smaller one stays in the
/// caches.
constexpr Ahead ahead_for(std::int64_t table_bytes) noexcept {
  constexpr std::int64_t kNearBytes = std::int64_t{4} << 20;
  return table_bytes > kNearBytes ? Ahead::kNextRows : Ahead::kNone;
}

/// Asks for bytes to be brought into the second cache: rows lie scattered, so that nothing but
/// their list tells which come next. The first cache would hold up the reads in progress.
inline void bring_near(const void* from, std::int64_t bytes) noexcept {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const std::byte*>(from) + at, 0, 2);
  }
}

}  // namespace tessera::kernels
