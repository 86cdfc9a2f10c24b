// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/gradients.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor _pad_circular_grad(const DTensor& grad, const Shape& pad, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("_pad_circular_grad"), {&grad},
    {{"pad", pad}, {"input_size", input_size}}, site);
}
DTensor adaptive_avg_pool1d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site) {
  return call_op(known_op("adaptive_avg_pool1d_grad"), {&grad},
    {{"output_size", output_size}, {"input_size", input_size}}, site);
}
DTensor adaptive_avg_pool2d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site) {
  return call_op(known_op("adaptive_avg_pool2d_grad"), {&grad},
    {{"output_size", output_size}, {"input_size", input_size}}, site);
}
DTensor adaptive_max_pool1d_grad(const DTensor& grad, const DTensor& self, const Shape& output_size,
    const Shape& grad_size, const Site& site) {
  return call_op(known_op("adaptive_max_pool1d_grad"), {&grad, &self},
    {{"output_size", output_size}, {"grad_size", grad_size}}, site);
}
DTensor adaptive_max_pool2d_grad(const DTensor& grad, const DTensor& self, const Shape& output_size,
    const Shape& grad_size, const Site& site) {
  return call_op(known_op("adaptive_max_pool2d_grad"), {&grad, &self},
    {{"output_size", output_size}, {"grad_size", grad_size}}, site);
}
// NOLINTNEXTLINE(readability-function-size)
std::array<DTensor, 3> attention_grad(const DTensor& grad, const DTensor& query, const DTensor& key,
    const DTensor& value, const DTensor& result, const DTensor& lse, double scale, bool causal,
    std::int64_t causal_offset, const Site& site) {
  Attrs attrs = {{"scale", scale}};
  if (causal != true) attrs.set("causal", causal);
  if (causal_offset != 0) attrs.set("causal_offset", causal_offset);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("attention_grad"),
    {&grad, &query, &key, &value, &result, &lse}, attrs, site));
}
DTensor avg_pool1d_grad(const DTensor& grad, const Shape& kernel_size, const Shape& input_size,
    const AvgPool1dGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}, {"input_size", input_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  if (options.count_include_pad != true) attrs.set("count_include_pad", options.count_include_pad);
  if (options.divisor_override != 0) attrs.set("divisor_override", options.divisor_override);
  return call_op(known_op("avg_pool1d_grad"), {&grad}, attrs, site);
}
DTensor avg_pool2d_grad(const DTensor& grad, const Shape& kernel_size, const Shape& input_size,
    const AvgPool2dGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}, {"input_size", input_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  if (options.count_include_pad != true) attrs.set("count_include_pad", options.count_include_pad);
  if (options.divisor_override != 0) attrs.set("divisor_override", options.divisor_override);
  return call_op(known_op("avg_pool2d_grad"), {&grad}, attrs, site);
}
std::array<DTensor, 3> batch_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight, double eps, const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("batch_norm_grad"),
    {&grad, &input, &mean, &rstd, &weight}, attrs, site));
}
DTensor constant_pad_nd_grad(const DTensor& grad, const Shape& pad, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("constant_pad_nd_grad"), {&grad},
    {{"pad", pad}, {"input_size", input_size}}, site);
}
DTensor conv1d_input_grad(const DTensor& grad, const DTensor& weight, const Shape& input_size,
    const Conv1dInputGradOptions& options, const Site& site) {
  Attrs attrs = {{"input_size", input_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv1d_input_grad"), {&grad, &weight}, attrs, site);
}
DTensor conv1d_weight_grad(const DTensor& grad, const DTensor& input, const Shape& kernel_size,
    const Conv1dWeightGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv1d_weight_grad"), {&grad, &input}, attrs, site);
}
DTensor conv2d_input_grad(const DTensor& grad, const DTensor& weight, const Shape& input_size,
    const Conv2dInputGradOptions& options, const Site& site) {
  Attrs attrs = {{"input_size", input_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv2d_input_grad"), {&grad, &weight}, attrs, site);
}
DTensor conv2d_weight_grad(const DTensor& grad, const DTensor& input, const Shape& kernel_size,
    const Conv2dWeightGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv2d_weight_grad"), {&grad, &input}, attrs, site);
}
DTensor cross_entropy_grad(const DTensor& grad, const DTensor& logits, const DTensor& target,
    const DTensor& lse, const Site& site) {
  return call_op(known_op("cross_entropy_grad"), {&grad, &logits, &target, &lse}, {}, site);
}
DTensor cumsum_grad(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("cumsum_grad"), {&self}, {{"dim", dim}}, site);
}
DTensor embedding_grad(const DTensor& grad, const DTensor& indices, std::int64_t num_embeddings,
    const Site& site) {
  return call_op(known_op("embedding_grad"), {&grad, &indices},
    {{"num_embeddings", num_embeddings}}, site);
}
DTensor gather_grad(const DTensor& grad, std::int64_t dim, const DTensor& index, const Shape& size,
    const Site& site) {
  return call_op(known_op("gather_grad"), {&grad, &index}, {{"dim", dim}, {"size", size}}, site);
}
DTensor gelu_grad(const DTensor& grad, const DTensor& self, std::string_view approximate,
    const Site& site) {
  Attrs attrs;
  if (approximate != "none") attrs.set("approximate", std::string(approximate));
  return call_op(known_op("gelu_grad"), {&grad, &self}, attrs, site);
}
// NOLINTNEXTLINE(readability-function-size)
std::array<DTensor, 3> group_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, std::int64_t num_groups, const DTensor& weight,
    double eps, const Site& site) {
  Attrs attrs = {{"num_groups", num_groups}};
  if (eps != 1e-05) attrs.set("eps", eps);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("group_norm_grad"),
    {&grad, &input, &mean, &rstd, &weight}, attrs, site));
}
DTensor grouped_mm_input_grad(const DTensor& grad, const DTensor& weight, const DTensor& counts,
    const Site& site) {
  return call_op(known_op("grouped_mm_input_grad"), {&grad, &weight, &counts}, {}, site);
}
DTensor grouped_mm_slots_weight_grad(const DTensor& grad, const DTensor& self,
    const DTensor& counts, const Site& site) {
  return call_op(known_op("grouped_mm_slots_weight_grad"), {&grad, &self, &counts}, {}, site);
}
DTensor grouped_mm_weight_grad(const DTensor& grad, const DTensor& self, const DTensor& counts,
    const Site& site) {
  return call_op(known_op("grouped_mm_weight_grad"), {&grad, &self, &counts}, {}, site);
}
DTensor index_select_grad(const DTensor& grad, std::int64_t dim, const DTensor& index,
    std::int64_t size, const Site& site) {
  return call_op(known_op("index_select_grad"), {&grad, &index}, {{"dim", dim}, {"size", size}},
    site);
}
std::array<DTensor, 3> instance_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight, double eps, const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("instance_norm_grad"),
    {&grad, &input, &mean, &rstd, &weight}, attrs, site));
}
std::array<DTensor, 3> layer_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& mean, const DTensor& rstd, const DTensor& weight, double eps, const Site& site) {
  Attrs attrs;
  if (eps != 1e-05) attrs.set("eps", eps);
  return results_of<std::array<DTensor, 3>>(call_all(known_op("layer_norm_grad"),
    {&grad, &input, &mean, &rstd, &weight}, attrs, site));
}
DTensor linear_input_grad(const DTensor& grad, const DTensor& weight, const Site& site) {
  return call_op(known_op("linear_input_grad"), {&grad, &weight}, {}, site);
}
DTensor linear_weight_grad(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(known_op("linear_weight_grad"), {&a, &b}, {}, site);
}
DTensor log_softmax_grad(const DTensor& grad, const DTensor& result, std::int64_t dim,
    const Site& site) {
  return call_op(known_op("log_softmax_grad"), {&grad, &result}, {{"dim", dim}}, site);
}
DTensor logcumsumexp_grad(const DTensor& grad, const DTensor& self, const DTensor& result,
    std::int64_t dim, const Site& site) {
  return call_op(known_op("logcumsumexp_grad"), {&grad, &self, &result}, {{"dim", dim}}, site);
}
DTensor masked_scatter_backward(const DTensor& grad, const DTensor& mask, const Shape& sizes,
    const Site& site) {
  return call_op(known_op("masked_scatter_backward"), {&grad, &mask}, {{"sizes", sizes}}, site);
}
DTensor max_pool1d_grad(const DTensor& grad, const DTensor& self, const Shape& kernel_size,
    const Shape& grad_size, const MaxPool1dGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}, {"grad_size", grad_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return call_op(known_op("max_pool1d_grad"), {&grad, &self}, attrs, site);
}
DTensor max_pool2d_grad(const DTensor& grad, const DTensor& self, const Shape& kernel_size,
    const Shape& grad_size, const MaxPool2dGradOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}, {"grad_size", grad_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return call_op(known_op("max_pool2d_grad"), {&grad, &self}, attrs, site);
}
DTensor pointwise_grad(const DTensor& grad, const DTensor& self, std::string_view function,
    double a, double b, double c, const Site& site) {
  Attrs attrs = {{"function", std::string(function)}};
  if (a != 0.0) attrs.set("a", a);
  if (b != 0.0) attrs.set("b", b);
  if (c != 0.0) attrs.set("c", c);
  return call_op(known_op("pointwise_grad"), {&grad, &self}, attrs, site);
}
// NOLINTNEXTLINE(readability-function-size)
DTensor pointwise_grad_of_three(const DTensor& grad, const DTensor& self, const DTensor& other,
    const DTensor& third, std::string_view function, double a, double b, double c,
    const Site& site) {
  Attrs attrs = {{"function", std::string(function)}};
  if (a != 0.0) attrs.set("a", a);
  if (b != 0.0) attrs.set("b", b);
  if (c != 0.0) attrs.set("c", c);
  return call_op(known_op("pointwise_grad_of_three"), {&grad, &self, &other, &third}, attrs, site);
}
// NOLINTNEXTLINE(readability-function-size)
DTensor pointwise_grad_of_two(const DTensor& grad, const DTensor& self, const DTensor& other,
    std::string_view function, double a, double b, double c, const Site& site) {
  Attrs attrs = {{"function", std::string(function)}};
  if (a != 0.0) attrs.set("a", a);
  if (b != 0.0) attrs.set("b", b);
  if (c != 0.0) attrs.set("c", c);
  return call_op(known_op("pointwise_grad_of_two"), {&grad, &self, &other}, attrs, site);
}
DTensor reflection_pad1d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("reflection_pad1d_grad"), {&grad},
    {{"padding", padding}, {"input_size", input_size}}, site);
}
DTensor reflection_pad2d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("reflection_pad2d_grad"), {&grad},
    {{"padding", padding}, {"input_size", input_size}}, site);
}
DTensor relu_grad(const DTensor& grad, const DTensor& result, const Site& site) {
  return call_op(known_op("relu_grad"), {&grad, &result}, {}, site);
}
DTensor replication_pad1d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("replication_pad1d_grad"), {&grad},
    {{"padding", padding}, {"input_size", input_size}}, site);
}
DTensor replication_pad2d_grad(const DTensor& grad, const Shape& padding, const Shape& input_size,
    const Site& site) {
  return call_op(known_op("replication_pad2d_grad"), {&grad},
    {{"padding", padding}, {"input_size", input_size}}, site);
}
std::pair<DTensor, DTensor> rms_norm_grad(const DTensor& grad, const DTensor& input,
    const DTensor& rstd, const DTensor& weight, const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("rms_norm_grad"),
    {&grad, &input, &rstd, &weight}, {}, site));
}
DTensor sigmoid_grad(const DTensor& grad, const DTensor& result, const Site& site) {
  return call_op(known_op("sigmoid_grad"), {&grad, &result}, {}, site);
}
DTensor silu_grad(const DTensor& grad, const DTensor& self, const Site& site) {
  return call_op(known_op("silu_grad"), {&grad, &self}, {}, site);
}
DTensor slice_grad(const DTensor& grad, std::int64_t dim, std::int64_t start, std::int64_t size,
    const Site& site) {
  return call_op(known_op("slice_grad"), {&grad}, {{"dim", dim}, {"start", start}, {"size", size}},
    site);
}
DTensor softmax_grad(const DTensor& grad, const DTensor& result, std::int64_t dim,
    const Site& site) {
  return call_op(known_op("softmax_grad"), {&grad, &result}, {{"dim", dim}}, site);
}
std::pair<DTensor, DTensor> swiglu_grad(const DTensor& grad, const DTensor& gate, const DTensor& up,
    const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("swiglu_grad"),
    {&grad, &gate, &up}, {}, site));
}
DTensor tanh_grad(const DTensor& grad, const DTensor& result, const Site& site) {
  return call_op(known_op("tanh_grad"), {&grad, &result}, {}, site);
}
DTensor trace_grad(const DTensor& grad, const Shape& size, const Site& site) {
  return call_op(known_op("trace_grad"), {&grad}, {{"size", size}}, site);
}
DTensor unfold_backward(const DTensor& grad, std::int64_t dimension, std::int64_t step,
    std::int64_t length, const Site& site) {
  return call_op(known_op("unfold_backward"), {&grad},
    {{"dimension", dimension}, {"step", step}, {"length", length}}, site);
}
DTensor upsample_nearest1d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site) {
  return call_op(known_op("upsample_nearest1d_grad"), {&grad},
    {{"output_size", output_size}, {"input_size", input_size}}, site);
}
DTensor upsample_nearest2d_grad(const DTensor& grad, const Shape& output_size,
    const Shape& input_size, const Site& site) {
  return call_op(known_op("upsample_nearest2d_grad"), {&grad},
    {{"output_size", output_size}, {"input_size", input_size}}, site);
}

}  // namespace tessera
