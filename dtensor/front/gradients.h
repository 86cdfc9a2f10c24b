// dtensor/front/gradients.h: typed functions of the ops that gradients consist of. Each throws
// Error, naming what was seen and what is allowed, for operands and attributes that its op does not
// take, before any collective.
// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/keep_dim.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Cotangent of _pad_circular. Takes grad: floating, 0 to 16 dims; pad: -4611686018427387904 to
/// 4611686018427387904.
DTensor _pad_circular_grad(const DTensor& grad, const Shape& pad, const Shape& input_size,
    const Site& site = Site::current());
/// Cotangent of a pool's operand. Takes grad: floating, 1 to 63 dims. Rule: *w -> *w | w~ | lin A
DTensor adaptive_avg_pool1d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site = Site::current());
/// Cotangent of a pool's operand. Takes grad: floating, 2 to 63 dims. Rule: *hw -> *hw | h~ w~ |
/// lin A
DTensor adaptive_avg_pool2d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site = Site::current());
/// Cotangent of a pool's operand. Takes grad: floating, 1 to 63 dims; self: dtype of grad. Rule:
/// *w, *w -> *w | w~ | lin A
DTensor adaptive_max_pool1d_grad(const DTensor& grad, const DTensor& self, const Shape& output_size,
    const Shape& grad_size, const Site& site = Site::current());
/// Cotangent of a pool's operand. Takes grad: floating, 2 to 63 dims; self: dtype of grad. Rule:
/// *hw, *hw -> *hw | h~ w~ | lin A
DTensor adaptive_max_pool2d_grad(const DTensor& grad, const DTensor& self, const Shape& output_size,
    const Shape& grad_size, const Site& site = Site::current());
/// Cotangents of attention's query, key and value. Takes query: floating; key: dtype of query;
/// value: dtype of query; causal_offset: -4611686018427387904 to 4611686018427387904. Rule: bhqv,
/// bhqd, bhkd, bhkv, bhqv, bhq -> bhqd, bhkd, bhkv | q:sum v:sum d! k! | lin A
std::array<DTensor, 3> attention_grad(const DTensor& grad, const DTensor& query, const DTensor& key,
    const DTensor& value, const DTensor& result, const DTensor& lse, double scale,
    bool causal = true, std::int64_t causal_offset = 0, const Site& site = Site::current());
struct AvgPool1dGradOptions {
  Shape stride = {};
  Shape padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};
/// Cotangent of a pool's operand. Takes grad: floating, 1 to 63 dims. Rule: *w -> *w | w~ | lin A
DTensor avg_pool1d_grad(const DTensor& grad, const Shape& kernel_size, const Shape& input_size,
    const AvgPool1dGradOptions& options = {}, const Site& site = Site::current());
struct AvgPool2dGradOptions {
  Shape stride = {};
  Shape padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};
/// Cotangent of a pool's operand. Takes grad: floating, 2 to 63 dims. Rule: *hw -> *hw | h~ w~ |
/// lin A
DTensor avg_pool2d_grad(const DTensor& grad, const Shape& kernel_size, const Shape& input_size,
    const AvgPool2dGradOptions& options = {}, const Site& site = Site::current());
/// Cotangents of batch_norm's input, weight and bias. Takes grad: floating; mean: floating; rstd:
/// floating; weight: floating. Rule: bc*, bc*, c, c, c? -> bc*, c, c | b! *! | lin A
std::array<DTensor, 3> batch_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight = {}, double eps = 1e-05,
    const Site& site = Site::current());
/// Cotangent of constant_pad_nd. Takes grad: floating, 0 to 16 dims; pad: -4611686018427387904 to
/// 4611686018427387904.
DTensor constant_pad_nd_grad(const DTensor& grad, const Shape& pad, const Shape& input_size,
    const Site& site = Site::current());
struct Conv1dInputGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Cotangent of a convolution's input, whose windowed sizes are input_size. Takes grad: floating;
/// weight: dtype of grad; groups: at least 1. Rule: b(go)w, (go)cj -> b(gc)w | o:sum w~ j! | lin
/// A*B
DTensor conv1d_input_grad(const DTensor& grad, const DTensor& weight, const Shape& input_size,
    const Conv1dInputGradOptions& options = {}, const Site& site = Site::current());
struct Conv1dWeightGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Cotangent of a convolution's weight, whose windowed sizes are kernel_size. Takes grad: floating;
/// input: dtype of grad; groups: at least 1. Rule: b(go)w, b(gc)w -> (go)cJ | b:sum w~ | lin A*B
DTensor conv1d_weight_grad(const DTensor& grad, const DTensor& input, const Shape& kernel_size,
    const Conv1dWeightGradOptions& options = {}, const Site& site = Site::current());
struct Conv2dInputGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Cotangent of a convolution's input, whose windowed sizes are input_size. Takes grad: floating;
/// weight: dtype of grad; groups: at least 1. Rule: b(go)hw, (go)cij -> b(gc)hw | o:sum h~ w~ i! j!
/// | lin A*B
DTensor conv2d_input_grad(const DTensor& grad, const DTensor& weight, const Shape& input_size,
    const Conv2dInputGradOptions& options = {}, const Site& site = Site::current());
struct Conv2dWeightGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Cotangent of a convolution's weight, whose windowed sizes are kernel_size. Takes grad: floating;
/// input: dtype of grad; groups: at least 1. Rule: b(go)hw, b(gc)hw -> (go)cIJ | b:sum h~ w~ | lin
/// A*B
DTensor conv2d_weight_grad(const DTensor& grad, const DTensor& input, const Shape& kernel_size,
    const Conv2dWeightGradOptions& options = {}, const Site& site = Site::current());
/// Cotangent of cross_entropy's logits: (exp(logits - lse) - [target]) grad. Takes grad: floating;
/// logits: floating; lse: floating. Rule: *, *v, *, * -> *v | v#:own | lin A
DTensor cross_entropy_grad(const DTensor& grad, const DTensor& logits, const DTensor& target,
    const DTensor& lse, const Site& site = Site::current());
/// Cotangent of cumsum's operand: the sum of all elements from each on along a dim. Rule: *r@dim ->
/// *r | r^ | lin A
DTensor cumsum_grad(const DTensor& self, std::int64_t dim, const Site& site = Site::current());
/// Cotangent of embedding's weight: rows of grad added by id. Rule: *d, * -> vd | v#:own *:sum |
/// lin A
DTensor embedding_grad(const DTensor& grad, const DTensor& indices, std::int64_t num_embeddings,
    const Site& site = Site::current());
/// Cotangent of gather's self: grad added into zeros of `size` at index. Rule: *i@dim, *i@dim ->
/// *g@dim | g#:own i:sum | lin A
DTensor gather_grad(const DTensor& grad, std::int64_t dim, const DTensor& index, const Shape& size,
    const Site& site = Site::current());
/// Cotangent of gelu's operand. Rule: *, * -> * | lin A
DTensor gelu_grad(const DTensor& grad, const DTensor& self, std::string_view approximate = "none",
    const Site& site = Site::current());
/// Cotangents of group_norm's input, weight and bias. Takes grad: floating; mean: floating; rstd:
/// floating; weight: floating. Rule: nc*, nc*, nG, nG, c? -> nc*, c, c | c! *! n:sum | lin A
std::array<DTensor, 3> group_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, std::int64_t num_groups, const DTensor& weight = {},
    double eps = 1e-05, const Site& site = Site::current());
/// Cotangent of grouped_mm's rows. Takes grad: floating; weight: dtype of grad; counts: I64 or I32.
/// Rule: tn, enk, c -> tk | n:sum e:sum c! | lin A*B
DTensor grouped_mm_input_grad(const DTensor& grad, const DTensor& weight, const DTensor& counts,
    const Site& site = Site::current());
/// Cotangent of grouped_mm_slots' weights. Takes grad: floating; self: dtype of grad; counts: I64
/// or I32. Rule: (ec)n, (ec)k, e -> enk | c! | lin A*B
DTensor grouped_mm_slots_weight_grad(const DTensor& grad, const DTensor& self,
    const DTensor& counts, const Site& site = Site::current());
/// Cotangent of grouped_mm's weights: zeros for a group without rows. Takes grad: floating; self:
/// dtype of grad; counts: I64 or I32. Rule: tn, tk, c -> Enk | t:sum c! | lin A*B
DTensor grouped_mm_weight_grad(const DTensor& grad, const DTensor& self, const DTensor& counts,
    const Site& site = Site::current());
/// Cotangent of index_select's self: slices added into zeros of `size` along the dim. Rule: *i@dim,
/// i -> *g@dim | g#:own i:sum | lin A
DTensor index_select_grad(const DTensor& grad, std::int64_t dim, const DTensor& index,
    std::int64_t size, const Site& site = Site::current());
/// Cotangents of instance_norm's input, weight and bias. Takes grad: floating; mean: floating;
/// rstd: floating; weight: floating. Rule: nc*, nc*, nc, nc, c? -> nc*, c, c | *! n:sum | lin A
std::array<DTensor, 3> instance_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight = {}, double eps = 1e-05,
    const Site& site = Site::current());
/// Cotangents of layer_norm's input, weight and bias. Takes grad: floating; mean: floating; rstd:
/// floating; weight: floating. Rule: *r, *r, *, *, r? -> *r, r, r | r! *:sum | lin A
std::array<DTensor, 3> layer_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight = {}, double eps = 1e-05,
    const Site& site = Site::current());
/// Cotangent of linear's input: grad times weight [n, k]. Rule: *n, nk -> *k | n:sum | lin A*B
DTensor linear_input_grad(const DTensor& grad, const DTensor& weight,
    const Site& site = Site::current());
/// Transpose of a times b, both with all leading dims as rows: a weight's cotangent. Rule: *n, *k
/// -> nk | *:sum | lin A*B
DTensor linear_weight_grad(const DTensor& a, const DTensor& b, const Site& site = Site::current());
/// Cotangent of log_softmax's operand. Takes grad: floating; result: floating, shape of grad. Rule:
/// *r@dim, *r@dim -> *r | r! | lin A
DTensor log_softmax_grad(const DTensor& grad, const DTensor& result, std::int64_t dim,
    const Site& site = Site::current());
/// Cotangent of logcumsumexp's operand. Takes grad: floating; self: dtype of grad, shape of grad;
/// result: dtype of grad, shape of grad. Rule: *r@dim, *r@dim, *r@dim -> *r | r^ | lin A
DTensor logcumsumexp_grad(const DTensor& grad, const DTensor& self, const DTensor& result,
    std::int64_t dim, const Site& site = Site::current());
/// Cotangent of masked_scatter's source: grad's elements where mask is true, in row-major order,
/// then zeros. Rule: *, ... -> K | *! ...! | lin A | mono A | prod A
DTensor masked_scatter_backward(const DTensor& grad, const DTensor& mask, const Shape& sizes,
    const Site& site = Site::current());
struct MaxPool1dGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Cotangent of a pool's operand. Takes grad: floating, 1 to 63 dims; self: dtype of grad. Rule:
/// *w, *w -> *w | w~ | lin A
DTensor max_pool1d_grad(const DTensor& grad, const DTensor& self, const Shape& kernel_size,
    const Shape& grad_size, const MaxPool1dGradOptions& options = {},
    const Site& site = Site::current());
struct MaxPool2dGradOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Cotangent of a pool's operand. Takes grad: floating, 2 to 63 dims; self: dtype of grad. Rule:
/// *hw, *hw -> *hw | h~ w~ | lin A
DTensor max_pool2d_grad(const DTensor& grad, const DTensor& self, const Shape& kernel_size,
    const Shape& grad_size, const MaxPool2dGradOptions& options = {},
    const Site& site = Site::current());
/// Cotangent times the slope that `function` names (tan'0: of tan by operand 0) with its numbers a,
/// b, c. Rule: *, * -> * | lin A
DTensor pointwise_grad(const DTensor& grad, const DTensor& self, std::string_view function,
    double a = 0.0, double b = 0.0, double c = 0.0, const Site& site = Site::current());
/// Cotangent times the slope that `function` names (tan'0: of tan by operand 0) with its numbers a,
/// b, c. Rule: *, *, *, * -> * | lin A
DTensor pointwise_grad_of_three(const DTensor& grad, const DTensor& self, const DTensor& other,
    const DTensor& third, std::string_view function, double a = 0.0, double b = 0.0, double c = 0.0,
    const Site& site = Site::current());
/// Cotangent times the slope that `function` names (tan'0: of tan by operand 0) with its numbers a,
/// b, c. Rule: *, *, * -> * | lin A
DTensor pointwise_grad_of_two(const DTensor& grad, const DTensor& self, const DTensor& other,
    std::string_view function, double a = 0.0, double b = 0.0, double c = 0.0,
    const Site& site = Site::current());
/// Cotangent of reflection_pad1d. Takes grad: floating, 0 to 16 dims; padding: -4611686018427387904
/// to 4611686018427387904.
DTensor reflection_pad1d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site = Site::current());
/// Cotangent of reflection_pad2d. Takes grad: floating, 0 to 16 dims; padding: -4611686018427387904
/// to 4611686018427387904.
DTensor reflection_pad2d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site = Site::current());
/// Cotangent of relu's operand. Rule: *, * -> * | lin A | mono A | prod A
DTensor relu_grad(const DTensor& grad, const DTensor& result, const Site& site = Site::current());
/// Cotangent of replication_pad1d. Takes grad: floating, 0 to 16 dims; padding:
/// -4611686018427387904 to 4611686018427387904.
DTensor replication_pad1d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site = Site::current());
/// Cotangent of replication_pad2d. Takes grad: floating, 0 to 16 dims; padding:
/// -4611686018427387904 to 4611686018427387904.
DTensor replication_pad2d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site = Site::current());
/// Cotangents of rms_norm's input and weight. Takes grad: floating; input: floating; rstd:
/// floating; weight: floating. Rule: *r, *r, *, r -> *r, r | r! *:sum | lin A
std::pair<DTensor, DTensor> rms_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& rstd, const DTensor& weight, const Site& site = Site::current());
/// Cotangent of sigmoid's operand. Rule: *, * -> * | lin A
DTensor sigmoid_grad(const DTensor& grad, const DTensor& result,
    const Site& site = Site::current());
/// Cotangent of silu's operand. Rule: *, * -> * | lin A
DTensor silu_grad(const DTensor& grad, const DTensor& self, const Site& site = Site::current());
/// Zeros of `size` along a dim, with the operand at `start`: a slice's cotangent, or padding. Rule:
/// *r@dim -> *r | r~ | lin A | mono A | prod A
DTensor slice_grad(const DTensor& grad, std::int64_t dim, std::int64_t start, std::int64_t size,
    const Site& site = Site::current());
/// Cotangent of softmax's operand. Takes grad: floating; result: floating, shape of grad. Rule:
/// *r@dim, *r@dim -> *r | r! | lin A
DTensor softmax_grad(const DTensor& grad, const DTensor& result, std::int64_t dim,
    const Site& site = Site::current());
/// Cotangents of swiglu's gate and up. Takes grad: floating, shape of gate; gate: floating; up:
/// floating, shape of gate. Rule: *, *, * -> *, * | lin A | lin[0] C
std::pair<DTensor, DTensor> swiglu_grad(const DTensor& grad, const DTensor& gate, const DTensor& up,
    const Site& site = Site::current());
/// Cotangent of tanh's operand. Rule: *, * -> * | lin A
DTensor tanh_grad(const DTensor& grad, const DTensor& result, const Site& site = Site::current());
/// A matrix of `size` with the operand on its diagonal, zeros elsewhere. Takes grad: 0 dims. Rule:
/// * -> *MN | lin A | mono A | prod A
DTensor trace_grad(const DTensor& grad, const Shape& size, const Site& site = Site::current());
/// Cotangent of unfold's operand: windows added up where they lie. `dimension` counts from the
/// front, as grad has a dim more than the result. Takes dimension: at least 0; step: at least 1.
/// Rule: *kf@dimension -> *K@dimension | k! f! | lin A
DTensor unfold_backward(const DTensor& grad, std::int64_t dimension, std::int64_t step,
    std::int64_t length, const Site& site = Site::current());
/// Cotangent of upsample_nearest1d. Takes grad: floating, 0 to 16 dims; output_size: 1 to
/// 4611686018427387904.
DTensor upsample_nearest1d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site = Site::current());
/// Cotangent of upsample_nearest2d. Takes grad: floating, 0 to 16 dims; output_size: 1 to
/// 4611686018427387904.
DTensor upsample_nearest2d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site = Site::current());

}  // namespace tessera
