#include "moe/layer/layer_context.h"

#include <cmath>

#include "kernels/elementwise.h"

namespace tessera {

double depth_std(std::int64_t layer) {
  return kLinearStd / std::sqrt(2.0 * static_cast<double>(layer + 1));
}

TokenOrder LayerContext::token_order() const {
  const std::int64_t cp = views.config().cp;
  return views.config().cp_load_balance ? TokenOrder::balanced(config.seq, cp)
                                        : TokenOrder::plain(config.seq, cp);
}

DTensor LayerContext::place_tokens(const Array& tokens_BL) const {
  const TokenOrder order = token_order();
  if (order.is_plain()) return distribute(runtime, tokens_BL, views.dense(), whole_tokens());
  KernelContext& host = runtime.host_kernels();
  const Array ordered = Array::empty(tokens_BL.shape(), tokens_BL.dtype(), host.allocator);
  std::int64_t place = 0;
  for (std::int64_t rank = 0; rank < order.num_ranks(); ++rank) {
    for (const Interval& run : order.runs(rank)) {
      const std::int64_t size = run.stop - run.start;
      kernels::copy(host, tokens_BL.slice(1, run.start, run.stop),
                    ordered.slice(1, place, place + size));
      place += size;
    }
  }
  return distribute(runtime, ordered, views.dense(), whole_tokens());
}

}  // namespace tessera
