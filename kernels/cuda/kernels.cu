#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"

namespace tessera::kernels::TSR_CUDA {

const KernelTable& device_kernels() noexcept {
  static const KernelTable table = [] {
    KernelTable filled;
    filled.attention = attention;
    filled.masked_attention = masked_attention;
    filled.attention_grad = attention_grad;
    filled.conv2d = conv2d;
    filled.conv2d_input_grad = conv2d_input_grad;
    filled.conv2d_weight_grad = conv2d_weight_grad;
    filled.copy = copy;
    filled.fill = fill;
    filled.arange = arange;
    filled.unary = unary;
    filled.binary = binary;
    filled.binary_scalar = binary_scalar;
    filled.clamp = clamp;
    filled.where = where;
    filled.masked_fill = masked_fill;
    filled.swiglu = swiglu;
    filled.swiglu_grad = swiglu_grad;
    filled.matmul = matmul;
    filled.grouped_matmul = grouped_matmul;
    filled.grouped_matmul_weight_grad = grouped_matmul_weight_grad;
    filled.gather = gather;
    filled.scatter = scatter;
    filled.scatter_value = scatter_value;
    filled.scatter_add = scatter_add;
    filled.scatter_combine = scatter_combine;
    filled.index_select = index_select;
    filled.index_add = index_add;
    filled.embedding = embedding;
    filled.embedding_grad = embedding_grad;
    filled.permute_rows = permute_rows;
    filled.searchsorted = searchsorted;
    filled.bincount = bincount;
    filled.nonzero_positions = nonzero_positions;
    filled.index_get = index_get;
    filled.index_put = index_put;
    filled.reduce = reduce;
    filled.softmax = softmax;
    filled.softmax_grad = softmax_grad;
    filled.log_softmax = log_softmax;
    filled.rms_norm = rms_norm;
    filled.rms_norm_grad = rms_norm_grad;
    filled.rope = rope;
    filled.row_max = row_max;
    filled.row_sum_exp = row_sum_exp;
    filled.row_target = row_target;
    filled.cross_entropy_grad = cross_entropy_grad;
    filled.adamw = adamw;
    filled.sgd = sgd;
    filled.check_indices = check_indices;
    filled.localize = localize;
    filled.globalize = globalize;
    filled.arg_extreme = arg_extreme;
    filled.sum_of_squares = sum_of_squares;
    filled.fold_rows = fold_rows;
    filled.products_of_others = products_of_others;
    filled.row_moments = row_moments;
    filled.combine_moments = combine_moments;
    filled.kth_value = kth_value;
    filled.median = median;
    filled.mode = mode;
    filled.scan = scan;
    filled.sum_back = sum_back;
    filled.carry_scan = carry_scan;
    filled.scan_extreme = scan_extreme;
    filled.carry_extreme = carry_extreme;
    filled.log_scan_sums = log_scan_sums;
    filled.log_scan_grad = log_scan_grad;
    filled.topk = topk;
    filled.sort = sort;
    filled.sort_by_key = sort_by_key;
    filled.histogram = histogram;
    filled.weighted_row_sum = weighted_row_sum;
    filled.weighted_row_sum_grad = weighted_row_sum_grad;
    filled.take_map = take_map;
    filled.add_map = add_map;
    filled.pointwise = pointwise;
    filled.nextafter = nextafter;
    filled.max_pool = max_pool;
    filled.max_pool_grad = max_pool_grad;
    filled.avg_pool = avg_pool;
    filled.avg_pool_grad = avg_pool_grad;
    filled.random = random;
    return filled;
  }();
  return table;
}

}  // namespace tessera::kernels::TSR_CUDA
