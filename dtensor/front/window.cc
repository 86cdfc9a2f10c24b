// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/window.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor adaptive_avg_pool1d(const DTensor& self, const Shape& output_size, const Site& site) {
  return call_op(known_op("adaptive_avg_pool1d"), {&self}, {{"output_size", output_size}}, site);
}
DTensor adaptive_avg_pool2d(const DTensor& self, const Shape& output_size, const Site& site) {
  return call_op(known_op("adaptive_avg_pool2d"), {&self}, {{"output_size", output_size}}, site);
}
std::pair<DTensor, DTensor> adaptive_max_pool1d(const DTensor& self, const Shape& output_size,
    const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("adaptive_max_pool1d"), {&self},
    {{"output_size", output_size}}, site));
}
std::pair<DTensor, DTensor> adaptive_max_pool2d(const DTensor& self, const Shape& output_size,
    const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("adaptive_max_pool2d"), {&self},
    {{"output_size", output_size}}, site));
}
DTensor avg_pool1d(const DTensor& self, const Shape& kernel_size, const AvgPool1dOptions& options,
    const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  if (options.count_include_pad != true) attrs.set("count_include_pad", options.count_include_pad);
  if (options.divisor_override != 0) attrs.set("divisor_override", options.divisor_override);
  return call_op(known_op("avg_pool1d"), {&self}, attrs, site);
}
DTensor avg_pool2d(const DTensor& self, const Shape& kernel_size, const AvgPool2dOptions& options,
    const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  if (options.count_include_pad != true) attrs.set("count_include_pad", options.count_include_pad);
  if (options.divisor_override != 0) attrs.set("divisor_override", options.divisor_override);
  return call_op(known_op("avg_pool2d"), {&self}, attrs, site);
}
DTensor conv1d(const DTensor& input, const DTensor& weight, const DTensor& bias,
    const Conv1dOptions& options, const Site& site) {
  Attrs attrs;
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv1d"), {&input, &weight, &bias}, attrs, site);
}
DTensor conv2d(const DTensor& input, const DTensor& weight, const DTensor& bias,
    const Conv2dOptions& options, const Site& site) {
  Attrs attrs;
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  return call_op(known_op("conv2d"), {&input, &weight, &bias}, attrs, site);
}
DTensor conv_transpose1d(const DTensor& input, const DTensor& weight, const DTensor& bias,
    const ConvTranspose1dOptions& options, const Site& site) {
  Attrs attrs;
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  if (!options.output_padding.empty()) attrs.set("output_padding", options.output_padding);
  return call_op(known_op("conv_transpose1d"), {&input, &weight, &bias}, attrs, site);
}
DTensor conv_transpose2d(const DTensor& input, const DTensor& weight, const DTensor& bias,
    const ConvTranspose2dOptions& options, const Site& site) {
  Attrs attrs;
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.groups != 1) attrs.set("groups", options.groups);
  if (!options.output_padding.empty()) attrs.set("output_padding", options.output_padding);
  return call_op(known_op("conv_transpose2d"), {&input, &weight, &bias}, attrs, site);
}
DTensor max_pool1d(const DTensor& self, const Shape& kernel_size, const MaxPool1dOptions& options,
    const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return call_op(known_op("max_pool1d"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> max_pool1d_with_indices(const DTensor& self, const Shape& kernel_size,
    const MaxPool1dWithIndicesOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("max_pool1d_with_indices"),
    {&self}, attrs, site));
}
DTensor max_pool2d(const DTensor& self, const Shape& kernel_size, const MaxPool2dOptions& options,
    const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return call_op(known_op("max_pool2d"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> max_pool2d_with_indices(const DTensor& self, const Shape& kernel_size,
    const MaxPool2dWithIndicesOptions& options, const Site& site) {
  Attrs attrs = {{"kernel_size", kernel_size}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.padding.empty()) attrs.set("padding", options.padding);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (options.ceil_mode != false) attrs.set("ceil_mode", options.ceil_mode);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("max_pool2d_with_indices"),
    {&self}, attrs, site));
}

}  // namespace tessera
