// kernels/cuda/key_order.h: where each of a few numbers stands in a list, in the list's order: what
// goes to one place can then be brought there one after another, without atomics of floating
// values.
#pragma once

#include "kernels/cuda/cuda_device.h"

namespace tessera::kernels::TSR_CUDA {

/// A list of N keys, grouped: entries of one key stand together, keys ascending, and within a group
/// positions of the list ascending.
struct KeyOrder {
  Array keys_N;       ///< I32: the key of each entry
  Array positions_N;  ///< I32: where it stood
};
/// Groups I32 keys of [0, num_keys), which lie dense on the device. Nothing is read by the host.
/// Requires: fewer than 2^31 entries. By CUB's radix sort, over the bits that keys below num_keys
/// have; in the emulation by the processor at the stream's turn.
KeyOrder order_by_key(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys);
/// I32 [num_keys + 1]: where the group of each key begins, and where the last one ends.
Array key_offsets(KernelContext& ctx, const KeyOrder& order, std::int64_t num_keys);

/// Exclusive sums along the rows of a dense I32 [R, C] in place, and of each row its total.
void scan_rows(KernelContext& ctx, const Array& counts_RC, const Array& totals_R);
/// Work is cut into so many tiles of as many entries, a warp each.
struct Tiles {
  std::int64_t entries;  ///< of each tile but the last
  std::int64_t count;
};
Tiles tiles_of(std::int64_t entries);

}  // namespace tessera::kernels::TSR_CUDA
