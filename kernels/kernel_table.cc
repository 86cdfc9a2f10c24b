#include "kernels/kernel_table.h"

#include <string>

#include "kernels/device.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

[[noreturn]] [[gnu::cold]] void throw_empty(const KernelContext& ctx, const char* name) {
  const bool links_none = &ctx.device->kernels() == &cpu_kernels();
  throw Error(
      unimplemented(std::string(name) + " has no kernel on " + to_string(ctx.device->id()) +
                    (links_none ? ": this program links tessera::rules, which plans only" : "")));
}

template <class Kernel>
Kernel* slot(const KernelContext& ctx, Kernel* KernelTable::*which, const char* name) {
  Kernel* kernel = ctx.device->kernels().*which;
  if (kernel == nullptr) [[unlikely]]
    throw_empty(ctx, name);
  return kernel;
}

// Empty in a program that links rules alone.
constinit KernelTable cpu_table;

}  // namespace

const KernelTable& cpu_kernels() noexcept { return cpu_table; }
void set_cpu_kernels(const KernelTable& table) noexcept { cpu_table = table; }

void attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
               const AttentionOptions& options, const Array& out, const Array& lse) {
  slot(ctx, &KernelTable::attention, "attention")(ctx, q, k, v, options, out, lse);
}
void masked_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                      const Array& mask, double scale, const Array& out, const Array& lse) {
  slot(ctx, &KernelTable::masked_attention, "masked_attention")(ctx, q, k, v, mask, scale, out,
                                                                lse);
}
void attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                    const Array& v, const Array& out, const Array& lse,
                    const AttentionOptions& options, const AttentionGradients& grads) {
  slot(ctx, &KernelTable::attention_grad, "attention_grad")(ctx, grad, q, k, v, out, lse, options,
                                                            grads);
}
void conv2d(KernelContext& ctx, const Array& x, const Array& weight, const WindowPlane& window,
            const Array& out) {
  slot(ctx, &KernelTable::conv2d, "conv2d")(ctx, x, weight, window, out);
}
void conv2d_input_grad(KernelContext& ctx, const Array& grad, const Array& weight,
                       const WindowPlane& window, const Array& grad_x) {
  slot(ctx, &KernelTable::conv2d_input_grad, "conv2d_input_grad")(ctx, grad, weight, window,
                                                                  grad_x);
}
void conv2d_weight_grad(KernelContext& ctx, const Array& grad, const Array& x,
                        const WindowPlane& window, const Array& grad_weight) {
  slot(ctx, &KernelTable::conv2d_weight_grad, "conv2d_weight_grad")(ctx, grad, x, window,
                                                                    grad_weight);
}
void copy(KernelContext& ctx, const Array& src, const Array& dst) {
  slot(ctx, &KernelTable::copy, "copy")(ctx, src, dst);
}
void fill(KernelContext& ctx, double value, const Array& out) {
  slot(ctx, &KernelTable::fill, "fill")(ctx, value, out);
}
void arange(KernelContext& ctx, double start, double step, const Array& out) {
  slot(ctx, &KernelTable::arange, "arange")(ctx, start, step, out);
}
void unary(KernelContext& ctx, Unary op, const Array& x, const Array& out) {
  slot(ctx, &KernelTable::unary, "unary")(ctx, op, x, out);
}
void binary(KernelContext& ctx, Binary op, const Array& a, const Array& b, const Array& out) {
  slot(ctx, &KernelTable::binary, "binary")(ctx, op, a, b, out);
}
void binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out) {
  slot(ctx, &KernelTable::binary_scalar, "binary_scalar")(ctx, op, a, b, out);
}
void clamp(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  slot(ctx, &KernelTable::clamp, "clamp")(ctx, x, low, high, out);
}
void where(KernelContext& ctx, const Array& condition, const Array& a, const Array& b,
           const Array& out) {
  slot(ctx, &KernelTable::where, "where")(ctx, condition, a, b, out);
}
void masked_fill(KernelContext& ctx, const Array& x, const Array& mask, double value,
                 const Array& out) {
  slot(ctx, &KernelTable::masked_fill, "masked_fill")(ctx, x, mask, value, out);
}
void swiglu(KernelContext& ctx, const Array& gate, const Array& up, const Array& out) {
  slot(ctx, &KernelTable::swiglu, "swiglu")(ctx, gate, up, out);
}
void swiglu_grad(KernelContext& ctx, const Array& grad, const Array& gate, const Array& up,
                 const Array& grad_gate, const Array& grad_up) {
  slot(ctx, &KernelTable::swiglu_grad, "swiglu_grad")(ctx, grad, gate, up, grad_gate, grad_up);
}
void gather(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
            const Array& out) {
  slot(ctx, &KernelTable::gather, "gather")(ctx, x, dim, index, absent, out);
}
void scatter(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
             Absent absent) {
  slot(ctx, &KernelTable::scatter, "scatter")(ctx, out, dim, index, src, absent);
}
void scatter_value(KernelContext& ctx, const Array& out, int dim, const Array& index, double value,
                   Absent absent) {
  slot(ctx, &KernelTable::scatter_value, "scatter_value")(ctx, out, dim, index, value, absent);
}
void scatter_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                 const Array& src, Absent absent) {
  slot(ctx, &KernelTable::scatter_add, "scatter_add")(ctx, out, dim, index, src, absent);
}
void scatter_combine(KernelContext& ctx, const Array& out, int dim, const Array& index,
                     const Array& src, Combine combine, Absent absent) {
  slot(ctx, &KernelTable::scatter_combine, "scatter_combine")(ctx, out, dim, index, src, combine,
                                                              absent);
}
void index_select(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
                  const Array& out) {
  slot(ctx, &KernelTable::index_select, "index_select")(ctx, x, dim, index, absent, out);
}
void index_add(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
               Absent absent) {
  slot(ctx, &KernelTable::index_add, "index_add")(ctx, out, dim, index, src, absent);
}
void embedding(KernelContext& ctx, const Array& weight_VD, const Array& ids, Absent absent,
               const Array& out) {
  slot(ctx, &KernelTable::embedding, "embedding")(ctx, weight_VD, ids, absent, out);
}
void embedding_grad(KernelContext& ctx, const Array& grad, const Array& ids, Absent absent,
                    const Array& grad_weight_VD) {
  slot(ctx, &KernelTable::embedding_grad, "embedding_grad")(ctx, grad, ids, absent, grad_weight_VD);
}
void permute_rows(KernelContext& ctx, const Array& x_TD, const Array& tok_N, const Array& out_ND) {
  slot(ctx, &KernelTable::permute_rows, "permute_rows")(ctx, x_TD, tok_N, out_ND);
}
void searchsorted(KernelContext& ctx, const Array& sorted, const Array& values, Side side,
                  const Array& out) {
  slot(ctx, &KernelTable::searchsorted, "searchsorted")(ctx, sorted, values, side, out);
}
void bincount(KernelContext& ctx, const Array& x, const Array& weights, Absent absent,
              const Array& out) {
  slot(ctx, &KernelTable::bincount, "bincount")(ctx, x, weights, absent, out);
}
std::vector<std::int64_t> nonzero_positions(KernelContext& ctx, const Array& x) {
  return slot(ctx, &KernelTable::nonzero_positions, "nonzero_positions")(ctx, x);
}
void index_get(KernelContext& ctx, const Array& x, const IndexTuple& tuple, Absent absent,
               const Array& out) {
  slot(ctx, &KernelTable::index_get, "index_get")(ctx, x, tuple, absent, out);
}
void index_put(KernelContext& ctx, const Array& out, const IndexTuple& tuple, const Array& values,
               Combine combine, Absent absent) {
  slot(ctx, &KernelTable::index_put, "index_put")(ctx, out, tuple, values, combine, absent);
}
void matmul(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  slot(ctx, &KernelTable::matmul, "matmul")(ctx, a, b, out);
}
void grouped_matmul(KernelContext& ctx, const Array& x_TK, const Array& w_EKN,
                    const Array& counts_E, const Array& out_TN) {
  slot(ctx, &KernelTable::grouped_matmul, "grouped_matmul")(ctx, x_TK, w_EKN, counts_E, out_TN);
}
void grouped_matmul_weight_grad(KernelContext& ctx, const Array& x_TK, const Array& grad_TN,
                                const Array& counts_E, const Array& grad_w_EKN) {
  slot(ctx, &KernelTable::grouped_matmul_weight_grad, "grouped_matmul_weight_grad")(
      ctx, x_TK, grad_TN, counts_E, grad_w_EKN);
}
void softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  slot(ctx, &KernelTable::softmax, "softmax")(ctx, x, dim, out);
}
void softmax_grad(KernelContext& ctx, const Array& grad, const Array& out, int dim,
                  const Array& grad_x) {
  slot(ctx, &KernelTable::softmax_grad, "softmax_grad")(ctx, grad, out, dim, grad_x);
}
void log_softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  slot(ctx, &KernelTable::log_softmax, "log_softmax")(ctx, x, dim, out);
}
void rms_norm(KernelContext& ctx, const Array& x, const Array& weight, double eps, const Array& out,
              const Array& rstd) {
  slot(ctx, &KernelTable::rms_norm, "rms_norm")(ctx, x, weight, eps, out, rstd);
}
void rms_norm_grad(KernelContext& ctx, const Array& grad, const Array& x, const Array& rstd,
                   const Array& weight, const Array& grad_x, const Array& grad_weight) {
  slot(ctx, &KernelTable::rms_norm_grad, "rms_norm_grad")(ctx, grad, x, rstd, weight, grad_x,
                                                          grad_weight);
}
void rope(KernelContext& ctx, const Array& x, const Array& cos, const Array& sin, Rotation rotation,
          const Array& out) {
  slot(ctx, &KernelTable::rope, "rope")(ctx, x, cos, sin, rotation, out);
}
void row_max(KernelContext& ctx, const Array& logits, const Array& max) {
  slot(ctx, &KernelTable::row_max, "row_max")(ctx, logits, max);
}
void row_sum_exp(KernelContext& ctx, const Array& logits, const Array& max, const Array& sum) {
  slot(ctx, &KernelTable::row_sum_exp, "row_sum_exp")(ctx, logits, max, sum);
}
void row_target(KernelContext& ctx, const Array& logits, const Array& target, const Array& out) {
  slot(ctx, &KernelTable::row_target, "row_target")(ctx, logits, target, out);
}
void cross_entropy_grad(KernelContext& ctx, const Array& grad, const Array& logits,
                        const Array& target, const Array& lse, const Array& grad_logits) {
  slot(ctx, &KernelTable::cross_entropy_grad, "cross_entropy_grad")(ctx, grad, logits, target, lse,
                                                                    grad_logits);
}
void adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param, const Array& grad,
           const Array& m, const Array& v) {
  slot(ctx, &KernelTable::adamw, "adamw")(ctx, options, param, grad, m, v);
}
void sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
         const Array& buffer) {
  slot(ctx, &KernelTable::sgd, "sgd")(ctx, options, param, grad, buffer);
}
void adamw_all(KernelContext& ctx, const AdamWOptions& options, std::span<const AdamWArrays> all,
               const Array& steering) {
  slot(ctx, &KernelTable::adamw_all, "adamw_all")(ctx, options, all, steering);
}
void sgd_all(KernelContext& ctx, const SgdOptions& options, std::span<const SgdArrays> all,
             const Array& steering) {
  slot(ctx, &KernelTable::sgd_all, "sgd_all")(ctx, options, all, steering);
}
void steer_step(KernelContext& ctx, const StepLimits& limits, const StepSums& sums,
                const Array& norm, const Array& steering) {
  slot(ctx, &KernelTable::steer_step, "steer_step")(ctx, limits, sums, norm, steering);
}
void balance_bias(KernelContext& ctx, const BiasUpdate& update, const Array& counts_E,
                  const Array& steering, const Array& bias_E) {
  slot(ctx, &KernelTable::balance_bias, "balance_bias")(ctx, update, counts_E, steering, bias_E);
}
void pointwise(KernelContext& ctx, const Pointwise& function, std::span<const Array> operands,
               std::span<const double> params, const Array& out) {
  slot(ctx, &KernelTable::pointwise, "pointwise")(ctx, function, operands, params, out);
}
void nextafter(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  slot(ctx, &KernelTable::nextafter, "nextafter")(ctx, a, b, out);
}
void max_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Array& out,
              const Array& indices) {
  slot(ctx, &KernelTable::max_pool, "max_pool")(ctx, x, window, out, indices);
}
void max_pool_grad(KernelContext& ctx, const Array& grad, const Array& x, const WindowPlane& window,
                   const Array& grad_x) {
  slot(ctx, &KernelTable::max_pool_grad, "max_pool_grad")(ctx, grad, x, window, grad_x);
}
void avg_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Divisor& divisor,
              const Array& out) {
  slot(ctx, &KernelTable::avg_pool, "avg_pool")(ctx, x, window, divisor, out);
}
void avg_pool_grad(KernelContext& ctx, const Array& grad, const WindowPlane& window,
                   const Divisor& divisor, const Array& grad_x) {
  slot(ctx, &KernelTable::avg_pool_grad, "avg_pool_grad")(ctx, grad, window, divisor, grad_x);
}
void random(KernelContext& ctx, const RandomSpec& spec, const Shape& global_shape,
            std::span<const std::vector<std::int64_t>> global_index, const Array& out) {
  slot(ctx, &KernelTable::random, "random")(ctx, spec, global_shape, global_index, out);
}
void reduce(KernelContext& ctx, ReduceOp op, const Array& x, std::span<const int> dims,
            const Array& out) {
  slot(ctx, &KernelTable::reduce, "reduce")(ctx, op, x, dims, out);
}
void arg_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                 const Array& indices) {
  slot(ctx, &KernelTable::arg_extreme, "arg_extreme")(ctx, which, x, dim, values, indices);
}
void sum_of_squares(KernelContext& ctx, const Array& x, const Array& out) {
  slot(ctx, &KernelTable::sum_of_squares, "sum_of_squares")(ctx, x, out);
}
void fold_rows(KernelContext& ctx, RowFolding folding, const Array& x, const Array& out) {
  slot(ctx, &KernelTable::fold_rows, "fold_rows")(ctx, folding, x, out);
}
void products_of_others(KernelContext& ctx, const Array& x, const Array& others,
                        const Array& totals) {
  slot(ctx, &KernelTable::products_of_others, "products_of_others")(ctx, x, others, totals);
}
void row_moments(KernelContext& ctx, const Array& x, const Array& out) {
  slot(ctx, &KernelTable::row_moments, "row_moments")(ctx, x, out);
}
void combine_moments(KernelContext& ctx, const Array& parts, const Array& out) {
  slot(ctx, &KernelTable::combine_moments, "combine_moments")(ctx, parts, out);
}
void kth_value(KernelContext& ctx, const Array& x, std::int64_t k, const Array& values,
               const Array& indices) {
  slot(ctx, &KernelTable::kth_value, "kth_value")(ctx, x, k, values, indices);
}
void median(KernelContext& ctx, NanRows nan, const Array& x, const Array& values,
            const Array& indices) {
  slot(ctx, &KernelTable::median, "median")(ctx, nan, x, values, indices);
}
void mode(KernelContext& ctx, const Array& x, const Array& values, const Array& indices) {
  slot(ctx, &KernelTable::mode, "mode")(ctx, x, values, indices);
}
void histogram(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  slot(ctx, &KernelTable::histogram, "histogram")(ctx, x, low, high, out);
}
void weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                      const Array& place_TK, const Array& out_TD) {
  slot(ctx, &KernelTable::weighted_row_sum, "weighted_row_sum")(ctx, rows_ND, weights_TK, place_TK,
                                                                out_TD);
}
void weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& slot_N, const Array& grad_TD, const RowSumGrads& grads) {
  slot(ctx, &KernelTable::weighted_row_sum_grad, "weighted_row_sum_grad")(ctx, rows_ND, weights_TK,
                                                                          slot_N, grad_TD, grads);
}
void scan(KernelContext& ctx, Scan fold, const Array& x, int dim, const Array& out) {
  slot(ctx, &KernelTable::scan, "scan")(ctx, fold, x, dim, out);
}
void sum_back(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  slot(ctx, &KernelTable::sum_back, "sum_back")(ctx, x, dim, out);
}
void carry_scan(KernelContext& ctx, Scan fold, const Array& parts, std::int64_t count, int dim,
                const Array& out) {
  slot(ctx, &KernelTable::carry_scan, "carry_scan")(ctx, fold, parts, count, dim, out);
}
void scan_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                  const Array& indices) {
  slot(ctx, &KernelTable::scan_extreme, "scan_extreme")(ctx, which, x, dim, values, indices);
}
void carry_extreme(KernelContext& ctx, Extreme which, const ExtremeParts& parts, int dim,
                   const Array& values, const Array& indices) {
  slot(ctx, &KernelTable::carry_extreme, "carry_extreme")(ctx, which, parts, dim, values, indices);
}
void log_scan_sums(KernelContext& ctx, const Array& grad, const Array& result, int dim,
                   const Array& sums) {
  slot(ctx, &KernelTable::log_scan_sums, "log_scan_sums")(ctx, grad, result, dim, sums);
}
void log_scan_grad(KernelContext& ctx, const LogScan& scan, const LogScanParts& parts, int dim,
                   const Array& sums) {
  slot(ctx, &KernelTable::log_scan_grad, "log_scan_grad")(ctx, scan, parts, dim, sums);
}
void topk(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices) {
  slot(ctx, &KernelTable::topk, "topk")(ctx, x, dim, order, values, indices);
}
void route_topk(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                const RouteResults& to) {
  slot(ctx, &KernelTable::route_topk, "route_topk")(ctx, options, from, to);
}
void sort(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices) {
  slot(ctx, &KernelTable::sort, "sort")(ctx, x, dim, order, values, indices);
}
void sort_by_key(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys,
                 const Array& permutation_N, const Array& counts_E) {
  slot(ctx, &KernelTable::sort_by_key, "sort_by_key")(ctx, keys_N, num_keys, permutation_N,
                                                      counts_E);
}
void take_map(KernelContext& ctx, const Array& x, int dim, std::span<const std::int64_t> places,
              double otherwise, const Array& out) {
  slot(ctx, &KernelTable::take_map, "take_map")(ctx, x, dim, places, otherwise, out);
}
void add_map(KernelContext& ctx, const Array& grad, int dim, std::span<const std::int64_t> places,
             const Array& out) {
  slot(ctx, &KernelTable::add_map, "add_map")(ctx, grad, dim, places, out);
}
void check_indices(KernelContext& ctx, const Array& index, const IndexUse& use) {
  slot(ctx, &KernelTable::check_indices, "check_indices")(ctx, index, use);
}
void localize(KernelContext& ctx, const Array& positions, const HeldPart& part,
              const OtherPositions& others, const RefusePosition& refuse, const Array& local) {
  slot(ctx, &KernelTable::localize, "localize")(ctx, positions, part, others, refuse, local);
}
void globalize(KernelContext& ctx, const Array& local, std::span<const HeldPart> dims,
               const Array& positions) {
  slot(ctx, &KernelTable::globalize, "globalize")(ctx, local, dims, positions);
}
Array move_boxes(KernelContext& ctx, const BoxMoves& moves, const MovedArrays& arrays,
                 const std::optional<Fold>& how, Stream& stream) {
  return slot(ctx, &KernelTable::move_boxes, "move_boxes")(ctx, moves, arrays, how, stream);
}
void fill_identity(KernelContext& ctx, ReduceOp op, const Array& out) {
  slot(ctx, &KernelTable::fill_identity, "fill_identity")(ctx, op, out);
}
void order_by_key(KernelContext& ctx, const KeyedRows& rows, const KeySize& size, const Array& of_N,
                  const OrderedLists& out) {
  slot(ctx, &KernelTable::order_by_key, "order_by_key")(ctx, rows, size, of_N, out);
}
void pack_parts(KernelContext& ctx, const Array& list_N, const Array& counts_K,
                const PartRooms& rooms, const Array& out_M) {
  slot(ctx, &KernelTable::pack_parts, "pack_parts")(ctx, list_N, counts_K, rooms, out_M);
}
void invert_list(KernelContext& ctx, const Array& list_R, const Array& place_S) {
  slot(ctx, &KernelTable::invert_list, "invert_list")(ctx, list_R, place_S);
}
void keys_in_range(KernelContext& ctx, const Array& ids_N, KeyRange range, const Array& keys_N) {
  slot(ctx, &KernelTable::keys_in_range, "keys_in_range")(ctx, ids_N, range, keys_N);
}
void keys_of_parts(KernelContext& ctx, const Array& ids_TK, const ExpertParts& parts,
                   const Array& keys_TP) {
  slot(ctx, &KernelTable::keys_of_parts, "keys_of_parts")(ctx, ids_TK, parts, keys_TP);
}
void slots_of_passed(KernelContext& ctx, const Array& ids_TK, const PassedTokens& tokens,
                     const PassedSlots& out) {
  slot(ctx, &KernelTable::slots_of_passed, "slots_of_passed")(ctx, ids_TK, tokens, out);
}
void check_counts(KernelContext& ctx, const Array& ids, const Array& counts_E,
                  std::string_view what) {
  slot(ctx, &KernelTable::check_counts, "check_counts")(ctx, ids, counts_E, what);
}
void put_peer_rows(KernelContext& ctx, const Array& tokens_TD, const Array& weights_TK,
                   const Array& place_TK, const PeerBuffers& to, Stream& stream) {
  slot(ctx, &KernelTable::put_peer_rows, "put_peer_rows")(ctx, tokens_TD, weights_TK, place_TK, to,
                                                          stream);
}
void sum_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& weights_TK,
                   const Array& place_TK, const Array& out_TD, Stream& stream) {
  slot(ctx, &KernelTable::sum_peer_rows, "sum_peer_rows")(ctx, from, weights_TK, place_TK, out_TD,
                                                          stream);
}
void dot_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& tokens_TD,
                   const Array& place_TK, const Array& out_TK, Stream& stream) {
  slot(ctx, &KernelTable::dot_peer_rows, "dot_peer_rows")(ctx, from, tokens_TD, place_TK, out_TK,
                                                          stream);
}
void lay_out_peers(KernelContext& ctx, const PeerLayout& layout, const Array& slots_N,
                   const PeerLists& out) {
  slot(ctx, &KernelTable::lay_out_peers, "lay_out_peers")(ctx, layout, slots_N, out);
}
void clear_unfilled_rows(KernelContext& ctx, const Array& counts_e, const Array& filled_e,
                         const Array& out_RD) {
  slot(ctx, &KernelTable::clear_unfilled_rows, "clear_unfilled_rows")(ctx, counts_e, filled_e,
                                                                      out_RD);
}

}  // namespace tessera::kernels
