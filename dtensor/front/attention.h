// dtensor/front/attention.h: typed functions of the ops in strategies/ops/attention/. Each throws
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

/// softmax(scale q k^T) v over [b, h, l, e] and the log-sum of each row; causal: row i sees keys up
/// to i + causal_offset. Takes query: floating; key: dtype of query; value: dtype of query;
/// causal_offset: -4611686018427387904 to 4611686018427387904. Gives the first result; call() gives
/// all. Rule: bhqd, bhkd, bhkv -> bhqv, bhq | d! k! v! | lin[0] C
DTensor attention(const DTensor& query, const DTensor& key, const DTensor& value, double scale,
    bool causal = true, std::int64_t causal_offset = 0, const Site& site = Site::current());
/// Pairs (a, b) of x [.., l, h, e] turned by tables cos, sin [l, e/2]; `inverse` turns back. Takes
/// x: floating; cos: floating; sin: floating. Rule: *lhe, lk, lk -> *lhe | e! k! | lin A*B+A*C
DTensor rope(const DTensor& x, const DTensor& cos, const DTensor& sin, bool inverse = false,
    const Site& site = Site::current());
struct ScaledDotProductAttentionOptions {
  double dropout_p = 0.0;
  bool is_causal = false;
  double scale = 0.0;
  bool enable_gqa = false;
};
/// softmax(scale q k^T + mask) v over [b, h, l, e]; scale 0 means 1 / sqrt(e). With enable_gqa
/// several heads of the query share one of the key. A row that sees no key gives 0.
DTensor scaled_dot_product_attention(const DTensor& query, const DTensor& key, const DTensor& value,
    const DTensor& attn_mask = {}, const ScaledDotProductAttentionOptions& options = {},
    const Site& site = Site::current());

}  // namespace tessera
