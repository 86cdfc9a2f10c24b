// Lists of rows from counts that lie on the device. Where blocks of rows begin and go is laid out
// by one block of threads; then each entry of a list finds its block.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lists.h"
#include "kernels/cuda/map.h"
#include "kernels/key_counts.h"
#include "kernels/row_lists.h"
#include "kernels/row_lists_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr unsigned kLayoutThreads = 256;
#else
constexpr unsigned kLayoutThreads = 64;
#endif

/// Tables of one order: blocks of rows by part and key.
struct RowBlocks {
  KeyCounts counts;
  std::int64_t parts, keys;
  std::int64_t room;
  std::int64_t* part_begin;            // [part], the last: their end
  std::int64_t *begin, *held;          // [part][key]
  std::int64_t* goes_to;               // [key][part]
  std::int64_t *key_begin, *key_held;  // [key], the last of key_begin: their end
};
struct OrderLists {
  std::int64_t size_r, size_n;
  const std::int64_t* of;
  std::int64_t *source, *restore, *counts;
};

/// One block. Positions of faults: a key with too many rows, or keys where lists are too short.
__global__ void lay_out_blocks(RowBlocks blocks, KeySize size, OrderLists lists, FaultWord fault) {
  for (std::int64_t part = threadIdx.x; part < blocks.parts; part += blockDim.x) {
    std::int64_t rows = blocks.room;
    if (rows < 0) {
      rows = 0;
      for (std::int64_t key = 0; key < blocks.keys; ++key) rows += blocks.counts.of(part, key);
    }
    blocks.part_begin[part] = rows;
  }
  __syncthreads();
  sum_before(blocks.part_begin, blocks.parts);
  __syncthreads();
  for (std::int64_t part = threadIdx.x; part < blocks.parts; part += blockDim.x) {
    std::int64_t next = blocks.part_begin[part];
    const std::int64_t stop = blocks.part_begin[part + 1];
    for (std::int64_t key = 0; key < blocks.keys; ++key) {
      const std::int64_t count = blocks.counts.of(part, key), rest = stop - next;
      const std::int64_t rows = count < rest ? count : rest;
      blocks.begin[part * blocks.keys + key] = next;
      blocks.held[part * blocks.keys + key] = rows;
      next += rows;
    }
  }
  __syncthreads();
  for (std::int64_t key = threadIdx.x; key < blocks.keys; key += blockDim.x) {
    std::int64_t rows = 0;
    for (std::int64_t part = 0; part < blocks.parts; ++part) {
      blocks.goes_to[key * blocks.parts + part] = rows;
      rows += blocks.held[part * blocks.keys + key];
    }
    blocks.key_held[key] = rows;
    if (!size.has_room(rows)) fault.note(key);
    lists.counts[key] = size.of(rows);
    blocks.key_begin[key] = lists.counts[key];
  }
  __syncthreads();
  sum_before(blocks.key_begin, blocks.keys);
  __syncthreads();
  for (std::int64_t key = threadIdx.x; key < blocks.keys; key += blockDim.x) {
    const std::int64_t first = blocks.key_begin[key];
    for (std::int64_t part = 0; part < blocks.parts; ++part) {
      blocks.goes_to[key * blocks.parts + part] += first;
    }
  }
  if (threadIdx.x == 0 && blocks.key_begin[blocks.keys] > lists.size_r) fault.note(blocks.keys);
}

/// The row of the buffer that comes to r.
__device__ inline std::int64_t source_of(const RowBlocks& blocks, std::int64_t r) {
  if (r >= blocks.key_begin[blocks.keys]) return -1;
  const std::int64_t key = last_not_above(blocks.key_begin, blocks.keys, r);
  const std::int64_t* goes_to = blocks.goes_to + key * blocks.parts;
  const std::int64_t part = last_not_above(goes_to, blocks.parts, r);
  const std::int64_t at = part * blocks.keys + key, offset = r - goes_to[part];
  return offset < blocks.held[at] ? blocks.begin[at] + offset : -1;
}
/// Where the buffer's row n goes.
__device__ inline std::int64_t goal_of(const RowBlocks& blocks, std::int64_t n) {
  if (n >= blocks.part_begin[blocks.parts]) return -1;
  const std::int64_t part = last_not_above(blocks.part_begin, blocks.parts, n);
  const std::int64_t* begin = blocks.begin + part * blocks.keys;
  const std::int64_t key = last_not_above(begin, blocks.keys, n);
  const std::int64_t offset = n - begin[key];
  if (offset >= blocks.held[part * blocks.keys + key]) return -1;
  return blocks.goes_to[key * blocks.parts + part] + offset;
}

__global__ void write_order(RowBlocks blocks, OrderLists lists) {
  const std::int64_t most = lists.size_r > lists.size_n ? lists.size_r : lists.size_n;
  for (auto [i, step] = list_threads(); i < most; i += step) {
    if (i < lists.size_r) {
      const std::int64_t from = source_of(blocks, i);
      lists.source[i] = lists.of == nullptr || from < 0 ? from : lists.of[from];
    }
    if (i < lists.size_n) {
      const std::int64_t to = goal_of(blocks, i);
      lists.restore[i] = to < lists.size_r ? to : -1;
    }
  }
}

struct PackedList {
  const std::int64_t *list, *counts;
  std::int64_t count_step, keys;
  PartRooms rooms;
  std::int64_t* out;
};

/// Every block knows where the parts begin, in the list and as they are packed.
__global__ void write_parts(PackedList of, std::int64_t total) {
  TSR_DYNAMIC_SHARED(std::int64_t, first);
  const std::int64_t parts = of.rooms.parts;
  std::int64_t* const packed = first + parts + 1;
  for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x) {
    std::int64_t rows = 0, key = part * of.rooms.keys_per_part;
    const std::int64_t stop =
        key + of.rooms.keys_per_part < of.keys ? key + of.rooms.keys_per_part : of.keys;
    for (; key < stop; ++key) rows += of.counts[key * of.count_step];
    first[part] = rows;
    packed[part] = of.rooms.of(part);
  }
  __syncthreads();
  sum_before(first, parts);
  sum_before(packed, parts);
  __syncthreads();
  for (auto [i, step] = list_threads(); i < total; i += step) {
    const std::int64_t part = last_not_above(packed, parts, i), offset = i - packed[part];
    of.out[i] = offset < first[part + 1] - first[part] ? of.list[first[part] + offset] : -1;
  }
}

__global__ void clear_list(std::int64_t* list, std::int64_t count) {
  for (auto [i, step] = list_threads(); i < count; i += step) list[i] = -1;
}
__global__ void write_places(const std::int64_t* list, std::int64_t count, std::int64_t* place) {
  for (auto [i, step] = list_threads(); i < count; i += step) {
    if (list[i] >= 0) place[list[i]] = i;
  }
}

struct KeyInRange {
  KeyRange range;
  __device__ std::int64_t of(std::int64_t id) const {
    const std::int64_t key = id - range.begin;
    return key >= 0 && key < range.count ? key : range.count;
  }
  __device__ void operator()(std::int64_t, const std::int64_t* in, std::int64_t* out) const {
    out[0] = of(in[0]);
  }
};

__global__ void write_part_keys(const std::int64_t* ids, std::int64_t top_k, ExpertParts parts,
                                std::int64_t total, std::int64_t* keys) {
  for (auto [i, step] = list_threads(); i < total; i += step) {
    const std::int64_t part = i % parts.parts;
    const std::int64_t* id = ids + i / parts.parts * top_k;
    std::int64_t key = parts.parts;
    for (std::int64_t k = 0; k < top_k; ++k) {
      const bool is_one = id[k] >= 0 && id[k] < parts.experts;
      if (is_one && id[k] / parts.experts_per_part == part) key = part;
    }
    keys[i] = key;
  }
}

/// comes[t]: whether an expert of token t is in the range.
__global__ void mark_tokens(const std::int64_t* ids, std::int64_t top_k, KeyInRange experts,
                            std::int64_t tokens, std::int64_t* comes) {
  for (auto [t, step] = list_threads(); t < tokens; t += step) {
    bool is_in = false;
    for (std::int64_t k = 0; k < top_k; ++k) {
      is_in |= experts.of(ids[t * top_k + k]) < experts.range.count;
    }
    comes[t] = is_in ? 1 : 0;
  }
}
/// One part: its tokens begin at `first`; `sums` counts those that come, from the buffer's first.
struct PartOfTokens {
  std::int64_t first, tokens, room, first_row;
};
__global__ void write_passed(const std::int64_t* ids, std::int64_t top_k, KeyInRange experts,
                             PartOfTokens part, const std::int64_t* comes, const std::int64_t* sums,
                             std::int64_t* keys, std::int64_t* slots, std::int64_t* count) {
  const std::int64_t before = part.first == 0 ? 0 : sums[part.first - 1];
  for (auto [t, step] = list_threads(); t < part.tokens; t += step) {
    const std::int64_t token = part.first + t, earlier = sums[token] - comes[token];
    const bool has_room = part.room < 0 || earlier - before < part.room;
    const std::int64_t row = part.room < 0 ? earlier : part.first_row + earlier - before;
    for (std::int64_t k = 0; k < top_k; ++k) {
      const std::int64_t key = experts.of(ids[token * top_k + k]);
      keys[token * top_k + k] = has_room ? key : experts.range.count;
      slots[token * top_k + k] = row * top_k + k;
    }
  }
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  *count = part.tokens == 0 ? 0 : sums[part.first + part.tokens - 1] - before;
}

__global__ void clear_counts(std::int64_t* counts, std::int64_t size) {
  for (auto [i, step] = list_threads(); i < size; i += step) counts[i] = 0;
}
__global__ void count_ids(const std::int64_t* ids, std::int64_t total, std::int64_t size,
                          std::int64_t* counts) {
  for (auto [i, step] = list_threads(); i < total; i += step) {
    if (ids[i] < 0 || ids[i] >= size) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(counts + ids[i]), 1ULL);
  }
}
__global__ void compare_counts(const std::int64_t* said, std::int64_t step_said,
                               const std::int64_t* counted, std::int64_t size, FaultWord fault) {
  for (auto [i, step] = list_threads(); i < size; i += step) {
    if (said[i * step_said] != counted[i]) fault.note(i);
  }
}

}  // namespace

void order_by_key(KernelContext& ctx, const KeyedRows& rows, const KeySize& size, const Array& of_N,
                  const OrderedLists& out) {
  check_order_by_key(rows, size, of_N, out);
  const KeyCounts counts = key_counts(rows.counts_PSK, device_data<std::int64_t>(rows.counts_PSK));
  const std::int64_t parts = counts.parts, keys = counts.keys;
  const Array tables = list_scratch(ctx, parts + 1 + 3 * parts * keys + 2 * keys + 1);
  std::int64_t* next = list_data(tables);
  const auto take = [&next](std::int64_t entries) {
    std::int64_t* const table = next;
    next += entries;
    return table;
  };
  const RowBlocks blocks = {.counts = counts,
                            .parts = parts,
                            .keys = keys,
                            .room = rows.room,
                            .part_begin = take(parts + 1),
                            .begin = take(parts * keys),
                            .held = take(parts * keys),
                            .goes_to = take(parts * keys),
                            .key_begin = take(keys + 1),
                            .key_held = take(keys)};
  const OrderLists lists = {.size_r = out.source_R.num_elements(),
                            .size_n = out.restore_N.is_null() ? 0 : out.restore_N.num_elements(),
                            .of = list_data(of_N),
                            .source = list_data(out.source_R),
                            .restore = list_data(out.restore_N),
                            .counts = list_data(out.counts_K)};
  const std::int64_t key_held = blocks.key_held - list_data(tables),
                     rows_in_all = blocks.key_begin - list_data(tables) + keys;
  const FaultWord fault =
      device_of(ctx).next_fault_word([tables, keys, key_held, rows_in_all, most = size.rows,
                                      room = lists.size_r](std::int64_t at) {
        if (at < keys) return too_many_rows(at, integer_at(tables, key_held + at), most);
        return too_short_lists(integer_at(tables, rows_in_all), room);
      });
  const Current current(*ctx.device);
  check(launch<lay_out_blocks>({1, kLayoutThreads, 0}, stream_of(ctx), blocks, size, lists, fault),
        *ctx.device, "order_by_key");
  const std::int64_t most = std::max(lists.size_r, lists.size_n);
  if (most == 0) return;
  check(launch<write_order>(grid_for(most), stream_of(ctx), blocks, lists), *ctx.device,
        "order_by_key");
}

void pack_parts(KernelContext& ctx, const Array& list_N, const Array& counts_K,
                const PartRooms& rooms, const Array& out_M) {
  check_pack_parts(list_N, counts_K, rooms, out_M);
  if (out_M.num_elements() == 0) return;
  const PackedList of = {.list = list_data(list_N),
                         .counts = list_data(counts_K),
                         .count_step = counts_K.strides()[0],
                         .keys = counts_K.size(0),
                         .rooms = rooms,
                         .out = list_data(out_M)};
  Grid grid = grid_for(out_M.num_elements());
  grid.shared_bytes = static_cast<std::size_t>(2 * (rooms.parts + 1)) * sizeof(std::int64_t);
  const Current current(*ctx.device);
  check(launch<write_parts>(grid, stream_of(ctx), of, out_M.num_elements()), *ctx.device,
        "pack_parts");
}

void invert_list(KernelContext& ctx, const Array& list_R, const Array& place_S) {
  require_list("invert_list", "the list", list_R, {list_R.num_elements()});
  require_list("invert_list", "the result", place_S, {place_S.num_elements()});
  const Current current(*ctx.device);
  const std::int64_t slots = place_S.num_elements(), rows = list_R.num_elements();
  if (slots == 0) return;
  check(launch<clear_list>(grid_for(slots), stream_of(ctx), list_data(place_S), slots), *ctx.device,
        "invert_list");
  if (rows == 0) return;
  check(launch<write_places>(grid_for(rows), stream_of(ctx), list_data(list_R), rows,
                             list_data(place_S)),
        *ctx.device, "invert_list");
}

void keys_in_range(KernelContext& ctx, const Array& ids_N, KeyRange range, const Array& keys_N) {
  require_list("keys_in_range", "ids", ids_N, {ids_N.num_elements()});
  require_list("keys_in_range", "the result", keys_N, ids_N.shape());
  map<std::int64_t, 1, 1>(ctx, "keys_in_range", {&keys_N, &ids_N}, KeyInRange{range});
}

void keys_of_parts(KernelContext& ctx, const Array& ids_TK, const ExpertParts& parts,
                   const Array& keys_TP) {
  check_keys_of_parts(ids_TK, parts, keys_TP);
  const std::int64_t total = keys_TP.num_elements();
  if (total == 0) return;
  const Current current(*ctx.device);
  check(launch<write_part_keys>(grid_for(total), stream_of(ctx), list_data(ids_TK), ids_TK.size(1),
                                parts, total, list_data(keys_TP)),
        *ctx.device, "keys_of_parts");
}

void slots_of_passed(KernelContext& ctx, const Array& ids_TK, const PassedTokens& tokens,
                     const PassedSlots& out) {
  check_slots_of_passed(ids_TK, tokens, out);
  const std::int64_t all = ids_TK.size(0), top_k = ids_TK.size(1);
  const Array comes = list_scratch(ctx, all), sums = list_scratch(ctx, all);
  const KeyInRange experts{tokens.experts};
  const Current current(*ctx.device);
  if (all > 0) {
    check(launch<mark_tokens>(grid_for(all), stream_of(ctx), list_data(ids_TK), top_k, experts, all,
                              list_data(comes)),
          *ctx.device, "slots_of_passed");
    TSR_CUDA::scan(ctx, Scan::kSum, comes, 0, sums);
  }
  PartOfTokens of{};
  std::int64_t* count = list_data(out.counts_P);
  for (const PassedTokens::Part& part : tokens.parts) {
    of.tokens = part.tokens;
    of.room = part.room;
    of.first_row = part.first_row;
    check(launch<write_passed>(grid_for(part.tokens), stream_of(ctx), list_data(ids_TK), top_k,
                               experts, of, list_data(comes), list_data(sums),
                               list_data(out.keys_N), list_data(out.row_slots_N), count++),
          *ctx.device, "slots_of_passed");
    of.first += part.tokens;
  }
}

void check_counts(KernelContext& ctx, const Array& ids, const Array& counts_E,
                  std::string_view what) {
  require_list("check_counts", "ids", ids, ids.shape());
  require_counts("check_counts", counts_E, 1);
  const std::int64_t size = counts_E.size(0), total = ids.num_elements();
  if (size == 0) return;
  const Array counted = list_scratch(ctx, size);
  const Current current(*ctx.device);
  check(launch<clear_counts>(grid_for(size), stream_of(ctx), list_data(counted), size), *ctx.device,
        "check_counts");
  if (total > 0) {
    check(launch<count_ids>(grid_for(total), stream_of(ctx), list_data(ids), total, size,
                            list_data(counted)),
          *ctx.device, "check_counts");
  }
  const FaultWord fault = device_of(ctx).next_fault_word(
      [counts_E, counted, name = std::string(what)](std::int64_t expert) {
        return other_counts(name, expert, integer_at(counts_E, expert),
                            integer_at(counted, expert));
      });
  check(launch<compare_counts>(grid_for(size), stream_of(ctx), list_data(counts_E),
                               counts_E.strides()[0], list_data(counted), size, fault),
        *ctx.device, "check_counts");
}

}  // namespace tessera::kernels::TSR_CUDA
