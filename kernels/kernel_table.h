// kernels/kernel_table.h: a device's kernels, one slot for each function of kernels:: that takes a
// KernelContext. Those functions call the slot of the context's device.
#pragma once

#include "kernels/attention.h"
#include "kernels/box_moves.h"
#include "kernels/conv.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/index_check.h"
#include "kernels/index_search.h"
#include "kernels/index_tuple.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/peer_rows.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "kernels/positions.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/route.h"
#include "kernels/row_fold.h"
#include "kernels/row_lists.h"
#include "kernels/row_select.h"
#include "kernels/row_sums.h"
#include "kernels/scan.h"
#include "kernels/select.h"
#include "kernels/take_map.h"

// X(name) for each slot.
// clang-format off
#define TSR_KERNELS(X) \
  X(attention) X(masked_attention) X(attention_grad) X(conv2d) X(conv2d_input_grad) \
  X(conv2d_weight_grad) X(copy) X(fill) X(arange) X(unary) X(binary) X(binary_scalar) X(clamp) \
  X(where) X(masked_fill) X(swiglu) X(swiglu_grad) X(gather) X(scatter) X(scatter_value) \
  X(scatter_add) X(scatter_combine) X(index_select) X(index_add) X(embedding) X(embedding_grad) \
  X(permute_rows) X(searchsorted) X(bincount) X(nonzero_positions) X(index_get) X(index_put) \
  X(matmul) X(grouped_matmul) X(grouped_matmul_weight_grad) X(softmax) X(softmax_grad) \
  X(log_softmax) X(rms_norm) X(rms_norm_grad) X(rope) X(row_max) X(row_sum_exp) X(row_target) \
  X(cross_entropy_grad) X(adamw) X(sgd) X(adamw_all) X(sgd_all) X(steer_step) X(balance_bias) \
  X(pointwise) X(nextafter) X(max_pool) X(max_pool_grad) \
  X(avg_pool) X(avg_pool_grad) X(random) X(reduce) X(arg_extreme) X(sum_of_squares) X(fold_rows) \
  X(products_of_others) X(row_moments) X(combine_moments) X(kth_value) X(median) X(mode) \
  X(histogram) X(weighted_row_sum) X(weighted_row_sum_grad) X(scan) X(sum_back) X(carry_scan) \
  X(scan_extreme) X(carry_extreme) X(log_scan_sums) X(log_scan_grad) X(topk) X(sort) X(route_topk) \
  X(sort_by_key) X(take_map) X(add_map) X(localize) X(globalize) \
  X(check_indices) X(move_boxes) X(fill_identity) X(order_by_key) X(pack_parts) X(invert_list) \
  X(keys_in_range) X(keys_of_parts) X(slots_of_passed) X(check_counts) X(put_peer_rows) \
  X(sum_peer_rows) X(dot_peer_rows) X(lay_out_peers) X(clear_unfilled_rows)
// clang-format on

namespace tessera TSR_API {
namespace kernels {

/// A slot that is null is an error where it is called, which names the kernel and the device.
struct KernelTable {
#define TSR_KERNEL_SLOT(name) decltype(kernels::name)* name = nullptr;
  TSR_KERNELS(TSR_KERNEL_SLOT)
#undef TSR_KERNEL_SLOT
};

/// The processor's kernels, by the names of the functions that call them.
namespace cpu {
#define TSR_KERNEL_DECLARED(name) decltype(kernels::name) name;
TSR_KERNELS(TSR_KERNEL_DECLARED)
#undef TSR_KERNEL_DECLARED
}  // namespace cpu

/// The processor's table: all slots are filled where a program links the processor's kernels, none
/// where it links rules alone (tessera::rules).
const KernelTable& cpu_kernels() noexcept;
/// Fills it, before main() and for good.
void set_cpu_kernels(const KernelTable& table) noexcept;

}  // namespace kernels
}  // namespace tessera
