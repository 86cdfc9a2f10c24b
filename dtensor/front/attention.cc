// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/attention.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor attention(const DTensor& query, const DTensor& key, const DTensor& value, double scale,
    bool causal, std::int64_t causal_offset, const Site& site) {
  Attrs attrs = {{"scale", scale}};
  if (causal != true) attrs.set("causal", causal);
  if (causal_offset != 0) attrs.set("causal_offset", causal_offset);
  return call_op(known_op("attention"), {&query, &key, &value}, attrs, site);
}
DTensor rope(const DTensor& x, const DTensor& cos, const DTensor& sin, bool inverse,
    const Site& site) {
  Attrs attrs;
  if (inverse != false) attrs.set("inverse", inverse);
  return call_op(known_op("rope"), {&x, &cos, &sin}, attrs, site);
}
DTensor scaled_dot_product_attention(const DTensor& query, const DTensor& key, const DTensor& value,
    const DTensor& attn_mask, const ScaledDotProductAttentionOptions& options, const Site& site) {
  Attrs attrs;
  if (options.dropout_p != 0.0) attrs.set("dropout_p", options.dropout_p);
  if (options.is_causal != false) attrs.set("is_causal", options.is_causal);
  if (options.scale != 0.0) attrs.set("scale", options.scale);
  if (options.enable_gqa != false) attrs.set("enable_gqa", options.enable_gqa);
  return call_op(known_op("scaled_dot_product_attention"), {&query, &key, &value, &attn_mask},
    attrs, site);
}

}  // namespace tessera
