#include "moe/layer/exchange_route.h"

#include <utility>

namespace tessera {

void ExchangeRoute::begin(const DTensor& x_TD) {
  const DTensor rows = take_rows(x_TD, steps_.places);
  if (steps_.hops.empty()) {
    rows_ = rows;
  } else {
    pending_ = begin_move(rows, steps_.hops.front());
  }
}

ExpertRows ExchangeRoute::arrive() {
  DTensor rows = steps_.hops.empty() ? std::exchange(rows_, {}) : pending_.finish();
  for (std::size_t i = 1; i < steps_.hops.size(); ++i) {
    rows = move_rows(rows, steps_.hops[i]);
  }
  const ExpertOrder& order = steps_.order;
  if (order.source_R.defined()) rows = reorder_rows(rows, order.source_R, order.restore_N);
  return {rows, order.counts_e};
}

void ExchangeRoute::begin_return(const DTensor& y_RD, const DTensor& weights_TK) {
  weights_TK_ = weights_TK;
  DTensor rows = y_RD;
  const ExpertOrder& order = steps_.order;
  if (order.source_R.defined()) rows = reorder_rows(rows, order.restore_N, order.source_R);
  for (std::size_t i = steps_.hops.size(); i-- > 1;) {
    rows = move_rows(rows, steps_.hops[i].reversed());
  }
  if (steps_.hops.empty()) {
    rows_ = rows;
  } else {
    pending_ = begin_move(rows, steps_.hops.front().reversed());
  }
}

DTensor ExchangeRoute::finish_return() {
  const DTensor rows = steps_.hops.empty() ? std::exchange(rows_, {}) : pending_.finish();
  return sum_rows(rows, std::exchange(weights_TK_, {}), steps_.places, rows.dtype());
}

}  // namespace tessera
